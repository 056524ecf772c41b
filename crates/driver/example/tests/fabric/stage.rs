//! A cluster with a fabric, and ways to look at it.

use std::time::{Duration, Instant};

use http::Request;
use lazaret_driver::controller::{ControllerKit, RunningController};
use lazaret_example::{Fabric, FabricOptions};
use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};

pub(crate) const DRIVER: &str = "gpu.acme.com";
/// Long enough for any machine: everything here takes milliseconds.
const WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// The class of "cluster configuration" in the enhancement; its `kind` is left out there.
pub(crate) const CLASS: &str = "\
apiVersion: cdi.k8s.io/v1alpha1
kind: ResourceClass
metadata:
  name: acme-gpu
driverName: gpu.acme.com
parameters:
  initCommand:
  - /usr/local/bin/acme-gpu-init
  - --cluster
  - my-cluster
";

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) fabric: Fabric,
    controller: Option<RunningController>,
}

impl Stage {
    /// `nodes` nodes with `devices` structured devices each, a fabric, its class and its controller.
    pub(crate) fn new(nodes: usize, devices: usize, options: FabricOptions) -> Self {
        let cluster = Cluster::options().plane(Plane::simulated(nodes, devices)).start().unwrap();
        let mut stage = Self { cluster, fabric: Fabric::new(options), controller: None };
        assert_eq!(stage.post("/apis/cdi.k8s.io/v1alpha1/resourceclasses", CLASS).0, 200);
        stage.start_controller();
        stage.eventually("nodes", |stage| {
            let (_, nodes_seen) = stage.get("/api/v1/nodes");
            (nodes_seen["items"].as_array().map_or(0, Vec::len) == nodes).then_some(())
        });
        stage
    }

    pub(crate) fn start_controller(&mut self) {
        let (client, fabric) = (self.cluster.client(), self.fabric.clone());
        let controller =
            self.cluster.block_on(async move { ControllerKit::new(DRIVER, client).start(fabric) });
        self.controller = Some(controller);
    }

    pub(crate) fn stop_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            self.cluster.block_on(controller.stop());
        }
    }

    /// Creates what is written as YAML, and says with which code and what.
    pub(crate) fn post(&self, path: &str, yaml: &str) -> (u16, Value) {
        self.send(
            Request::post(path).header("content-type", "application/yaml").body(yaml.as_bytes().to_vec()),
        )
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send(Request::get(path).body(Vec::new()))
    }

    pub(crate) fn delete(&self, path: &str) -> u16 {
        let options = json!({"gracePeriodSeconds": 0}).to_string().into_bytes();
        self.send(Request::delete(path).header("content-type", "application/json").body(options)).0
    }

    pub(crate) fn patch_status(&self, path: &str, status: Value) -> (u16, Value) {
        let body = json!({"status": status}).to_string().into_bytes();
        let request = Request::patch(format!("{path}/status"));
        self.send(request.header("content-type", "application/merge-patch+json").body(body))
    }

    pub(crate) fn strategic_patch(&self, path: &str, patch: &Value) -> (u16, Value) {
        let request = Request::patch(path).header("content-type", "application/strategic-merge-patch+json");
        self.send(request.body(patch.to_string().into_bytes()))
    }

    fn send(&self, request: http::Result<Request<Vec<u8>>>) -> (u16, Value) {
        let client = self.cluster.client();
        let request = request.unwrap();
        self.cluster.block_on(async move {
            match client.request::<Value>(request).await {
                Ok(value) => (200, value),
                Err(kube::Error::Api(status)) => (status.code, json!({"message": status.message})),
                Err(error) => panic!("{error}"),
            }
        })
    }

    /// Looks again and again until there is something to see.
    pub(crate) fn eventually<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        #[allow(clippy::disallowed_methods, reason = "a test waits in real time")]
        let begun = Instant::now();
        loop {
            if let Some(seen) = look(self) {
                return seen;
            }
            assert!(begun.elapsed() < WAIT, "not seen: {what}");
            std::thread::sleep(PAUSE);
        }
    }

    pub(crate) fn pod(&self, name: &str) -> Value {
        self.get(&format!("/api/v1/namespaces/default/pods/{name}")).1
    }

    pub(crate) fn claim(&self, name: &str) -> Option<Value> {
        let (code, claim) = self.get(&claim_path(name));
        (code < 300).then_some(claim)
    }

    /// The node of a pod, once it runs.
    pub(crate) fn runs_on(&self, name: &str) -> String {
        self.eventually(&format!("pod {name} running"), |stage| {
            let pod = stage.pod(name);
            let node = pod["spec"]["nodeName"].as_str()?.to_owned();
            (pod["status"]["phase"] == "Running").then_some(node)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop_controller();
    }
}

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIMS: &str = "/apis/cdi.k8s.io/v1alpha1/namespaces/default/resourceclaims";

pub(crate) fn claim_path(name: &str) -> String {
    format!("{CLAIMS}/{name}")
}

/// A claim that exists by itself.
pub(crate) fn claim(name: &str, mode: &str) -> String {
    format!(
        "apiVersion: cdi.k8s.io/v1alpha1
kind: ResourceClaim
metadata:
  name: {name}
spec:
  resourceClassName: acme-gpu
  allocationMode: {mode}
"
    )
}

/// A pod with these entries of `resourceClaims`, in YAML, each of which its container uses.
pub(crate) fn pod(name: &str, entries: &[(&str, &str)]) -> String {
    let claims: String =
        entries.iter().map(|(entry, source)| format!("  - name: {entry}\n    {source}\n")).collect();
    let used: String = entries.iter().map(|(entry, _)| format!("\"{entry}\",")).collect();
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  resourceClaims:
{claims}  containers:
  - name: workload
    image: my-app
    resources:
      claims: [{used}]
"
    )
}

pub(crate) const TEMPLATE: &str = "template: {resourceClassName: acme-gpu, parameters: {memory: 2Gi}}";

/// A source that names a classic claim.
pub(crate) fn named(claim: &str) -> String {
    format!("classicClaimName: {claim}")
}
