//! Pods from their binding to their end, through restarts of everybody.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use lazaret_agent::Agent;
use lazaret_testkit::{Cluster, Plane};
use serde_json::json;

use crate::{
    plugin::{Plugin, Reply},
    world::{NODE, World, until},
};

const DRIVER: &str = "gpu.example.com";
const BOTH: &[&str] = &["v1.DRAPlugin", "v1beta1.DRAPlugin"];

fn well(_: &str, _: &[u8]) -> Option<Reply> {
    None
}

/// gRPC's own limit is 30 minutes.
const LONG_IDLE: std::time::Duration = std::time::Duration::from_secs(31 * 60);

#[tokio::test]
async fn a_plugin_that_was_there_before_the_agent_prepares_and_a_deleted_pod_goes_when_it_has_unprepared() {
    let world = World::new().await;
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, well);
    let agent = Agent::start(world.cluster.client(), world.options(), &world.metrics).unwrap();
    let uid = world.pod("p", DRIVER, "gpu-0").await;
    let claim = world.claims().get("p").await.unwrap().metadata.uid.unwrap();
    assert_eq!(world.until_offered(&uid).await, [format!("example.com/gpu={claim}")]);
    let noted = world.checkpoint();
    assert_eq!((noted.len(), noted[0].uid.as_str()), (1, claim.as_str()));
    until("its devices are noted too", || async {
        (world.checkpoint()[0].drivers[DRIVER].devices.len() == 1).then_some(())
    })
    .await;
    for line in [
        r#"dra_resource_claims_in_use{driver_name="gpu.example.com"} 1"#,
        r#"dra_resource_claims_in_use{driver_name="<any>"} 1"#,
        r#"dra_operations_duration_seconds_count{operation_name="PrepareResources",is_error="false"} 1"#,
        r#"method_name="/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",grpc_status_code="OK"} 1"#,
    ] {
        until(line, || async { world.metrics.text().contains(line).then_some(()) }).await;
    }
    world.delete("p", &DeleteParams::default()).await;
    world.until_gone("p").await;
    assert!(world.checkpoint().is_empty() && world.offered(&uid).is_none());
    assert_eq!((plugin.count("NodePrepareResources"), plugin.count("NodeUnprepareResources")), (1, 1));
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_that_restarts_cleans_up_what_was_removed_meanwhile_and_goes_on_with_the_rest() {
    let world = World::new().await;
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, well);
    let agent = world.agent();
    let (lost, stays) = (world.pod("lost", DRIVER, "gpu-0").await, world.pod("stays", DRIVER, "gpu-1").await);
    world.until_offered(&lost).await;
    let before = world.until_offered(&stays).await;
    agent.stop().await;
    // The plugins' answers are in the checkpoint, for a kubelet that takes over.
    let devices = |claim: &lazaret_node::ClaimState| claim.drivers[DRIVER].devices.len();
    assert_eq!(world.checkpoint().iter().map(devices).collect::<Vec<_>>(), [1, 1]);
    world.delete("lost", &DeleteParams::default().grace_period(0)).await;
    world.claims().delete("lost", &DeleteParams::default()).await.unwrap();
    let late = world.pod("late", DRIVER, "gpu-2").await;
    let agent = world.agent();
    world.until_offered(&late).await;
    until("what was lost is unprepared", || async { world.offered(&lost).is_none().then_some(()) }).await;
    until("the checkpoint says so", || async { (world.checkpoint().len() == 2).then_some(()) }).await;
    assert_eq!(world.until_offered(&stays).await, before);
    assert_eq!(plugin.count("NodeUnprepareResources"), 1);
    agent.stop().await;
}

#[tokio::test]
async fn a_plugin_that_restarts_at_the_same_path_is_connected_again_and_its_slices_stay() {
    let world = World::new().await;
    let agent = world.agent();
    // Nothing is there yet: the socket is found when it is made.
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, well);
    let first = world.pod("first", DRIVER, "gpu-0").await;
    world.until_offered(&first).await;
    let slice = json!({
        "metadata": {"name": "s"},
        "spec": {"driver": DRIVER, "nodeName": NODE, "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": []},
    });
    world.slices().create(&PostParams::default(), &serde_json::from_value(slice).unwrap()).await.unwrap();
    plugin.stop().await;
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, well);
    let second = world.pod("second", DRIVER, "gpu-1").await;
    world.until_offered(&second).await;
    assert_eq!(plugin.count("NodePrepareResources"), 1);
    assert!(world.slices().get_opt("s").await.unwrap().is_some());
    agent.stop().await;
}

#[tokio::test]
async fn slices_of_the_node_are_wiped_at_the_start_and_those_of_no_node_are_not() {
    let world = World::new().await;
    for (name, place) in [
        ("ours", json!({"nodeName": NODE})),
        ("theirs", json!({"nodeName": "other"})),
        ("all", json!({"allNodes": true})),
    ] {
        let mut slice = json!({
            "metadata": {"name": name},
            "spec": {"driver": DRIVER, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": []},
        });
        slice["spec"].as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        world.slices().create(&PostParams::default(), &serde_json::from_value(slice).unwrap()).await.unwrap();
    }
    let agent = world.agent();
    until("the slice is gone", || async {
        world.slices().get_opt("ours").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(world.slices().list(&ListParams::default()).await.unwrap().items.len(), 2);
    agent.stop().await;
}

#[tokio::test]
async fn one_connection_carries_all_calls_and_is_made_again_when_it_drops() {
    let world = World::new().await;
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, well);
    let agent = world.agent();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        let uid = world.pod(name, DRIVER, &format!("gpu-{number}")).await;
        world.until_offered(&uid).await;
    }
    assert_eq!((plugin.connections(), plugin.count("NodePrepareResources")), (1, 3));
    // Longer than gRPC leaves an idle connection open.
    tokio::time::pause();
    tokio::time::advance(LONG_IDLE).await;
    tokio::time::resume();
    let uid = world.pod("after-idle", DRIVER, "gpu-3").await;
    world.until_offered(&uid).await;
    let before = plugin.connections();
    plugin.cut();
    until("it is connected again", || async { (plugin.connections() > before).then_some(()) }).await;
    let uid = world.pod("after-a-drop", DRIVER, "gpu-4").await;
    world.until_offered(&uid).await;
    assert_eq!(plugin.count("GetInfo"), 1, "a drop is no reason to register again");
    agent.stop().await;
}

#[tokio::test]
async fn a_damaged_checkpoint_stops_the_start() {
    let world = World::new().await;
    std::fs::write(world.options().checkpoint(), r#"{"Data":"{}","Checksum":1}"#).unwrap();
    let error =
        Agent::start(world.cluster.client(), world.options(), &world.metrics).unwrap_err().to_string();
    assert!(
        error.contains("dra_manager_state") && error.contains("drain the node and remove the file"),
        "{error}"
    );
}

/// After a power loss the newest checkpoint may have the name of the spare. A kubelet finds one file, with a newer
/// one beside it only until an agent starts.
#[tokio::test]
async fn an_agent_that_starts_after_a_power_loss_finds_the_newest_checkpoint() {
    let world = World::new().await;
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, well);
    let agent = world.agent();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let uid = world.pod(name, DRIVER, &format!("gpu-{number}")).await;
        world.until_offered(&uid).await;
    }
    agent.stop().await;
    let (file, spare) = (world.options().checkpoint(), world.root().join(".dra_manager_state.new"));
    let newest = std::fs::read(&file).unwrap();
    let older = std::fs::read(&spare).unwrap();
    assert_eq!(world.checkpoint().len(), 2);
    assert!(newest != older);
    std::fs::write(&file, &older).unwrap();
    std::fs::write(&spare, &newest).unwrap();
    for name in ["a", "b"] {
        world.delete(name, &DeleteParams::default().grace_period(0)).await;
    }
    let agent = world.agent();
    world.until_nothing_is_prepared().await;
    until("both are unprepared", || async { (plugin.count("NodeUnprepareResources") == 2).then_some(()) })
        .await;
    agent.stop().await;
    // One that was written in part is only written over.
    std::fs::write(&spare, &newest[..newest.len() / 2]).unwrap();
    let agent = world.agent();
    let uid = world.pod("c", DRIVER, "gpu-2").await;
    world.until_offered(&uid).await;
    agent.stop().await;
    assert_eq!(world.checkpoint().len(), 1);
}

/// With our own claim controller: a device whose pod was removed by force is not allocated before this node has reported that
/// it is unprepared.
#[tokio::test]
async fn a_device_of_a_lost_pod_is_given_back_only_when_the_node_has_unprepared_it() {
    let world = World::of(Cluster::options().plane(Plane::simulated(0, 0)).start().unwrap()).await;
    let go = tokio::sync::watch::Sender::new(false);
    let is_going = go.subscribe();
    let plugin = Plugin::start(world.root(), DRIVER, BOTH, move |path, _| {
        if path.ends_with("NodeUnprepareResources") && !*is_going.borrow() {
            return Some(Reply::Status(14, "the device is busy"));
        }
        None
    });
    let agent = world.agent();
    until("the node reports", || async {
        let node = world.nodes().get(NODE).await.unwrap();
        let annotations = node.metadata.annotations.unwrap_or_default();
        (annotations.get("lazaret.dev/reports-unprepared").map(String::as_str) == Some("true")).then_some(())
    })
    .await;
    let uid = world.pod("p", DRIVER, "gpu-0").await;
    world.until_offered(&uid).await;
    world.delete("p", &DeleteParams::default().grace_period(0)).await;
    let awaited = until("the node is asked", || async {
        let node = world.nodes().get(NODE).await.unwrap();
        node.metadata.annotations.unwrap_or_default().get("lazaret.dev/awaiting-unprepare").cloned()
    })
    .await;
    assert!(awaited.contains("gpu-0"), "{awaited}");
    until("unprepare was tried", || async { (plugin.count("NodeUnprepareResources") > 0).then_some(()) })
        .await;
    let claim = world.claims().get("p").await.unwrap();
    assert!(claim.status.unwrap().reserved_for.is_some(), "the device is still prepared");
    go.send_replace(true);
    until("the claim is given back", || async {
        let claim = world.claims().get("p").await.unwrap();
        claim.status.unwrap_or_default().reserved_for.unwrap_or_default().is_empty().then_some(())
    })
    .await;
    world.until_nothing_is_prepared().await;
    until("the node drops its answer", || async {
        let node = world.nodes().get(NODE).await.unwrap();
        let annotations = node.metadata.annotations.unwrap_or_default();
        (!annotations.contains_key("lazaret.dev/unprepared")).then_some(())
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn a_pod_that_ends_by_its_phase_is_unprepared_and_stays() {
    let world = World::new().await;
    let plugin = Plugin::start(world.root(), DRIVER, &["v1beta1.DRAPlugin"], well);
    let agent = world.agent();
    let uid = world.pod("p", DRIVER, "gpu-0").await;
    world.until_offered(&uid).await;
    let ended = json!({"status": {"phase": "Succeeded"}});
    world.pods().patch_status("p", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    world.until_nothing_is_prepared().await;
    assert!(world.pods().get_opt("p").await.unwrap().is_some());
    assert_eq!(plugin.count("NodeUnprepareResources"), 1);
    agent.stop().await;
}
