//! Pods on tainted nodes and devices are replaced: the design document's policy with seconds for its hours, and what can come
//! in between.

mod access;
mod leaders;
mod limits;
mod strategies;
mod timing;

use serde_json::{Value, json};

use crate::stage::{Stage, pod};

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The words of these plays.
impl Stage {
    fn policy(&self, name: &str, options: &Value) {
        self.create(POLICIES, &policy(name, options));
    }

    fn policy_now(&self, name: &str) -> Value {
        self.get(&format!("{POLICIES}/{name}"))
    }

    /// Lets pods be placed that wait for it.
    fn release(&self) {
        for pod in self.list(PODS).iter().filter(|pod| !pod["spec"]["schedulingGates"].is_null()) {
            let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
            // One that goes meanwhile needs no place.
            let kind = "application/merge-patch+json";
            let _ = self.try_request("PATCH", &path, kind, &json!({"spec": {"schedulingGates": null}}));
        }
    }

    /// Changes the options of a policy.
    fn set_options(&self, name: &str, options: &Value) {
        self.merge(&format!("{POLICIES}/{name}"), &json!({"spec": {"automaticReplacementOptions": options}}));
    }

    fn taint_node(&self, node: &str, keys: &[&str]) {
        let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        self.merge(&format!("/api/v1/nodes/{node}"), &json!({"spec": {"taints": taints}}));
    }

    /// A deployment whose pods all serve.
    fn deployment(&self, name: &str, replicas: usize, template: Option<&str>) {
        self.deployment_with(name, replicas, template, &Value::Null);
    }

    /// The same, whose later pods wait to be [released](Self::release): what is begun stays half-way until then.
    fn held_deployment(&self, name: &str, replicas: usize) {
        self.deployment_with(name, replicas, None, &json!([{"name": "example.com/released"}]));
    }

    fn deployment_with(&self, name: &str, replicas: usize, template: Option<&str>, gates: &Value) {
        let mut spec = pod(
            name,
            &template.map_or(Value::Null, |name| json!({"resourceClaimTemplateName": name})),
        )["spec"]
            .take();
        if template.is_none() {
            spec["resourceClaims"] = Value::Null;
            spec["containers"][0]["resources"] = Value::Null;
        }
        spec["schedulingGates"] = gates.clone();
        self.create(
            "/apis/apps/v1/namespaces/default/deployments",
            &json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
                },
            }),
        );
        self.until("all pods serve", || {
            self.release();
            let serving = self.serving().len();
            if serving == replicas { Ok(()) } else { Err(serving.to_string()) }
        });
    }

    /// Name, node and UID of each pod that is Ready and stays.
    fn serving(&self) -> Vec<(String, String, String)> {
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let fields = |pod: &Value| {
            let metadata = &pod["metadata"];
            (text(&metadata["name"]), text(&pod["spec"]["nodeName"]), text(&metadata["uid"]))
        };
        self.list(PODS).iter().filter(|pod| ready(pod)).map(fields).collect()
    }

    fn on(&self, node: &str) -> Vec<String> {
        self.serving().into_iter().filter(|(_, at, _)| at == node).map(|(name, ..)| name).collect()
    }

    /// Waits until `count` pods serve; returns their name, node and UID.
    fn all_serve(&self, count: usize) -> Vec<(String, String, String)> {
        self.until("all serve", || {
            let serving = self.serving();
            if serving.len() == count { Ok(serving) } else { Err(format!("{serving:?}")) }
        })
    }

    /// The value of a metric of the server, `name{labels}`; 0 if it is absent.
    fn counted(&self, metric: &str) -> u64 {
        let text = self.text("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until a policy is as wanted.
    fn see(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(what, || {
            let policy = self.policy_now(name);
            if wanted(&policy["status"]) {
                Ok(policy["status"].clone())
            } else {
                Err(policy["status"].to_string())
            }
        })
    }
}

fn policy(name: &str, options: &Value) -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "TaintReplacementPolicy", "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "automaticReplacementOptions": options},
    })
}

/// The document's options, a second for each twenty minutes.
fn document() -> Value {
    json!({
        "enabled": true,
        "failureDetectionTimeSeconds": 7200,
        "maxConcurrentReplacements": 1,
        "enableNodeFailureDetection": true,
        "taintReplacementOptions": [
            {"key": "example.org/maintenance", "durationInSeconds": 7200},
            {"key": "example.org/disconnected", "durationInSeconds": 3},
            {"key": "*", "durationInSeconds": 2},
        ],
        "taintReplacementTimeSeconds": 2,
    })
}

fn conditions(status: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = status["pods"].as_array().cloned().unwrap_or_default();
    pods.iter().map(|pod| (text(&pod["node"]), text(&pod["taintKey"]), text(&pod["condition"]))).collect()
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|one| one["type"] == kind).unwrap_or(&NONE)
}
