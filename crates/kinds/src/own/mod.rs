//! Definitions of Lazaret's own kinds, group `lazaret.dev`. The embedded server begins with them, `lazaret install` prints them, and the files in
//! `deploy/crds` are written from them: there is one table, so no two clusters have different fields.

mod disruption_guard;
mod from_table;
mod health_policy;
mod incident;
mod replacement;
mod signal;
mod slice_patch;
mod taint_policy;

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

/// The checks of a kind that its schema cannot make.
pub(crate) type OwnCheck = fn(&Value, &mut Errors);

/// The check of one of Lazaret's own kinds, where it has one.
pub(crate) fn check_of(group: &str, plural: &str) -> Option<OwnCheck> {
    match (group, plural) {
        (OWN_GROUP, "devicehealthpolicies") => Some(health_policy::check),
        (OWN_GROUP, "devicetaintpolicies") => Some(taint_policy::check),
        (OWN_GROUP, "disruptionguards") => Some(disruption_guard::check),
        _ => None,
    }
}

/// A definition of a kind in one version, with a status.
fn kind(
    scope: &str,
    names: Value,
    columns: Vec<Value>,
    description: &str,
    (spec, status): (Value, Option<Value>),
) -> Value {
    let plural = crate::value::text(&names, "plural").to_owned();
    let mut properties = json!({
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
    });
    let subresources = if status.is_some() { json!({"status": {}}) } else { json!({}) };
    if let Some(status) = status {
        crate::value::put(&mut properties, "status", status);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{OWN_GROUP}")},
        "spec": {
            "group": OWN_GROUP,
            "scope": scope,
            "names": names,
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "description": description,
                    "properties": properties,
                }},
            }],
        },
    })
}

/// The identity of a device.
fn device(description: &str) -> Value {
    let name = |description: &str, most: u32| json!({"type": "string", "minLength": 1, "maxLength": most, "description": description});
    json!({
        "type": "object",
        "required": ["driver", "pool", "device"],
        "description": description,
        "properties": {
            "driver": name("The driver's name.", 63),
            "pool": name("The pool's name within the driver.", 253),
            "device": name("The device's name within the pool.", 63),
        },
    })
}

/// FNV-1a, 64 bits. It distinguishes versions of a definition; no security depends on it.
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
                "type": text("Subject of the condition; one entry per type."),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of the type `date` shows how long ago that was, and `<invalid>` for what is yet to come.
    #[test]
    fn columns_that_show_an_age_show_the_past() {
        for definition in own_definitions() {
            let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array().cloned();
            for column in columns.unwrap_or_default().iter().filter(|column| column["type"] == "date") {
                assert_eq!(column["jsonPath"], ".metadata.creationTimestamp", "{column:?}");
            }
        }
    }
}
