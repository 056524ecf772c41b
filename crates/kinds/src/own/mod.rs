//! Definitions of Lazaret's own kinds, group `lazaret.dev`. The embedded server begins with them, `lazaret install` prints them, and the files in
//! `deploy/crds` are written from them: there is one table, so no two clusters have different fields.

mod disruption_guard;
mod replacement;
mod taint_policy;

use lazaret_json::{Value, json};

/// The group of all of them.
pub const OWN_GROUP: &str = "lazaret.dev";

/// Says which fields a definition has, so that an installation can be compared with a program without comparing schemas.
pub const SCHEMA_ANNOTATION: &str = "lazaret.dev/schema";

/// A CustomResourceDefinition for each kind, ordered by name.
#[must_use]
pub fn own_definitions() -> Vec<Value> {
    let mut definitions =
        vec![taint_policy::definition(), disruption_guard::definition(), replacement::definition()];
    for definition in &mut definitions {
        let digest = digest(&definition["spec"].to_string());
        let metadata = crate::value::field_mut(definition, "metadata");
        crate::value::put(metadata, "annotations", json!({SCHEMA_ANNOTATION: digest}));
    }
    definitions
}

/// FNV-1a, 64 bits. It tells versions of a definition apart; nobody's safety depends on it.
fn digest(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("fnv1a-{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn integer(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "description": description})
}

fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

fn column(name: &str, kind: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "description": description})
}

/// A column that only `-o wide` shows.
fn wide_column(name: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path, "description": description, "priority": 1})
}

/// `status.conditions`, as every Kubernetes object has them.
fn conditions(description: &str) -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "description": description,
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": text("What it is about; one entry per type."),
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "True, False or Unknown.",
                },
                "reason": text("One word for machines."),
                "message": text("For people."),
                "lastTransitionTime": time("When the status last changed."),
                "observedGeneration": integer("The metadata.generation that this was said of."),
            },
        },
    })
}
