//! Declustered placement: the members of each stripe in a pool whose stripes are narrower than the pool.

mod galois_field;
mod lookahead;
mod placement;

pub use lookahead::Lookahead;
pub use placement::{Placement, choose, demanded_from, stripes_placeable};
