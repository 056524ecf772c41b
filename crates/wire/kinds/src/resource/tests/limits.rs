//! The server and the reader of the controllers take their limits from one table: each permits what the other permits.

use lazaret_api::decode_json;
use lazaret_json::{Value, json};
use lazaret_schema::{Limits, Scalar, Type, builtin};

use crate::testing::{World, kind, set};

/// A rule with a value for every field that has a limit.
fn rule() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "slow"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com"},
            "taint": {"key": "k", "effect": "NoExecute", "description": "d", "data": {"n": 1}, "evictionsPerSecond": 1},
            "eviction": {
                "mode": "EvictThenDelete", "deadlineSeconds": 60, "maxConcurrent": 2, "groups": "Together",
                "capacity": "Wait", "capacityTimeoutSeconds": 5, "windows": [{"start": "02:00", "duration": "1h"}],
            },
        },
    })
}

/// Values at the limits and one beyond each of them.
fn values(ty: &Type, limits: &Limits) -> Vec<Value> {
    let text = |length: usize| Value::from("a".repeat(length));
    let is_raw = matches!(ty, Type::Any(_));
    let mut values = vec![Value::Null];
    values.extend(limits.min.into_iter().flat_map(|min| [json!(min), json!(min - 1)]));
    values.extend(limits.max.into_iter().flat_map(|max| [json!(max), json!(max + 1)]));
    // JSON has two quotation marks more than the text.
    let bytes = limits.bytes.map(|bytes| if is_raw { bytes - 2 } else { bytes });
    values.extend(bytes.into_iter().flat_map(|bytes| [text(bytes), text(bytes + 1)]));
    let window = json!({"start": "02:00", "duration": "1h"});
    values.extend(
        limits.items.into_iter().flat_map(|items| [items, items + 1].map(|n| json!(vec![window.clone(); n]))),
    );
    if !limits.values.is_empty() {
        values.extend(limits.values.iter().map(|value| json!(value)));
        // An effect that a newer server knows is read and means nothing.
        values.extend((!limits.ratchet).then(|| json!("Otherwise")));
    }
    values
}

#[test]
fn the_server_and_the_reader_permit_the_same() {
    let rules = kind("resource.k8s.io", "devicetaintrules");
    let mut compared = 0;
    for (shape, place) in [
        ("DeviceTaintRuleSpec", "/spec"),
        ("DeviceTaint", "/spec/taint"),
        ("DeviceTaintRuleEviction", "/spec/eviction"),
    ] {
        let shape = builtin().find(&format!("resource/v1alpha3.{shape}")).unwrap();
        for (name, field) in builtin().get_struct(shape).unwrap().numbered() {
            let Some(limits) = field.limits.as_ref().filter(|limits| limits.format.is_none()) else {
                continue;
            };
            for value in values(builtin().get(field.ty), limits) {
                let object = set(&rule(), &format!("{place}/{name}"), value.clone());
                let world = World::new().in_version("v1alpha3");
                let refused = world.create(rules, object.clone()).wrong();
                let read = decode_json(&object.to_string());
                let shown: String = value.to_string().chars().take(40).collect();
                assert_eq!(refused.is_empty(), read.is_ok(), "{name}: {shown}: {refused:?}, {read:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 30, "only {compared} values");
}

/// A companion is a field of its own, so each pair is tried in both orders.
#[test]
fn a_field_that_needs_another_is_refused_without_it() {
    let rules = kind("resource.k8s.io", "devicetaintrules");
    let refused = |field: &str, value: Value| {
        let object = set(&rule(), &format!("/spec/eviction/{field}"), value);
        let errors = World::new().in_version("v1alpha3").create(rules, object).errors;
        errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        refused("capacity", json!("Ignore")),
        ["spec.eviction.capacityTimeoutSeconds: Invalid value: 5: needs capacity Wait"]
    );
    assert_eq!(
        refused("deadlineSeconds", Value::Null),
        ["spec.eviction.deadlineSeconds: Required value: with mode EvictThenDelete"]
    );
    assert_eq!(
        refused("deadlineSeconds", json!(-1)),
        ["spec.eviction.deadlineSeconds: Invalid value: -1: must be between 0 and 31536000, inclusive"]
    );
    assert_eq!(
        refused("mode", json!("Ask")),
        [
            r#"spec.eviction.mode: Unsupported value: "Ask": supported values: "Delete", "Evict", "EvictThenDelete""#
        ]
    );
    assert_eq!(
        refused("windows", json!(vec![json!({"start": "02:00", "duration": "1h"}); 17])),
        ["spec.eviction.windows: Too many: 17: must have at most 16 items"]
    );
    let is_number = |ty: &Type| matches!(ty, Type::Scalar(Scalar::Int64));
    let shape = builtin().find("resource/v1alpha3.DeviceTaintRuleEviction").unwrap();
    for (name, field) in builtin().get_struct(shape).unwrap().numbered() {
        let is_limited =
            field.limits.as_ref().is_some_and(|limits| limits.min.is_some() && limits.max.is_some());
        assert!(is_limited || !is_number(builtin().get(field.ty)), "{name} has no limits");
    }
}
