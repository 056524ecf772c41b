//! The webhook: guards are asked before Kubernetes evicts.

use std::process::Command;

use lazaret_controllers::Controllers;
use serde_json::{Value, json};

use crate::{
    replica::Replica,
    stage::{DRIVER, OTHERS, Stage},
};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const HOOK: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/lazaret-webhook";
const SECRET: &str = "/api/v1/namespaces/lazaret-system/secrets/lazaret-webhook";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";

impl Stage {
    fn get(&self, path: &str) -> Result<Value, String> {
        self.request("GET", path, "application/json", &Value::Null)
    }

    fn merge(&self, path: &str, patch: &Value) -> Result<Value, String> {
        self.request("PATCH", path, "application/merge-patch+json", patch)
    }

    /// The server's answer to a rule in a dry run.
    fn would_make(&self, effect: &str) -> Result<Value, String> {
        let rule = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"generateName": "r-"},
            "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "example.com/out", "effect": effect}},
        });
        self.request("POST", &format!("{RULES}?dryRun=All"), "application/json", &rule)
    }

    /// The webhook of the chart, at an address of this machine.
    fn register(&self, settings: &[&str], url: &str) {
        let is_it = |object: &Value| object["kind"] == "ValidatingWebhookConfiguration";
        let mut hook = self.chart(settings).into_iter().find(is_it).unwrap();
        hook["webhooks"][0]["clientConfig"] = json!({"url": url});
        // The longest there is: on a slow machine an answer may take its time.
        hook["webhooks"][0]["timeoutSeconds"] = 30.into();
        self.create(HOOKS, &hook);
    }

    /// The line of `kubectl device check` about the webhook.
    fn check(&self) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_lazaret"))
            .args(["device", "check"])
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("webhook for rules"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    }
}

/// The chart's roles are enough to serve the webhook; guards say no to rules for which Kubernetes would evict; replicas share one certificate, and
/// whatever happens to it or to what the server trusts is mended.
#[test]
fn a_webhook_asks_guards_before_kubernetes_evicts() {
    let settings = &["webhook.enabled=true"];
    let stage = Stage::with(Controllers { eviction: true, ..OTHERS }, settings);
    let config = stage.kubeconfig("lazaret-controllers");
    let words = [
        "replacement",
        "--webhook-listen",
        "127.0.0.1:0",
        "--webhook-service",
        "lazaret-system/lazaret-webhook",
        "--webhook-hosts",
        "127.0.0.1",
    ];
    let replica = Replica::start(&config, "a", &words);
    stage.register(settings, replica.webhook.as_deref().unwrap());
    stage.workload(2);
    stage.create(
        "/apis/lazaret.dev/v1alpha1/disruptionguards",
        &json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "stop"},
            "spec": {"paused": {"reason": "freeze"}}}),
    );
    // Watches deliver the guard, the pods and their claims one after another.
    stage.until("the guard is asked about both pods", || {
        stage.would_make("NoExecute").is_err_and(|why| {
            why.contains("admission webhook \"rules.lazaret.dev\" denied the request: DisruptionGuard stop is paused: freeze; Kubernetes would evict 2 pods in 1 namespace")
                && why.contains("run `kubectl device resume stop`")
        })
    });
    stage.until("it is ready", || replica.is_ready());
    // No pod leaves because of this rule; and its effect may not become stronger.
    stage.taint("soft", "node-1", "NoSchedule");
    let soft = format!("{RULES}/soft");
    assert!(stage.merge(&soft, &json!({"spec": {"taint": {"effect": "NoExecute"}}})).is_err());
    assert!(stage.merge(&soft, &json!({"metadata": {"labels": {"a": "b"}}})).is_ok());
    assert!(stage.check().starts_with("√ the webhook for rules answers"), "{}", stage.check());

    let secret = stage.get(SECRET).unwrap();
    let second = Replica::start(&config, "b", &words);
    stage.until("the second replica is ready", || second.is_ready());
    assert_eq!(stage.get(SECRET).unwrap(), secret, "it serves with the same certificate");

    stage.request("DELETE", SECRET, "application/json", &Value::Null).unwrap();
    let stranger = json!({"webhooks": stage.get(HOOK).unwrap()["webhooks"].clone()});
    let mut stranger = stranger;
    stranger["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
    stage.merge(HOOK, &stranger).unwrap();
    stage.until("the Secret is back, with the same authority", || {
        stage.get(SECRET).is_ok_and(|found| found["data"]["ca.crt"] == secret["data"]["ca.crt"])
    });
    stage.until("the server trusts it again", || {
        stage.get(HOOK).unwrap()["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    });
    stage.until("the guard is asked again", || stage.would_make("NoExecute").is_err());

    stage
        .request(
            "DELETE",
            "/apis/lazaret.dev/v1alpha1/disruptionguards/stop",
            "application/json",
            &Value::Null,
        )
        .unwrap();
    stage.until("no guard minds any more", || stage.would_make("NoExecute").is_ok());
    let metrics = replica.get("/metrics");
    assert!(metrics.contains("lazaret_webhook_reviews_total{answer=\"denied\"}"), "{metrics}");
    assert!(metrics.contains("lazaret_webhook_certificate_not_after_seconds 1"), "{metrics}");
    // The webhook's own refusals aside.
    let refused = stage.refused().into_iter().filter(|line| !line.contains("resource=\"devicetaintrules\""));
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
    drop(replica);
    assert!(
        stage
            .check()
            .starts_with("× the webhook for rules answers: lazaret-webhook (the API server gets no answer)"),
        "{}",
        stage.check()
    );
    assert!(stage.would_make("NoExecute").is_ok(), "failurePolicy is Ignore");
}
