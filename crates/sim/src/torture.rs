//! Torture: random pools under random work and random trouble, checked by an oracle, from one seed.
//!
//! [`Plan`] draws everything from the seed: the pool, its volumes, the work, the faults. [`run`] plays it: open the pool,
//! let clients work while members fail and return, end by power loss, process death or a clean close, open again, check
//! every block; at last all faults stop, everything must drain, and what is left must be whole. Never are more members
//! impaired at one time than the protection covers; within that anything may happen.

mod clients;
mod oracle;
mod plan;
mod run;
mod tenant;

pub use plan::Plan;
pub use run::{Failure, Outcome, run};
