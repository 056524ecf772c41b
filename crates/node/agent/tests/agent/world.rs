//! A node, a server, and what is asked of both.

use std::{future::Future, path::Path, time::Duration};

use k8s_openapi::api::{
    core::v1::{Event, Node, Pod},
    resource::v1::{ResourceClaim, ResourceSlice},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use lazaret_agent::{Agent, Options};
use lazaret_node::{ClaimState, checkpoint};
use lazaret_runtime::Metrics;
use lazaret_testkit::Cluster;
use serde_json::{Value, json};

pub(crate) const NODE: &str = "n";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) root: tempfile::TempDir,
    pub(crate) metrics: Metrics,
}

/// For something to become so, on a machine that is very slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Looks until it is so.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let looks = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looks).await.unwrap_or_else(|_| panic!("never: {what}"))
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(Cluster::start()).await
    }

    pub(crate) async fn of(cluster: Cluster) -> Self {
        cluster.allow_devices_twice();
        // A short path: the name of a socket has at most 107 bytes.
        let root = tempfile::Builder::new().prefix("a").tempdir().unwrap();
        let world = Self { cluster, root, metrics: Metrics::default() };
        let node = json!({"metadata": {"name": NODE}});
        world.nodes().create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        world
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn options(&self) -> Options {
        Options { node: NODE.into(), root: self.root().into() }
    }

    pub(crate) fn agent(&self) -> Agent {
        Agent::start(self.cluster.client(), self.options(), &Metrics::default()).unwrap()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), "default")
    }

    pub(crate) fn claims(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.cluster.client(), "default")
    }

    pub(crate) fn slices(&self) -> Api<ResourceSlice> {
        Api::all(self.cluster.client())
    }

    /// A claim that was given a device, and a pod that uses it and is bound to the node. Gives the pod's UID.
    pub(crate) async fn pod(&self, name: &str, driver: &str, device: &str) -> String {
        self.pod_with(name, driver, device, &[]).await
    }

    /// The same, with a program.
    pub(crate) async fn pod_with(&self, name: &str, driver: &str, device: &str, command: &[&str]) -> String {
        let uid = self.unbound(name, driver, device, command, None).await;
        self.bind(name).await;
        uid
    }

    /// The same, with one more entry for a claim, and not bound yet.
    pub(crate) async fn pod_before_binding(
        &self,
        name: &str,
        driver: &str,
        device: &str,
        entry: &Value,
    ) -> String {
        let mut entry = entry.clone();
        entry["name"] = "more".into();
        self.unbound(name, driver, device, &[], Some(entry)).await
    }

    async fn unbound(
        &self,
        name: &str,
        driver: &str,
        device: &str,
        command: &[&str],
        more: Option<Value>,
    ) -> String {
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        });
        let claim = serde_json::from_value(claim).unwrap();
        self.claims().create(&PostParams::default(), &claim).await.unwrap();
        let mut entries = vec![json!({"name": "gpu", "resourceClaimName": name})];
        entries.extend(more);
        let names: Vec<Value> = entries.iter().map(|entry| json!({"name": entry["name"]})).collect();
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Never", "command": command, "resources": {"claims": names}}],
                "resourceClaims": entries,
                "automountServiceAccountToken": false,
            },
        });
        let request = http::Request::post("/api/v1/namespaces/default/pods");
        let request = request.header("content-type", "application/json").body(pod.to_string().into_bytes());
        let pod: Value = self.cluster.client().request(request.unwrap()).await.unwrap();
        let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let result = json!({"request": "r", "driver": driver, "pool": "n", "device": device});
        // As schedulers write it: a device of one node.
        let by_name = json!([{"key": "metadata.name", "operator": "In", "values": [NODE]}]);
        let here = json!({"nodeSelectorTerms": [{"matchFields": by_name}]});
        let status = json!({"status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": here},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }});
        self.claims().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        uid
    }

    pub(crate) async fn bind(&self, pod: &str) {
        let binding = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": NODE}});
        let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{pod}/binding"));
        let request =
            request.header("content-type", "application/json").body(binding.to_string().into_bytes());
        let _: Value = self.cluster.client().request(request.unwrap()).await.unwrap();
    }

    pub(crate) async fn delete(&self, pod: &str, params: &DeleteParams) {
        drop(self.pods().delete(pod, params).await.unwrap());
    }

    /// The CDI names that a runtime would be given for the pod's container.
    pub(crate) fn offered(&self, pod_uid: &str) -> Option<Vec<String>> {
        let text = std::fs::read(self.options().offers().join(format!("{pod_uid}.json"))).ok()?;
        let offer: Value = serde_json::from_slice(&text).unwrap();
        Some(offer["containers"]["c"].as_array()?.iter().map(|id| id.as_str().unwrap().to_owned()).collect())
    }

    pub(crate) async fn until_offered(&self, pod_uid: &str) -> Vec<String> {
        until("CDI names are offered", || async { self.offered(pod_uid) }).await
    }

    /// The claims in the checkpoint; the file is whole at any time.
    pub(crate) fn checkpoint(&self) -> Vec<ClaimState> {
        match std::fs::read(self.options().checkpoint()) {
            Ok(text) => checkpoint::read(&text).unwrap(),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) async fn until_nothing_is_prepared(&self) {
        until("nothing is prepared", || async { self.checkpoint().is_empty().then_some(()) }).await;
    }

    pub(crate) async fn until_gone(&self, pod: &str) {
        until("the pod is gone", || async {
            self.pods().get_opt(pod).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    /// Waits for an event of a pod with this in its message.
    pub(crate) async fn until_event(&self, pod: &str, part: &str) -> Event {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), "default");
        until("an event", || async {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            all.into_iter().find(|event| {
                let is_about = event.involved_object.name.as_deref() == Some(pod);
                is_about && event.message.as_deref().is_some_and(|message| message.contains(part))
            })
        })
        .await
    }
}
