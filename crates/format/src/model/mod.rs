//! The content of the structures on the members: the configuration of a pool, its geometry, and the distribution of volumes
//! over shards.

pub mod array_geometry;
pub mod array_growth;
pub mod array_shard_layout;
pub mod config;
pub mod damage;
pub mod elastic_policy;
pub mod form;
pub mod host_record;
pub mod mapped_capacity;
pub mod mapped_geometry;
pub mod member_state;
pub mod name;
pub mod policy;
pub mod pool_geometry;
pub mod sharding;
pub mod stripe_form;
pub mod volume_limits;
