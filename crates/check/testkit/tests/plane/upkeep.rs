//! Objects that a cluster cleans up by itself.

use serde_json::{Value, json};

use crate::stage::Stage;

/// The object at a path; `Err` says why there is none.
fn found(stage: &Stage, path: &str) -> Result<Value, String> {
    stage.try_request("GET", path, "application/json", &Value::Null)
}

fn missing(stage: &Stage, path: &str) -> Result<(), String> {
    found(stage, path).map_or(Ok(()), |object| Err(object.to_string()))
}

/// Defines notes, in namespaces, and books, in the whole cluster.
fn define_notes(stage: &Stage) {
    for (plural, kind, scope) in [("notes", "Note", "Namespaced"), ("books", "Book", "Cluster")] {
        let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
        stage.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.example.com")},
                "spec": {"group": "example.com", "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": versions},
            }),
        );
        stage.until("the kind is served", || found(stage, &format!("/apis/example.com/v1/{plural}")));
    }
}

fn note(name: &str, metadata: Value) -> Value {
    let mut note = json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": metadata});
    note["metadata"]["name"] = name.into();
    note
}

fn owned_by(owner: &Value, block: bool) -> Value {
    json!({"ownerReferences": [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}]})
}

const NOTES: &str = "/apis/example.com/v1/namespaces/default/notes";
const BOOKS: &str = "/apis/example.com/v1/books";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn delete(stage: &Stage, path: &str, policy: &str) {
    stage.request("DELETE", path, "application/json", &json!({"propagationPolicy": policy}));
}

/// Waits until the collector has seen every object of a kind: an object without its owner, made last, is removed then. Objects that it has not
/// seen it can neither wait for nor orphan, as in Kubernetes.
fn collector_has_seen(stage: &Stage, path: &str, last: &Value) {
    let owner = stage.create(MAPS, &json!({"metadata": {"name": "owner-of-last"}}));
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owner["metadata"]});
    stage.delete(&format!("{MAPS}/owner-of-last"));
    let mut last = last.clone();
    last["metadata"]["ownerReferences"] = owned_by(&owner, false)["ownerReferences"].clone();
    stage.create(path, &last);
    let name = last["metadata"]["name"].as_str().unwrap();
    stage.until("the collector has seen all", || missing(stage, &format!("{path}/{name}")));
}

#[test]
fn kinds_that_definitions_brought_own_and_are_owned() {
    let stage = Stage::with(1, 1);
    define_notes(&stage);
    let book = |name: &str| {
        stage.create(
            BOOKS,
            &json!({"apiVersion": "example.com/v1", "kind": "Book", "metadata": {"name": name}}),
        )
    };
    let map = |name: &str, mut metadata: Value| {
        metadata["name"] = name.into();
        let made =
            stage.create(MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        let mut whole = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        whole["metadata"] = made["metadata"].clone();
        whole
    };
    // A book owns a note, which owns a config map, which owns a note.
    for policy in ["Background", "Foreground"] {
        let top = book("top");
        let middle = stage.create(NOTES, &note("middle", owned_by(&top, true)));
        let low = map("low", owned_by(&middle, true));
        stage.create(NOTES, &note("lowest", owned_by(&low, true)));
        delete(&stage, &format!("{BOOKS}/top"), policy);
        for path in [
            format!("{BOOKS}/top"),
            format!("{NOTES}/middle"),
            format!("{MAPS}/low"),
            format!("{NOTES}/lowest"),
        ] {
            stage.until(&format!("{path} is gone, {policy}"), || missing(&stage, &path));
        }
    }
    // A foreground deletion waits for what blocks it.
    let top = book("patient");
    let mut held = owned_by(&top, true);
    held["finalizers"] = json!(["example.com/hold"]);
    stage.create(NOTES, &note("held", held));
    collector_has_seen(&stage, NOTES, &note("seen", json!({})));
    delete(&stage, &format!("{BOOKS}/patient"), "Foreground");
    let leaving = |path: &str| {
        let object = found(&stage, path)?;
        if object["metadata"]["deletionTimestamp"].is_string() { Ok(()) } else { Err("it stays".to_owned()) }
    };
    stage.until("the note is told to go", || leaving(&format!("{NOTES}/held")));
    leaving(&format!("{BOOKS}/patient")).expect("it waits");
    stage.merge(&format!("{NOTES}/held"), &json!({"metadata": {"finalizers": null}}));
    stage.until("the book goes last", || missing(&stage, &format!("{BOOKS}/patient")));
    // An orphaned object stays, without the owner.
    let top = book("parent");
    stage.create(NOTES, &note("child", owned_by(&top, true)));
    collector_has_seen(&stage, NOTES, &note("seen", json!({})));
    delete(&stage, &format!("{BOOKS}/parent"), "Orphan");
    stage.until("the book is gone", || missing(&stage, &format!("{BOOKS}/parent")));
    assert_eq!(stage.get(&format!("{NOTES}/child"))["metadata"].get("ownerReferences"), None);
    // A kind that is defined anew is known anew.
    stage.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/notes.example.com");
    stage.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/books.example.com");
    stage.until("the definitions are gone", || {
        missing(&stage, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/books.example.com")
    });
    stage.until("notes are not served any more", || missing(&stage, NOTES));
    define_notes(&stage);
    let top = book("second");
    stage.create(NOTES, &note("below", owned_by(&top, false)));
    delete(&stage, &format!("{BOOKS}/second"), "Background");
    stage.until("the note is gone", || missing(&stage, &format!("{NOTES}/below")));
}

#[test]
fn replication_controllers_and_jobs_leave_their_pods_unless_told_otherwise() {
    let stage = Stage::with(1, 1);
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    for (name, policy) in [("orphaning", None), ("taking", Some("Background"))] {
        let made = stage.create(
            controllers,
            &json!({"metadata": {"name": name}, "spec": {"selector": {"app": "a"}, "template": template}}),
        );
        let owner =
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": made["metadata"]});
        let mut metadata = owned_by(&owner, true);
        metadata["name"] = name.into();
        stage.create(MAPS, &json!({"metadata": metadata}));
        collector_has_seen(&stage, MAPS, &json!({"metadata": {"name": "seen"}}));
        let path = format!("{controllers}/{name}");
        match policy {
            None => drop(stage.delete(&path)),
            Some(policy) => delete(&stage, &path, policy),
        }
        stage.until("it is gone", || missing(&stage, &path));
    }
    stage.until("what was taken along is gone", || missing(&stage, &format!("{MAPS}/taking")));
    assert_eq!(stage.get(&format!("{MAPS}/orphaning"))["metadata"].get("ownerReferences"), None);
}

/// One object of every kind that a namespace can hold, by its collection: what its creation needs beyond a name.
fn contents() -> Vec<(&'static str, Value)> {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let selected = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    let request = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}});
    vec![
        ("/api/v1/pods", json!({"spec": template["spec"]})),
        (
            "/api/v1/events",
            json!({"involvedObject": {"namespace": "short", "name": "x", "kind": "Pod"}, "reason": "r"}),
        ),
        ("/api/v1/configmaps", json!({})),
        ("/api/v1/secrets", json!({})),
        ("/api/v1/serviceaccounts", json!({})),
        ("/api/v1/services", json!({"spec": {"ports": [{"port": 80}]}})),
        ("/api/v1/endpoints", json!({})),
        (
            "/apis/discovery.k8s.io/v1/endpointslices",
            json!({"addressType": "IPv4", "endpoints": [], "ports": []}),
        ),
        ("/api/v1/replicationcontrollers", json!({"spec": {"selector": {"app": "a"}, "template": template}})),
        (
            "/api/v1/persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        ("/api/v1/podtemplates", json!({"template": template})),
        ("/api/v1/limitranges", json!({"spec": {"limits": []}})),
        ("/api/v1/resourcequotas", json!({"spec": {"hard": {"secrets": "100"}}})),
        ("/apis/apps/v1/deployments", selected.clone()),
        ("/apis/apps/v1/replicasets", selected.clone()),
        ("/apis/apps/v1/statefulsets", selected.clone()),
        ("/apis/apps/v1/daemonsets", selected),
        ("/apis/apps/v1/controllerrevisions", json!({"revision": 1})),
        (
            "/apis/events.k8s.io/v1/events",
            json!({"metadata": {"namespace": "short"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "r", "type": "Normal",
            "reportingController": "c.example.com/c", "reportingInstance": "i", "regarding": {"namespace": "short", "name": "x", "kind": "Pod"}}),
        ),
        (
            "/apis/autoscaling/v2/horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "it"}}}),
        ),
        ("/apis/batch/v1/jobs", json!({"spec": {"template": once}})),
        (
            "/apis/networking.k8s.io/v1/ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "it", "port": {"number": 80}}}}}),
        ),
        ("/apis/networking.k8s.io/v1/networkpolicies", json!({"spec": {"podSelector": {}}})),
        (
            "/apis/batch/v1/cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        (
            "/apis/policy/v1/poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}),
        ),
        ("/apis/rbac.authorization.k8s.io/v1/roles", json!({"rules": []})),
        (
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "it"}}),
        ),
        ("/apis/storage.k8s.io/v1/csistoragecapacities", json!({"storageClassName": "c"})),
        ("/apis/scheduling.k8s.io/v1beta1/podgroups", json!({"spec": {"schedulingPolicy": {"basic": {}}}})),
        ("/apis/coordination.k8s.io/v1/leases", json!({})),
        ("/apis/resource.k8s.io/v1/resourceclaims", json!({"spec": request})),
        ("/apis/resource.k8s.io/v1/resourceclaimtemplates", json!({"spec": {"spec": request}})),
        ("/apis/cdi.k8s.io/v1alpha1/resourceclaims", json!({"spec": {"resourceClassName": "c"}})),
        ("/apis/example.com/v1/notes", json!({})),
        (
            "/apis/lazaret.dev/v1alpha1/taintreplacementpolicies",
            json!({"spec": {"podSelector": {"matchLabels": {"app": "other"}}}}),
        ),
    ]
}

/// The collections that a namespace can have, by discovery, in each group's preferred version.
fn served(stage: &Stage) -> Vec<String> {
    let groups = stage.get("/apis")["groups"].as_array().unwrap().clone();
    let roots = groups
        .iter()
        .map(|group| format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str().unwrap()));
    let mut all = Vec::new();
    for root in roots.chain(["/api/v1".to_owned()]) {
        for resource in stage.get(&root)["resources"].as_array().unwrap() {
            // Resources that are only read, as metrics of pods are, hold no objects in a namespace.
            let verbs = resource["verbs"].as_array().unwrap();
            let is_kept = ["list", "create"].iter().all(|verb| verbs.iter().any(|known| known == verb));
            if resource["namespaced"] == true && is_kept {
                all.push(format!("{root}/{}", resource["name"].as_str().unwrap()));
            }
        }
    }
    all.sort();
    all
}

fn inside(path: &str, namespace: &str) -> String {
    let (root, plural) = path.rsplit_once('/').unwrap();
    format!("{root}/namespaces/{namespace}/{plural}")
}

#[test]
fn a_namespace_takes_all_with_it_that_was_in_it() {
    let stage = Stage::with(1, 1);
    define_notes(&stage);
    stage.create("/api/v1/namespaces", &json!({"metadata": {"name": "short"}}));
    let (served, contents) = (served(&stage), contents());
    for path in &served {
        let (_, body) =
            contents.iter().find(|(known, _)| known == path).unwrap_or_else(|| panic!("{path} is not tried"));
        let mut body = body.clone();
        body["metadata"]["name"] = "it".into();
        if path.contains("events.k8s.io") {
            body["metadata"]["name"] = "other".into();
        }
        stage.create(&inside(path, "short"), &body);
    }
    // A job of a cron job.
    let owner = stage.get("/apis/batch/v1/namespaces/short/cronjobs/it");
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": owner["metadata"]});
    let mut job = stage.get("/apis/batch/v1/namespaces/short/jobs/it");
    job["metadata"] = owned_by(&owner, true);
    job["metadata"]["name"] = "of-cron".into();
    job["spec"] = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    job["status"] = Value::Null;
    stage.create("/apis/batch/v1/namespaces/short/jobs", &job);
    stage.delete("/api/v1/namespaces/short");
    stage.until("the namespace is gone", || missing(&stage, "/api/v1/namespaces/short"));
    for path in &served {
        let left = stage.list(&inside(path, "short"));
        assert!(left.is_empty(), "{path}: {left:?}");
    }
}

#[test]
fn a_namespace_that_cannot_go_says_why() {
    let stage = Stage::with(1, 1);
    define_notes(&stage);
    stage.create("/api/v1/namespaces", &json!({"metadata": {"name": "short"}}));
    let notes = "/apis/example.com/v1/namespaces/short/notes";
    stage.create(notes, &note("free", json!({})));
    stage.create(notes, &note("held", json!({"finalizers": ["example.com/held"]})));
    stage.delete("/api/v1/namespaces/short");
    stage.until("what nothing holds is gone", || missing(&stage, &format!("{notes}/free")));
    stage.until("the namespace says what holds it", || {
        let namespace = found(&stage, "/api/v1/namespaces/short")?;
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let says = |name: &str, message: &str| {
            conditions.iter().any(|one| one["type"] == name && one["status"] == "True" && one["message"] == message)
        };
        let content = "Some resources are remaining: notes.example.com has 1 resource instances";
        let finalizers = "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances";
        let told = says("NamespaceContentRemaining", content) && says("NamespaceFinalizersRemaining", finalizers);
        if told { Ok(()) } else { Err(namespace["status"].to_string()) }
    });
    stage.merge(&format!("{notes}/held"), &json!({"metadata": {"finalizers": null}}));
    stage.until("the namespace is gone", || missing(&stage, "/api/v1/namespaces/short"));
}

#[test]
fn the_numbers_of_the_controllers_stand_in_the_servers_metrics() {
    let stage = Stage::with(1, 1);
    stage.until("the controllers are counted", || {
        let text = stage.text("/metrics");
        let names =
            ["apiserver_request_total", "lazaret_leading", "dynamic_resource_allocation_resource_claims"];
        assert_eq!(text.matches("# EOF").count(), 1);
        names.iter().find(|name| !text.contains(**name)).map_or(Ok(()), |name| Err(format!("no {name}")))
    });
}

#[test]
fn readiness_tells_of_each_controller_and_watch_and_liveness_of_none() {
    let stage = Stage::with(1, 1);
    let ready = stage.text("/readyz?verbose");
    for task in ["device-taint-eviction", "resourceclaim-controller", "hollow-kubelet", "watch/pods"] {
        assert!(ready.contains(&format!("[+]{task} ok\n")), "{ready}");
        assert_eq!(stage.text(&format!("/readyz/{task}")), "ok");
    }
    assert!(ready.ends_with("readyz check passed\n"), "{ready}");
    let alive = stage.text("/livez?verbose");
    assert!(alive.contains("[+]ping ok\n") && !alive.contains("watch/pods"), "{alive}");
}
