//! `sinew replay`: a workload against a real target, paced, verified and measured.
//!
//! ```text
//! source    what the user names as workload -> one stream of requests
//! target    what the user names as target -> volumes of a pool in this process, or exports over NBD
//! drive     issues the requests, records what became of them
//! ledger    which data a read may see, given what was written
//! report    what came of it, for people and as JSON
//! ```

pub(crate) mod drive;
pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod target;
