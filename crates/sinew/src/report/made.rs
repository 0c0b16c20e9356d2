//! A pool or array that was made, for people.

use serde_json::{Value, json};
use sinew_core::ids::uuid_text;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::Config;
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_format::model::pool_geometry::PoolGeometry;

use crate::names::journal_text;
use crate::out::say;
use crate::units;

/// Says which pool or array was made.
pub(crate) fn made(config: &Config) {
    match &config.geometry {
        PoolGeometry::Mapped(geometry) => mapped(config, geometry),
        PoolGeometry::Array(geometry) => array(config, geometry),
    }
}

/// A pool that was made with these volumes, as JSON.
pub(crate) fn made_json(config: &Config, volumes: &[(String, u64)]) -> Value {
    let volume = |(name, bytes): &(String, u64)| json!({ "name": name, "bytes": bytes });
    let geometry = &config.geometry;
    json!({
        "pool": config.name, "uuid": uuid_text(&config.pool), "protection": geometry.name(),
        "members": config.members.len(), "shards": geometry.shards(), "checksums": geometry.checksums(),
        "volumes": volumes.iter().map(volume).collect::<Vec<_>>(),
    })
}

fn mapped(config: &Config, g: &MappedGeometry) {
    say!(
        "made pool {}: {} members, {}, stripes of {}+{}, {} {}",
        config.name,
        config.members.len(),
        g.protection,
        g.data_columns,
        g.parity_columns(),
        g.shards,
        if g.shards == 1 { "shard" } else { "shards" }
    );
}

fn array(config: &Config, array: &ArrayGeometry) {
    say!(
        "made array {}: {}, {} members{}, chunks of {}, {}, volume of {}, {} {}; no checksums",
        config.name,
        array.name(),
        array.members(),
        match config.members.len() - array.members() {
            0 => String::new(),
            1 => " and 1 spare".to_owned(),
            n => format!(" and {n} spares"),
        },
        units::bytes(u64::from(array.layout.chunk_bytes())),
        journal_text(array),
        units::bytes(array.data_bytes()),
        array.shards,
        if array.shards == 1 { "shard" } else { "shards" }
    );
}
