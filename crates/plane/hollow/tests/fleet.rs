//! Hollow nodes on a real API server, in this process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use lazaret_hollow::{HollowOptions, failures, start};
use lazaret_runtime::{
    CLAIMS, CLASSES, Call, CallError, Client, Hub, LEASES, Metrics, NODES, PODS, PatchKind, Resource, SLICES,
    Tasks,
};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;
use serde_json::{Value, json};
use tokio::sync::watch;

struct Cluster {
    server: Server,
    client: Client,
    fleet: Option<(Hub, Tasks, watch::Sender<bool>)>,
}

impl Cluster {
    async fn new() -> Self {
        let options = ServerOptions::default();
        let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
        server.bootstrap().await.unwrap();
        let client = client(&server);
        Self { server, client, fleet: None }
    }

    async fn with(options: HollowOptions) -> Self {
        let mut cluster = Self::new().await;
        cluster.start(options);
        cluster
    }

    fn start(&mut self, options: HollowOptions) {
        let hub = Hub::new(client(&self.server), Metrics::default());
        let (stop, stopped) = watch::channel(false);
        let tasks = start(&hub, options, &stopped).unwrap();
        self.fleet = Some((hub, tasks, stop));
    }

    async fn stop(&mut self) {
        let (hub, tasks, stop) = self.fleet.take().unwrap();
        stop.send(true).unwrap();
        tasks.join().await;
        drop(hub);
    }

    async fn create(&self, resource: &Resource, body: Value) -> Value {
        let namespace = if resource.namespaced { "default" } else { "" };
        let made = self.client.send(Call::create(resource, namespace, body.to_string())).await;
        serde_json::from_slice(&made.unwrap()).unwrap()
    }

    async fn get(&self, resource: &Resource, name: &str) -> Option<Value> {
        let namespace = match *resource {
            LEASES => "kube-node-lease",
            resource if resource.namespaced => "default",
            _ => "",
        };
        match self.client.send(Call::get(resource, namespace, name)).await {
            Ok(found) => Some(serde_json::from_slice(&found).unwrap()),
            Err(CallError::NotFound(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn patch(&self, resource: &Resource, name: &str, subresource: &str, body: Value) -> Value {
        let namespace = if resource.namespaced { "default" } else { "" };
        let call = Call::patch(resource, namespace, name, subresource, PatchKind::Merge, body.to_string());
        serde_json::from_slice(&self.client.send(call).await.unwrap()).unwrap()
    }

    /// Waits until the object is as it should be. Generous: only a fault takes so long.
    async fn until(&self, resource: &Resource, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        for _ in 0..9_000 {
            last = self.get(resource, name).await;
            if let Some(object) = last.as_ref().filter(|object| is_so(object)) {
                return object.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} {name} does not get there: {last:#?}", resource.kind);
    }

    async fn until_gone(&self, resource: &Resource, name: &str) {
        for _ in 0..9_000 {
            if self.get(resource, name).await.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} {name} stays", resource.kind);
    }

    async fn fail(&self, node: &str, annotation: &Value) {
        let body = json!({"metadata": {"annotations": {lazaret_hollow::FAIL: annotation}}});
        self.patch(&NODES, node, "", body).await;
    }
}

fn client(server: &Server) -> Client {
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    Client::new(server.client(User { name: "hollow".into(), groups, ..User::default() }))
}

fn small() -> HollowOptions {
    HollowOptions { nodes: 2, devices: 4, job_run_ms: 50, ..HollowOptions::default() }
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "none"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        match field.as_str() {
            "annotations" => pod["metadata"][field] = value.clone(),
            _ => pod["spec"][field] = value.clone(),
        }
    }
    pod
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|there| there["type"] == "Ready" && there["status"] == "True")
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_register_and_publish_their_devices() {
    let cluster = Cluster::with(HollowOptions { lease_interval_ms: 200, ..small() }).await;
    for name in ["node-1", "node-2"] {
        let node =
            cluster.until(&NODES, name, |node| is_ready(node) && node["spec"]["taints"].is_null()).await;
        assert_eq!(node["status"]["allocatable"]["cpu"], "64");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], name);
        let slice = cluster.until(&SLICES, &format!("00000-gpu.example.com-{name}"), |_| true).await;
        assert_eq!(slice["spec"]["devices"].as_array().unwrap().len(), 4);
        assert_eq!(slice["spec"]["pool"], json!({"name": name, "generation": 1, "resourceSliceCount": 1}));
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
        let lease = cluster.until(&LEASES, name, |_| true).await;
        let renewed = lease["spec"]["renewTime"].clone();
        cluster.until(&LEASES, name, |lease| lease["spec"]["renewTime"] != renewed).await;
    }
    cluster.until(&CLASSES, "gpu.example.com", |_| true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_comes_back() {
    let cluster = Cluster::with(small()).await;
    let name = "00000-gpu.example.com-node-1";
    let slice = cluster.until(&SLICES, name, |_| true).await;
    cluster.client.send(Call::delete(&SLICES, "", name, "{}")).await.unwrap();
    cluster.until(&SLICES, name, |again| again["metadata"]["uid"] != slice["metadata"]["uid"]).await;
    let node = cluster.until(&NODES, "node-2", is_ready).await;
    cluster.client.send(Call::delete(&NODES, "", "node-2", "{}")).await.unwrap();
    cluster.until(&NODES, "node-2", |again| again["metadata"]["uid"] != node["metadata"]["uid"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_and_end_as_they_say() {
    let cluster = Cluster::with(small()).await;
    let cases = [
        ("stays", json!({}), "Running", None),
        ("job", json!({"restartPolicy": "Never"}), "Succeeded", Some(0)),
        (
            "fails",
            json!({"restartPolicy": "Never", "annotations": {"hollow.lazaret.dev/exit-code": "3"}}),
            "Failed",
            Some(3),
        ),
        (
            "later",
            json!({"restartPolicy": "OnFailure", "annotations": {"hollow.lazaret.dev/run-for": "100ms"}}),
            "Succeeded",
            Some(0),
        ),
    ];
    for (name, spec, ..) in &cases {
        cluster.create(&PODS, pod(name, spec.clone())).await;
    }
    for (name, _, wanted, code) in cases {
        let pod = cluster.until(&PODS, name, |pod| phase(pod) == wanted).await;
        let container = &pod["status"]["containerStatuses"][0];
        match code {
            Some(code) => assert_eq!(container["state"]["terminated"]["exitCode"], code, "{name}"),
            None => {
                assert!(is_ready(&pod) && container["ready"] == true, "{pod:#}");
                assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("10.0.0."));
                assert_eq!(pod["status"]["hostIP"], "172.16.0.0");
            }
        }
    }
    // A container that exits under a pod that is to stay is started again.
    let spec = json!({"annotations": {"hollow.lazaret.dev/run-for": "50ms"}});
    cluster.create(&PODS, pod("restarts", spec)).await;
    let restarted = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1) && phase(pod) == "Running"
    };
    cluster.until(&PODS, "restarts", restarted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pod_takes_its_time_and_goes() {
    let cluster = Cluster::with(small()).await;
    let spec = json!({"annotations": {"hollow.lazaret.dev/stop-after": "300ms"}});
    cluster.create(&PODS, pod("slow", spec)).await;
    cluster.create(&PODS, pod("quick", json!({}))).await;
    for name in ["slow", "quick"] {
        cluster.until(&PODS, name, |pod| phase(pod) == "Running").await;
    }
    let before = tokio::time::Instant::now();
    for name in ["slow", "quick"] {
        cluster.client.send(Call::delete(&PODS, "default", name, "{}")).await.unwrap();
    }
    cluster.until_gone(&PODS, "quick").await;
    cluster.until_gone(&PODS, "slow").await;
    assert!(before.elapsed() >= Duration::from_millis(300), "it had {:?} to stop", before.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_waits_for_its_claim() {
    let cluster = Cluster::with(small()).await;
    cluster.until(&NODES, "node-1", is_ready).await;
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}});
    let claim = cluster
        .create(
            &CLAIMS,
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"},
                "spec": {"devices": {"requests": [request]}},
            }),
        )
        .await;
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]});
    let waiting = cluster.create(&PODS, pod("waits", claims)).await;
    // Another pod that was created after it runs, so this one has been looked at.
    cluster.create(&PODS, pod("other", json!({}))).await;
    cluster.until(&PODS, "other", |pod| phase(pod) == "Running").await;
    assert_eq!(phase(&cluster.get(&PODS, "waits").await.unwrap()), "Pending");

    let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
    let protected = json!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
    cluster.patch(&CLAIMS, "mine", "", protected).await;
    let status = json!({"status": {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "waits", "uid": waiting["metadata"]["uid"]}],
    }});
    cluster.patch(&CLAIMS, "mine", "status", status).await;
    cluster.until(&PODS, "waits", |pod| phase(pod) == "Running").await;
    assert!(claim["metadata"]["uid"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_fail_and_recover_on_command() {
    let cluster = Cluster::with(small()).await;
    let name = "00000-gpu.example.com-node-1";
    let taints = |slice: &Value, device: usize| slice["spec"]["devices"][device]["taints"].clone();
    cluster.until(&SLICES, name, |_| true).await;

    cluster.fail("node-1", &json!(r#"{"gpu-3":{"effect":"NoExecute","reason":"xid-79"}}"#)).await;
    let slice = cluster.until(&SLICES, name, |slice| taints(slice, 3).is_array()).await;
    let taint = taints(&slice, 3)[0].clone();
    assert_eq!(taint["key"], "gpu.example.com/unhealthy");
    assert_eq!((&taint["value"], &taint["effect"]), (&json!("xid-79"), &json!("NoExecute")));
    assert!(taint["timeAdded"].is_string());
    assert_eq!(slice["spec"]["pool"]["generation"], 1);

    // A second failure leaves the first as it was, and so does a slip of the hand.
    let both = r#"{"gpu-3":{"reason":"xid-79"},"gpu-0":{"effect":"NoSchedule"}}"#;
    failures::read(Some(both)).unwrap();
    cluster.fail("node-1", &json!(both)).await;
    let slice = cluster.until(&SLICES, name, |slice| taints(slice, 0).is_array()).await;
    assert_eq!(taints(&slice, 3)[0], taint);
    cluster.fail("node-1", &json!("{oops")).await;
    cluster.fail("node-2", &json!(r#"{"gpu-1":{}}"#)).await;
    let other = "00000-gpu.example.com-node-2";
    cluster.until(&SLICES, other, |slice| taints(slice, 1).is_array()).await;
    assert_eq!(taints(&cluster.get(&SLICES, name).await.unwrap(), 3)[0], taint);

    cluster.fail("node-1", &Value::Null).await;
    cluster.until(&SLICES, name, |slice| taints(slice, 0).is_null() && taints(slice, 3).is_null()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_takes_over_without_a_write() {
    let mut cluster = Cluster::with(small()).await;
    cluster.create(&PODS, pod("stays", json!({}))).await;
    let running = cluster.until(&PODS, "stays", |pod| phase(pod) == "Running").await;
    let slice = cluster.until(&SLICES, "00000-gpu.example.com-node-2", |_| true).await;
    cluster.stop().await;
    cluster.create(&PODS, pod("next", json!({}))).await;
    cluster.start(small());
    let next = cluster.until(&PODS, "next", |pod| phase(pod) == "Running").await;
    let still = cluster.get(&PODS, "stays").await.unwrap();
    assert_eq!(still["metadata"]["resourceVersion"], running["metadata"]["resourceVersion"]);
    assert_ne!(still["status"]["podIP"], next["status"]["podIP"]);
    let still = cluster.get(&SLICES, "00000-gpu.example.com-node-2").await.unwrap();
    assert_eq!(still["metadata"]["resourceVersion"], slice["metadata"]["resourceVersion"]);
}

impl Cluster {
    /// A claim that was given `gpu-0` of `node-1`, for a pod that uses it.
    async fn with_device(&self, pod_name: &str, claim: &str) {
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}});
        let body = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": claim, "finalizers": ["resource.kubernetes.io/delete-protection"]},
            "spec": {"devices": {"requests": [request]}},
        });
        self.create(&CLAIMS, body).await;
        let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]});
        let user = self.create(&PODS, pod(pod_name, claims)).await;
        let result =
            json!({"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
        let status = json!({"status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": pod_name, "uid": user["metadata"]["uid"]}],
        }});
        self.patch(&CLAIMS, claim, "status", status).await;
    }

    async fn prepared(&self) -> String {
        let node = self.get(&NODES, "node-1").await.unwrap();
        node["metadata"]["annotations"][lazaret_hollow::PREPARED].as_str().unwrap_or_default().to_owned()
    }
}

/// The pod is removed by force while no process runs, and its device is given to another claim: its driver has not unprepared it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_prepared_outlives_the_process() {
    let mut cluster = Cluster::with(small()).await;
    cluster.until(&NODES, "node-1", is_ready).await;
    let slow = |after: Value| json!({"metadata": {"annotations": {lazaret_hollow::UNPREPARE_AFTER: after}}});
    cluster.patch(&NODES, "node-1", "", slow(json!("1000h"))).await;
    cluster.with_device("first", "mine").await;
    cluster.until(&PODS, "first", |pod| phase(pod) == "Running").await;
    assert!(cluster.prepared().await.contains("\"name\":\"mine\""), "{}", cluster.prepared().await);
    cluster.stop().await;
    let options = json!({"gracePeriodSeconds": 0}).to_string();
    cluster.client.send(Call::delete(&PODS, "default", "first", options)).await.unwrap();
    cluster.until_gone(&PODS, "first").await;
    let freed = json!({"status": {"allocation": null, "reservedFor": null}});
    cluster.patch(&CLAIMS, "mine", "status", freed).await;
    cluster.with_device("second", "yours").await;
    cluster.start(small());
    // Another pod that was created after it runs, so this one has been looked at.
    cluster.create(&PODS, pod("other", json!({}))).await;
    cluster.until(&PODS, "other", |pod| phase(pod) == "Running").await;
    assert_eq!(phase(&cluster.get(&PODS, "second").await.unwrap()), "Pending");
    assert!(cluster.prepared().await.contains("\"name\":\"mine\""));
    cluster.patch(&NODES, "node-1", "", slow(Value::Null)).await;
    cluster.until(&PODS, "second", |pod| phase(pod) == "Running").await;
    let prepared = cluster.prepared().await;
    assert!(prepared.contains("\"name\":\"yours\"") && !prepared.contains("\"name\":\"mine\""), "{prepared}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_know_what_it_has_prepared_prepares_nothing() {
    let mut cluster = Cluster::with(small()).await;
    cluster.until(&NODES, "node-1", is_ready).await;
    cluster.stop().await;
    let note = |text: Value| json!({"metadata": {"annotations": {lazaret_hollow::PREPARED: text}}});
    cluster.patch(&NODES, "node-1", "", note(json!("{"))).await;
    cluster.with_device("first", "mine").await;
    cluster.start(small());
    cluster.create(&PODS, pod("other", json!({}))).await;
    cluster.until(&PODS, "other", |pod| phase(pod) == "Running").await;
    assert_eq!(phase(&cluster.get(&PODS, "first").await.unwrap()), "Pending");
    assert_eq!(cluster.prepared().await, "{", "it is left as it is");
    cluster.patch(&NODES, "node-1", "", note(Value::Null)).await;
    cluster.until(&PODS, "first", |pod| phase(pod) == "Running").await;
}
