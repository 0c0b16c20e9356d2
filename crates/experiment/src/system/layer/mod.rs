//! What a preset puts between its volumes and its array.
//!
//! Layers exist only in simulations: they stand for hardware, or for a design, that the server does not offer. They store the
//! data they are given, so that tests can compare them with a model, but nothing of it survives the end of a run.

mod layered;
mod log;
mod md_software;
mod nv_buffer;
mod store;

pub(crate) use layered::Layered;
pub(crate) use store::Store;

#[cfg(test)]
mod tests;
