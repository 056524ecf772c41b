//! A cluster with the roles of the chart, and what a test asks of it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use http::Request;
use lazaret_controllers::{Controllers, Options};
use lazaret_testkit::{Cluster, Features, Options as ClusterOptions, Plane};
use serde_json::{Value, json};

use crate::tools;

/// A machine may be slow; what has not happened by then will not.
const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const NAMESPACE: &str = "lazaret-system";
pub(crate) const DRIVER: &str = "gpu.example.com";
/// The controllers of Kubernetes that tests of eviction need.
pub(crate) const OTHERS: Controllers = Controllers { claims: true, ..Controllers::NONE };
/// Settings of the chart with which Lazaret evicts for plain rules.
pub(crate) const PARTS: &[&str] = &["controllers.parts.eviction=true"];

/// Kubernetes' own components run in the test's process; Lazaret runs on their cluster as processes of its own.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Stage {
    /// A cluster with this chart installed, as far as roles go.
    pub(crate) fn with(others: Controllers, settings: &[&str]) -> Self {
        let options = Options { controllers: others, ..Options::default() };
        let plane = Plane::simulated(2, 4).options(options);
        let mut features = Features::kubernetes_1_37();
        features.parse("DRAResourcePoolStatus=true").unwrap();
        let stage = Self::of(Cluster::options().features(features).plane(plane), settings);
        stage.until("all slices are published", || {
            stage.list("/apis/resource.k8s.io/v1/resourceslices").len() == 2
        });
        stage
    }

    /// A cluster like this, with the chart's roles.
    pub(crate) fn of(options: ClusterOptions, settings: &[&str]) -> Self {
        let stage = Self { cluster: options.start().unwrap(), folder: tempfile::tempdir().unwrap() };
        stage.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}));
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        for object in stage.chart(settings) {
            let path = match object["kind"].as_str().unwrap() {
                "ServiceAccount" => format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
                "ClusterRole" => format!("{roles}/clusterroles"),
                "ClusterRoleBinding" => format!("{roles}/clusterrolebindings"),
                "Role" => format!("{roles}/namespaces/{NAMESPACE}/roles"),
                "RoleBinding" => format!("{roles}/namespaces/{NAMESPACE}/rolebindings"),
                _ => continue,
            };
            stage.create(&path, &object);
        }
        stage
    }

    pub(crate) fn chart(&self, settings: &[&str]) -> Vec<Value> {
        let mut helm = Command::new(tools::helm());
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/chart");
        helm.args(["template", "lazaret"]).arg(chart).args([
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.37.0",
        ]);
        for home in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(home, self.folder.path().join("helm"));
        }
        settings.iter().for_each(|setting| {
            helm.args(["--set", setting]);
        });
        let text = tools::run(&mut helm);
        let all = text.split("---\n").filter(|document| !document.trim().is_empty());
        all.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
    }

    /// A kubeconfig with nothing but the token of a service account, in a file as a pod has it.
    pub(crate) fn kubeconfig(&self, account: &str) -> PathBuf {
        let (token, config) =
            (self.folder.path().join(format!("{account}.token")), self.folder.path().join(account));
        self.renew(account, &token);
        let authority = self.folder.path().join("ca.crt");
        fs::write(&authority, self.cluster.authority()).unwrap();
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{}", self.cluster.address()), "certificate-authority": authority}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"tokenFile": token}}],
        });
        fs::write(&config, text.to_string()).unwrap();
        config
    }

    fn renew(&self, account: &str, file: &Path) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
        let answer = self.create(&path, &request);
        fs::write(file, answer["status"]["token"].as_str().unwrap()).unwrap();
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(bytes)
            .unwrap();
        let client = self.cluster.client();
        self.cluster
            .block_on(async move { client.request::<Value>(request).await })
            .map_err(|error| error.to_string())
    }

    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        self.request("POST", path, "application/json", object).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        let list = self.request("GET", path, "application/json", &Value::Null).unwrap();
        list["items"].as_array().cloned().unwrap()
    }

    pub(crate) fn pods(&self) -> Vec<Value> {
        self.list("/api/v1/namespaces/default/pods")
    }

    /// `replicas` running pods of a ReplicaSet, each with a device.
    pub(crate) fn workload(&self, replicas: usize) {
        self.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
            }),
        );
        let pod = json!({
            "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "terminationGracePeriodSeconds": 0,
        });
        self.create(
            "/apis/apps/v1/namespaces/default/replicasets",
            &json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}},
            }),
        );
        self.until("all pods run", || {
            let pods = self.pods();
            pods.len() == replicas && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
        });
    }

    pub(crate) fn taint(&self, name: &str, pool: &str, effect: &str) {
        self.create(
            "/apis/resource.k8s.io/v1/devicetaintrules",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name},
                "spec": {"deviceSelector": {"driver": DRIVER, "pool": pool}, "taint": {"key": "example.com/out", "effect": effect}},
            }),
        );
    }

    /// Requests that were refused for want of a permission.
    pub(crate) fn refused(&self) -> Vec<String> {
        let request = Request::builder().uri("/metrics").body(Vec::new()).unwrap();
        let client = self.cluster.client();
        let text = self.cluster.block_on(async move { client.request_text(request).await }).unwrap();
        let of = |line: &&str| line.starts_with("apiserver_request_total") && line.contains("code=\"403\"");
        text.lines().filter(of).map(str::to_owned).collect()
    }

    #[allow(clippy::disallowed_methods, reason = "a test bounds itself by a clock")]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "never: {what}; refused: {:?}", self.refused());
            std::thread::sleep(Duration::from_millis(20));
        }
        start.elapsed()
    }

    pub(crate) fn holder(&self) -> Option<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/lazaret-controllers");
        let lease = self.request("GET", &path, "application/json", &Value::Null).ok()?;
        lease["spec"]["holderIdentity"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// How often each pod was evicted, by the events that say so.
    pub(crate) fn evictions(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for event in self.list("/api/v1/namespaces/default/events") {
            if event["reason"] == "DeviceTaintManagerEviction" {
                *counts.entry(event["involvedObject"]["uid"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        counts
    }
}
