//! The resources of nodes that the claims of pods take, from the status of pods.

use std::sync::Arc;

use lazaret_model::Quantity;
use lazaret_scheduler::{Amounts, NodeAllocatableStatus, Overhead, PodSpec, node_allocatable_extra};
use serde::Deserialize;
use serde_json::{Value, json};

/// An entry of `status.nodeAllocatableResourceClaimStatuses`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    resource_claim_name: String,
    #[serde(default)]
    containers: Vec<String>,
    #[serde(default)]
    mapping: Vec<Mapped>,
    #[serde(default)]
    overhead: Vec<Cost>,
}

#[derive(Deserialize)]
struct Mapped {
    name: String,
    quantity: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cost {
    name: String,
    per_pod: Option<String>,
    per_container: Option<String>,
}

/// The resources of its node that a pod with this status takes beside its requests.
pub(super) fn extra(statuses: &[Status], spec: &PodSpec) -> Option<Arc<Amounts>> {
    let statuses: Vec<NodeAllocatableStatus> = statuses.iter().map(status).collect();
    (!statuses.is_empty()).then(|| Arc::new(node_allocatable_extra(&statuses, spec)))
}

fn status(wire: &Status) -> NodeAllocatableStatus {
    let amount = |text: &Option<String>| text.as_deref().and_then(|text| Quantity::parse(text).ok());
    NodeAllocatableStatus {
        claim: wire.resource_claim_name.as_str().into(),
        containers: wire.containers.iter().map(|name| name.as_str().into()).collect(),
        mapping: wire
            .mapping
            .iter()
            .filter_map(|mapped| Some((mapped.name.as_str().into(), amount(&mapped.quantity)?)))
            .collect(),
        overhead: wire
            .overhead
            .iter()
            .map(|cost| {
                let overhead =
                    Overhead { per_pod: amount(&cost.per_pod), per_container: amount(&cost.per_container) };
                (cost.name.as_str().into(), overhead)
            })
            .collect(),
    }
}

/// The entry on the wire; what is empty is left out.
pub(super) fn to_json(status: &NodeAllocatableStatus) -> Value {
    let mut wire = json!({"resourceClaimName": &*status.claim});
    if !status.containers.is_empty() {
        wire["containers"] = status.containers.iter().map(|name| name.as_str()).collect();
    }
    if !status.mapping.is_empty() {
        let mapped = |(name, amount): &(lazaret_model::Text, Quantity)| json!({"name": &**name, "quantity": amount.to_string()});
        wire["mapping"] = status.mapping.iter().map(mapped).collect();
    }
    if !status.overhead.is_empty() {
        wire["overhead"] = status.overhead.iter().map(|(name, cost)| overhead(name, cost)).collect();
    }
    wire
}

fn overhead(name: &str, cost: &Overhead) -> Value {
    let mut wire = json!({"name": name});
    for (field, amount) in [("perPod", &cost.per_pod), ("perContainer", &cost.per_container)] {
        if let Some(amount) = amount {
            wire[field] = amount.to_string().into();
        }
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let wire = json!([
            {
                "resourceClaimName": "c", "containers": ["a", "b"],
                "mapping": [{"name": "cpu", "quantity": "1500m"}, {"name": "memory", "quantity": "1Gi"}],
                "overhead": [{"name": "cpu", "perPod": "1", "perContainer": "250m"}],
            },
            {"resourceClaimName": "d", "mapping": [{"name": "hugepages-2Mi", "quantity": "4Mi"}]},
        ]);
        let read: Vec<Status> = serde_json::from_value(wire.clone()).unwrap();
        let written: Vec<Value> = read.iter().map(|entry| to_json(&status(entry))).collect();
        assert_eq!(Value::from(written), wire);
        let extra = extra(&read, &PodSpec::default()).unwrap();
        assert_eq!((extra.cpu_milli, extra.memory, extra.other("hugepages-2Mi")), (3_000, 1 << 30, 4 << 20));
        assert_eq!(super::extra(&[], &PodSpec::default()), None);
    }
}
