//! Where requests come from, when they are issued, and what became of them.
//!
//! A [`Workload`] is a description that an experiment file embeds. Opened, it is a stream of [`Request`]s: an iterator
//! in bounded memory, ordered by time. [`Replay`] turns a stream into a sequence of decisions "issue this now", without
//! doing I/O itself, and [`Recorder`] turns completions into a report.
//!
//! Nothing here reads a clock or real randomness: a stream is a function of its description and of the files it names.
//!
//! ```text
//! workload    Workload, Source: the description of it all, in TOML
//! request     Request, Kind, and what every stream can do: scale, window, align, fold
//! mix         several streams at once
//! drawn       some of several workloads, drawn at random
//! trace       readers of block traces, eleven formats, compressed or not
//! generate    arrivals, places, sizes: streams from a seed
//! fitted      generators whose parameters are published figures
//! complement  how often one half of a mix asks for most
//! compressibility  how well data and its parity compress
//! features    what a stream is like, to compare traces and generators
//! content     what the blocks contain
//! tag         blocks that say how well they compress
//! replay      which request may go now
//! recorder    latency and throughput, as JSON
//! random      seeded streams of numbers
//! size        sizes as people write them
//! error       what can go wrong, with its place
//! ```

pub mod complement;
pub mod compressibility;
mod content;
mod drawn;
mod error;
mod features;
pub mod fitted;
pub mod generate;
mod mix;
mod random;
mod recorder;
mod replay;
mod request;
mod size;
mod tag;
pub mod trace;
mod workload;

pub use content::{Codec, Content, ContentSpec};
pub use drawn::DrawSpec;
pub use error::{Error, Problem, Result};
pub use features::{FeatureMeter, Features, KindFeatures};
pub use generate::{Generator, GeneratorSpec};
pub use mix::Mix;
pub use recorder::{BucketReport, Distribution, KindReport, LatencyCount, Recorder, Report};
pub use replay::{Done, Issue, Next, Pace, Replay};
pub use request::{Align, Boxed, First, Fold, Kind, Request, Requests, Window};
pub use size::ByteSize;
pub use tag::tagged_bytes;
pub use workload::{Opened, Source, TraceSource, Workload};
