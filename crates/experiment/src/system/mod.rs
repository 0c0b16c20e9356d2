//! The simulated system under test: members, the pools or arrays on them, the layers of presets, and the target that requests
//! are issued to.

pub(crate) mod layer;
pub(crate) mod lengths;
pub(crate) mod members;
pub(crate) mod pools;
pub(crate) mod target;
