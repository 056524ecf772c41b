//! A world as a recording that the dashboard plays: what there was at its start, and every write after, at its virtual time.

use std::collections::BTreeMap;

use lazaret_model::{
    AttrValue, Condition, ConditionStatus, DeviceClass, DeviceSelector, DeviceTaintRule, NodeScope,
    ResourceClaim, ResourceSlice, ResourceSlicePatch, Taint, Timestamp,
};
use serde_json::{Map, Value, json};

use crate::{
    api::{Api, Resource, Table, wall},
    world::World,
};

/// The page plays no more than this; a world of a thousand pods writes some ten thousand times.
const EVENTS_MAX: usize = 500_000;

/// When what was written: the last version after a step, and the virtual time of that step in ms.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<(u64, u64)>);

impl Times {
    /// Notes that everything up to this version is written by now.
    pub(crate) fn written(&mut self, version: u64, now: u64) {
        self.0.push((version, now));
    }

    fn of(&self, version: u64) -> u64 {
        let at = self.0.partition_point(|(last, _)| *last < version);
        self.0.get(at).map_or(0, |(_, now)| *now)
    }
}

/// The whole file. `start` is the last version that was there before the world began.
pub(crate) fn recording(world: &World, times: &Times, start: u64, title: &str) -> Value {
    let Api { slices, claims, rules, patches, classes, .. } = &world.api;
    let mut told = Told { start, objects: Vec::new(), events: BTreeMap::new() };
    told.table(slices, slice);
    told.table(claims, claim);
    told.table(rules, rule);
    told.table(patches, patch);
    told.table(classes, class);
    let events = told.events.into_iter().take(EVENTS_MAX).map(|(version, (kind, object))| {
        json!({"at": time(wall(times.of(version))), "type": kind, "object": object})
    });
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceRecording", "title": title,
        "start": time(wall(0)), "end": time(wall(world.now)),
        "objects": told.objects, "events": events.collect::<Vec<_>>(),
    })
}

struct Told {
    start: u64,
    objects: Vec<Value>,
    /// By version: what happened, and to what.
    events: BTreeMap<u64, (&'static str, Value)>,
}

impl Told {
    fn table<T: Resource>(&mut self, table: &Table<T>, form: fn(&T) -> Value) {
        let mut there: BTreeMap<u32, Value> = BTreeMap::new();
        let mut begun = false;
        for logged in table.log() {
            if !begun && logged.version > self.start {
                self.objects.extend(there.values().cloned());
                begun = true;
            }
            let event = match &logged.object {
                Some(object) => {
                    let object = form(object);
                    there.insert(logged.number, object.clone());
                    Some(("MODIFIED", object))
                }
                None => there.remove(&logged.number).map(|object| ("DELETED", object)),
            };
            if let Some(event) = event.filter(|_| begun) {
                self.events.insert(logged.version, event);
            }
        }
        if !begun {
            self.objects.extend(there.into_values());
        }
    }
}

fn time(time: Timestamp) -> String {
    lazaret_api::format_time_precise(time)
}

fn object(version: &str, kind: &str, metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": kind, "metadata": metadata, "spec": spec})
}

fn taint(taint: &Taint) -> Value {
    let mut wire = json!({"key": &*taint.key, "effect": taint.effect.name()});
    if !taint.value.is_empty() {
        wire["value"] = json!(&*taint.value);
    }
    if let Some(added) = taint.time_added {
        wire["timeAdded"] = json!(time(added));
    }
    if let Some(pace) = taint.evictions_per_second {
        wire["evictionsPerSecond"] = json!(pace);
    }
    wire
}

fn attribute(value: &AttrValue) -> Value {
    match value {
        AttrValue::Int(number) => json!({"int": number}),
        AttrValue::Bool(truth) => json!({"bool": truth}),
        AttrValue::String(text) => json!({"string": &**text}),
        AttrValue::Version(version) => json!({"version": &*version.text}),
        AttrValue::Ints(numbers) => json!({"ints": &numbers[..]}),
        AttrValue::Bools(truths) => json!({"bools": &truths[..]}),
        AttrValue::Strings(texts) => json!({"strings": texts.iter().map(|text| &**text).collect::<Vec<_>>()}),
        AttrValue::Versions(versions) => {
            json!({"versions": versions.iter().map(|version| &*version.text).collect::<Vec<_>>()})
        }
        AttrValue::Unsupported => json!({}),
    }
}

fn slice(slice: &ResourceSlice) -> Value {
    let devices = slice.devices.iter().map(|device| {
        let attributes = device.attributes.iter();
        let attributes: Map<String, Value> =
            attributes.map(|(key, value)| (key.to_string(), attribute(value))).collect();
        let taints: Vec<Value> = device.taints.iter().map(taint).collect();
        json!({"name": &*device.name, "attributes": attributes, "taints": taints})
    });
    let mut spec = json!({
        "driver": &*slice.driver,
        "pool": {"name": &*slice.pool.name, "generation": slice.pool.generation, "resourceSliceCount": slice.pool.slice_count},
    });
    if let NodeScope::Node(node) = &slice.nodes {
        spec["nodeName"] = json!(&**node);
    }
    if slice.taints.is_empty() {
        spec["devices"] = devices.collect();
    } else {
        let taints =
            slice.taints.iter().map(|one| json!({"device": &*one.device, "taint": taint(&one.taint)}));
        spec["taints"] = taints.collect();
    }
    object("v1alpha3", "ResourceSlice", json!({"name": &*slice.name, "uid": &*slice.uid}), spec)
}

fn claim(claim: &ResourceClaim) -> Value {
    let metadata = json!({"name": &*claim.key.name, "namespace": &*claim.key.namespace, "uid": &*claim.uid});
    let mut wire = object("v1", "ResourceClaim", metadata, json!({}));
    let users = claim
        .reserved_for
        .iter()
        .map(|user| json!({"resource": &*user.resource, "name": &*user.name, "uid": &*user.uid}));
    wire["status"] = json!({"reservedFor": users.collect::<Vec<_>>()});
    if let Some(allocation) = &claim.allocation {
        let results = allocation.results.iter().map(|result| {
            let device = &result.device;
            json!({
                "request": &*result.request, "driver": &*device.driver, "pool": &*device.pool,
                "device": &*device.device,
            })
        });
        wire["status"]["allocation"] = json!({"devices": {"results": results.collect::<Vec<_>>()}});
    }
    wire
}

fn selector(selector: &DeviceSelector) -> Value {
    let DeviceSelector { class, driver, pool, device, cel } = selector;
    let mut wire = Map::new();
    for (name, text) in [("deviceClassName", class), ("driver", driver), ("pool", pool), ("device", device)] {
        if let Some(text) = text {
            wire.insert(name.to_owned(), json!(&**text));
        }
    }
    if !cel.is_empty() {
        wire.insert("selectors".to_owned(), expressions(cel));
    }
    Value::Object(wire)
}

fn expressions(cel: &[lazaret_model::Text]) -> Value {
    cel.iter().map(|one| json!({"cel": {"expression": &**one}})).collect()
}

fn condition(condition: &Condition) -> Value {
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    json!({
        "type": &*condition.kind, "status": status, "reason": &*condition.reason, "message": &*condition.message,
        "observedGeneration": condition.observed_generation,
    })
}

fn rule(rule: &DeviceTaintRule) -> Value {
    let mut metadata = json!({"name": &*rule.name, "uid": &*rule.uid, "generation": rule.generation});
    if let Some(created) = rule.created {
        metadata["creationTimestamp"] = json!(time(created));
    }
    let mut spec = json!({"taint": taint(&rule.taint)});
    if let Some(selects) = &rule.selector {
        spec["deviceSelector"] = selector(selects);
    }
    let mut wire = object("v1alpha3", "DeviceTaintRule", metadata, spec);
    let conditions: Vec<Value> = rule.conditions.iter().map(condition).collect();
    wire["status"] = json!({"conditions": conditions});
    if let Some(evictions) = &rule.evictions {
        wire["status"]["evictions"] = json!({"pods": evictions.pods, "atLeast": evictions.at_least});
    }
    wire
}

fn patch(patch: &ResourceSlicePatch) -> Value {
    let taints: Vec<Value> = patch.patch.taints.iter().map(taint).collect();
    let mut devices = json!({"priority": patch.patch.priority, "taints": taints});
    if let Some(selects) = &patch.selector {
        devices["filter"] = selector(selects);
    }
    let metadata = json!({"name": &*patch.name, "uid": &*patch.uid});
    object("v1alpha3", "ResourceSlicePatch", metadata, json!({"devices": devices}))
}

fn class(class: &DeviceClass) -> Value {
    let selectors = class.selectors.iter().flatten();
    let selectors: Vec<Value> = selectors.map(|one| json!({"cel": {"expression": &**one}})).collect();
    object("v1", "DeviceClass", json!({"name": &*class.name}), json!({"selectors": selectors}))
}
