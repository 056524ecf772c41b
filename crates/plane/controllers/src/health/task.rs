//! Jobs and requests that repair or validate a device, as objects.

use lazaret_api::Validation;
use lazaret_lifecycle::{Incident, Owner};
use lazaret_model::{DeviceId, QualifiedName, Text};
use lazaret_runtime::INCIDENTS;
use serde_json::{Map, Value, json};

use super::INCIDENT_LABEL;
use crate::proof::{PROOF, Proofs};

/// The name of a validation's claim in its pod.
const CLAIM_ENTRY: &str = "lazaret-device";
/// The request in that claim.
const REQUEST: &str = "device";
/// How deep texts are looked for in a template. No object of the API is as deep.
const DEPTH_MAX: usize = 32;

/// The incident that a task is made for.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) proofs: &'a Proofs,
    pub(super) owner: &'a Owner,
    pub(super) incident: &'a Incident,
    pub(super) name: &'a Text,
    pub(super) node: Option<Text>,
}

impl Subject<'_> {
    /// The values that templates and containers get.
    fn facts(&self) -> [(&'static str, String); 6] {
        let DeviceId { driver, pool, device } = &self.incident.device;
        [
            ("DRIVER", driver.to_string()),
            ("POOL", pool.to_string()),
            ("DEVICE", device.to_string()),
            ("HARDWARE_ID", self.incident.hardware.as_deref().unwrap_or_default().to_owned()),
            ("NODE", self.node.as_deref().unwrap_or_default().to_owned()),
            ("INCIDENT", self.incident.name.to_string()),
        ]
    }

    /// The metadata of an object of a template.
    fn metadata(&self, kind: &str, template: &Value, namespace: &str) -> Value {
        let from = |field: &str| template["metadata"][field].as_object().cloned().unwrap_or_default();
        let mut labels = from("labels");
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "lazaret".into());
        labels.insert(INCIDENT_LABEL.to_owned(), (&*self.owner.name).into());
        let mut annotations = from("annotations");
        let proof = self.proofs.of(kind, namespace, self.name, &self.owner.uid);
        annotations.insert(PROOF.to_owned(), proof.into());
        let mut metadata = json!({
            "name": &**self.name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(self.owner)],
        });
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        metadata
    }

    /// A Job of a template.
    fn job(&self, template: &Value, namespace: &str) -> Value {
        let mut spec = template["spec"].as_object().cloned().unwrap_or_default();
        // Another try is another step, or another attempt at all of them.
        spec.entry("backoffLimit").or_insert_with(|| 0.into());
        let pod = object(object(&mut spec, "template"), "spec");
        pod.entry("restartPolicy").or_insert_with(|| "Never".into());
        let facts = self.facts();
        for container in containers(pod) {
            let env = array(container, "env");
            for (name, value) in &facts {
                let name = format!("LAZARET_{name}");
                if env.iter().all(|known| known["name"] != *name) {
                    env.push(json!({"name": name, "value": value}));
                }
            }
        }
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": self.metadata("Job", template, namespace),
            "spec": spec,
        })
    }

    /// A Job on the node of the device.
    pub(super) fn repair(&self, template: &Value, namespace: &str) -> Value {
        let mut job = self.job(template, namespace);
        if let (Some(node), Some(spec)) = (&self.node, job["spec"]["template"]["spec"].as_object_mut())
            && !spec.contains_key("nodeName")
        {
            pin(spec, node);
        }
        job
    }

    /// A Job with the device, and the claim for it. Without a hardware identity no claim can mean this device alone.
    pub(super) fn validation(
        &self,
        validation: &Validation,
        identity: &str,
    ) -> Result<(Value, Value), String> {
        let Some(hardware) = &self.incident.hardware else {
            return Err(format!(
                "the device has no attribute {identity}, by which a claim could mean it and no other"
            ));
        };
        let Validation { namespace, template, device_class } = validation;
        let mut job = self.job(template, namespace);
        if let Some(pod) = job["spec"]["template"]["spec"].as_object_mut() {
            array(pod, "resourceClaims")
                .push(json!({"name": CLAIM_ENTRY, "resourceClaimName": &**self.name}));
            for container in containers(pod) {
                array(object(container, "resources"), "claims").push(json!({"name": CLAIM_ENTRY}));
            }
        }
        let driver = &self.incident.device.driver;
        let QualifiedName { domain, id } = QualifiedName::of_key(identity, driver);
        let text = |text: &str| Value::from(text).to_string();
        let expression = format!(
            "device.driver == {} && has(device.attributes[{domain}].{id}) && device.attributes[{domain}].{id} == {}",
            text(driver),
            text(hardware),
            domain = text(&domain),
        );
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": self.metadata("ResourceClaim", &Value::Null, namespace),
            "spec": {"devices": {"requests": [{
                "name": REQUEST,
                "exactly": {
                    "deviceClassName": device_class,
                    "selectors": [{"cel": {"expression": expression}}],
                    "tolerations": [{"key": &*self.incident.taint.key, "operator": "Exists"}],
                },
            }]}},
        });
        Ok((job, claim))
    }

    /// An object that another controller acts on.
    pub(super) fn request(&self, api_version: &str, kind: &str, template: &Value) -> Value {
        let mut object = template.clone();
        fill(&mut object, &self.facts(), 0);
        let namespace = template["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        object["metadata"] = self.metadata(kind, &object, &namespace);
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object
    }
}

/// The owner reference from an object that is made for an incident to the incident.
pub(super) fn owner_reference(owner: &Owner) -> Value {
    json!({
        "apiVersion": INCIDENTS.api_version(), "kind": INCIDENTS.kind,
        "name": &*owner.name, "uid": &*owner.uid, "controller": true,
    })
}

/// A field that holds an object, made one if need be.
fn object<'a>(holder: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let value = holder.entry(field).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    let Value::Object(map) = value else { unreachable!("made an object just above") };
    map
}

/// A field that holds a list, made one if need be.
fn array<'a>(holder: &'a mut Map<String, Value>, field: &str) -> &'a mut Vec<Value> {
    let value = holder.entry(field).or_insert_with(|| json!([]));
    if !value.is_array() {
        *value = json!([]);
    }
    let Value::Array(items) = value else { unreachable!("made a list just above") };
    items
}

fn containers(pod: &mut Map<String, Value>) -> Vec<&mut Map<String, Value>> {
    let mut found = Vec::new();
    for (field, value) in pod.iter_mut() {
        if matches!(field.as_str(), "containers" | "initContainers") {
            found.extend(value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut));
        }
    }
    found
}

/// The pod runs on this node, through the scheduler.
fn pin(pod: &mut Map<String, Value>, node: &str) {
    let required = object(
        object(object(pod, "affinity"), "nodeAffinity"),
        "requiredDuringSchedulingIgnoredDuringExecution",
    );
    let terms = array(required, "nodeSelectorTerms");
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in terms.iter_mut().filter_map(Value::as_object_mut) {
        array(term, "matchFields").push(json!({"key": "metadata.name", "operator": "In", "values": [node]}));
    }
}

/// Puts facts where texts ask for them.
fn fill(value: &mut Value, facts: &[(&'static str, String)], depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::String(text) if text.contains("$(") => {
            for (name, fact) in facts {
                *text = text.replace(&format!("$({name})"), fact);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, facts, depth + 1)),
        Value::Object(map) => map.values_mut().for_each(|item| fill(item, facts, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
