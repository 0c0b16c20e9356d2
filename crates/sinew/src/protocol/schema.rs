//! The JSON Schema of the control socket, from the types of requests and answers.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Request;
use super::answer::{AddedMember, Commitment, DamagedPart, EventList, HistoryView, Line};
use super::state::{API_VERSION, ElasticPolicyState, PolicyState, PoolState, VolumeLimitsState};

/// The answer to each request, by the name of the request.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct Answers {
    status: Line<PoolState>,
    metrics: Line<String>,
    damage: Line<Vec<DamagedPart>>,
    events: Line<EventList>,
    history: Line<HistoryView>,
    volume_create: Line<Commitment>,
    volume_set: Line<VolumeLimitsState>,
    volume_delete: Line<()>,
    volume_resize: Line<Commitment>,
    member_offline: Line<()>,
    member_online: Line<()>,
    member_replace: Line<()>,
    member_add: Line<AddedMember>,
    member_physical: Line<()>,
    member_weight: Line<()>,
    member_remove: Line<()>,
    array_grow: Line<()>,
    array_share: Line<()>,
    array_policy: Line<ElasticPolicyState>,
    scrub: Line<()>,
    throttle: Line<()>,
    latency: Line<()>,
    policy: Line<PolicyState>,
}

/// The schema of requests and answers: `#/$defs/Request`, and `#/$defs/Answers/properties/NAME` for the answer to the
/// request of this name. The whole describes an object with both.
pub(crate) fn schema() -> Value {
    let of_requests = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let of_answers = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let requests = definitions(of_requests.into_root_schema_for::<Request>(), "Request");
    let answers = definitions(of_answers.into_root_schema_for::<Answers>(), "Answers");
    let both = requests.into_iter().chain(answers).collect::<Map<String, Value>>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Control socket of Sinew",
        "description": "A request is a line that is valid against #/$defs/Request. The answer to it is a line that is \
                        valid against #/$defs/Answers/properties/NAME, where NAME is the name of the request.",
        "version": API_VERSION,
        "type": "object",
        "properties": {
            "request": { "$ref": "#/$defs/Request" },
            "answers": { "$ref": "#/$defs/Answers" },
        },
        "$defs": both,
    })
}

/// The definitions of a schema, with the whole as one of them.
fn definitions(schema: Schema, name: &str) -> Map<String, Value> {
    let mut whole = schema.to_value();
    let Some(fields) = whole.as_object_mut() else { return Map::new() };
    fields.remove("$schema");
    let mut all = match fields.remove("$defs") {
        Some(Value::Object(all)) => all,
        _ => Map::new(),
    };
    all.insert(name.to_owned(), whole);
    all
}
