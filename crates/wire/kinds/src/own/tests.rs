//! Definitions and readers take their limits from one table: each permits what the other permits.

use lazaret_crd::DefinedSchema;
use lazaret_json::{Value, json};
use lazaret_schema::{Field, ListKind, Scalar, Type, TypeId, builtin};

use super::own_definitions;
use crate::{Errors, testing::set};

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

/// Fields that a reader parses, or of which it wants one, so that it refuses more than a definition does.
const PARSED: &[&str] = &["doneWhen", "expression", "identityAttribute", "job", "request", "when"];

/// Fields that are read by another reader.
const ELSEWHERE: &[&str] = &["podSelector"];

/// A kind, and how a controller reads its objects.
struct Compared {
    kind: &'static str,
    schema: DefinedSchema,
    read: fn(&str) -> Result<(), String>,
    example: Value,
    values: usize,
}

impl Compared {
    fn new(kind: &'static str, read: fn(&str) -> Result<(), String>, spec: Value) -> Self {
        let definition = own_definitions()
            .into_iter()
            .find(|definition| definition["spec"]["names"]["kind"] == kind)
            .unwrap();
        let document = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let schema = DefinedSchema::read(document.clone());
        let example = json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": kind, "metadata": {"name": "a", "uid": "u"}, "spec": spec,
        });
        Self { kind, schema, read, example, values: 0 }
    }

    /// The reasons for which an API server refuses an object by its definition alone.
    fn refused(&self, object: &Value) -> Vec<String> {
        let (mut object, mut errors) = (object.clone(), Errors::new());
        self.schema.drop_nulls(&mut object);
        self.schema.fill_defaults(&mut object);
        self.schema.validate(&object, None, &mut errors);
        self.schema.check_rules(&object, None, &mut errors);
        errors.list().iter().map(ToString::to_string).collect()
    }

    /// Each field of the type at a place, with values at its limits and beyond them.
    fn fields(&mut self, shape: TypeId, place: &str) {
        for (name, field) in builtin().get_struct(shape).unwrap().listed() {
            let place = format!("{place}/{name}");
            if ELSEWHERE.contains(&name) {
                continue;
            }
            // Some fields exclude each other.
            let Some(example) = self.example.pointer(&place).cloned() else { continue };
            for value in values(field, &example) {
                let object = set(&self.example, &place, value.clone());
                let (refused, read) = (self.refused(&object), (self.read)(&object.to_string()));
                let shown: String = value.to_string().chars().take(40).collect();
                let is_refused_by_reader = refused.is_empty() && read.is_err() && PARSED.contains(&name);
                assert!(
                    refused.is_empty() == read.is_ok() || is_refused_by_reader,
                    "{place}: {shown}: {refused:?}, {read:?}"
                );
                self.values += 1;
            }
            let is_read = |id| builtin().get_struct(id).is_some_and(|inner| is_read_by_table(&inner.name));
            match builtin().get(field.ty) {
                Type::Struct(_) if is_read(field.ty) => self.fields(field.ty, &place),
                Type::List(item) if is_read(*item) => {
                    let count = example.as_array().map_or(0, Vec::len);
                    (0..count).for_each(|at| self.fields(*item, &format!("{place}/{at}")));
                }
                Type::Struct(_) | Type::List(_) | Type::Scalar(_) | Type::Map(_) | Type::Any(_) => {}
            }
        }
    }

    fn check(mut self) -> usize {
        assert_eq!(self.refused(&self.example), Vec::<String>::new());
        (self.read)(&self.example.to_string()).unwrap();
        let shape = builtin().find(&format!("lazaret/v1alpha1.{}Spec", self.kind)).unwrap();
        self.fields(shape, "/spec");
        self.values
    }
}

/// Others are read as those of Kubernetes are.
fn is_read_by_table(shape: &str) -> bool {
    !["DeviceSelector", "Window", "HealthEviction"].iter().any(|other| shape.ends_with(&format!(".{other}")))
}

/// Values at the limits and one beyond each of them.
fn values(field: &Field, example: &Value) -> Vec<Value> {
    let text = |length: usize| Value::from("a".repeat(length));
    let mut values = vec![Value::Null];
    if builtin().get(field.ty) == &Type::Scalar(Scalar::IntOrString) {
        return vec![Value::Null, json!(-1), json!(0), json!("100%"), json!("101%"), json!("many")];
    }
    let Some(limits) = &field.limits else { return values };
    values.extend(limits.min.into_iter().flat_map(|min| [json!(min), json!(min - 1)]));
    values.extend(limits.max.into_iter().flat_map(|max| [json!(max), json!(max + 1)]));
    values.extend(
        limits.chars.filter(|_| is_free(field)).into_iter().flat_map(|most| [text(most), text(most + 1)]),
    );
    values
        .extend(limits.items.into_iter().flat_map(|most| [most, most + 1].map(|n| items(field, example, n))));
    if limits.filled {
        values.push(if example.is_array() { json!([]) } else { json!("") });
    }
    if !limits.values.is_empty() {
        values.extend(limits.values.iter().map(|value| json!(value)));
        values.push(json!("Otherwise"));
    }
    values
}

/// Any text will do, if it is short enough.
fn is_free(field: &Field) -> bool {
    field.limits.as_ref().is_some_and(|limits| limits.pattern.is_none())
}

/// As many items, each with a name of its own where they have names.
fn items(field: &Field, example: &Value, count: usize) -> Value {
    let item = |at: usize| {
        let mut item = example[0].clone();
        if let ListKind::Map(keys) = &field.list {
            item[keys[0].as_str()] = format!("n{at}").into();
        }
        if item["when"].is_string() {
            item["when"] = format!("signal.key == 'n{at}'").into();
        }
        item
    };
    (0..count).map(item).collect()
}

#[test]
fn guards() {
    let read = |text: &str| lazaret_api::read_guard(text).map(drop).map_err(|error| error.to_string());
    let guard = Compared::new(
        "DisruptionGuard",
        read,
        json!({
            "deviceSelector": {"driver": "gpu.example.com"},
            "paused": {"reason": "r", "until": "2026-03-01T12:00:00Z"},
            "windows": [{"start": "02:00", "duration": "1h"}],
            "confirmAbove": {"pods": 1, "namespaces": 1, "devices": "20%"},
            "approvers": "Different",
            "breaker": {
                "maxOutOfService": 1, "of": "FaultDomains", "faultDomainAttribute": "rack", "windowSeconds": 1,
                "resetAfterSeconds": 1,
            },
        }),
    );
    assert!(guard.check() > 40);
}

#[test]
fn health_policies() {
    let read =
        |text: &str| lazaret_api::read_health_policy(text).map(drop).map_err(|error| error.to_string());
    let template = json!({"metadata": {"namespace": "jobs"}, "spec": {}});
    let policy = Compared::new(
        "DeviceHealthPolicy",
        read,
        json!({
            "deviceSelector": {
                "deviceClassName": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d",
                "selectors": [{"cel": {"expression": "true"}}],
            },
            "identityAttribute": "uuid",
            "rules": [{
                "name": "fatal", "when": "signal.key == 'xid'", "count": {"atLeast": 2, "within": "1h"}, "for": "1m",
                "stage": "Drained", "taint": {"key": "k", "value": "v"},
            }],
            "clearAfter": "10m",
            "eviction": {"mode": "Evict", "evictionsPerSecond": 1},
            "repair": {
                "steps": [
                    {"name": "reset", "job": {"template": template}, "timeoutSeconds": 60},
                    {
                        "name": "ask", "request": {"apiVersion": "v1", "kind": "ConfigMap", "template": template},
                        "doneWhen": "object.done", "timeoutSeconds": 60,
                    },
                ],
                "maxAttempts": 2,
            },
            "recovery": {
                "probation": "1h", "validation": {"template": template, "deviceClassName": "gpu"},
                "flaps": {"atMost": 3, "within": "24h"},
            },
            "serviceAccount": {"namespace": "lazaret-repair", "name": "repair"},
            "mode": "Enforce",
        }),
    );
    assert!(policy.check() > 90);
}

#[test]
fn incidents_and_signals() {
    let device = json!({"driver": "gpu.example.com", "pool": "p", "device": "d"});
    let act = json!({"at": "2026-03-01T12:00:00Z", "by": "ann", "reason": "r"});
    let read = |text: &str| lazaret_api::read_incident(text).map(drop).map_err(|error| error.to_string());
    let incident = Compared::new(
        "DeviceIncident",
        read,
        json!({
            "device": device, "hardwareID": "h", "policy": "p", "rule": "r", "stage": "Suspect", "taintKey": "k",
            "taintValue": "v", "cause": "c", "number": 1, "openedAt": "2026-03-01T12:00:00Z",
            "detectedAt": "2026-03-01T12:00:00Z", "acknowledged": act, "repaired": act, "abandoned": act,
        }),
    );
    assert!(incident.check() > 50);
    let read = |text: &str| lazaret_api::read_signal(text).map(drop).map_err(|error| error.to_string());
    let signal = Compared::new(
        "DeviceSignal",
        read,
        json!({
            "device": device, "key": "xid", "value": "79", "source": "Alert", "message": "m", "by": "ann",
            "lasts": true, "at": "2026-03-01T12:00:00Z",
        }),
    );
    assert!(signal.check() > 25);
}

#[test]
fn replacement_policies() {
    let read =
        |text: &str| lazaret_api::read_replacement_spec(text).map(drop).map_err(|error| error.to_string());
    let options = json!([{"key": "a", "value": "v", "effect": "NoExecute", "durationInSeconds": 60}]);
    let policy = Compared::new(
        "TaintReplacementPolicy",
        read,
        json!({
            "podSelector": {},
            "automaticReplacementOptions": {
                "taintReplacementOptions": options, "deviceTaintReplacementOptions": options, "enabled": true,
                "maxConcurrentReplacements": 2, "taintReplacementTimeSeconds": 1, "failureDetectionTimeSeconds": 1,
                "enableNodeFailureDetection": true, "faultDomainKey": "zone", "maxFaultDomainsTainted": "20%",
                "strategy": "Recreate", "replacementReadySeconds": 1,
            },
        }),
    );
    assert!(policy.check() > 50);
}

/// An expression that does not compile is refused when it is written; a guard that has one already can be changed otherwise.
#[test]
fn a_guard_whose_expression_does_not_compile_is_refused() {
    let guard = |expression: &str, reason: &str| {
        json!({"spec": {
            "deviceSelector": {"selectors": [{"cel": {"expression": expression}}]},
            "paused": {"reason": reason},
        }})
    };
    let refused = |guard: &Value, old: Option<&Value>| {
        let mut errors = Errors::new();
        super::disruption_guard::check(guard, old, &mut errors);
        errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let valid = guard("device.driver == 'a'", "x");
    assert_eq!(refused(&valid, None), [""; 0]);
    let broken = guard("device.driver ==", "x");
    let said = refused(&broken, None);
    assert!(
        said[0].starts_with("spec.deviceSelector.selectors[0].cel.expression: Invalid value"),
        "{said:?}"
    );
    assert_eq!(refused(&broken, Some(&valid)).len(), 1);
    assert_eq!(refused(&guard("device.driver ==", "y"), Some(&broken)), [""; 0], "the selector stays");
}
