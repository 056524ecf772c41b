//! The effect of a write to `status` on metadata, for every kind that has one: as the status strategies of Kubernetes 1.37 do.

use std::collections::BTreeSet;

use crate::support::{AllowAll, Api};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lazaret_json::{Value, json};
use lazaret_server::{Features, Server, ServerOptions, User};
use lazaret_store::Store;

/// Metadata that a client may want to change.
const FIELDS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
const EVERYTHING: &[&str] = &FIELDS;
const NOTHING: &[&str] = &[];

/// A kind, the object that is made, and the metadata that a write to its status changes.
struct Row(&'static str, &'static str, Value, &'static [&'static str]);

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn replicated(group: &'static str, plural: &'static str, fields: &'static [&'static str]) -> Row {
    let selector = json!({"matchLabels": {"app": "a"}});
    Row(group, plural, json!({"spec": {"selector": selector, "template": template()}}), fields)
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn rows() -> Vec<Row> {
    let mut once = template();
    once["spec"]["restartPolicy"] = "Never".into();
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume =
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}});
    let definition = json!({"group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]});
    let policy = json!({"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "true"}]});
    vec![
        Row("", "pods", json!({"spec": template()["spec"]}), &["annotations", "finalizers", "labels"]),
        Row("", "nodes", json!({}), EVERYTHING),
        Row("", "namespaces", json!({}), EVERYTHING),
        Row("", "services", json!({"spec": {"ports": [{"port": 80}]}}), EVERYTHING),
        Row(
            "",
            "replicationcontrollers",
            json!({"spec": {"selector": {"app": "a"}, "template": template()}}),
            EVERYTHING,
        ),
        Row("", "persistentvolumes", json!({"spec": volume}), EVERYTHING),
        Row("", "persistentvolumeclaims", json!({"spec": claim}), EVERYTHING),
        Row("", "resourcequotas", json!({"spec": {"hard": {"pods": "1"}}}), EVERYTHING),
        replicated("apps", "deployments", &["annotations", "finalizers", "ownerReferences"]),
        replicated("apps", "replicasets", EVERYTHING),
        replicated("apps", "statefulsets", EVERYTHING),
        replicated("apps", "daemonsets", EVERYTHING),
        Row(
            "certificates.k8s.io",
            "certificatesigningrequests",
            json!({"spec": {
                "request": STANDARD.encode(include_str!("../../../../wire/kinds/src/certificates/testdata/two-groups.csr")),
                "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            }}),
            EVERYTHING,
        ),
        Row(
            "autoscaling",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
            EVERYTHING,
        ),
        Row("batch", "jobs", json!({"spec": {"template": once}}), EVERYTHING),
        Row(
            "networking.k8s.io",
            "ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
            EVERYTHING,
        ),
        Row(
            "batch",
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
            EVERYTHING,
        ),
        Row(
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}),
            EVERYTHING,
        ),
        Row(
            "storage.k8s.io",
            "volumeattachments",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
            NOTHING,
        ),
        Row("admissionregistration.k8s.io", "validatingadmissionpolicies", json!({"spec": policy}), NOTHING),
        Row(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            json!({"metadata": {"name": "gadgets.example.com"}, "spec": definition}),
            EVERYTHING,
        ),
        Row("scheduling.k8s.io", "podgroups", json!({"spec": {"schedulingPolicy": {"basic": {}}}}), NOTHING),
        Row(
            "resource.k8s.io",
            "resourceclaims",
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}),
            NOTHING,
        ),
        Row("cdi.k8s.io", "resourceclaims", json!({"spec": {"resourceClassName": "c"}}), NOTHING),
        Row(
            "resource.k8s.io",
            "devicetaintrules",
            json!({"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}}}),
            NOTHING,
        ),
        Row(
            "resource.k8s.io",
            "resourcepoolstatusrequests",
            json!({"spec": {"driver": "d.example.com"}}),
            NOTHING,
        ),
        Row("example.com", "widgets", json!({}), NOTHING),
    ]
}

async fn define_widgets(api: &Api) {
    let versions = json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]);
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
}

/// A server that has every kind.
async fn start() -> Api {
    let mut features = Features::kubernetes_1_37();
    features.set("GenericWorkload", true);
    features.set("DRAResourcePoolStatus", true);
    let options = ServerOptions {
        features,
        runtime_config: vec![("api/all".into(), true)],
        authorizer: Box::new(AllowAll),
        token_keys: None,
    };
    let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
    let api =
        Api { server: Server::new(store, options), user: User { name: "tester".into(), ..User::default() } };
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.expect(201);
    api
}

/// The path of a collection in the namespace `default`, or of a cluster-wide one.
fn collection(group: &str, plural: &str) -> String {
    let kind = lazaret_kinds::find(group, plural);
    let version = kind.map_or("v1", |kind| &kind.hub().version);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let namespaced = kind.is_none_or(|kind| kind.scope == lazaret_kinds::Scope::Namespaced);
    if namespaced { format!("{root}/namespaces/default/{plural}") } else { format!("{root}/{plural}") }
}

fn change(object: &Value) -> Value {
    let mut changed = object.clone();
    let metadata = &mut changed["metadata"];
    metadata["labels"]["example.com/new"] = "l".into();
    metadata["annotations"]["example.com/new"] = "a".into();
    let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    metadata["finalizers"] =
        finalizers.into_iter().chain([json!("example.com/new")]).collect::<Vec<_>>().into();
    metadata["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "new", "uid": "new"}]);
    changed
}

#[tokio::test]
async fn a_write_to_the_status_changes_the_metadata_that_kubernetes_lets_it_change() {
    let api = start().await;
    define_widgets(&api).await;
    for Row(group, plural, mut body, fields) in rows() {
        let path = collection(group, plural);
        if body["metadata"]["name"].is_null() {
            body["metadata"]["name"] = "it".into();
        }
        let made = api.post(&path, &body).await.expect(201);
        let path = format!("{path}/{}", made["metadata"]["name"].as_str().unwrap());
        // The server itself writes the status of a definition.
        let made = api.get(&path).await.expect(200);
        let wanted = change(&made);
        let written = api.put(&format!("{path}/status"), &wanted).await.expect(200);
        let changed: BTreeSet<&str> = FIELDS
            .into_iter()
            .filter(|field| written["metadata"][*field] == wanted["metadata"][*field])
            .collect();
        assert_eq!(changed, fields.iter().copied().collect(), "{group}/{plural}");
        for field in FIELDS.into_iter().filter(|field| !fields.contains(field)) {
            assert_eq!(written["metadata"][field], made["metadata"][field], "{group}/{plural}: {field}");
        }
        assert_eq!(written["spec"], made["spec"], "{group}/{plural}");
        assert_eq!(written["metadata"]["generation"], made["metadata"]["generation"], "{group}/{plural}");
        let read = api.get(&path).await.expect(200);
        assert_eq!(read["metadata"], written["metadata"], "{group}/{plural}");
    }
}

#[test]
fn the_table_has_every_kind_with_a_status() {
    let known: BTreeSet<(String, String)> =
        rows().iter().map(|Row(group, plural, ..)| ((*group).to_owned(), (*plural).to_owned())).collect();
    let served: BTreeSet<(String, String)> = lazaret_kinds::all()
        .iter()
        .filter(|kind| kind.subresource("status").is_some())
        .map(|kind| (kind.group.to_string(), kind.plural.to_string()))
        .chain([("example.com".to_owned(), "widgets".to_owned())])
        .collect();
    assert_eq!(known, served);
}

#[tokio::test]
async fn metadata_that_comes_with_a_status_is_checked() {
    let api = start().await;
    for Row(group, plural, mut body, fields) in rows() {
        if !fields.contains(&"annotations") || group == "apiextensions.k8s.io" {
            continue;
        }
        body["metadata"]["name"] = "it".into();
        let path = collection(group, plural);
        let made = api.post(&path, &body).await.expect(201);
        for (field, value) in [
            ("annotations", json!({"not a key": "x"})),
            ("finalizers", json!(["unqualified"])),
            ("labels", json!({"k": "not a value!"})),
        ] {
            let mut wrong = made.clone();
            wrong["metadata"][field] = value;
            let answer = api.put(&format!("{path}/it/status"), &wrong).await;
            let code = if fields.contains(&field) { 422 } else { 200 };
            assert!(answer.is(code), "{group}/{plural}: {field}");
        }
    }
}

#[tokio::test]
async fn who_applies_a_status_owns_only_the_metadata_that_it_can_change() {
    const APPLY: &str = "application/apply-patch+yaml";
    let api = start().await;
    define_widgets(&api).await;
    for Row(group, plural, mut body, fields) in rows() {
        if group == "apiextensions.k8s.io" {
            continue;
        }
        body["metadata"]["name"] = "it".into();
        let path = format!("{}/it", collection(group, plural));
        let made = api.post(&collection(group, plural), &body).await.expect(201);
        let config = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
            "metadata": {"name": "it", "annotations": {"example.com/a": "1"}, "labels": {"example.com/l": "1"}}});
        let applied = api.patch(&format!("{path}/status?fieldManager=me"), APPLY, &config).await.expect(200);
        let record = applied["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let mine = record.iter().find(|entry| entry["manager"] == "me");
        for field in ["annotations", "labels"] {
            let owned = mine.is_some_and(|entry| {
                entry["fieldsV1"]["f:metadata"].get(format!("f:{field}").as_str()).is_some()
            });
            assert_eq!(owned, fields.contains(&field), "{group}/{plural}: {field}");
        }
    }
}
