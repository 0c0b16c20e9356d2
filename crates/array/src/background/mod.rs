//! Background work: the jobs that a shard of an array does by itself. Nothing here knows clients' requests.

pub(crate) mod clear_bitmap;
mod convert;
pub(crate) mod destage;
pub(crate) mod govern;
mod governor;
pub(crate) mod rebuild;
pub(crate) mod scrub;
pub(crate) mod tidy;
