//! Sinew: sim.
