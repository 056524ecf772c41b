//! Definitions of Lazaret's own kinds, group `lazaret.dev`. The embedded server begins with them, `lazaret install` prints them, and the files in
//! `deploy/crds` are written from them: there is one table, `lazaret_v1alpha1.txt` of `schema`, so no two clusters have different fields.

mod beyond;
mod disruption_guard;
mod from_table;
mod health_policy;
mod incident;
mod replacement;
mod signal;
mod slice_patch;
mod taint_policy;

pub use health_policy::{PolicyPlan, described_object};
use lazaret_json::{Value, json};

use crate::Errors;

/// The group of all of them.
pub const OWN_GROUP: &str = "lazaret.dev";

/// Says which fields a definition has, so that an installation can be compared with a program without comparing schemas.
pub const SCHEMA_ANNOTATION: &str = "lazaret.dev/schema";

/// A CustomResourceDefinition for each kind, ordered by name.
#[must_use]
pub fn own_definitions() -> Vec<Value> {
    let mut definitions = vec![
        health_policy::definition(),
        incident::definition(),
        signal::definition(),
        taint_policy::definition(),
        disruption_guard::definition(),
        slice_patch::definition(),
        replacement::definition(),
    ];
    for definition in &mut definitions {
        let digest = digest(&definition["spec"].to_string());
        let metadata = crate::value::field_mut(definition, "metadata");
        crate::value::put(metadata, "annotations", json!({SCHEMA_ANNOTATION: digest}));
    }
    definitions
}

/// The checks of a kind that its schema cannot make; of an object that is changed also with what it was.
pub(crate) type OwnCheck = fn(&Value, Option<&Value>, &mut Errors);

/// The check of one of Lazaret's own kinds, where it has one.
pub(crate) fn check_of(group: &str, plural: &str) -> Option<OwnCheck> {
    match (group, plural) {
        (OWN_GROUP, "devicehealthpolicies") => Some(health_policy::check),
        (OWN_GROUP, "devicetaintpolicies") => Some(taint_policy::check),
        (OWN_GROUP, "disruptionguards") => Some(disruption_guard::check),
        _ => None,
    }
}

/// How a kind is called, and where its objects are.
struct Names {
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    scope: &'static str,
}

/// A definition of a kind in one version, with the fields that the table has of it.
fn definition_of(names: &Names, columns: Vec<Value>) -> Value {
    let Names { kind, plural, short, scope } = names;
    let mut properties = json!({
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": from_table::described(&format!("{kind}Spec")),
    });
    let mut subresources = json!({});
    if let Some(status) = from_table::described(&format!("{kind}Status")) {
        crate::value::put(&mut properties, "status", status);
        subresources = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{OWN_GROUP}")},
        "spec": {
            "group": OWN_GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
                "shortNames": [short],
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "description": from_table::description(kind),
                    "properties": properties,
                }},
            }],
        },
    })
}

/// FNV-1a, 64 bits. It distinguishes versions of a definition; no security depends on it.
fn digest(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("fnv1a-{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

fn column(name: &str, kind: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "description": description})
}

/// A column that only `-o wide` shows.
fn wide_column(name: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path, "description": description, "priority": 1})
}

/// Where a column finds a field of a condition.
fn condition(kind: &str, field: &str) -> String {
    format!(".status.conditions[?(@.type==\"{kind}\")].{field}")
}

#[cfg(test)]
mod tests;
