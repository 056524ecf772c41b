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
    spec: Raw<'a>,
    pub(super) status: Option<OutlineStatus>,
}

/// The fields of an object, as they are written.
type Raw<'a> = BTreeMap<&'a str, &'a RawValue>;

/// A pod with its spec, as that is written.
#[derive(Deserialize)]
struct WithSpec<'a> {
    #[serde(borrow)]
    spec: &'a RawValue,
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
    /// The decoded labels and spec of the pod with this JSON; `None` when they cannot be decoded.
    pub(super) fn read(&mut self, known: &Known, outline: &Outline<'_>, json: &str) -> Option<Reading> {
        self.write_text(known, outline);
        if let Some(reading) = self.readings.get(self.text.as_slice()) {
            return Some(reading.clone());
        }
        let labels = match outline.metadata.labels {
            Some(labels) => serde_json::from_str::<Option<BTreeMap<String, String>>>(labels.get()).ok()?,
            None => None,
        };
        let labels = pods::labels(labels.as_ref());
        let WithSpec { spec: text } = serde_json::from_str(json).ok()?;
        let spec: core::PodSpec = serde_json::from_str(text.get()).ok()?;
        let mut spec = pods::pod_spec(&known.key.namespace, &labels, known.priority, &spec);
        spec.classic = lazaret_api::read_classic_pod_claims(text.get().as_bytes())?;
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

    /// All that a reading depends on. Its node and its volumes, which have names that the server makes up, are what a pod has of its own: nothing is
    /// read of them here.
    fn write_text(&mut self, known: &Known, outline: &Outline<'_>) {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(known.key.namespace.as_bytes());
        text.push(0);
        text.extend_from_slice(outline.metadata.labels.map_or("", RawValue::get).as_bytes());
        for (name, value) in outline.spec.iter().filter(|(name, _)| !matches!(**name, "nodeName" | "volumes"))
        {
            let containers = matches!(*name, "containers" | "initContainers")
                .then(|| serde_json::from_str::<Vec<Raw<'_>>>(value.get()).ok());
            match containers.flatten() {
                Some(containers) => {
                    for container in containers {
                        write_field(text, name, "");
                        let fields = container.iter().filter(|(name, _)| **name != "volumeMounts");
                        fields.for_each(|(name, value)| write_field(text, name, value.get()));
                    }
                }
                None => write_field(text, name, value.get()),
            }
        }
    }
}

fn write_field(text: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, value] {
        text.push(0);
        text.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_runtime::{Model, Object, PODS};

    fn read(specs: &mut Specs, pod: &serde_json::Value) -> Reading {
        let object = Object::new(&PODS, pod.to_string()).unwrap();
        let Ok(Model::Pod(known)) = object.model() else { panic!("no pod") };
        specs.read(known, &serde_json::from_str(object.text()).unwrap(), object.text()).unwrap()
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

    /// The volume with the token of its account has a name of its own in every pod.
    #[test]
    fn names_of_volumes_make_no_difference_and_all_else_of_a_container_does() {
        let mut specs = Specs::default();
        let with = |volume: &str, name: &str, field: &str| {
            let mut pod = pod("a", None, "1", "red");
            pod["spec"]["volumes"] = serde_json::json!([{"name": volume, "emptyDir": {}}]);
            let container = &mut pod["spec"][field][0];
            container["name"] = name.into();
            container["volumeMounts"] = serde_json::json!([{"name": volume, "mountPath": "/x"}]);
            pod
        };
        let first = read(&mut specs, &with("token-a", "c", "containers"));
        for (same, other) in
            [(true, with("token-b", "c", "containers")), (false, with("token-a", "d", "containers"))]
        {
            assert_eq!(Arc::ptr_eq(&read(&mut specs, &other).spec, &first.spec), same, "{other}");
        }
        let mut init = with("token-a", "c", "containers");
        init["spec"]["initContainers"] = init["spec"]["containers"].take();
        init["spec"]["containers"] = serde_json::json!([]);
        let init = read(&mut specs, &init);
        assert!(!Arc::ptr_eq(&init.spec, &first.spec));
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
