//! Taints of devices that a pod's claims hold.

use lazaret_replacement::Spec;

use crate::{
    api::{Kind, at, option, spec},
    runner::Play,
};

#[test]
fn a_tainted_device_concerns_the_pod_that_holds_it_and_no_other() {
    let mut play = Play::with(3, 3);
    for node in ["n0", "n1", "n2"] {
        play.api.taint_device(node, "ecc", None);
    }
    play.api.add_set("gpu", Kind::ReplicaSet, 1, true);
    play.api.set_policy("p", Spec { device_options: vec![option("ecc", 10)], ..spec() });
    play.until(8);
    let pod = play.on("n0").into_iter().find(|pod| pod.key.name.starts_with("gpu")).unwrap();
    assert_eq!(play.on("n0").len(), 2, "the other one holds nothing");
    assert_eq!(play.lines("p"), [""; 0]);
    play.api.taint_device("n0", "ecc", Some(Some(at(8))));
    play.until(9);
    assert_eq!(play.lines("p"), ["n0 ecc DeviceTaintDetected"]);
    assert_eq!(play.status("p").pods[0].pod, pod.key.name);
    assert_eq!(play.status("p").pods[0].cause.place, "gpu.example.com/n0/gpu-0");
    play.until(18);
    assert_eq!(play.lines("p"), ["n0 ecc DeviceTaintReplacing"]);
    play.api.taint_device("n0", "ecc", None);
    play.until(19);
    assert_eq!(play.lines("p"), [""; 0], "the driver took it back");
    play.api.taint_device("n0", "ecc", Some(Some(at(19))));
    play.until(60);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
    assert_eq!(play.done[0], format!("39 release {}", pod.key.name));
}
