//! The specs of pods, decoded once for equal ones: pods of one template share a spec, and each pod is received several times.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1::Time};
use lazaret_model::Pod as Known;
use lazaret_scheduler::{Labels, PodSpec};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{allocatable::Status, pods};

/// Decoded specs in the cache. When there are more, all are dropped: a cluster with this many different specs gains nothing from the cache.
const READINGS_MAX: usize = 1_024;
/// A longer spec is decoded each time.
const BYTES_MAX: usize = 16 << 10;

/// The fields of a pod that differ between pods of one template.
#[derive(Deserialize)]
pub(super) struct Outline<'a> {
    #[serde(borrow)]
    pub(super) metadata: OutlineMetadata<'a>,
    #[serde(borrow)]
    spec: &'a RawValue,
    pub(super) status: Option<OutlineStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutlineMetadata<'a> {
    pub(super) creation_timestamp: Option<Time>,
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutlineStatus {
    pub(super) start_time: Option<Time>,
    pub(super) nominated_node_name: Option<String>,
    pub(super) node_allocatable_resource_claim_statuses: Option<Vec<Status>>,
}

/// A pod's labels and spec, decoded.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) labels: Labels,
    pub(super) spec: Arc<PodSpec>,
}

/// Readings by the text that they were made from.
#[derive(Debug, Default)]
pub(super) struct Specs {
    readings: HashMap<Box<[u8]>, Reading>,
    /// The text being looked for; here to be used again.
    text: Vec<u8>,
}

impl Specs {
    /// The decoded labels and spec of this pod; `None` when they cannot be decoded.
    pub(super) fn read(&mut self, known: &Known, outline: &Outline<'_>) -> Option<Reading> {
        self.write_text(known, outline);
        if let Some(reading) = self.readings.get(self.text.as_slice()) {
            return Some(reading.clone());
        }
        let labels = match outline.metadata.labels {
            Some(labels) => serde_json::from_str::<Option<BTreeMap<String, String>>>(labels.get()).ok()?,
            None => None,
        };
        let labels = pods::labels(labels.as_ref());
        let spec: core::PodSpec = serde_json::from_str(outline.spec.get()).ok()?;
        let mut spec = pods::pod_spec(&known.key.namespace, &labels, known.priority, &spec);
        spec.classic = lazaret_api::read_classic_pod_claims(outline.spec.get().as_bytes())?;
        let spec = Arc::new(spec);
        let reading = Reading { labels, spec };
        if self.text.len() <= BYTES_MAX {
            if self.readings.len() >= READINGS_MAX {
                self.readings.clear();
            }
            self.readings.insert(self.text.as_slice().into(), reading.clone());
        }
        Some(reading)
    }

    /// All that a reading depends on. The node is left out, which is the one thing that a pod has of its own; nothing that is read here
    /// has a field of that name.
    fn write_text(&mut self, known: &Known, outline: &Outline<'_>) {
        let (text, spec) = (&mut self.text, outline.spec.get());
        text.clear();
        text.extend_from_slice(known.key.namespace.as_bytes());
        text.push(0);
        text.extend_from_slice(outline.metadata.labels.map_or("", RawValue::get).as_bytes());
        text.push(0);
        let node = known.node.as_ref().map(|node| format!(r#""nodeName":"{node}""#));
        match node.and_then(|node| spec.split_once(&node)) {
            Some((before, after)) => {
                text.extend_from_slice(before.as_bytes());
                // One comma is enough of what stood around it.
                let after = if before.ends_with(['{', ',']) { after.strip_prefix(',') } else { None }
                    .unwrap_or(after);
                text.extend_from_slice(after.as_bytes());
            }
            None => text.extend_from_slice(spec.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_runtime::{Model, Object, PODS};

    fn read(specs: &mut Specs, pod: &serde_json::Value) -> Reading {
        let object = Object::new(&PODS, pod.to_string()).unwrap();
        let Ok(Model::Pod(known)) = object.model() else { panic!("no pod") };
        specs.read(known, &serde_json::from_slice(object.json()).unwrap()).unwrap()
    }

    fn pod(name: &str, node: Option<&str>, cpu: &str, team: &str) -> serde_json::Value {
        let resources = serde_json::json!({"requests": {"cpu": cpu}});
        let mut spec = serde_json::json!({
            "containers": [{"name": "c", "resources": resources}], "priority": 7, "schedulerName": "other",
        });
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        let metadata =
            serde_json::json!({"name": name, "namespace": "n", "uid": name, "labels": {"team": team}});
        serde_json::json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn what_is_the_same_but_for_the_node_is_read_once() {
        let mut specs = Specs::default();
        let first = read(&mut specs, &pod("a", None, "1", "red"));
        assert_eq!((first.spec.priority, first.labels["team"].as_str()), (7, "red"));
        for (same, other) in [
            (true, pod("b", None, "1", "red")),
            (true, pod("a", Some("node-1"), "1", "red")),
            (true, pod("b", Some("node-2"), "1", "red")),
            (false, pod("a", None, "2", "red")),
            (false, pod("a", None, "1", "blue")),
        ] {
            assert_eq!(Arc::ptr_eq(&read(&mut specs, &other).spec, &first.spec), same, "{other}");
        }
        let other = read(&mut specs, &pod("c", Some("node-1"), "2", "blue"));
        assert_eq!(
            (other.labels["team"].as_str(), other.spec.requests == first.spec.requests),
            ("blue", false)
        );
    }

    #[test]
    fn only_so_many_readings_are_kept() {
        let mut specs = Specs::default();
        for cpu in 0..READINGS_MAX + 3 {
            read(&mut specs, &pod("a", None, &cpu.to_string(), "red"));
        }
        assert_eq!(specs.readings.len(), 3);
        read(&mut specs, &pod("a", None, "1", &"x".repeat(BYTES_MAX)));
        assert_eq!(specs.readings.len(), 3);
    }
}
