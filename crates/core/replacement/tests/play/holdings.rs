//! The inputs of a fleet: devices, and the pods that hold them.

use std::sync::Arc;

use lazaret_fleet::Input as Told;
use lazaret_model::{
    Allocation, ClaimSource, Consumer, Device, DeviceId, DeviceResult, Effect, NodeScope, ObjectKey, Owner,
    Pod as Holder, PodClaim, PodPhase, PoolSpec, ResourceClaim, ResourceSlice, Taint, Text,
};
use lazaret_replacement::Pod;

use crate::api::{Api, Changed, holds, key};

const DRIVER: &str = "gpu.example.com";
const DEVICE: &str = "gpu-0";

/// The fleet's input for a change.
pub(crate) fn told(api: &Api, change: &Changed) -> Option<Told> {
    match change {
        Changed::Slice(node) => Some(slice(api, node)),
        Changed::Claim(pod) => Some(match api.pods.get(pod).map(|live| &live.pod) {
            Some(pod) if holds(pod) && pod.node.is_some() => claim(pod),
            Some(_) | None => Told::ClaimGone(claim_key(pod)),
        }),
        Changed::Pod(pod) => Some(match api.pods.get(pod) {
            Some(live) => Told::Pod(Arc::new(holder(&live.pod))),
            None => Told::PodGone(pod.clone()),
        }),
        Changed::Policy(_) | Changed::Node(_) | Changed::Set(_) => None,
    }
}

fn claim_key(pod: &ObjectKey) -> ObjectKey {
    key(&format!("claim-{}", pod.name))
}

fn slice(api: &Api, node: &Text) -> Told {
    let taints = api.devices.get(node).into_iter().flatten().map(|(key, time_added)| Taint {
        key: key.clone(),
        effect: if api.devices_evict { Effect::NoExecute } else { Effect::NoSchedule },
        time_added: *time_added,
        ..Taint::default()
    });
    Told::Slice(Arc::new(ResourceSlice {
        name: format!("slice-{node}").into(),
        uid: format!("uid-slice-{node}").into(),
        driver: DRIVER.into(),
        pool: PoolSpec { name: node.clone(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node(node.clone()),
        devices: vec![Device { name: DEVICE.into(), taints: taints.collect(), ..Device::default() }],
        ..ResourceSlice::default()
    }))
}

fn claim(pod: &Pod) -> Told {
    let result = DeviceResult {
        request: "r".into(),
        device: DeviceId::new(DRIVER, pod.node.clone().unwrap(), DEVICE),
        // Any number may sit on the one device of a node.
        admin_access: true,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    Told::Claim(Arc::new(ResourceClaim {
        key: claim_key(&pod.key),
        uid: format!("uid-claim-{}", pod.uid).into(),
        owner: Some(Owner {
            kind: "Pod".into(),
            name: pod.key.name.clone(),
            uid: pod.uid.clone(),
            ..Owner::default()
        }),
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        reserved_for: vec![Consumer {
            api_group: "".into(),
            resource: "pods".into(),
            name: pod.key.name.clone(),
            uid: pod.uid.clone(),
        }],
        ..ResourceClaim::default()
    }))
}

fn holder(pod: &Pod) -> Holder {
    let resolved = Some(Some(claim_key(&pod.key).name));
    let source = ClaimSource::Template { template: "t".into(), resolved };
    Holder {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        phase: PodPhase::Running,
        claims: holds(pod).then(|| PodClaim { name: "c".into(), source }).into_iter().collect(),
        ..Holder::default()
    }
}
