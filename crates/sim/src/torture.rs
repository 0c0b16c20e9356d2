//! Torture: random pools under random work and random trouble, checked by an oracle, from one seed.
//!
//! [`Plan`] draws everything from the seed: the pool, its members, its volumes, the work, the faults. [`run`] plays it:
//! open the pool, let clients work while members fail and return, end by power loss, process death, a blackout or a clean
//! close, open again, check every block; at last all faults stop, everything must drain, and what is left must be whole.
//! Never are more members impaired at one time than the protection covers; within that anything may happen. [`shrink`]
//! makes a plan that fails as small as it can. docs/torture.md is the manual.

mod clients;
mod failure;
mod oracle;
mod plan;
mod run;
mod shrink;
mod stripes;
mod tenant;

pub use failure::{Failure, Kind};
pub use plan::{Corruptor, Ending, MemberKind, MemberPlan, Numbers, Plan, Setting, Trait, Trouble};
pub use run::{Outcome, run, run_logged};
pub use shrink::{Shrunk, shrink};
