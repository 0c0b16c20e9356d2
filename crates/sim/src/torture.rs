//! Torture: random pools under random work and random faults, checked by an oracle, from one seed.
//!
//! [`Plan`] draws everything from the seed: the pool, its members, its volumes, the work, the faults. [`run`] plays it:
//! it opens the pool, lets clients work while members fail and return, ends by power loss, process death, a blackout or a
//! clean close, opens again, and checks every block. At last all faults stop, all work must drain, and the pool must be
//! whole. At no time are more members impaired than the protection covers; within that limit anything may happen. [`shrink`]
//! makes a failing plan smaller. docs/torture.md is the manual.

mod clients;
mod elastic_stripes;
mod failure;
mod limit_check;
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
