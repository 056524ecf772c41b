//! The driver on cards that a double of NVML plays, called as kubelet calls it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use crate::world::{PATIENCE, World, XID, card};
use futures_util::StreamExt;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use lazaret_cdi::ContainerEdits;
use lazaret_nvidia::{Partitions, Request};
use lazaret_testkit::{Cluster, Plane};
use nvidia_ml_double::{Event, Hardware, Part};
use serde_json::json;

fn nodes_of(edits: &ContainerEdits) -> Vec<&str> {
    edits.device_nodes.iter().map(|node| node.path.as_str()).collect()
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map(Iterator::count).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_are_published_with_the_names_of_nvidias_driver() {
    let world = World::new(8).await;
    for (card, node) in [("a0", "0"), ("a1", "1"), ("a2", "-1")] {
        let folder = world.host().join(format!("sys/bus/pci/devices/0000:{card}:06.0"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("numa_node"), format!("{node}\n")).unwrap();
    }
    let driver = world.start(Partitions::Static, &[]).await;
    world.until_taints("gpu-7", &[]).await;
    let devices = world.devices().await;
    assert_eq!(devices.len(), 8);
    let attributes = devices[0].attributes.as_ref().unwrap();
    assert_eq!(attributes["uuid"].string.as_deref(), Some("GPU-0"));
    assert_eq!(attributes["productName"].string.as_deref(), Some("NVIDIA H200"));
    assert_eq!(attributes["architecture"].string.as_deref(), Some("Hopper"));
    assert_eq!(attributes["resource.kubernetes.io/pciBusID"].string.as_deref(), Some("0000:a0:06.0"));
    let numa_node = |device: &str| {
        let found = devices.iter().find(|found| found.name == device)?;
        found.attributes.as_ref()?.get("resource.kubernetes.io/numaNode")?.int
    };
    assert_eq!(["gpu-0", "gpu-1", "gpu-2", "gpu-3"].map(numa_node), [Some(0), Some(1), None, None]);
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_xid_is_a_taint_that_only_its_cure_clears() {
    let mut world = World::new(2).await;
    let driver = world.start(Partitions::Static, &["xid-fatal"]).await;
    world.happens(|script| script.events.push(Event { card: 1, kind: XID, data: 31, ..Event::default() }));
    world.until_taints("gpu-1", &[("xid", "31", "None")]).await;
    world.happens(|script| script.events.push(Event { card: 0, kind: XID, data: 48, ..Event::default() }));
    world.until_taints("gpu-0", &[("xid", "48", "NoExecute")]).await;
    // Another process knows it still.
    driver.stop().await;
    let driver = world.start(Partitions::Static, &["xid-fatal"]).await;
    world.until_taints("gpu-0", &[("xid", "48", "NoExecute")]).await;
    world.until_taints("gpu-1", &[("xid", "31", "None")]).await;
    let over = Request { gpu: "gpu-0".into(), ..Request::default() };
    let answer = lazaret_nvidia::ask(&world.data(), &over, PATIENCE).await.unwrap();
    assert!(answer.done, "{answer:?}");
    world.until_taints("gpu-0", &[]).await;
    let nobody = Request { gpu: "gpu-9".into(), ..Request::default() };
    let answer = lazaret_nvidia::ask(&world.data(), &nobody, PATIENCE).await.unwrap();
    assert!(!answer.done && answer.message.contains("there are gpu-0, gpu-1"), "{answer:?}");
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_lost_cards_are_taints_until_they_are_well_again() {
    let mut world = World::new(2).await;
    let driver = world.start(Partitions::Static, &[]).await;
    world.happens(|script| {
        script.cards[0].ecc_uncorrected = 2;
        script.cards[0].rows_pending = true;
    });
    let wanted = [("ecc", "2", "NoSchedule"), ("row-remap-pending", "", "NoSchedule")];
    world.until_taints("gpu-0", &wanted).await;
    world.happens(|script| script.cards[1].lost = true);
    world.until_taints("gpu-1", &[("gpu-lost", "", "NoSchedule")]).await;
    world.until_taints("gpu-0", &wanted).await;
    world.happens(|script| script.cards = vec![card(0), card(1)]);
    world.until_taints("gpu-0", &[]).await;
    world.until_taints("gpu-1", &[]).await;
    // The kernel module is unloaded and loaded again.
    world.happens(|script| script.driver.clear());
    world.until_taints("gpu-0", &[("unmonitored", "", "None")]).await;
    world.happens(|script| "580.159.04".clone_into(&mut script.driver));
    world.until_taints("gpu-0", &[]).await;
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_gets_just_its_card_and_the_drivers_libraries() {
    let world = World::new(2).await;
    let driver = world.start(Partitions::Static, &[]).await;
    let claim = world.claim("a", "gpu-1", None).await;
    let prepared = world.prepare(&driver, &claim).await;
    let edits = world.edits(&claim, &prepared);
    assert_eq!(nodes_of(&edits), ["/dev/nvidiactl", "/dev/nvidia1"]);
    let mounted = edits.mounts.iter().find(|mount| mount.container_path == "/usr/lib64/libcuda.so.1");
    assert!(mounted.is_some_and(|mount| mount.host_path.ends_with("libcuda.so.580.159.04")), "{edits:?}");
    assert_eq!(world.prepare(&driver, &claim).await, prepared, "the same again");
    let second = world.claim("b", "gpu-1", None).await;
    let refused = world.prepare(&driver, &second).await.error;
    assert!(refused.contains("gpu-1 is in use by claim"), "{refused}");
    let reset = Request { gpu: "gpu-1".into(), reset: true, condition: None };
    let answer = lazaret_nvidia::ask(&world.data(), &reset, PATIENCE).await.unwrap();
    assert!(!answer.done && answer.message.contains("in use by claim"), "{answer:?}");
    assert_eq!(world.unprepare(&driver, &claim).await, "");
    assert_eq!(world.unprepare(&driver, &claim).await, "");
    assert_eq!(count(&world.cdi()), 0);
    assert_eq!(world.prepare(&driver, &second).await.error, "");
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_made_for_claims_and_gone_after_them() {
    let world = World::new(1).await;
    let driver = world.start(Partitions::Dynamic, &[]).await;
    world.until_taints("gpu-0-mig-1g18gb-19-2", &[]).await;
    let one = world.claim("one", "gpu-0-mig-1g18gb-19-0", None).await;
    let two = world.claim("two", "gpu-0-mig-3g71gb-9-4", None).await;
    let edits = world.edits(&one, &world.prepare(&driver, &one).await);
    let caps =
        ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap10", "/dev/nvidia-caps/nvidia-cap11"];
    assert_eq!(nodes_of(&edits), caps);
    assert_eq!(world.prepare(&driver, &two).await.error, "");
    assert_eq!(world.hardware().parts["GPU-0"].len(), 2);
    for taken in ["gpu-0", "gpu-0-mig-3g71gb-9-0"] {
        let claim = world.claim(taken, taken, None).await;
        assert!(world.prepare(&driver, &claim).await.error.contains("in use"), "{taken}");
    }
    // Another process finds them again, and publishes the same devices.
    driver.stop().await;
    let driver = world.start(Partitions::Dynamic, &[]).await;
    world.until_taints("gpu-0-mig-1g18gb-19-2", &[]).await;
    assert_eq!(world.devices().await.len(), 6);
    assert_eq!(world.prepare(&driver, &one).await.error, "");
    assert_eq!(world.hardware().parts["GPU-0"].len(), 2);
    assert_eq!(world.unprepare(&driver, &one).await, "");
    assert!(world.hardware().split["GPU-0"]);
    assert_eq!(world.unprepare(&driver, &two).await, "");
    assert!(world.hardware().parts["GPU-0"].is_empty() && !world.hardware().split["GPU-0"]);
    let whole = world.claim("whole", "gpu-0", None).await;
    assert_eq!(world.prepare(&driver, &whole).await.error, "");
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_failed_at_the_start_is_published_when_it_answers() {
    let mut world = World::new(3).await;
    world.happens(|script| script.cards[1].lost = true);
    let driver = world.start(Partitions::Static, &[]).await;
    world.until_taints("gpu-2", &[]).await;
    assert_eq!(world.devices().await.len(), 2);
    // It answers, with something wrong: it never appears without its taint.
    let api: Api<ResourceSlice> = Api::all(world.cluster.client());
    let listed = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut changes = Box::pin(api.watch(&WatchParams::default(), &listed).await.unwrap());
    world.happens(|script| {
        script.cards[1].lost = false;
        script.cards[1].rows_pending = true;
    });
    let first = async {
        loop {
            let Some(Ok(WatchEvent::Added(slice) | WatchEvent::Modified(slice))) = changes.next().await
            else {
                panic!("the watch ended");
            };
            let found =
                slice.spec.devices.unwrap_or_default().into_iter().find(|device| device.name == "gpu-1");
            if let Some(device) = found {
                return device.taints.unwrap_or_default().len();
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, first).await.unwrap(), 1);
    world.until_taints("gpu-1", &[("row-remap-pending", "", "NoSchedule")]).await;
    assert_eq!(world.devices().await.len(), 3);
    // It is like the others: events, claims, requests.
    world.happens(|script| script.events.push(Event { card: 1, kind: XID, data: 48, ..Event::default() }));
    world
        .until_taints("gpu-1", &[("row-remap-pending", "", "NoSchedule"), ("xid", "48", "NoSchedule")])
        .await;
    let claim = world.claim("a", "gpu-1", None).await;
    assert_eq!(world.prepare(&driver, &claim).await.error, "");
    let over = Request { gpu: "gpu-1".into(), ..Request::default() };
    assert!(lazaret_nvidia::ask(&world.data(), &over, PATIENCE).await.unwrap().done);
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_made_by_hand_have_capacities_and_an_xid_of_a_program_stays_in_its_own() {
    let mut world = World::new(1).await;
    let part = |profile, start, size| Part { profile, start, size, filled: true };
    let parts = [(1, part(19, 0, 1)), (2, part(9, 4, 4))].into();
    let hardware = Hardware {
        split: [("GPU-0".to_owned(), true)].into(),
        parts: [("GPU-0".to_owned(), parts)].into(),
        ..Hardware::default()
    };
    hardware.write(world.root.path()).unwrap();
    let driver = world.start(Partitions::Static, &[]).await;
    let (small, large) = ("gpu-0-mig-19-0", "gpu-0-mig-9-4");
    world.until_taints(small, &[]).await;
    let devices = world.devices().await;
    assert_eq!(devices.len(), 2);
    let large_device = devices.iter().find(|device| device.name == large).unwrap();
    let capacity = large_device.capacity.as_ref().unwrap();
    assert_eq!(capacity["multiprocessors"].value.0, "60");
    assert_eq!(capacity["memory"].value.0, "64Gi");
    let attributes = large_device.attributes.as_ref().unwrap();
    assert_eq!(attributes["profile"].string.as_deref(), Some("3g.71gb"));
    let happened = |data, gpu_instance| Event { card: 0, kind: XID, data, gpu_instance, repeated: 0 };
    world.happens(|script| script.events.push(happened(31, Some(2))));
    world.until_taints(large, &[("xid", "31", "None")]).await;
    world.until_taints(small, &[]).await;
    // One in a partition that is not there concerns the card, and so does one that is not contained.
    world.happens(|script| script.events.push(happened(13, Some(7))));
    world.until_taints(small, &[("xid", "13", "None")]).await;
    world.happens(|script| script.events.push(happened(95, Some(1))));
    world.until_taints(small, &[("xid", "13", "None"), ("xid", "95", "NoSchedule")]).await;
    world.until_taints(large, &[("xid", "31", "None"), ("xid", "95", "NoSchedule")]).await;
    let event = world.until_event("XID 95").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reason.as_deref(), Some("GPUCondition"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Node"));
    assert_eq!(event.message.as_deref(), Some("gpu-0 (GPU-0): xid-fatal: XID 95: uncontained memory error"));
    let event = world.until_event("XID 31").await;
    assert_eq!(event.message.as_deref(), Some("gpu-0-mig-9-4: xid-application: XID 31: memory page fault"));
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_xid_in_a_partition_that_was_made_for_a_claim_taints_that_device_alone() {
    let mut world = World::new(1).await;
    let driver = world.start(Partitions::Dynamic, &[]).await;
    let (first, second) = ("gpu-0-mig-1g18gb-19-0", "gpu-0-mig-1g18gb-19-1");
    world.until_taints(second, &[]).await;
    for device in [first, second] {
        let claim = world.claim(device, device, None).await;
        assert_eq!(world.prepare(&driver, &claim).await.error, "");
    }
    let parts = world.hardware().parts["GPU-0"].clone();
    let (instance, _) = parts.into_iter().find(|(_, part)| part.start == 1).unwrap();
    let event = Event { card: 0, kind: XID, data: 13, gpu_instance: Some(instance), repeated: 0 };
    world.happens(|script| script.events.push(event));
    world.until_taints(second, &[("xid", "13", "None")]).await;
    world.until_taints(first, &[]).await;
    world.until_taints("gpu-0", &[]).await;
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_may_want_a_card_for_one_process_and_the_mode_before_comes_back() {
    let world = World::new(1).await;
    let driver = world.start(Partitions::Static, &[]).await;
    let config = |strategy: &str| json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": strategy}});
    let claim = world.claim("a", "gpu-0", Some(config("Exclusive"))).await;
    assert_eq!(world.prepare(&driver, &claim).await.error, "");
    assert_eq!(world.prepare(&driver, &claim).await.error, "");
    assert_eq!(world.hardware().modes["GPU-0"], 3);
    assert_eq!(world.unprepare(&driver, &claim).await, "");
    assert_eq!(world.hardware().modes["GPU-0"], 0);
    let claim = world.claim("b", "gpu-0", Some(config("MPS"))).await;
    let refused = world.prepare(&driver, &claim).await.error;
    assert!(refused.contains("\"MPS\" is not supported"), "{refused}");
    assert_eq!(world.unprepare(&driver, &claim).await, "", "as kubelet does when the pod is gone");
    let mut sliced = config("TimeSlicing");
    let claim = world.claim("c", "gpu-0", Some(sliced.clone())).await;
    assert_eq!(world.prepare(&driver, &claim).await.error, "");
    assert_eq!(world.unprepare(&driver, &claim).await, "");
    sliced["sharing"]["timeSlicingConfig"] = json!({"interval": "Long"});
    let claim = world.claim("d", "gpu-0", Some(sliced)).await;
    let refused = world.prepare(&driver, &claim).await.error;
    assert!(
        refused
            .contains("gpu-0: sharing.timeSlicingConfig cannot be applied: nvidia-smi is not on this node"),
        "{refused}"
    );
    assert_eq!(world.unprepare(&driver, &claim).await, "", "nothing was done, and nothing is to be undone");
    driver.stop().await;
}

/// The whole path: NVML reports, the taint is published, the pod is evicted and runs again on the other card.
#[tokio::test(flavor = "multi_thread")]
async fn an_xid_moves_the_pod_to_another_card() {
    let cluster = Cluster::options().plane(Plane::simulated(1, 0)).start().unwrap();
    let mut world = World::on(cluster, "node-1", 2);
    let driver = world.start(Partitions::Static, &["xid-fatal"]).await;
    world.run_pod().await;
    let first = world.until_running_on(|_| true).await;
    let card = usize::from(first == "gpu-1");
    world.happens(|script| script.events.push(Event { card, kind: XID, data: 79, ..Event::default() }));
    let second = world.until_running_on(|device| device != first).await;
    assert_ne!(first, second);
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_is_there_and_what_is_missing() {
    let world = World::new(1).await;
    let library = world.root.path().join("libnvidia-ml.so.1");
    let (text, works) = lazaret_nvidia::doctor(Some(&library), &world.host(), world.root.path());
    assert!(works, "{text}");
    for wanted in ["driver 580.159.04", "nvidia-smi was not found", "gpu-0  NVIDIA H200  GPU-0", "6 devices"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let (text, works) =
        lazaret_nvidia::doctor(Some(Path::new("/no/such.so")), &world.host(), world.root.path());
    assert!(!works && text.contains("libnvidia-ml.so.1 is not in /no/such.so"), "{text}");
}
