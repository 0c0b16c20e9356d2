//! The language of the control socket: requests, and the answers that have a form of their own.
//!
//! Requests, answers and the state are types; `schema` makes the JSON Schema of them. `status` and `events` fill the answers.
//! Both sides speak it, so it imports neither: not the commands and their client, not the daemon. docs/control-api.md
//! describes it for programs.

pub(crate) mod advice;
pub(crate) mod answer;
pub(crate) mod events;
mod names;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod socket;
pub(crate) mod state;
pub(crate) mod status;

pub(crate) use request::{ElasticChange, IoTimeout, LimitsChange, PolicyChange, Request, Share};
