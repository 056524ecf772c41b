//! Taints of devices that a pod's claims hold.

use std::sync::Arc;

use lazaret_fleet::Input as Told;
use lazaret_model::{
    Allocation, ClaimSource, Consumer, Device, DeviceId, DeviceResult, Effect, NodeScope, Pod as Holder,
    PodClaim, PodPhase, PoolSpec, ResourceClaim, ResourceSlice, Taint, Timestamp,
};
use lazaret_replacement::Spec;

use crate::{
    api::{at, option, spec},
    runner::Play,
};

fn slice(time_added: Option<Timestamp>) -> Told {
    let taint = Taint { key: "ecc".into(), effect: Effect::NoSchedule, time_added, ..Taint::default() };
    Told::Slice(Arc::new(ResourceSlice {
        name: "s".into(),
        uid: "uid-s".into(),
        driver: "gpu.example.com".into(),
        pool: PoolSpec { name: "n0".into(), generation: 1, slice_count: 1 },
        nodes: NodeScope::Node("n0".into()),
        devices: vec![Device {
            name: "gpu-0".into(),
            taints: time_added.map(|_| taint).into_iter().collect(),
            ..Device::default()
        }],
        ..ResourceSlice::default()
    }))
}

fn tell(play: &mut Play, input: Told) {
    play.fleet.apply(input);
    let changes = play.fleet.take_changes();
    play.machine.tell_devices(&play.fleet, &changes);
}

#[test]
fn a_tainted_device_concerns_the_pod_that_holds_it_and_no_other() {
    let mut play = Play::with(3, 3);
    play.api.set_policy("p", Spec { device_options: vec![option("ecc", 10)], ..spec() });
    let pod = play.on("n0")[0].clone();
    let source = ClaimSource::Template { template: "t".into(), resolved: Some(Some("c".into())) };
    let result = DeviceResult {
        request: "r".into(),
        device: DeviceId::new("gpu.example.com", "n0", "gpu-0"),
        admin_access: false,
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: None,
        consumed_capacity: vec![],
        skip_node_operations: vec![],
    };
    tell(&mut play, slice(None));
    tell(
        &mut play,
        Told::Claim(Arc::new(ResourceClaim {
            key: crate::api::key("c"),
            uid: "uid-c".into(),
            owner: Some(lazaret_model::Owner {
                kind: "Pod".into(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
                ..lazaret_model::Owner::default()
            }),
            allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
            reserved_for: vec![Consumer {
                api_group: "".into(),
                resource: "pods".into(),
                name: pod.key.name.clone(),
                uid: pod.uid.clone(),
            }],
            ..ResourceClaim::default()
        })),
    );
    tell(
        &mut play,
        Told::Pod(Arc::new(Holder {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            node: pod.node.clone(),
            phase: PodPhase::Running,
            claims: vec![PodClaim { name: "c".into(), source }],
            ..Holder::default()
        })),
    );
    play.until(8);
    assert_eq!(play.lines("p"), [""; 0]);
    tell(&mut play, slice(Some(at(8))));
    play.until(9);
    assert_eq!(play.lines("p"), ["n0 ecc DeviceTaintDetected"]);
    assert_eq!(play.status("p").pods[0].cause.place, "gpu.example.com/n0/gpu-0");
    play.until(18);
    assert_eq!(play.lines("p"), ["n0 ecc DeviceTaintReplacing"]);
    tell(&mut play, slice(None));
    play.until(19);
    assert_eq!(play.lines("p"), [""; 0], "the driver took it back");
    tell(&mut play, slice(Some(at(19))));
    play.until(60);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
    assert_eq!(play.done[0], format!("39 release {}", pod.key.name));
}
