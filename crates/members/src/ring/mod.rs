//! The rings of a journal: each member has one for each shard, and a group of blocks has its copies at the same position of
//! f + 1 of them.
//!
//! Both kinds of pool keep such a journal. They share the way in which a group gets to enough members without waiting for
//! slow ones ([`writer`], and [`striped`] for large groups), and in which recovery reads the rings ([`reader`]).

pub mod copies;
pub mod group_form;
pub mod reader;
pub mod striped;
pub mod writer;
