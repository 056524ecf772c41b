//! Slices on a real server.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use lazaret_driver::{Kit, Nodes, Pool};
use serde_json::json;

use crate::world::{DRIVER, NODE, World, devices, pools};

#[tokio::test]
async fn slices_are_made_changed_and_removed() {
    let world = World::new();
    world.node().await;
    let running = world.kit().node(NODE).pools(pools(65)).start(world.driver()).await.unwrap();
    let publisher = running.publisher().clone();
    publisher.settled().await;
    let slices = world.slices().await;
    assert_eq!(slices.len(), 2);
    assert!(slices[0].metadata.name.as_ref().unwrap().starts_with(&format!("00000-{DRIVER}-{NODE}-")));
    assert_eq!(slices[0].spec.pool.resource_slice_count, 2);
    assert_eq!(slices[0].metadata.owner_references.as_ref().unwrap()[0].kind, "Node");

    publisher.publish(pools(3)).unwrap();
    publisher.settled().await;
    let slices = world.slices().await;
    assert_eq!((slices.len(), slices[0].spec.devices.as_ref().unwrap().len()), (1, 3));

    publisher.publish([].into()).unwrap();
    publisher.settled().await;
    assert!(world.slices().await.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn what_others_change_or_wipe_comes_back() {
    let world = World::new();
    world.node().await;
    let running = world.kit().node(NODE).pools(pools(2)).start(world.driver()).await.unwrap();
    running.publisher().settled().await;
    let name = world.slices().await[0].metadata.name.clone().unwrap();
    let change = json!({"spec": {"devices": [{"name": "mine"}]}});
    world.slices_api().patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    let is_whole = |slices: &[k8s_openapi::api::resource::v1::ResourceSlice]| {
        slices.len() == 1 && slices[0].spec.devices.as_ref().is_some_and(|devices| devices.len() == 2)
    };
    world.slices_when(is_whole).await;
    // As an agent does for a driver that it thinks is gone; and the Node comes back as another.
    let nodes: Api<Node> = Api::all(world.cluster.client());
    nodes.delete(NODE, &DeleteParams::default()).await.unwrap();
    world.node().await;
    let uid = nodes.get(NODE).await.unwrap().metadata.uid;
    let slices = world.slices().await;
    let only = &slices[0].metadata.name.clone().unwrap();
    world.slices_api().delete(only, &DeleteParams::default()).await.unwrap();
    let slices = world.slices_when(is_whole).await;
    assert_eq!(Some(slices[0].metadata.owner_references.as_ref().unwrap()[0].uid.clone()), uid);
}

#[tokio::test]
async fn a_driver_of_the_cluster_needs_no_node() {
    let world = World::new();
    let pool = Pool { nodes: Nodes::All, ..Pool::of(devices(1)) };
    let kit = Kit::new(DRIVER, world.cluster.client()).kubelet_root(world.root.path());
    let running =
        kit.cluster().pools([("fabric".to_owned(), pool)].into()).start(world.driver()).await.unwrap();
    running.publisher().settled().await;
    let slices = world.slices().await;
    assert_eq!((slices[0].spec.node_name.clone(), slices[0].spec.all_nodes), (None, Some(true)));
    assert!(slices[0].metadata.owner_references.is_none());
}

/// Nothing is published for a Node that is not there; it is, once the Node is.
#[tokio::test]
async fn a_driver_may_start_before_its_node() {
    let world = World::new();
    let running = world.kit().node(NODE).pools(pools(1)).start(world.driver()).await.unwrap();
    let problem = running.problem().await.unwrap().to_string();
    assert!(problem.contains("no such Node"), "{problem}");
    assert!(world.slices().await.is_empty());
    world.node().await;
    running.publisher().settled().await;
    assert_eq!(world.slices().await.len(), 1);
}
