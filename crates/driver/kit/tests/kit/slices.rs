//! Slices on a real server.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use lazaret_driver::{Kit, Nodes, Pool};
use serde_json::json;

use crate::{
    faulty::Faults,
    world::{DRIVER, NODE, World, devices, pools},
};

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

/// Kubernetes' `ReconcilePoolWithName`: each node looks after its own pool, which others reach.
async fn one_pool(world: &World, faults: &Faults) {
    world.node().await;
    let client = faults.client(world.cluster.client());
    let kit = |pool: &str, folder: &str| {
        let root = world.root.path().join(folder);
        Kit::new(DRIVER, client.clone()).kubelet_root(root).pool(NODE, pool)
    };
    let of = |pool: &str, count: usize| [(pool.to_owned(), Pool::of(devices(count)))].into();
    let first = kit("p1", "a").pools(of("p1", 2)).start(world.driver()).await.unwrap();
    let second = kit("p2", "b").pools(of("p2", 1)).start(world.driver()).await.unwrap();
    first.publisher().settled().await;
    second.publisher().settled().await;
    let slices = world.slices().await;
    assert_eq!(slices.len(), 2, "none takes the other's for its own");
    for slice in &slices {
        assert_eq!((slice.spec.node_name.as_ref(), slice.spec.all_nodes), (None, Some(true)));
        assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].name, NODE);
    }
    first.publisher().publish([].into()).unwrap();
    first.publisher().settled().await;
    let slices = world.slices().await;
    assert_eq!(slices.iter().map(|slice| slice.spec.pool.name.as_str()).collect::<Vec<_>>(), ["p2"]);
    let error = second.publisher().publish(of("p1", 1)).unwrap_err();
    assert!(error.to_string().contains("expected exactly one pool with the name p2"), "{error}");
    // An edit is seen through the watch and repaired.
    let name = slices[0].metadata.name.clone().unwrap();
    let change = json!({"spec": {"devices": [{"name": "mine"}]}});
    world.slices_api().patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    world.slices_when(|slices| slices[0].spec.devices.as_ref().unwrap()[0].name == "gpu-0").await;
}

#[tokio::test]
async fn a_driver_looks_after_one_pool_with_a_field_selector() {
    one_pool(&World::new(), &Faults::default()).await;
}

#[tokio::test]
async fn a_driver_looks_after_one_pool_without_support_for_the_selector() {
    let faults = Faults::default();
    faults.set(|request| {
        let query = request.uri().query().unwrap_or_default();
        query.contains("spec.pool.name").then_some(400)
    });
    one_pool(&World::new(), &faults).await;
    assert_eq!(faults.refused(), 2, "each asked once");
}

#[tokio::test]
async fn nothing_is_written_while_publishing_is_paused() {
    let world = World::new();
    world.node().await;
    let running = world.kit().node(NODE).pools(pools(1)).start(world.driver()).await.unwrap();
    let publisher = running.publisher();
    publisher.settled().await;
    publisher.pause();
    publisher.publish(pools(2)).unwrap();
    let name = world.slices().await[0].metadata.name.clone().unwrap();
    world.slices_api().delete(&name, &DeleteParams::default()).await.unwrap();
    let waiting = publisher.settled();
    tokio::pin!(waiting);
    for _ in 0..10 {
        tokio::select! {
            () = &mut waiting => panic!("it is paused"),
            () = tokio::time::sleep(std::time::Duration::from_millis(10)) => {}
        }
    }
    assert!(world.slices().await.is_empty());
    publisher.resume();
    waiting.await;
    assert_eq!(world.slices().await[0].spec.devices.as_ref().unwrap().len(), 2);
}
