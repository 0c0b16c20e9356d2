//! md
