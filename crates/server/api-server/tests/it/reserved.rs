//! Attempts of a tenant to write what controllers remember in objects.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEVICES: &str = "/apis/resource.k8s.io/v1";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

struct World(Server);

impl World {
    /// `tenant` may do everything with the usual objects, `controller` may write marks besides.
    async fn new() -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let world = Self(Server::new(store, ServerOptions::default()));
        world.0.bootstrap().await.unwrap();
        let all = json!([{"apiGroups": ["", "apps", "batch", "resource.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
        let marks = json!([{"apiGroups": ["lazaret.dev"], "resources": ["marks"], "verbs": ["write"]}]);
        let bound = [("usual", all, vec!["tenant", "controller"]), ("marks", marks, vec!["controller"])];
        for (name, rules, users) in bound {
            let role = json!({"metadata": {"name": name}, "rules": rules});
            world.ok("POST", &format!("{RBAC}/clusterroles"), &role).await;
            let group = "rbac.authorization.k8s.io";
            let subjects: Vec<Value> =
                users.iter().map(|name| json!({"apiGroup": group, "kind": "User", "name": name})).collect();
            let reference = json!({"apiGroup": group, "kind": "ClusterRole", "name": name});
            let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": subjects});
            world.ok("POST", &format!("{RBAC}/clusterrolebindings"), &binding).await;
        }
        world
    }

    async fn ok(&self, method: &str, path: &str, body: &Value) {
        let (code, text) = self.send("root", method, path, JSON, body).await;
        assert!(code < 300, "{method} {path}: {code} {text}");
    }

    async fn send(&self, name: &str, method: &str, path: &str, kind: &str, body: &Value) -> (u16, String) {
        let groups: &[&str] = if name == "root" { &["system:masters"] } else { &["system:authenticated"] };
        let groups = groups.iter().map(|&group| group.into()).collect();
        let user = User { name: name.into(), groups, ..User::default() };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        let response = self.0.handle(&user, request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn pod(name: &str, metadata: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    pod["metadata"]["name"] = name.into();
    pod
}

fn template(metadata: &Value) -> Value {
    let mut template = pod("", metadata);
    template["metadata"]["labels"]["app"] = "a".into();
    template["metadata"].as_object_mut().unwrap().remove("name");
    json!({"metadata": template["metadata"], "spec": template["spec"]})
}

/// Metadata that a tenant has no business to write.
fn forged() -> Vec<Value> {
    let annotations = [
        "lazaret.dev/replacement",
        "lazaret.dev/replacement-proof",
        "lazaret.dev/evicted-by",
        "lazaret.dev/last-published",
        "lazaret.dev/awaiting-unprepare",
        "lazaret.dev/awaiting-classic-unprepare",
    ];
    let mut all: Vec<Value> = annotations.iter().map(|key| json!({"annotations": {(*key): "{}"}})).collect();
    all.push(json!({"labels": {"lazaret.dev/replacement": "released"}}));
    let owner = |kind: &str| json!({"ownerReferences": [{"apiVersion": "lazaret.dev/v1alpha1", "kind": kind, "name": "x", "uid": "u"}]});
    all.push(owner("DeviceTaintPolicy"));
    all.push(owner("TaintReplacementPolicy"));
    all
}

#[tokio::test]
async fn marks_of_controllers_are_written_by_controllers_alone() {
    let world = World::new().await;
    let namespace = "/api/v1/namespaces/default";
    for (at, metadata) in forged().iter().enumerate() {
        let name = format!("p-{at}");
        let claim = json!({"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}});
        let mut named_claim = claim.clone();
        named_claim["metadata"]["name"] = name.as_str().into();
        let claim_template =
            json!({"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": claim["spec"]}});
        let selector = json!({"matchLabels": {"app": "a"}});
        let workload = json!({"metadata": {"name": name}, "spec": {"replicas": 1, "selector": selector, "template": template(metadata)}});
        let mut job_template = template(metadata);
        job_template["spec"]["restartPolicy"] = "Never".into();
        let job = json!({"metadata": {"name": name}, "spec": {"template": job_template.clone()}});
        let cron = json!({"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job_template.clone()}}}});
        job_template["metadata"] = Value::Null;
        let cron_jobs = json!({"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": {"metadata": metadata, "spec": {"template": job_template}}}});
        let pod_template = json!({"metadata": {"name": name}, "template": template(metadata)});
        let creations = [
            (format!("{namespace}/pods"), pod(&name, metadata)),
            (format!("{DEVICES}/namespaces/default/resourceclaims"), named_claim),
            (format!("{DEVICES}/namespaces/default/resourceclaimtemplates"), claim_template),
            ("/apis/apps/v1/namespaces/default/deployments".to_owned(), workload),
            ("/apis/batch/v1/namespaces/default/jobs".to_owned(), job),
            ("/apis/batch/v1/namespaces/default/cronjobs".to_owned(), cron),
            ("/apis/batch/v1/namespaces/default/cronjobs".to_owned(), cron_jobs),
            (format!("{namespace}/podtemplates"), pod_template),
        ];
        let is_owner = metadata.get("ownerReferences").is_some();
        for (path, object) in creations {
            if is_owner && object["metadata"].get("ownerReferences").is_none() {
                continue;
            }
            let path = format!("{path}?dryRun=All");
            let (code, text) = world.send("tenant", "POST", &path, JSON, &object).await;
            assert_eq!(code, 403, "{path} {metadata}: {text}");
            assert!(text.contains("is written by controllers alone"), "{text}");
            let (code, text) = world.send("controller", "POST", &path, JSON, &object).await;
            assert_eq!(code, 201, "{path} {metadata}: {text}");
        }
    }
}

#[tokio::test]
async fn a_mark_that_is_there_stays_as_it_is_and_is_in_nobodys_way() {
    let world = World::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let marked = json!({"annotations": {"lazaret.dev/evicted-by": "{}", "other": "a"}});
    let (code, text) = world.send("controller", "POST", pods, JSON, &pod("p", &marked)).await;
    assert_eq!(code, 201, "{text}");
    let path = format!("{pods}/p");
    let forged = json!({"metadata": {"annotations": {"lazaret.dev/evicted-by": "x"}}});
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"lazaret.dev/evicted-by": "x"}}});
    let removed = json!({"metadata": {"annotations": {"lazaret.dev/evicted-by": null}}});
    let replaced =
        json!([{"op": "replace", "path": "/metadata/annotations/lazaret.dev~1evicted-by", "value": "x"}]);
    let force = format!("{path}?fieldManager=t&force=true");
    let status = format!("{path}/status");
    for (path, kind, body) in [
        (&path, MERGE, &forged),
        (&path, MERGE, &removed),
        (&path, JSON_PATCH, &replaced),
        (&force, APPLY, &applied),
        (&status, MERGE, &forged),
    ] {
        let (code, text) = world.send("tenant", "PATCH", path, kind, body).await;
        assert_eq!(code, 403, "{path} {kind} {body}: {text}");
    }
    let harmless = json!({"metadata": {"annotations": {"other": "b", "lazaret.dev/run-for": "5s"}}});
    let (code, text) = world.send("tenant", "PATCH", &path, MERGE, &harmless).await;
    assert_eq!(code, 200, "{text}");
    assert!(text.contains("lazaret.dev/evicted-by"), "{text}");
    let (code, text) = world.send("controller", "PATCH", &path, MERGE, &removed).await;
    assert_eq!(code, 200, "{text}");
}
