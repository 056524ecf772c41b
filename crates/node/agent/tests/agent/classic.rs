//! Classic claims on a node, with an API server and a plugin on a socket.

use kube::api::{DeleteParams, Patch, PatchParams};
use lazaret_driver::proto::{self, ClassicUnprepareRequest};
use lazaret_node::{ClaimKind, checkpoint};
use lazaret_testkit::{Cluster, Plane};
use prost::Message;
use serde_json::{Value, json};

use crate::{
    plugin::{Plugin, Reply},
    world::{NODE, World, until},
};

const DRIVER: &str = "fabric.example.com";
const CLAIMS: &str = "/apis/cdi.k8s.io/v1alpha1/namespaces/default/resourceclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(world: &World, method: &str, path: &str, body: Value) -> Value {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    world.cluster.client().request(request.body(body).unwrap()).await.unwrap()
}

fn user(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid})
}

/// A claim that a driver's controller has allocated, for these users. Gives its UID.
async fn claim(world: &World, name: &str, users: &[(&str, &str)]) -> String {
    let made = json!({"metadata": {"name": name}, "spec": {"resourceClassName": "x"}});
    let made = send(world, "POST", CLAIMS, made).await;
    allocate(world, name).await;
    reserve(world, name, users).await;
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn allocate(world: &World, claim: &str) {
    let attributes = json!({"device": "fabric-3"});
    let status =
        json!({"phase": "Allocated", "driverName": DRIVER, "userLimit": -1, "attributes": attributes});
    send(world, "PATCH", &format!("{CLAIMS}/{claim}/status"), json!({"status": status})).await;
}

/// A pod with these entries. Gives its UID.
async fn pod(world: &World, name: &str, entries: Value) -> String {
    let names: Vec<Value> =
        entries.as_array().unwrap().iter().map(|entry| json!({"name": entry["name"]})).collect();
    let container = json!({"name": "c", "image": "i", "resources": {"claims": names}});
    // Bound by hand: a scheduler that finds no place for it would take its reservation back first.
    let spec = json!({
        "containers": [container], "resourceClaims": entries, "automountServiceAccountToken": false,
        "schedulerName": "nobody",
    });
    let made = send(world, "POST", PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn reserve(world: &World, claim: &str, users: &[(&str, &str)]) {
    let users: Vec<Value> = users.iter().map(|(name, uid)| user(name, uid)).collect();
    send(world, "PATCH", &format!("{CLAIMS}/{claim}/status"), json!({"status": {"reservedFor": users}}))
        .await;
}

fn named(claim: &str) -> Value {
    json!([{"name": "gpu", "classicClaimName": claim}])
}

fn well(_: &str, _: &[u8]) -> Option<Reply> {
    None
}

#[tokio::test]
async fn a_shared_claim_is_prepared_for_its_first_pod_and_unprepared_after_its_last() {
    let world = World::new().await;
    let (told, unprepared) = std::sync::mpsc::channel();
    let plugin = Plugin::start_classic(world.root(), DRIVER, move |path, body| {
        if path == proto::CLASSIC_UNPREPARE {
            told.send(ClassicUnprepareRequest::decode(body).unwrap()).unwrap();
        }
        None
    });
    let agent = world.agent();
    let first = pod(&world, "first", named("shared")).await;
    let second = pod(&world, "second", named("shared")).await;
    let uid = claim(&world, "shared", &[("first", &first), ("second", &second)]).await;
    world.bind("first").await;
    let names = world.until_offered(&first).await;
    assert_eq!(names, [format!("example.com/fabric={uid}-fabric-3")]);
    world.bind("second").await;
    assert_eq!(world.until_offered(&second).await, names);
    assert_eq!(plugin.count("NodePrepareResource"), 1);
    let noted = world.checkpoint();
    assert_eq!((noted.len(), noted[0].kind, noted[0].uid.as_str()), (1, ClaimKind::Classic, uid.as_str()));

    world.delete("first", &DeleteParams::default()).await;
    world.until_gone("first").await;
    assert_eq!(plugin.count("NodeUnprepareResource"), 0, "somebody uses it");
    world.delete("second", &DeleteParams::default()).await;
    world.until_gone("second").await;
    assert!(world.checkpoint().is_empty() && world.offered(&second).is_none());
    let call = unprepared.try_recv().unwrap();
    assert_eq!((call.resource_id, call.cdi_device), (vec![uid], names));
    assert_eq!((call.namespace.as_str(), call.name.as_str()), ("default", "shared"));
    agent.stop().await;
}

#[tokio::test]
async fn a_pod_with_claims_of_both_kinds_gets_the_names_of_both() {
    let world = World::new().await;
    let _classic = Plugin::start_classic(world.root(), DRIVER, well);
    let _other = Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], well);
    let agent = world.agent();
    // The structured claim of the pod has the same name as the classic one, and the same driver.
    let uid = world.pod_before_binding("p", DRIVER, "gpu-0", &named("p")[0]).await;
    let classic = claim(&world, "p", &[("p", &uid)]).await;
    let structured = world.claims().get("p").await.unwrap().metadata.uid.unwrap();
    world.bind("p").await;
    let expected =
        [format!("example.com/gpu={structured}"), format!("example.com/fabric={classic}-fabric-3")];
    let mut names = world.until_offered(&uid).await;
    names.sort_by_key(|name| name.contains("fabric"));
    assert_eq!(names, expected);
    world.delete("p", &DeleteParams::default()).await;
    world.until_gone("p").await;
    agent.stop().await;
}

#[tokio::test]
async fn a_pod_that_may_not_use_its_claim_does_not_run_and_events_say_why() {
    let world = World::new().await;
    let plugin = Plugin::start_classic(world.root(), DRIVER, well);
    let agent = world.agent();
    let uid = pod(&world, "p", named("c")).await;
    world.bind("p").await;
    world.until_event("p", "ResourceClaim c not found").await;
    send(&world, "POST", CLAIMS, json!({"metadata": {"name": "c"}, "spec": {"resourceClassName": "x"}}))
        .await;
    world.until_event("p", "is not allowed to use ResourceClaim c").await;
    allocate(&world, "c").await;
    reserve(&world, "c", &[("p", &uid)]).await;
    world.until_offered(&uid).await;

    // A claim that was made for another pod, and one that its plugin is asked for in vain.
    let other =
        pod(&world, "q", json!([{"name": "gpu", "template": {"spec": {"resourceClassName": "x"}}}])).await;
    claim(&world, "q-gpu", &[("q", &other)]).await;
    world.bind("q").await;
    world.until_event("q", "ResourceClaim q-gpu was not created for pod q").await;
    assert!(world.offered(&other).is_none());
    assert_eq!(plugin.count("NodePrepareResource"), 1);
    let owner = json!([user("q", &other)]);
    send(&world, "PATCH", &format!("{CLAIMS}/q-gpu"), json!({"metadata": {"ownerReferences": owner}})).await;
    world.until_offered(&other).await;
    agent.stop().await;
}

#[tokio::test]
async fn not_found_and_other_failures_are_retried_and_a_restart_half_way_calls_again() {
    let world = World::new().await;
    let mut left = 3;
    let plugin = Plugin::start_classic(world.root(), DRIVER, move |path, _| {
        let is_due = path == proto::CLASSIC_PREPARE && left > 0;
        left -= u32::from(is_due);
        match left {
            _ if !is_due => None,
            2 => Some(Reply::Status(5, "no such device")),
            1 => Some(Reply::Status(13, "the cable is loose")),
            _ => Some(Reply::Hang),
        }
    });
    let agent = world.agent();
    let uid = pod(&world, "p", named("c")).await;
    claim(&world, "c", &[("p", &uid)]).await;
    world.bind("p").await;
    world.until_event("p", "no such device").await;
    world.until_event("p", "the cable is loose").await;
    until("the third call", || async { (plugin.count("NodePrepareResource") == 3).then_some(()) }).await;
    assert!(world.offered(&uid).is_none());
    // The outcome of that call is unknown. The claim is in the checkpoint, where kubelet does not look for it.
    agent.stop().await;
    let text = std::fs::read(world.options().checkpoint()).unwrap();
    assert_eq!(checkpoint::read(&text).unwrap()[0].name, "c");
    assert!(String::from_utf8(text).unwrap().contains("ClassicClaimInfoStateList"));
    let agent = world.agent();
    world.until_offered(&uid).await;
    assert_eq!(plugin.count("NodePrepareResource"), 4);

    // The pod ends while the agent is away; the claim is unprepared when it is back.
    agent.stop().await;
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    world.pods().patch_status("p", &PatchParams::default(), &ended).await.unwrap();
    let agent = world.agent();
    world.until_nothing_is_prepared().await;
    assert_eq!(plugin.count("NodeUnprepareResource"), 1);
    agent.stop().await;
}

async fn annotation(world: &World, name: &str) -> Option<String> {
    let node = world.nodes().get(NODE).await.unwrap();
    node.metadata.annotations.unwrap_or_default().get(name).cloned()
}

/// A pod is removed by force while its plugin cannot unprepare: its claim stays reserved, so that no driver frees the device.
#[tokio::test]
async fn the_reservation_of_a_lost_pod_goes_only_when_the_node_has_unprepared_its_claim() {
    let world = World::of(Cluster::options().plane(Plane::simulated(0, 0)).start().unwrap()).await;
    let go = tokio::sync::watch::Sender::new(false);
    let is_going = go.subscribe();
    let plugin = Plugin::start_classic(world.root(), DRIVER, move |path, _| {
        let is_held = path == proto::CLASSIC_UNPREPARE && !*is_going.borrow();
        is_held.then_some(Reply::Status(14, "the device is busy"))
    });
    let agent = world.agent();
    until("the node reports", || annotation(&world, "lazaret.dev/reports-unprepared")).await;
    let uid = pod(&world, "p", named("c")).await;
    let claim = claim(&world, "c", &[("p", &uid)]).await;
    world.bind("p").await;
    world.until_offered(&uid).await;
    world.delete("p", &DeleteParams::default().grace_period(0)).await;
    let awaited =
        until("the node is asked", || annotation(&world, "lazaret.dev/awaiting-classic-unprepare")).await;
    assert!(awaited.contains(&claim), "{awaited}");
    until("unprepare was tried", || async { (plugin.count("NodeUnprepareResource") > 0).then_some(()) })
        .await;
    let users = || async {
        let claim = send(&world, "GET", &format!("{CLAIMS}/c"), Value::Null).await;
        claim["status"]["reservedFor"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(users().await, 1, "the device is still prepared");
    go.send_replace(true);
    until("the reservation is removed", || async { (users().await == 0).then_some(()) }).await;
    world.until_nothing_is_prepared().await;
    until("question and answer are removed", || async {
        let asked = annotation(&world, "lazaret.dev/awaiting-classic-unprepare").await;
        let answered = annotation(&world, "lazaret.dev/unprepared").await;
        (asked.is_none() && answered.is_none()).then_some(())
    })
    .await;
    agent.stop().await;
}
