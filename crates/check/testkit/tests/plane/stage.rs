//! A cluster with simulated nodes, and the few words that the plays are written in.

use std::{future::Future, time::Duration};

use http::Request;
use lazaret_testkit::{Cluster, Options, Plane};
use serde_json::{Value, json};

/// No play waits longer for anything; a slow machine needs a part of it.
const PATIENCE: Duration = Duration::from_secs(180);
pub(crate) const DRIVER: &str = "gpu.example.com";

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
}

impl Stage {
    /// `nodes` nodes with `devices` devices each, ready.
    pub(crate) fn with(nodes: usize, devices: usize) -> Self {
        Self::of(Cluster::options().plane(Plane::simulated(nodes, devices)), nodes)
    }

    /// A cluster like this, once all its nodes have published their devices.
    pub(crate) fn of(options: Options, nodes: usize) -> Self {
        let stage = Self { cluster: options.start().unwrap() };
        stage.until("all slices are published", || {
            let found = stage.list("/apis/resource.k8s.io/v1/resourceslices").len();
            (found == nodes).then_some(()).ok_or_else(|| format!("{found} slices"))
        });
        stage
    }

    /// Does by hand what the controller of nodes does, where none runs: nodes that have registered get their pods.
    pub(crate) fn take_taints_of_nodes(&self) {
        for node in self.list("/api/v1/nodes") {
            let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap_or_default());
            self.merge(&path, &json!({"spec": {"taints": null}}));
        }
    }

    /// One request; panics when it is refused.
    pub(crate) fn request(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        self.try_request(method, path, content_type, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub(crate) fn try_request(
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
        self.wait(async move { client.request::<Value>(request).await }).map_err(|error| error.to_string())
    }

    /// The text at a path that holds no objects.
    pub(crate) fn text(&self, path: &str) -> String {
        let request = Request::builder().uri(path).body(Vec::new()).unwrap();
        let client = self.cluster.client();
        self.wait(async move { client.request_text(request).await }).unwrap()
    }

    fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        self.cluster.block_on(future)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.request("GET", path, "application/json", &Value::Null)
    }

    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        self.request("POST", path, "application/json", object)
    }

    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Value {
        self.request("PATCH", path, "application/merge-patch+json", patch)
    }

    pub(crate) fn delete(&self, path: &str) -> Value {
        self.request("DELETE", path, "application/json", &Value::Null)
    }

    /// Waits until `look` finds what it looks for; says what it saw last when that takes too long.
    pub(crate) fn until<T>(&self, what: &str, look: impl Fn() -> Result<T, String>) -> T {
        #[allow(clippy::disallowed_methods, reason = "a test bounds itself by a clock")]
        let start = std::time::Instant::now();
        loop {
            match look() {
                Ok(found) => return found,
                Err(last) if start.elapsed() > PATIENCE => panic!("never saw that {what}; last: {last}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// A template for one device of the class, with these tolerations.
    pub(crate) fn template(&self, name: &str, tolerations: &Value) {
        self.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
                "spec": {"spec": {"devices": {"requests": [{
                    "name": "gpu", "exactly": {"deviceClassName": DRIVER, "tolerations": tolerations},
                }]}}},
            }),
        );
    }

    /// A pod with a claim from a template.
    pub(crate) fn pod(&self, name: &str, template: &str) {
        self.create(
            "/api/v1/namespaces/default/pods",
            &pod(name, &json!({"resourceClaimTemplateName": template})),
        );
    }

    pub(crate) fn pod_now(&self, name: &str) -> Option<Value> {
        let found = self.try_request("GET", &pod_path(name), "application/json", &Value::Null);
        match found {
            Ok(pod) => Some(pod),
            Err(error) if error.contains("not found") => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn running(&self, name: &str) -> Value {
        self.until(&format!("{name} runs"), || {
            let pod = self.pod_now(name).ok_or("gone")?;
            if pod["status"]["phase"] == "Running" { Ok(pod) } else { Err(pod["status"].to_string()) }
        })
    }

    pub(crate) fn gone(&self, name: &str) {
        self.until(&format!("{name} is gone"), || {
            self.pod_now(name).map_or(Ok(()), |pod| Err(pod["status"].to_string()))
        });
    }

    /// Pool and name of the one device that a pod's claim holds.
    pub(crate) fn device_of(&self, pod: &str) -> (String, String) {
        let pod = self.pod_now(pod).unwrap();
        let claim =
            pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap().to_owned();
        let claim = self.get(&format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim}"));
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        (result["pool"].as_str().unwrap().to_owned(), result["device"].as_str().unwrap().to_owned())
    }

    /// Makes the simulated driver publish a taint on a device.
    pub(crate) fn fail(&self, node: &str, device: &str, effect: &str) {
        let failures = json!({device: {"effect": effect, "reason": "played"}}).to_string();
        self.merge(
            &format!("/api/v1/nodes/{node}"),
            &json!({"metadata": {"annotations": {"hollow.lazaret.dev/fail": failures}}}),
        );
        self.until("the driver has published the taint", || {
            let slices = self.list("/apis/resource.k8s.io/v1/resourceslices");
            let tainted = slices.iter().filter(|slice| slice["spec"]["nodeName"] == node).any(|slice| {
                slice["spec"]["devices"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|one| one["name"] == device && one["taints"].is_array())
            });
            tainted.then_some(()).ok_or_else(|| "no taint".to_owned())
        });
    }

    pub(crate) fn recover(&self, node: &str) {
        self.merge(
            &format!("/api/v1/nodes/{node}"),
            &json!({"metadata": {"annotations": {"hollow.lazaret.dev/fail": null}}}),
        );
    }

    /// A rule with this selector.
    pub(crate) fn rule(&self, version: &str, name: &str, selector: &Value, taint: &Value) {
        self.create(
            &format!("/apis/resource.k8s.io/{version}/devicetaintrules"),
            &json!({
                "apiVersion": format!("resource.k8s.io/{version}"), "kind": "DeviceTaintRule",
                "metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint},
            }),
        );
    }

    /// Waits until the controllers have heard of a rule, and with them the scheduler: news are brought to all of them at once. A pod that is made
    /// after that does not come before the rule.
    pub(crate) fn heard_of(&self, rule: &str) {
        self.condition(rule, "is there", |_| true);
    }

    /// The same for a taint that a driver has published: devices are counted by their effects.
    pub(crate) fn heard_of_taint(&self, effect: &str) {
        self.until("a device is counted as tainted", || {
            let metrics = self.text("/metrics");
            let mut devices = metrics.lines().filter(|line| line.starts_with("lazaret_devices{"));
            let is_counted = devices.any(|line| line.contains(&format!("effect=\"{effect}\"")));
            is_counted.then_some(()).ok_or_else(|| "none".to_owned())
        });
    }

    /// The condition of a rule, once it satisfies `wanted`.
    pub(crate) fn condition(&self, rule: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("the condition of {rule} {what}"), || {
            let rule = self.get(&format!("/apis/resource.k8s.io/v1/devicetaintrules/{rule}"));
            let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
            match conditions.into_iter().find(|one| one["type"] == "EvictionInProgress") {
                Some(condition) if wanted(&condition) => Ok(condition),
                other => Err(other.map_or_else(|| "none".to_owned(), |condition| condition.to_string())),
            }
        })
    }

    /// Messages of events about an object, by reason.
    pub(crate) fn events(&self, name: &str, reason: &str) -> Vec<String> {
        self.list("/api/v1/namespaces/default/events")
            .iter()
            .filter(|event| event["involvedObject"]["name"] == name && event["reason"] == reason)
            .map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The messages of events about an object by this reason, once there is one: events are sent after the writes that they report.
    pub(crate) fn told_of(&self, name: &str, reason: &str) -> Vec<String> {
        self.until(&format!("{reason} is told of {name}"), || {
            let told = self.events(name, reason);
            if told.is_empty() { Err("no event".to_owned()) } else { Ok(told) }
        })
    }

    /// Lets the control plane look at everything once more: what it would do wrongly, it has done then.
    pub(crate) fn settle(&self) {
        let name = format!("marker-{}", self.list("/api/v1/namespaces/default/pods").len());
        let mut marker = pod(&name, &Value::Null);
        marker["spec"]["resourceClaims"] = Value::Null;
        marker["spec"]["containers"][0]["resources"] = Value::Null;
        self.create("/api/v1/namespaces/default/pods", &marker);
        self.running(&name);
        self.delete(&pod_path(&name));
        self.gone(&name);
    }
}

pub(crate) fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

/// A pod that uses one claim, from a template or by name.
pub(crate) fn pod(name: &str, source: &Value) -> Value {
    let mut claim = json!({"name": "gpu"});
    if let (Some(claim), Some(source)) = (claim.as_object_mut(), source.as_object()) {
        claim.extend(source.clone());
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "work", "image": "work", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [claim],
        },
    })
}

/// A taint.
pub(crate) fn taint(effect: &str) -> Value {
    json!({"key": "example.com/maintenance", "value": "planned", "effect": effect})
}
