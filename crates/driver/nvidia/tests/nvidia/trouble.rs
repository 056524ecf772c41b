//! Cards and kernel modules that misbehave at length, and what is set by `nvidia-smi`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::world::{PATIENCE, World, XID};
use futures_util::StreamExt;
use k8s_openapi::api::{core::v1::Event as ApiEvent, resource::v1::ResourceSlice};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use lazaret_nvidia::{Config, Interval, Partitions, Process, Request, Sharing, Signals};
use lazaret_nvml::EventKind;
use lazaret_testkit::{Cluster, Plane};
use nvidia_ml_double::Event;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

/// NVML's bits.
const SINGLE_BIT_ECC_STORM: u64 = 1 << 8;
const DOUBLE_BIT_ECC: u64 = 2;
/// Of objects that configure GPUs.
const CONFIG_VERSION: &str = "resource.nvidia.com/v1beta1";
/// As NVML returns it.
const UNKNOWN_ERROR: u32 = 999;

/// How long the kit leaves what it has shown of a condition as it is, in seconds.
const SHOWN_FOR_S: u64 = 10;

fn simulated(cards: u32) -> World {
    World::on(Cluster::options().plane(Plane::simulated(1, 0)).start().unwrap(), "node-1", cards)
}

/// A script in the place of `nvidia-smi`: it records its arguments, and runs the commands `does`.
fn install_smi(world: &World, does: &str) {
    let path = world.host().join("usr/bin/nvidia-smi");
    let calls = world.root.path().join("smi-calls");
    let draft = world.root.path().join("smi-draft");
    fs::write(&draft, format!("#!/bin/sh\necho \"$@\" >> {}\n{does}\n", calls.display())).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    // By another process: what this one writes may still be open in a child that another test has just forked, and then it cannot be executed.
    let copied = std::process::Command::new("cp").arg("--remove-destination").args([&draft, &path]).status();
    assert!(copied.unwrap().success());
}

fn smi_calls(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.root.path().join("smi-calls")).unwrap_or_default();
    let _ = fs::remove_file(world.root.path().join("smi-calls"));
    text.lines().map(str::to_owned).collect()
}

fn sliced(interval: Option<&str>) -> Value {
    let mut config = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {}},
    });
    if let Some(interval) = interval {
        config["sharing"]["timeSlicingConfig"]["interval"] = json!(interval);
    }
    config
}

fn set(uuid: &str, number: u8) -> String {
    format!("compute-policy -i {uuid} --set-timeslice {number}")
}

#[tokio::test(flavor = "multi_thread")]
async fn intervals_of_time_slices_are_set_for_a_claim_and_the_default_comes_back() {
    let world = World::new(2).await;
    install_smi(&world, "");
    let driver = world.start(Partitions::Dynamic, &[]).await;
    for (number, (interval, wanted)) in
        [(Some("Short"), 1), (Some("Medium"), 2), (Some("Long"), 3)].into_iter().enumerate()
    {
        let claim = world.claim(&format!("c{number}"), "gpu-1", Some(sliced(interval))).await;
        assert_eq!(world.prepare(&driver, &claim).await.error, "");
        assert_eq!(smi_calls(&world), [set("GPU-1", 0), set("GPU-1", wanted)], "{interval:?}");
        assert_eq!(world.hardware().modes["GPU-1"], 0, "several processes may use it");
        // A second call does not take the turns from a pod that runs.
        assert_eq!(world.prepare(&driver, &claim).await.error, "");
        assert_eq!(smi_calls(&world), [set("GPU-1", wanted)]);
        assert_eq!(world.unprepare(&driver, &claim).await, "");
        assert_eq!(smi_calls(&world), [set("GPU-1", 0)]);
        assert_eq!(world.unprepare(&driver, &claim).await, "");
        assert_eq!(smi_calls(&world), [""; 0], "once");
    }
    for (number, interval) in [None, Some("Default")].into_iter().enumerate() {
        let claim = world.claim(&format!("d{number}"), "gpu-0", Some(sliced(interval))).await;
        assert_eq!(world.prepare(&driver, &claim).await.error, "");
        assert_eq!(world.unprepare(&driver, &claim).await, "");
        assert_eq!(smi_calls(&world), [set("GPU-0", 0)], "{interval:?}: there is nothing to bring back");
    }
    let part = world.claim("part", "gpu-0-mig-1g18gb-19-0", Some(sliced(Some("Long")))).await;
    let refused = world.prepare(&driver, &part).await.error;
    assert!(refused.contains("sharing can be set for whole GPUs only"), "{refused}");
    let odd = world.claim("odd", "gpu-0", Some(sliced(Some("Forever")))).await;
    let refused = world.prepare(&driver, &odd).await.error;
    assert!(refused.contains("\"Forever\" is not known: use Default, Short, Medium or Long"), "{refused}");
    assert_eq!(smi_calls(&world), [""; 0]);
    // Another process brings the default back.
    let claim = world.claim("kept", "gpu-1", Some(sliced(Some("Long")))).await;
    assert_eq!(world.prepare(&driver, &claim).await.error, "");
    driver.stop().await;
    let driver = world.start(Partitions::Dynamic, &[]).await;
    smi_calls(&world);
    assert_eq!(world.unprepare(&driver, &claim).await, "");
    assert_eq!(smi_calls(&world), [set("GPU-1", 0)]);
    driver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interval_that_cannot_be_set_is_refused_and_leaves_nothing_behind() {
    let world = World::new(1).await;
    install_smi(&world, "echo 'Unable to set the timeslice: Not Supported'; echo noise >&2; exit 3");
    let driver = world.start(Partitions::Static, &[]).await;
    let claim = world.claim("a", "gpu-0", Some(sliced(Some("Long")))).await;
    let refused = world.prepare(&driver, &claim).await.error;
    assert!(refused.contains("Unable to set the timeslice: Not Supported"), "{refused}");
    assert!(refused.contains("leave it out"), "{refused}");
    assert_eq!(smi_calls(&world), [set("GPU-0", 0)]);
    assert_eq!(world.unprepare(&driver, &claim).await, "", "a pod that never ran can go");
    assert_eq!(smi_calls(&world), [""; 0]);
    // No claim holds the card now.
    let other = world.claim("b", "gpu-0", None).await;
    assert_eq!(world.prepare(&driver, &other).await.error, "");
    assert_eq!(world.unprepare(&driver, &other).await, "");
    // A program without output, and one with too much that leaves a process behind.
    install_smi(&world, "exit 9");
    let refused = world.prepare(&driver, &claim).await.error;
    assert!(refused.contains("exit status: 9"), "{refused}");
    install_smi(&world, "yes 0123456789 | head -c 1000000; sleep 5 & exit 1");
    let refused = world.prepare(&driver, &claim).await.error;
    assert!(refused.len() < 8_192 && refused.contains("cannot be applied"), "{}", refused.len());
    // A changed setting must be reset: it is tried until it is.
    install_smi(&world, "");
    assert_eq!(world.prepare(&driver, &claim).await.error, "");
    install_smi(&world, "echo busy; exit 1");
    assert!(world.unprepare(&driver, &claim).await.contains("nvidia-smi: busy"));
    assert!(world.prepare(&driver, &other).await.error.contains("in use by claim"));
    install_smi(&world, "");
    assert_eq!(world.unprepare(&driver, &claim).await, "");
    assert_eq!(world.prepare(&driver, &other).await.error, "");
    driver.stop().await;
}

/// Counts writes of slices, and gives how many there were when asked.
async fn count_writes(world: &World) -> (Arc<AtomicUsize>, JoinSet<()>) {
    let api: Api<ResourceSlice> = Api::all(world.cluster.client());
    let listed = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut changes = Box::pin(api.watch(&WatchParams::default(), &listed).await.unwrap());
    let counted = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&counted);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(Ok(change)) = changes.next().await {
            if matches!(change, WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)) {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (counted, tasks)
}

/// Thousands of events in seconds, with numbers and counters that change all the time: the taint comes at once, the pod goes to
/// another card, and the API is written to a few times. When it is over, the card is used again.
#[tokio::test(flavor = "multi_thread")]
async fn an_ecc_storm_is_few_writes_and_moves_the_pod_and_ends() {
    let mut world = simulated(2);
    let driver = world.start(Partitions::Static, &["xid-fatal"]).await;
    world.run_pod().await;
    let first = world.until_running_on(|_| true).await;
    let card = usize::from(first == "gpu-1");
    let (writes, tasks) = count_writes(&world).await;
    let began = Instant::now();
    let (rounds, repeated) = (60, 99);
    for round in 0..rounds {
        world.happens(|script| {
            script.cards[card].ecc_uncorrected += 100;
            let kinds =
                [(SINGLE_BIT_ECC_STORM, 0), (DOUBLE_BIT_ECC, 0), (XID, if round % 2 == 0 { 48 } else { 95 })];
            for (kind, data) in kinds {
                script.events.push(Event { card, kind, data, repeated, ..Event::default() });
            }
        });
        let wanted = (round + 1) * 3 * (repeated + 1);
        let taken = async {
            while world.hardware().delivered < wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, taken).await.expect("events are taken");
    }
    assert_eq!(world.hardware().delivered, 18_000);
    let second = world.until_running_on(|device| device != first).await;
    assert_ne!(first, second);
    let written = writes.load(Ordering::SeqCst);
    let elapsed_s = usize::try_from(began.elapsed().as_secs()).unwrap();
    // Three conditions, each written when it comes and then once in a while; and events of the Node, one in a second.
    let allowed = 3 * (2 + elapsed_s / usize::try_from(SHOWN_FOR_S).unwrap());
    assert!(
        (1..=allowed).contains(&written),
        "{written} writes of slices in {elapsed_s} s, at most {allowed}"
    );
    let events: Api<ApiEvent> = Api::namespaced(world.cluster.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let of_cards = events.iter().filter(|event| event.reason.as_deref() == Some("GPUCondition")).count();
    assert!((1..=elapsed_s + 2).contains(&of_cards), "{of_cards} events in {elapsed_s} s");
    // Everything is counted, nothing is lost.
    let kept: Value = serde_json::from_slice(&fs::read(world.data().join("health.json")).unwrap()).unwrap();
    assert!(kept["gpus"][format!("GPU-{card}")]["xid-fatal"]["count"].as_u64() > Some(0), "{kept}");
    drop(tasks);

    world.happens(|script| script.cards[card].ecc_uncorrected = 0);
    let over = Request { gpu: first.clone(), ..Request::default() };
    let answer = lazaret_nvidia::ask(&world.data(), &over, PATIENCE).await.unwrap();
    assert!(answer.done, "{answer:?}");
    world.until_taints(&first, &[]).await;
    world.scale(2).await;
    assert_eq!(world.until_running_on(|device| device == first).await, first);
    driver.stop().await;
}

/// The kernel module is unloaded, and loaded again: the library is useless until it is initialized anew, and handles of before mean
/// nothing. The pod is evicted, as the administrator wants it, waits, and runs again.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_of_the_kernel_module_evicts_and_everything_works_again() {
    let mut world = simulated(1);
    let driver = world.start(Partitions::Static, &["unmonitored"]).await;
    world.run_pod().await;
    assert_eq!(world.until_running_on(|_| true).await, "gpu-0");
    world.happens(|script| script.driver.clear());
    world.until_taints("gpu-0", &[("unmonitored", "", "NoExecute")]).await;
    world.until_none_runs().await;
    world.happens(|script| {
        "580.159.04".clone_into(&mut script.driver);
        script.reloads += 1;
    });
    world.until_taints("gpu-0", &[]).await;
    assert_eq!(world.until_running_on(|_| true).await, "gpu-0");
    // Events are heard, and claims prepared, by the new handles.
    world.happens(|script| script.events.push(Event { card: 0, kind: XID, data: 31, ..Event::default() }));
    world.until_taints("gpu-0", &[("xid", "31", "None")]).await;
    driver.stop().await;
}

/// Reloaded so quickly that the driver does not see it gone.
#[tokio::test(flavor = "multi_thread")]
async fn handles_of_before_a_reload_are_not_used_after_it() {
    let mut world = World::new(2).await;
    let driver = world.start(Partitions::Dynamic, &[]).await;
    world.until_taints("gpu-1", &[]).await;
    for reload in 1_u64..=3 {
        world.happens(|script| {
            script.reloads += 1;
            // Counts since the module was loaded begin anew.
            script.cards[1].ecc_uncorrected = reload;
        });
        world.until_taints("gpu-1", &[("ecc", &reload.to_string(), "NoSchedule")]).await;
        let claim = world.claim(&format!("c{reload}"), "gpu-0-mig-1g18gb-19-0", None).await;
        let wait = async {
            while !world.prepare(&driver, &claim).await.error.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            while !world.unprepare(&driver, &claim).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("kubelet's next tries succeed");
        assert!(world.hardware().parts["GPU-0"].is_empty());
        world.happens(|script| script.cards[1].ecc_uncorrected = 0);
        world.until_taints("gpu-1", &[]).await;
    }
    driver.stop().await;
}

/// A card that fails whatever is asked, and does not say that it is lost, has not recovered from anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_card_of_which_nothing_can_be_read_is_not_taken_for_healthy() {
    let mut world = World::new(2).await;
    let driver = world.start(Partitions::Static, &[]).await;
    world.happens(|script| script.cards[0].ecc_uncorrected = 2);
    world.until_taints("gpu-0", &[("ecc", "2", "NoSchedule")]).await;
    world.happens(|script| script.cards[0].failing = UNKNOWN_ERROR);
    world.until_taints("gpu-0", &[("ecc", "2", "NoSchedule"), ("gpu-lost", "", "NoSchedule")]).await;
    world.until_taints("gpu-1", &[]).await;
    world.happens(|script| {
        script.cards[0].failing = 0;
        script.cards[0].ecc_uncorrected = 0;
    });
    world.until_taints("gpu-0", &[]).await;
    driver.stop().await;
}

#[test]
fn what_is_not_carried_out_is_refused() {
    let config =
        |sharing: Value| json!({"apiVersion": CONFIG_VERSION, "kind": "GpuConfig", "sharing": sharing});
    let sliced = |config: Value| json!({"strategy": "TimeSlicing", "timeSlicingConfig": config});
    for (written, wanted) in [
        (config(json!({"strategy": "TimeSlicing"})), Ok(Sharing::TimeSlicing(None))),
        (config(sliced(json!({}))), Ok(Sharing::TimeSlicing(Some(Interval::Default)))),
        (config(sliced(json!({"interval": "Default"}))), Ok(Sharing::TimeSlicing(Some(Interval::Default)))),
        (config(sliced(json!({"interval": "Short"}))), Ok(Sharing::TimeSlicing(Some(Interval::Short)))),
        (config(sliced(json!({"interval": "Medium"}))), Ok(Sharing::TimeSlicing(Some(Interval::Medium)))),
        (config(sliced(json!({"interval": "Long"}))), Ok(Sharing::TimeSlicing(Some(Interval::Long)))),
        (config(sliced(json!({"interval": "long"}))), Err("\"long\" is not known")),
        (
            config(json!({"strategy": "Exclusive", "timeSlicingConfig": {"interval": "Long"}})),
            Err("for strategy TimeSlicing only"),
        ),
        (config(json!({"strategy": "Exclusive"})), Ok(Sharing::Exclusive)),
        (json!({"apiVersion": CONFIG_VERSION, "kind": "MigDeviceConfig"}), Ok(Sharing::AsItIs)),
        (config(json!({"strategy": "MPS"})), Err("sharing.strategy \"MPS\"")),
        (config(json!({"strategy": "Exclusive", "mps": 1})), Err("unknown field `mps`")),
        (json!({"apiVersion": "v1", "kind": "GpuConfig"}), Err("apiVersion must be")),
    ] {
        match (Config::read(&[written]), wanted) {
            (Ok(read), Ok(wanted)) => assert_eq!(read.sharing, wanted),
            (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
            (read, wanted) => panic!("{read:?} {wanted:?}"),
        }
    }
}

#[test]
fn what_comes_again_is_nothing_new_but_its_count() {
    let mut signals = Signals::default();
    signals.event(0, "GPU-1", None, EventKind::Xid(48));
    let once = signals.clone();
    signals.event(1, "GPU-1", None, EventKind::Xid(48));
    assert!(signals != once && signals.is_same_report(&once));
    signals.event(2, "GPU-1", None, EventKind::Xid(79));
    assert!(!signals.is_same_report(&once), "another number");
    let before = signals.clone();
    signals.attribute_to_process(3, "GPU-1", 79, Process { pid: 1, name: "p".into() });
    assert!(!signals.is_same_report(&before), "a process is known");
    let before = signals.clone();
    signals.reset("GPU-1");
    assert!(!signals.is_same_report(&before), "it is over");
}
