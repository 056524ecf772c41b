//! One version of Lazaret back: objects stay readable. `previous/` has the definitions of an earlier version; the maker of a release puts the
//! definitions of that release there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use support::{Cluster, LAZARET};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OWN: &str = "/apis/lazaret.dev/v1alpha1";

/// Differences that are faults in general and none here: where, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "devicehealthpolicies.lazaret.dev v1alpha1.spec.eviction: the new rule",
        "it is about mode and deadlineSeconds, which came with it",
    ),
    (
        "devicehealthpolicies.lazaret.dev v1alpha1.spec.rules[].taint.key: ",
        "a controller of the older version refuses every key but lazaret.dev/quarantine, which the limits permit",
    ),
    (
        "disruptionguards.lazaret.dev v1alpha1.spec.breaker: the new rule",
        "it is about faultDomainAttribute and FaultDomains, which older objects do not have",
    ),
    (
        "disruptionguards.lazaret.dev v1alpha1.spec.breaker.of: enum \"FaultDomains\" is new",
        "a controller of the older version cannot read such a guard, as docs/install.md says",
    ),
    (
        "devicesignals.lazaret.dev v1alpha1.spec: the new rule \"self.source != 'Person'",
        "it is about new signals: a signal is never changed, and goes once it was taken in",
    ),
    (
        "devicetaintpolicies.lazaret.dev v1alpha1.spec.eviction.windows[].timeZone: ",
        "the pattern permits names besides UTC and offsets, and so needs a limit to their length",
    ),
    (
        "devicetaintpolicies.lazaret.dev v1alpha1.spec.eviction: the new rule \"!has(self.capacityTimeoutSeconds)",
        "it is about a field that older objects do not have",
    ),
];

fn documents(text: &str) -> Vec<Value> {
    let all = text.split("---\n").filter(|document| !document.trim().is_empty());
    let read = all.map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    read.filter(|object| !object.is_null()).collect()
}

fn by_name(all: Vec<Value>) -> BTreeMap<String, Value> {
    all.into_iter().map(|one| (one["metadata"]["name"].as_str().unwrap().to_owned(), one)).collect()
}

fn previous() -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/previous");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    by_name(files.flat_map(|file| documents(&fs::read_to_string(file).unwrap())).collect())
}

fn current() -> BTreeMap<String, Value> {
    let output = std::process::Command::new(LAZARET).args(["install", "--crds-only"]).output().unwrap();
    by_name(documents(&String::from_utf8(output.stdout).unwrap()))
}

/// The differences that make objects of one version unreadable or unwritable for the other.
struct Comparison {
    faults: Vec<String>,
}

impl Comparison {
    fn fault(&mut self, path: &str, what: &str) {
        let said = format!("{path}: {what}");
        if !ALLOWED.iter().any(|(one, _)| said.starts_with(one)) {
            self.faults.push(said);
        }
    }

    fn definition(&mut self, name: &str, old: &Value, new: &Value) {
        let versions = |one: &Value| one["spec"]["versions"].as_array().cloned().unwrap();
        for old in versions(old) {
            let path = format!("{name} {}", old["name"].as_str().unwrap());
            let Some(new) = versions(new).into_iter().find(|one| one["name"] == old["name"]) else {
                self.fault(&path, "the version is gone");
                continue;
            };
            if old["storage"] != new["storage"] || (old["served"] == true && new["served"] != true) {
                self.fault(&path, "it is stored or served in another way");
            }
            self.schema(&path, &old["schema"]["openAPIV3Schema"], &new["schema"]["openAPIV3Schema"]);
        }
    }

    fn schema(&mut self, path: &str, old: &Value, new: &Value) {
        for same in ["type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"] {
            if old[same] != new[same] {
                self.fault(path, &format!("{same} is another one"));
            }
        }
        for (name, old) in old["properties"].as_object().into_iter().flatten() {
            let new = &new["properties"][name];
            if new.is_null() {
                self.fault(path, &format!("the field {name} is gone"));
            } else {
                self.schema(&format!("{path}.{name}"), old, new);
            }
        }
        for inner in ["items", "additionalProperties"] {
            if old[inner].is_object() {
                self.schema(&format!("{path}[]"), &old[inner], &new[inner]);
            }
        }
        self.limits(path, old, new);
        let all = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
        for field in ["required", "enum"] {
            for (one, other, what) in [
                (new, old, "is new: objects of the other version do not have it"),
                (old, new, "is gone: the other version still asks for it"),
            ] {
                for value in all(one, field).iter().filter(|value| !all(other, field).contains(value)) {
                    self.fault(path, &format!("{field} {value} {what}"));
                }
            }
        }
        let rules = all(old, "x-kubernetes-validations");
        for rule in all(new, "x-kubernetes-validations") {
            if !rules.iter().any(|old| old["rule"] == rule["rule"]) {
                self.fault(path, &format!("the new rule {} may not hold for older objects", rule["rule"]));
            }
        }
    }

    /// Values that were allowed are still allowed.
    fn limits(&mut self, path: &str, old: &Value, new: &Value) {
        let most = ["maximum", "maxLength", "maxItems", "maxProperties"].map(|field| (field, 1.0));
        let least = ["minimum", "minLength", "minItems", "minProperties"].map(|field| (field, -1.0));
        for (field, sign) in most.into_iter().chain(least) {
            let before = old[field].as_f64().map_or(f64::INFINITY, |limit| limit * sign);
            if new[field].as_f64().is_some_and(|limit| limit * sign < before) {
                self.fault(path, &format!("{field} is narrower"));
            }
        }
    }
}

fn faults(name: &str, old: &Value, new: &Value) -> Vec<String> {
    let mut comparison = Comparison { faults: Vec::new() };
    comparison.definition(name, old, new);
    comparison.faults
}

#[test]
fn definitions_only_grow() {
    let (old, new) = (previous(), current());
    assert_eq!(old.len(), 6);
    for (name, old) in old {
        let new = new.get(&name).unwrap_or_else(|| panic!("{name} is gone"));
        assert_eq!(faults(&name, &old, new), Vec::<String>::new());
    }
}

#[test]
fn a_change_that_breaks_one_of_the_versions_is_found() {
    let definition = |schema: Value| json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let object = |field: Value| json!({"type": "object", "properties": {"a": field}});
    let text = json!({"type": "string", "enum": ["x"], "maxLength": 3});
    let rows = [
        (object(text.clone()), object(text.clone()), ""),
        (object(text.clone()), json!({"type": "object", "properties": {}}), "x v1: the field a is gone"),
        (
            object(text.clone()),
            object(json!({"type": "integer", "enum": ["x"], "maxLength": 3})),
            "x v1.a: type",
        ),
        (
            object(text.clone()),
            object(json!({"type": "string", "enum": ["x", "y"]})),
            "x v1.a: enum \"y\" is new",
        ),
        (
            object(text.clone()),
            object(json!({"type": "string", "enum": ["x"], "maxLength": 2})),
            "x v1.a: maxLength",
        ),
        (object(json!({"minimum": 1})), object(json!({"minimum": 2})), "x v1.a: minimum"),
        (object(json!({})), object(json!({"maxItems": 2})), "x v1.a: maxItems"),
        (object(json!({"minimum": 1, "maximum": 1})), object(json!({"minimum": 0, "maximum": 2})), ""),
        (
            object(text.clone()),
            json!({"type": "object", "properties": {"a": text.clone()}, "required": ["a"]}),
            "x v1: required \"a\" is new",
        ),
        (
            json!({"type": "object", "properties": {"a": text.clone()}, "required": ["a"]}),
            object(text.clone()),
            "x v1: required \"a\" is gone",
        ),
        (
            object(text.clone()),
            json!({"type": "object", "properties": {"a": text}, "x-kubernetes-validations": [{"rule": "1 == 2"}]}),
            "x v1: the new rule",
        ),
        (
            object(json!({"type": "array", "items": {"type": "string"}})),
            object(json!({"type": "array", "items": {"type": "integer"}})),
            "x v1.a[]: type",
        ),
    ];
    for (old, new, wanted) in rows {
        let found = faults("x", &definition(old), &definition(new.clone()));
        match wanted {
            "" => assert_eq!(found, Vec::<String>::new(), "{new}"),
            wanted => assert!(found.len() == 1 && found[0].starts_with(wanted), "{new}: {found:?}"),
        }
    }
    let gone = json!({"spec": {"versions": []}});
    assert_eq!(faults("x", &definition(json!({})), &gone), ["x v1: the version is gone"]);
}

/// Every kind with what came after the version before.
fn objects() -> Vec<(&'static str, Value)> {
    let device = json!({"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
    let eviction = json!({
        "mode": "EvictThenDelete", "deadlineSeconds": 60, "groups": "Together", "maxConcurrent": 2,
        "windows": [{"start": "Sat 02:00", "duration": "4h", "timeZone": "Europe/Zurich"}],
    });
    vec![
        (
            "devicetaintpolicies",
            json!({"kind": "DeviceTaintPolicy", "metadata": {"name": "a"}, "spec": {
                "deviceSelector": device, "eviction": eviction, "expiresAt": "2030-01-01T00:00:00Z",
                "taint": {"key": "example.com/out", "effect": "NoExecute", "evictionsPerSecond": 2},
            }}),
        ),
        (
            "devicehealthpolicies",
            json!({"kind": "DeviceHealthPolicy", "metadata": {"name": "a"}, "spec": {
                "deviceSelector": {"driver": "gpu.example.com"}, "eviction": eviction,
                "rules": [{"name": "ecc", "when": "signal.key == 'x'", "count": {"atLeast": 3, "within": "10m"}, "stage": "Quarantined"}],
            }}),
        ),
        (
            "devicesignals",
            json!({"kind": "DeviceSignal", "metadata": {"name": "a"}, "spec": {
                "source": "Person", "device": device, "key": "example.com/ecc", "value": "1", "lasts": true, "at": "2026-11-16T10:00:00Z",
            }}),
        ),
        (
            "disruptionguards",
            json!({"kind": "DisruptionGuard", "metadata": {"name": "a"}, "spec": {"paused": {"reason": "freeze"}}}),
        ),
        (
            "namespaces/default/taintreplacementpolicies",
            json!({"kind": "TaintReplacementPolicy", "metadata": {"name": "a"}, "spec": {
                "podSelector": {"matchLabels": {"app": "web"}},
                "automaticReplacementOptions": {"taintReplacementTimeSeconds": 0,
                    "deviceTaintReplacementOptions": [{"key": "*", "durationInSeconds": 0}]},
            }}),
        ),
    ]
}

/// Makes the definitions of a server these, as `kubectl apply` does.
fn define(cluster: &Cluster, definitions: &BTreeMap<String, Value>) {
    for (name, definition) in definitions {
        let path = format!("{CRDS}/{name}");
        match cluster.try_send("GET", &path, &Value::Null) {
            Ok(there) => {
                let mut next = definition.clone();
                next["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
                cluster.send("PUT", &path, &next);
            }
            Err(_) => {
                cluster.send("POST", CRDS, definition);
            }
        }
    }
    cluster.until("the definitions are established", |cluster| {
        definitions.keys().all(|name| {
            let there = cluster.get(&format!("{CRDS}/{name}"));
            let conditions = there["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        })
    });
}

/// Whether one value has all that another one has.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|there| holds(there, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
        }
        _ => whole == part,
    }
}

/// Whether two values say the same of everything of which both say something.
fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, value)| other.get(name).is_none_or(|there| agree(there, value)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        _ => one == other,
    }
}

/// Objects of this version under the definitions of the one before, and back.
#[test]
fn objects_are_readable_after_a_rollback_and_whole_after_the_next_upgrade() {
    let cluster = Cluster::start(&["--api-only"]);
    for name in cluster.names(CRDS) {
        cluster.send("DELETE", &format!("{CRDS}/{name}"), &Value::Null);
    }
    cluster.until("the definitions are gone", |cluster| cluster.names(CRDS).is_empty());
    define(&cluster, &current());
    for (place, object) in objects() {
        let mut object = object;
        object["apiVersion"] = "lazaret.dev/v1alpha1".into();
        cluster.until("it is accepted", |cluster| {
            let made = cluster.try_send("POST", &format!("{OWN}/{place}"), &object);
            // A definition that is established is served a little later.
            made.is_ok() || made.is_err_and(|why| why.contains("already exists") || panic_unless_404(&why))
        });
    }
    define(&cluster, &previous());
    for (place, object) in objects() {
        let path = format!("{OWN}/{place}/a");
        assert_eq!(cluster.names(&format!("{OWN}/{place}")), ["a"], "{place}");
        let there = cluster.get(&path);
        assert_eq!(there["kind"], object["kind"]);
        // The older version finds its fields unchanged, and adds nothing but defaults.
        let (there, written) = (there["spec"].as_object().unwrap(), object["spec"].as_object().unwrap());
        let known: Vec<&String> = there.keys().filter(|field| written.contains_key(*field)).collect();
        assert!(!known.is_empty(), "{place}");
        for field in known {
            assert!(agree(&written[field], &there[field]), "{place} {field}");
        }
    }
    define(&cluster, &current());
    for (place, object) in objects() {
        let there = cluster.get(&format!("{OWN}/{place}/a"));
        assert!(holds(&there["spec"], &object["spec"]), "{place}: {there}");
        // And it can be written again.
        let mut next = there.clone();
        next["metadata"]["labels"] = json!({"again": "yes"});
        cluster.send("PUT", &format!("{OWN}/{place}/a"), &next);
    }
}

fn panic_unless_404(why: &str) -> bool {
    assert!(why.contains("404") || why.contains("NotFound") || why.contains("could not find"), "{why}");
    false
}
