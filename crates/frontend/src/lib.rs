//! Sinew: frontend.
