//! `lazaret up` with simulated nodes, policies for it, and what is asked of it.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::support::{LAZARET, wait_until};

pub(crate) const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
pub(crate) const INCIDENTS: &str = "/apis/lazaret.dev/v1alpha1/deviceincidents";
pub(crate) const SIGNALS: &str = "/apis/lazaret.dev/v1alpha1/devicesignals";
pub(crate) const DRAINS: &str = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
pub(crate) const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";
pub(crate) const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
pub(crate) const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
pub(crate) const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DRIVER: &str = "gpu.example.com";

/// A control plane with simulated nodes whose store outlives it.
pub(crate) struct Up {
    process: Child,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
    pub(crate) folder: std::path::PathBuf,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Up {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut process = Command::new(LAZARET)
            .args(["up", "--nodes", "1", "--devices", "2", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("kubeconfig: ")).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let path = folder.join("kubeconfig");
        let client = runtime.block_on(async {
            let file = kube::config::Kubeconfig::read_from(path).unwrap();
            let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
            kube::Client::try_from(config).unwrap()
        });
        let up = Self { process, runtime, client, folder: folder.to_owned() };
        up.permit_repairs();
        up
    }

    /// The account of the policies may create what their steps and validations need. After a restart it may already.
    fn permit_repairs(&self) {
        let rules = json!([
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["create", "get"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]},
        ]);
        let role = json!({"metadata": {"name": "repair"}, "rules": rules});
        let binding = json!({
            "metadata": {"name": "repair"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "repair"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "lazaret-repair", "name": "repair"}],
        });
        for (path, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{path}");
            if let Err(error) = self.try_send("POST", &path, &object) {
                assert!(error.contains("already exists"), "{path}: {error}");
            }
        }
    }

    /// Ends it as a power failure would, and starts it again.
    pub(crate) fn kill(self) -> Self {
        let folder = self.folder.clone();
        drop(self);
        Self::start(&folder)
    }

    pub(crate) fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(if body.is_null() { vec![] } else { body.to_string().into_bytes() })
            .unwrap();
        self.runtime.block_on(self.client.request(request)).map_err(|error| error.to_string())
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_send(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        self.send("GET", path, &Value::Null)["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn device(&self, words: &[&str]) -> Output {
        let kubeconfig = self.folder.join("kubeconfig");
        Command::new(LAZARET).arg("device").args(words).env("KUBECONFIG", kubeconfig).output().unwrap()
    }

    /// The output of a command of `kubectl device`; it must succeed.
    pub(crate) fn said(&self, words: &[&str]) -> String {
        let output = self.device(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The driver's taint on a device, as the slice has it.
    pub(crate) fn is_reported(&self, device: &str) -> bool {
        let slices = self.list(SLICES);
        let devices = slices.iter().flat_map(|slice| slice["spec"]["devices"].as_array().unwrap());
        devices.filter(|one| one["name"] == device).any(|one| !one["taints"].is_null())
    }

    pub(crate) fn fail(&self, device: &str) {
        self.said(&["fail", &format!("node-1/{device}"), "--effect", "None"]);
        wait_until("the driver reports it", || self.is_reported(device));
    }

    pub(crate) fn recover(&self, device: &str) {
        self.said(&["recover", &format!("node-1/{device}")]);
        wait_until("the driver reports no more", || !self.is_reported(device));
    }

    /// The first of the stored counts of the policy.
    pub(crate) fn counts(&self) -> Value {
        self.send("GET", &format!("{POLICIES}/gpus"), &Value::Null)["status"]["counts"][0].clone()
    }

    pub(crate) fn incident(&self) -> Value {
        self.list(INCIDENTS).into_iter().next().unwrap_or_default()
    }

    pub(crate) fn until_stage(&self, stage: &str) -> Value {
        let mut last = Value::Null;
        wait_until(&format!("the incident is {stage}"), || {
            last = self.incident();
            last["status"]["stage"] == stage
        });
        last
    }

    /// Lets the pods of jobs run that wait for it.
    pub(crate) fn release_jobs(&self) {
        let is_held = |pod: &Value| !pod["spec"]["schedulingGates"].is_null();
        let mut released = 0;
        wait_until("a pod of a job waits to be released", || {
            for pod in self.list(PODS).iter().filter(|pod| is_held(pod)) {
                let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
                self.send("PATCH", &path, &json!({"spec": {"schedulingGates": null}}));
                released += 1;
            }
            released > 0
        });
    }

    /// A pod with one device, which does not stop by itself; which one it got.
    pub(crate) fn pod(&self, name: &str) -> String {
        let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": DRIVER}},
        ]}}});
        self.send("POST", CLAIMS, &claim);
        let pod = json!({
            "metadata": {"name": name, "annotations": {"hollow.lazaret.dev/stop-after": "1h"}},
            "spec": {
                "terminationGracePeriodSeconds": 3600,
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            },
        });
        self.send("POST", PODS, &pod);
        wait_until("the pod runs", || {
            self.send("GET", &format!("{PODS}/{name}"), &Value::Null)["status"]["phase"] == "Running"
        });
        let claim = self.send("GET", &format!("{CLAIMS}/{name}"), &Value::Null);
        claim["status"]["allocation"]["devices"]["results"][0]["device"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn job(run_for: &str) -> Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"hollow.lazaret.dev/run-for": run_for}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }}})
}

pub(crate) fn policy() -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "gpus"},
        "spec": {
            "deviceSelector": {"deviceClassName": DRIVER},
            "rules": [
                {
                    "name": "flapping", "stage": "Drained", "taint": {"value": "flapping"},
                    "when": "signal.source == 'Taint' && signal.key == 'gpu.example.com/unhealthy'",
                    "count": {"atLeast": 3, "within": "10m"},
                },
                {"name": "loud", "stage": "Quarantined", "when": "signal.key == 'example.com/fan'"},
            ],
            "clearAfter": "1s",
            "eviction": {"evictionsPerSecond": 5, "mode": "EvictThenDelete", "deadlineSeconds": 60, "maxConcurrent": 2},
            "repair": {"steps": [{"name": "reset", "job": {"template": job("4s")}, "timeoutSeconds": 600}]},
            "recovery": {"probation": "2s", "validation": {"template": job("2s")}},
            "serviceAccount": {"namespace": "lazaret-repair", "name": "repair"},
            "mode": "Enforce",
        },
    })
}

/// The same with jobs that wait to be released: a stage is over when the test says so, and none can be missed.
pub(crate) fn held(mut policy: Value) -> Value {
    for path in ["/spec/repair/steps/0/job/template", "/spec/recovery/validation/template"] {
        let spec = policy.pointer_mut(path).unwrap().pointer_mut("/spec/template/spec").unwrap();
        spec["schedulingGates"] = json!([{"name": "example.com/released"}]);
    }
    policy
}

pub(crate) fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|entry| entry[field].as_str().unwrap()).collect()
}
