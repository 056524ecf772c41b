//! Claims as the scheduler reads and writes them.

use std::sync::Arc;

use lazaret_model::{AllocationMode, DeviceId, RequestKind, ResourceClaim, Text};
use lazaret_runtime::{Object, read_metadata};
use lazaret_scheduler::{
    CLAIM_FINALIZER, Claim, CreateExtendedClaim, DeviceStatus, EXTENDED_CLAIM_ANNOTATION,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: Metadata,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    devices: Vec<Device>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Device {
    driver: String,
    pool: String,
    device: String,
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

pub(super) fn claim(claim: &Arc<ResourceClaim>, object: &Object) -> Claim {
    let Wire { metadata, status } = serde_json::from_str(object.text()).unwrap_or_else(|why| {
        object.cannot_be_read(&why, "its devices; none of their conditions counts");
        bare(object)
    });
    let truth = |conditions: Vec<Condition>| {
        conditions.into_iter().filter(|one| one.status == "True").map(|one| Text::from(one.kind)).collect()
    };
    Claim {
        claim: Arc::clone(claim),
        version: object.revision(),
        has_finalizer: metadata.finalizers.iter().any(|name| name == CLAIM_FINALIZER),
        devices: status
            .devices
            .into_iter()
            .map(|entry| DeviceStatus {
                device: DeviceId {
                    driver: entry.driver.into(),
                    pool: entry.pool.into(),
                    device: entry.device.into(),
                },
                is_true: truth(entry.conditions),
            })
            .collect(),
    }
}

/// The finalizers of a claim whose status cannot be read.
fn bare(object: &Object) -> Wire {
    let metadata: Value = read_metadata(object.json()).unwrap_or_default();
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let finalizers = finalizers.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    Wire { metadata: Metadata { finalizers }, status: Status::default() }
}

/// The claim that stands for a pod's extended resources: only plain requests for a number of devices of a class.
pub(super) fn extended_claim(create: &CreateExtendedClaim) -> String {
    let requests: Vec<Value> = create
        .spec
        .requests
        .iter()
        .filter_map(|request| match &request.kind {
            RequestKind::Exactly(exactly) => Some(json!({
                "name": &*request.name,
                "exactly": {
                    "deviceClassName": &*exactly.class,
                    "allocationMode": "ExactCount",
                    "count": match &exactly.mode {
                        AllocationMode::Exact(count) => *count,
                        AllocationMode::All | AllocationMode::Unknown(_) => 1,
                    },
                },
            })),
            RequestKind::FirstAvailable(_) | RequestKind::Unknown => None,
        })
        .collect();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": &*create.generate_name,
            "namespace": &*create.pod.namespace,
            "annotations": {EXTENDED_CLAIM_ANNOTATION: "true"},
            "finalizers": [CLAIM_FINALIZER],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": &*create.owner.name, "uid": &*create.owner.uid,
                "controller": true,
            }],
        },
        "spec": {"devices": {"requests": requests}},
    })
    .to_string()
}
