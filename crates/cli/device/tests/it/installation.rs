//! The report of `kubectl device check` about Lazaret's own installation: each way in which it can be wrong, and its remedy.

use lazaret_device::Verdict;
use serde_json::{Value, json};

use crate::support::Cluster;

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/taintreplacementpolicies.lazaret.dev";

/// The lines of the section about this check.
async fn said(cluster: &Cluster, about: &str) -> String {
    let ran = cluster.run(&["check"]).await;
    let section = ran.out.split("\ninstallation\n").nth(1).unwrap().to_owned();
    let mut lines = section.lines().skip_while(|line| !line.contains(about));
    let first = lines.next().unwrap_or_else(|| panic!("{about}: {section}"));
    match lines.next().filter(|line| line.starts_with("    ")) {
        Some(hint) => format!("{first}\n{}", hint.trim()),
        None => first.to_owned(),
    }
}

fn deployment(namespace: &str, component: &str, version: &str) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": "lazaret", "app.kubernetes.io/component": component, "app.kubernetes.io/version": version,
    });
    json!({
        "metadata": {"name": format!("lazaret-{component}"), "namespace": namespace, "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    })
}

/// A component that is there, and as well as it says.
async fn installed(cluster: &Cluster, namespace: &str, version: &str, available: bool) {
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let mut made = cluster.post(&path, deployment(namespace, "controllers", version)).await;
    let status = if available { "True" } else { "False" };
    made["status"] = json!({"readyReplicas": if available { 2 } else { 1 }, "replicas": 2, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": status, "reason": "r", "message": "m"}]});
    cluster.send("PUT", &format!("{path}/lazaret-controllers/status"), "application/json", &made).await;
}

/// Seconds from now, by the server's clock.
#[allow(clippy::disallowed_methods, reason = "the server has no other clock")]
fn instant(seconds: i64) -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    format!("{}Z", at.strftime("%Y-%m-%dT%H:%M:%S.000000"))
}

async fn lease(cluster: &Cluster, namespace: &str, renewed: &str) {
    let object = json!({"metadata": {"name": "lazaret-controllers"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed}});
    cluster.post(&format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"), object).await;
}

async fn event(cluster: &Cluster, name: &str, instance: &str, time: &str) {
    let object = json!({
        "metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "DeviceTaintManagerEviction", "message": "Marking for deletion", "type": "Normal",
        "source": {"component": "device-taint-eviction"}, "reportingComponent": "device-taint-eviction",
        "reportingInstance": instance,
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    cluster.post("/api/v1/namespaces/default/events", object).await;
}

#[tokio::test]
async fn an_installation_that_is_well_is_said_to_be() {
    let cluster = Cluster::small().await;
    installed(&cluster, "default", env!("CARGO_PKG_VERSION"), true).await;
    lease(&cluster, "default", &instant(0)).await;
    event(&cluster, "e", "device-taint-eviction", "2026-01-01T11:00:00Z").await;
    for (about, wanted) in [
        ("own kinds", "√ Lazaret's own kinds are defined"),
        ("available", "√ components are available"),
        ("version of this program", "√ components have the version of this program"),
        ("installed once", "√ each component is installed once"),
        ("process leads", "√ one process leads"),
        ("renewed", "√ leases are renewed"),
        ("evicts", "√ one controller evicts pods from tainted devices: Lazaret"),
    ] {
        assert_eq!(said(&cluster, about).await, wanted);
    }
}

#[tokio::test]
async fn definitions_that_are_missing_or_old_are_named_with_what_mends_them() {
    let cluster = Cluster::small().await;
    let mend = "lazaret install --crds-only | kubectl apply -f -";
    let old = json!({"metadata": {"annotations": {"lazaret.dev/schema": "0"}}});
    cluster.send("PATCH", CRD, "application/merge-patch+json", &old).await;
    assert_eq!(
        said(&cluster, "own kinds").await,
        format!(
            "‼ Lazaret's own kinds are defined: taintreplacementpolicies.lazaret.dev (of another version of Lazaret)\n{mend}"
        )
    );
    // The finalizer keeps it from going, so that it is seen on its way.
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    cluster.send("PATCH", CRD, "application/merge-patch+json", &keep).await;
    cluster.send("DELETE", CRD, "application/json", &Value::Null).await;
    assert_eq!(
        said(&cluster, "own kinds").await,
        format!(
            "× Lazaret's own kinds are defined: taintreplacementpolicies.lazaret.dev (being deleted)\n{mend}"
        )
    );
    assert_eq!(cluster.run(&["check"]).await.verdict, Ok(Verdict::No));
}

#[tokio::test]
async fn components_that_are_down_old_or_there_twice_are_named() {
    let cluster = Cluster::small().await;
    installed(&cluster, "default", "0.0.1", false).await;
    assert!(
        said(&cluster, "available")
            .await
            .starts_with("× components are available: default/lazaret-controllers (1 of 2 ready)\n")
    );
    assert_eq!(
        said(&cluster, "version of this program").await,
        "‼ components have the version of this program: default/lazaret-controllers (0.0.1)\nupgrade the chart and the program together"
    );
    installed(&cluster, "research", "0.0.1", true).await;
    assert_eq!(
        said(&cluster, "installed once").await,
        "× each component is installed once: research/lazaret-controllers\neach installation has a lease of its own, so both act: remove one"
    );
}

#[tokio::test]
async fn leases_tell_who_leads_and_whose_clock_is_wrong() {
    let cluster = Cluster::small().await;
    lease(&cluster, "default", &instant(-3_600)).await;
    let stale = said(&cluster, "renewed").await;
    assert!(
        stale.starts_with("‼ leases are renewed: default/lazaret-controllers (held by a, last renewed 3"),
        "{stale}"
    );
    lease(&cluster, "kube-system", &instant(0)).await;
    assert_eq!(said(&cluster, "process leads").await, "√ one process leads");
    lease(&cluster, "research", &instant(90_000)).await;
    assert!(
        said(&cluster, "process leads")
            .await
            .starts_with("× one process leads: research/lazaret-controllers\n")
    );
    let skew = said(&cluster, "clocks agree").await;
    assert!(
        skew.contains(
            "the holder of lease research/lazaret-controllers is more than a day ahead of the server"
        ),
        "{skew}"
    );
}

#[tokio::test]
async fn two_controllers_that_evict_are_noticed_by_their_events() {
    let cluster = Cluster::small().await;
    event(&cluster, "theirs", "", "2026-01-01T11:00:00Z").await;
    assert_eq!(
        said(&cluster, "evicts").await,
        "√ one controller evicts pods from tainted devices: Kubernetes' controller manager"
    );
    // It was turned off, and Lazaret took over.
    event(&cluster, "ours", "device-taint-eviction", "2026-01-01T11:10:00Z").await;
    assert_eq!(said(&cluster, "evicts").await, "√ one controller evicts pods from tainted devices: Lazaret");
    event(&cluster, "again", "", "2026-01-01T11:20:00Z").await;
    let both = said(&cluster, "evicts").await;
    assert!(
        both.starts_with("‼ one controller evicts pods from tainted devices: Lazaret evicted pods (1) and so did Kubernetes' controller manager (2)\n"),
        "{both}"
    );
}

#[tokio::test]
async fn what_this_user_may_not_see_is_said_to_be_unknown() {
    let refused = vec!["get customresourcedefinitions", "list deployments", "list leases", "list events"];
    let cluster = Cluster::with(lazaret_server::Features::kubernetes_1_37(), &[], refused).await;
    for (about, resource) in [
        ("own kinds", "customresourcedefinitions"),
        ("available", "deployments.apps"),
        ("process leads", "leases.coordination.k8s.io"),
        ("evicts", "events"),
    ] {
        let line = said(&cluster, about).await;
        assert!(
            line.starts_with('?') && line.ends_with(&format!("this user may not list {resource}")),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_policy_that_does_less_than_it_asks_for_is_named_with_its_reason() {
    let cluster = Cluster::small().await;
    assert_eq!(said(&cluster, "in effect").await, "√ policies are in effect");
    let path = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
    let spec = json!({"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}});
    let mut made = cluster.post(path, json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "wide"}, "spec": spec})).await;
    made["status"] = json!({"conditions": [{"type": "Compiled", "status": "False", "reason": "TooManyDevices",
        "message": "256 DeviceTaintRules; 3 selected devices have none", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    cluster.send("PUT", &format!("{path}/wide/status"), "application/json", &made).await;
    assert_eq!(
        said(&cluster, "in effect").await,
        "‼ policies are in effect: wide (256 DeviceTaintRules; 3 selected devices have none)\nkubectl describe the policy; a role or a kind may be missing"
    );
}

const APPS: &str = "/apis/apps/v1/namespaces/default";

fn labels(component: &str) -> Value {
    json!({"app.kubernetes.io/name": "lazaret", "app.kubernetes.io/component": component})
}

#[tokio::test]
async fn a_component_says_why_its_pods_do_not_run_and_that_it_is_alone() {
    let cluster = Cluster::small().await;
    installed(&cluster, "default", env!("CARGO_PKG_VERSION"), false).await;
    let pod = json!({"metadata": {"name": "p", "labels": labels("controllers")}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut pod = cluster.post("/api/v1/namespaces/default/pods", pod).await;
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    pod["status"] = json!({"containerStatuses": [
        {"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": waiting}]});
    cluster.send("PUT", "/api/v1/namespaces/default/pods/p/status", "application/json", &pod).await;
    let down = said(&cluster, "available").await;
    assert!(
        down.starts_with(
            "× components are available: default/lazaret-controllers (1 of 2 ready; ImagePullBackOff)\n"
        ),
        "{down}"
    );
    assert_eq!(said(&cluster, "spare replica").await, "√ each component has a spare replica");
    let scale = json!({"spec": {"replicas": 1}});
    let path = format!("{APPS}/deployments/lazaret-controllers");
    cluster.send("PATCH", &path, "application/merge-patch+json", &scale).await;
    assert_eq!(
        said(&cluster, "spare replica").await,
        "‼ each component has a spare replica: default/lazaret-controllers\nnothing acts while the only pod is replaced: set replicas to 2 in the chart"
    );
}

#[tokio::test]
async fn roles_that_are_missing_are_named_for_components_and_for_people() {
    let cluster = Cluster::small().await;
    installed(&cluster, "default", env!("CARGO_PKG_VERSION"), true).await;
    assert_eq!(said(&cluster, "may do what they need").await, "√ components may do what they need");
    let people = said(&cluster, "roles for people").await;
    assert!(
        people.starts_with(
            "‼ roles for people are there: kubectl-device-read, kubectl-device-act, kubectl-device-release\n"
        ),
        "{people}"
    );
    let refused = vec!["patch leases"];
    let cluster = Cluster::with(lazaret_server::Features::kubernetes_1_37(), &[], refused).await;
    installed(&cluster, "default", env!("CARGO_PKG_VERSION"), true).await;
    assert_eq!(
        said(&cluster, "may do what they need").await,
        "× components may do what they need: default/default may not patch leases\na role or its binding is missing: install again, with rbac.create=true in the chart"
    );
}

#[tokio::test]
async fn daemon_sets_schedulers_and_policies_that_do_nothing_are_named() {
    let cluster = Cluster::small().await;
    let set = json!({"metadata": {"name": "driver", "labels": labels("driver-example")},
        "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let mut set = cluster.post(&format!("{APPS}/daemonsets"), set).await;
    set["status"] = json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 3, "numberMisscheduled": 0, "numberReady": 1});
    cluster.send("PUT", &format!("{APPS}/daemonsets/driver/status"), "application/json", &set).await;
    let down = said(&cluster, "run on their nodes").await;
    assert!(
        down.starts_with("× drivers and node agents run on their nodes: default/driver (1 of 3 nodes)\n"),
        "{down}"
    );
    let pod = json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "lazaret", "containers": [{"name": "c", "image": "i"}]}});
    cluster.post("/api/v1/namespaces/default/pods", pod).await;
    let lost = said(&cluster, "scheduler that they name").await;
    assert!(lost.starts_with("× pods find the scheduler that they name: default/p\n"), "{lost}");
    cluster
        .post(&format!("{APPS}/deployments"), deployment("default", "scheduler", env!("CARGO_PKG_VERSION")))
        .await;
    assert_eq!(said(&cluster, "scheduler that they name").await, "√ pods find the scheduler that they name");

    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let policy = json!({"metadata": {"name": "ours", "labels": labels("rule-selects")},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}});
    let admission = "/apis/admissionregistration.k8s.io/v1";
    cluster.post(&format!("{admission}/validatingadmissionpolicies"), policy).await;
    let loose = said(&cluster, "in force").await;
    assert!(loose.starts_with("‼ admission policies are in force: ours\n"), "{loose}");
    let binding =
        json!({"metadata": {"name": "ours"}, "spec": {"policyName": "ours", "validationActions": ["Deny"]}});
    cluster.post(&format!("{admission}/validatingadmissionpolicybindings"), binding).await;
    assert_eq!(said(&cluster, "in force").await, "√ admission policies are in force");
}

/// A certificate that nobody serves with.
const STRANGER: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJlVENDQVIrZ0F3SUJBZ0lVSklZSXh0VVU2T0JNVXk1T0Qxek1jc3ZsODBJd0NnWUlLb1pJemowRUF3SXcKRVRFUE1BMEdBMVVFQXd3R2JtOWliMlI1TUNBWERUSTJNVEV4TmpFMk1qWTBORm9ZRHpJeE1qWXhNREl6TVRZeQpOalEwV2pBUk1ROHdEUVlEVlFRRERBWnViMkp2Wkhrd1dUQVRCZ2NxaGtqT1BRSUJCZ2dxaGtqT1BRTUJCd05DCkFBVGZEMlppcnZ0M2lobmpzVUdySFBBKytRM3dGYnlKTms1SmlrZEo0aWhVTENDWlNJLzE2dGJ3U3FYM2NaQ1MKUTlxSlVoMTZHRnhVUDFzVTlEWWswZHNZbzFNd1VUQWRCZ05WSFE0RUZnUVVpWjgySU4reG43WmpndnRmcmIyTAp0eDNFR0Rzd0h3WURWUjBqQkJnd0ZvQVVpWjgySU4reG43WmpndnRmcmIyTHR4M0VHRHN3RHdZRFZSMFRBUUgvCkJBVXdBd0VCL3pBS0JnZ3Foa2pPUFFRREFnTklBREJGQWlFQTBpU2VLLzFSVnVPdWlrUFVUeUtKQllMY1haQmUKd0puRDJpbE1sb3k2MVc4Q0lCTFVrODFLUkdrOXo5ZEFDZDRzUTVTbm1sdVhVcDdtd2Q4cXROcVJVdXhLCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

#[tokio::test]
async fn a_webhook_that_is_not_reached_is_named_with_what_keeps_it() {
    let cluster = Cluster::small().await;
    let about = "webhook for rules";
    let ran = cluster.run(&["check"]).await;
    assert!(!ran.out.contains(about), "there is none");
    let hook = |client: Value| {
        json!([{"name": "rules.lazaret.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "timeoutSeconds": 1, "clientConfig": client,
            "rules": [{"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["devicetaintrules"]}]}])
    };
    let service = json!({"service": {"namespace": "default", "name": "nowhere"}});
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let made = json!({"metadata": {"name": "lazaret-webhook", "labels": labels("webhook")}, "webhooks": hook(service.clone())});
    cluster.post(hooks, made).await;
    let not_trusted = said(&cluster, about).await;
    assert!(
        not_trusted.starts_with(
            "× the webhook for rules answers: lazaret-webhook (it has no caBundle), so rules are made whatever guards say\n"
        ),
        "{not_trusted}"
    );
    let path = format!("{hooks}/lazaret-webhook");
    let mut trusted = service;
    trusted["caBundle"] = STRANGER.into();
    let patch = json!({"webhooks": hook(trusted)});
    cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await;
    let no_pod = said(&cluster, about).await;
    assert!(no_pod.contains("(no pod of its Service is ready)"), "{no_pod}");
    // Nothing listens at a port that needs a right to be listened at.
    let by_url = json!({"url": "https://127.0.0.1:1/device-taint-rules",
        "caBundle": STRANGER});
    let patch = json!({"webhooks": hook(by_url)});
    cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await;
    let no_answer = said(&cluster, about).await;
    assert!(no_answer.contains("(the API server gets no answer)"), "{no_answer}");
    assert_eq!(cluster.run(&["check"]).await.verdict, Ok(Verdict::No));
}
