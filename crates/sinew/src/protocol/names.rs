//! Fields with few values, for the schema: the names come from the types that define them.

use schemars::{Schema, SchemaGenerator, json_schema};
use sinew_engine::control::events::{Severity, Work};
use sinew_engine::control::health::Health;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::{Packing, Shares};
use sinew_layout::names::{Named, valid};
use sinew_members::latency::{Response, SpikeAvoidance};

use crate::tls::TlsChoice;

fn one_of(names: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": names })
}

/// A name, or null, which is that of no value.
fn one_of_or_null<T: Named>() -> Schema {
    let names: Vec<Option<&str>> = valid::<T>().into_iter().map(Some).chain([None]).collect();
    json_schema!({ "type": ["string", "null"], "enum": names })
}

pub(super) fn health(_: &mut SchemaGenerator) -> Schema {
    one_of(&Health::ALL.map(Health::name))
}

pub(super) fn work(_: &mut SchemaGenerator) -> Schema {
    one_of(&Work::ALL.map(Work::name))
}

pub(super) fn response(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Response::Responsive, Response::Suspect, Response::Spiking].map(Response::name))
}

pub(super) fn severity(_: &mut SchemaGenerator) -> Schema {
    one_of(&[Severity::Info, Severity::Warning, Severity::Error].map(Severity::name))
}

pub(super) fn tls(_: &mut SchemaGenerator) -> Schema {
    one_of(&valid::<TlsChoice>())
}

pub(super) fn packing(_: &mut SchemaGenerator) -> Schema {
    one_of(&valid::<Packing>())
}

pub(super) fn packing_or_null(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null::<Packing>()
}

pub(super) fn protection_or_null(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null::<Protection>()
}

pub(super) fn shares(_: &mut SchemaGenerator) -> Schema {
    one_of(&valid::<Shares>())
}

pub(super) fn shares_or_null(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null::<Shares>()
}

pub(super) fn spike_avoidance_or_null(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null::<SpikeAvoidance>()
}

pub(super) fn grow_method_or_null(_: &mut SchemaGenerator) -> Schema {
    one_of_or_null::<GrowMethod>()
}
