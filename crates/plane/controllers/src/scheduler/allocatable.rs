//! The resources of nodes that the claims of pods take, as they are written to the status of pods.

use lazaret_model::Quantity;
use lazaret_scheduler::{NodeAllocatableStatus, Overhead};
use serde_json::{Value, json};

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
    use lazaret_runtime::{Model, Object, PODS};
    use lazaret_scheduler::node_allocatable_extra;

    use super::*;

    #[test]
    fn an_entry_that_was_written_is_read_back() {
        let wire = json!([
            {
                "resourceClaimName": "c", "containers": ["a", "b"],
                "mapping": [{"name": "cpu", "quantity": "1500m"}, {"name": "memory", "quantity": "1Gi"}],
                "overhead": [{"name": "cpu", "perPod": "1", "perContainer": "250m"}],
            },
            {"resourceClaimName": "d", "mapping": [{"name": "hugepages-2Mi", "quantity": "4Mi"}]},
        ]);
        let pod = json!({"metadata": {"name": "p"}, "status": {"nodeAllocatableResourceClaimStatuses": wire.clone()}});
        let object = Object::new(&PODS, pod.to_string()).unwrap();
        let Ok(Model::Pod(pod)) = object.model() else { panic!("no pod") };
        let read = &pod.rare.as_ref().unwrap().node_allocatable;
        let written: Vec<Value> = read.iter().map(to_json).collect();
        assert_eq!(Value::from(written), wire);
        let extra = node_allocatable_extra(read, &pod.spec);
        assert_eq!((extra.cpu_milli, extra.memory, extra.other("hugepages-2Mi")), (3_000, 1 << 30, 4 << 20));
    }
}
