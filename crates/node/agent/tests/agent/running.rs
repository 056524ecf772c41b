//! Pods that run, with a runtime whose containers stop when a test says so: claims outlive containers, whatever happens.

use std::{collections::BTreeMap, net::TcpListener, sync::Arc, time::Duration};

use futures_util::{StreamExt, pin_mut};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use lazaret_agent::{Agent, RunOptions, Thresholds};
use lazaret_images::{Images, Limits};
use lazaret_runtime::Metrics;
use serde_json::json;

use crate::{
    plugin::Plugin,
    runtime::Fake,
    world::{NODE, PATIENCE, World, until},
};

const DRIVER: &str = "gpu.example.com";

pub(crate) async fn images(world: &World) -> Images {
    let images = Images::open(world.root().join("images"), Limits::default()).unwrap();
    let folder = world.root().join("rootfs");
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    std::fs::write(folder.join("bin/true"), "").unwrap();
    images.import(&folder, Some("i")).await.unwrap();
    images
}

pub(crate) fn start(world: &World, runtime: &Arc<Fake>, images: &Images) -> Agent {
    start_with(world, runtime, images, &Metrics::default())
}

/// The same, and what it counts.
pub(crate) fn start_with(world: &World, runtime: &Arc<Fake>, images: &Images, metrics: &Metrics) -> Agent {
    let run = RunOptions {
        runtime: Arc::clone(runtime) as _,
        images: images.clone().into(),
        host_ip: [127, 0, 0, 1].into(),
        listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        authority: None,
        labels: BTreeMap::new(),
        taints: vec![],
        pods_max: 110,
        log_root: world.root().join("logs"),
        cluster_dns: vec![],
        cluster_domain: "cluster.local".into(),
        // A test does not depend on how full a disk is.
        thresholds: Thresholds(BTreeMap::new()),
        soft_thresholds: BTreeMap::new(),
        soft_grace_max: Duration::ZERO,
        pressure_transition: Duration::from_secs(300),
        pod_pids_max: None,
        seccomp_default: false,
        allowed_unsafe_sysctls: vec![],
    };
    Agent::start_with_pods(world.cluster.client(), world.options(), run, metrics).unwrap()
}

/// A pod with a claim whose container runs. The program is not in the image's configuration.
async fn running_pod(world: &World, runtime: &Fake) -> String {
    let uid = world.pod_with("p", DRIVER, "gpu-0", &["/bin/true"]).await;
    until("its container runs", || async { (runtime.running() == 1).then_some(()) }).await;
    uid
}

#[tokio::test]
async fn claims_are_unprepared_after_the_containers_of_a_pod_have_stopped() {
    let (world, runtime) = (World::new().await, Fake::new());
    let plugin = Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], |_, _| None);
    let images = images(&world).await;
    let agent = start(&world, &runtime, &images);
    let uid = running_pod(&world, &runtime).await;
    let offered = world.until_offered(&uid).await;
    assert_eq!(*runtime.devices.lock().unwrap(), [offered], "the container has its device");
    until("the status says that it runs", || async {
        let status = world.pods().get("p").await.unwrap().status.unwrap();
        (status.phase.as_deref() == Some("Running") && status.pod_ip.as_deref() == Some("10.0.0.1"))
            .then_some(())
    })
    .await;
    world.until_event("p", "The runtime does not apply: anything at all").await;

    runtime.may_stop.send_replace(false);
    world.delete("p", &DeleteParams::default()).await;
    runtime.asked.subscribe().wait_for(|asked| *asked == 1).await.unwrap();
    assert_eq!(plugin.count("NodeUnprepareResources"), 0);
    assert_eq!(world.checkpoint().len(), 1);
    assert!(world.pods().get_opt("p").await.unwrap().is_some());
    runtime.may_stop.send_replace(true);
    world.until_gone("p").await;
    assert_eq!((plugin.count("NodeUnprepareResources"), world.checkpoint().len()), (1, 0));
    assert!(runtime.is_empty());
    agent.stop().await;
}

#[tokio::test]
async fn a_pod_that_was_removed_while_nobody_looked_keeps_its_claims_until_its_containers_have_stopped() {
    let (world, runtime) = (World::new().await, Fake::new());
    let plugin = Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], |_, _| None);
    let images = images(&world).await;
    let agent = start(&world, &runtime, &images);
    running_pod(&world, &runtime).await;
    agent.stop().await;
    world.delete("p", &DeleteParams::default().grace_period(0)).await;
    world.until_gone("p").await;
    runtime.may_stop.send_replace(false);
    let agent = start(&world, &runtime, &images);
    runtime.asked.subscribe().wait_for(|asked| *asked == 1).await.unwrap();
    assert_eq!((plugin.count("NodeUnprepareResources"), world.checkpoint().len()), (0, 1));
    runtime.may_stop.send_replace(true);
    world.until_nothing_is_prepared().await;
    until("nothing is left", || async { runtime.is_empty().then_some(()) }).await;
    assert_eq!(plugin.count("NodeUnprepareResources"), 1);
    agent.stop().await;
}

#[tokio::test]
async fn another_agent_finds_containers_and_restarts_only_those_that_ended() {
    let (world, runtime) = (World::new().await, Fake::new());
    let _plugin = Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], |_, _| None);
    let images = images(&world).await;
    let agent = start(&world, &runtime, &images);
    let uid = running_pod(&world, &runtime).await;
    agent.stop().await;
    let agent = start(&world, &runtime, &images);
    let lease: Api<Lease> = Api::namespaced(world.cluster.client(), "kube-node-lease");
    until("the node renews its lease", || async { lease.get_opt(NODE).await.unwrap() }).await;
    runtime.end(&format!("{uid}-c-0"), 1);
    until("it is started again", || async { (runtime.starts.lock().unwrap().len() == 2).then_some(()) })
        .await;
    assert_eq!(*runtime.starts.lock().unwrap(), [format!("{uid}-c-0"), format!("{uid}-c-1")]);
    until("the status says so", || async {
        let status = world.pods().get("p").await.unwrap().status.unwrap();
        let containers = status.container_statuses.unwrap_or_default();
        (containers.first().is_some_and(|container| container.restart_count == 1)).then_some(())
    })
    .await;
    // Other clients' writes to a pod do not stop it.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    world.pods().patch("p", &PatchParams::default(), &patch).await.unwrap();
    world.delete("p", &DeleteParams::default()).await;
    world.until_gone("p").await;
    agent.stop().await;
}

/// The Node as it was when it was ready for the first time after this.
async fn first_ready(world: &World, since: &str) -> Node {
    let events = world.nodes().watch(&WatchParams::default(), since).await.unwrap();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let (WatchEvent::Added(node) | WatchEvent::Modified(node)) = event.unwrap() else { continue };
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True") {
            return node;
        }
    }
    panic!("the watch ended");
}

/// A pod that is lost as soon as its node is ready is waited for.
#[tokio::test]
async fn a_node_says_that_it_reports_before_it_is_ready_however_it_comes_to_be() {
    for is_there in [true, false] {
        let world = World::new().await;
        if !is_there {
            world.nodes().delete(NODE, &DeleteParams::default()).await.unwrap();
        }
        let since =
            world.nodes().list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let agent = start(&world, &Fake::new(), &images(&world).await);
        let node = tokio::time::timeout(PATIENCE, first_ready(&world, &since)).await.unwrap();
        let annotations = node.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get("lazaret.dev/reports-unprepared").map(String::as_str), Some("true"));
        agent.stop().await;
    }
}
