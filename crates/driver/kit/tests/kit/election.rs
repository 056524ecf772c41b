//! Replicas of a driver of which one publishes.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, resource::v1::ResourceSlice};
use kube::api::{Api, PostParams};
use lazaret_driver::{Kit, LeaderElection, Nodes, Pool, Running};
use serde_json::json;

use crate::world::{DRIVER, World, devices};

const LEASE: &str = "publisher";

/// A replica with as many devices as said.
async fn replica(world: &World, identity: &str, count: usize, lease: Duration) -> Running {
    let election = LeaderElection::new("default", LEASE, identity).lease_duration(lease);
    let pool = Pool { nodes: Nodes::All, ..Pool::of(devices(count)) };
    let root = world.root.path().join(identity);
    let kit = Kit::new(DRIVER, world.cluster.client()).kubelet_root(root).cluster();
    let kit = kit.leader_election(election).pools([("net".to_owned(), pool)].into());
    kit.start(world.driver()).await.unwrap()
}

fn count(slices: &[ResourceSlice]) -> usize {
    slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_publishes_and_another_takes_over_when_it_is_gone() {
    let world = World::new();
    let first = replica(&world, "a", 1, Duration::from_secs(3_600)).await;
    first.publisher().settled().await;
    assert_eq!(count(&world.slices().await), 1);
    let leases: Api<Lease> = Api::namespaced(world.cluster.client(), "default");
    let spec = leases.get(LEASE).await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(3_600), Some(0)));

    let second = replica(&world, "b", 2, Duration::from_secs(3_600)).await;
    assert_eq!(count(&world.slices().await), 1);
    assert_eq!(leases.get(LEASE).await.unwrap().spec.unwrap().holder_identity.as_deref(), Some("a"));
    // The first gives it up when it ends; that it is never both is played in the core.
    first.stop().await;
    world.slices_when(|slices| count(slices) == 2).await;
    second.publisher().settled().await;
    let spec = leases.get(LEASE).await.unwrap().spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("b"), Some(1)));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_renews_is_taken_whatever_times_are_in_it_and_one_that_was_given_up_at_once() {
    let world = World::new();
    let leases: Api<Lease> = Api::namespaced(world.cluster.client(), "default");
    let lease = json!({
        "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 1_000_000, "renewTime": "2999-01-01T00:00:00.000000Z"},
    });
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let running = replica(&world, "a", 3, Duration::from_secs(1)).await;
    running.publisher().settled().await;
    assert_eq!(count(&world.slices().await), 3);
    running.stop().await;

    let holder = leases.get(LEASE).await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(holder.as_deref(), Some(""), "given up");
    let running = replica(&world, "b", 1, Duration::from_secs(1)).await;
    running.publisher().settled().await;
    assert_eq!(count(&world.slices().await), 1);
    running.stop().await;
}
