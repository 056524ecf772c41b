//! The record of owners of an object that is served in several versions or groups: each entry has the words of its version.

use crate::support::Api;
use lazaret_json::{Value, json};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const CORE_EVENTS: &str = "/api/v1/namespaces/default/events";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn event() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reportingController": "example.com/c", "reportingInstance": "i", "action": "Do", "reason": "Done",
        "note": "said", "type": "Normal",
    })
}

/// The fields that a manager owns by a version, as they are recorded.
fn owned<'a>(object: &'a Value, manager: &str, version: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let found = entries.iter().find(|entry| entry["manager"] == manager && entry["apiVersion"] == version);
    &found.unwrap_or_else(|| panic!("{manager} {version}: {entries:#?}"))["fieldsV1"]
}

#[tokio::test]
async fn the_owners_of_an_event_are_recorded_in_the_words_of_the_group_that_they_wrote() {
    let api = Api::start().await;
    let made = api.post(&format!("{EVENTS}?fieldManager=new"), &event()).await.expect(201);
    let own = json!({
        "f:action": {}, "f:eventTime": {}, "f:note": {}, "f:reason": {}, "f:regarding": {},
        "f:reportingController": {}, "f:reportingInstance": {}, "f:type": {},
    });
    assert_eq!(owned(&made, "new", "events.k8s.io/v1"), &own);
    // Read by the other group, the entry is the same.
    let read = api.get(&format!("{CORE_EVENTS}/e")).await.expect(200);
    assert_eq!(owned(&read, "new", "events.k8s.io/v1"), &own);
    // A write by one group takes fields away from owners of the other, under their names there.
    let change = json!({"message": "more", "count": 2});
    let path = format!("{CORE_EVENTS}/e?fieldManager=old");
    let written = api.patch(&path, MERGE, &change).await.expect(200);
    assert_eq!(owned(&written, "old", "v1"), &json!({"f:count": {}, "f:message": {}}));
    assert!(owned(&written, "new", "events.k8s.io/v1").get("f:note").is_none());
    let path = format!("{EVENTS}/e?fieldManager=new");
    let series =
        json!({"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}, "note": "again"});
    let written = api.patch(&path, MERGE, &series).await.expect(200);
    assert_eq!(owned(&written, "old", "v1"), &json!({"f:count": {}}));
    assert_eq!(owned(&written, "new", "events.k8s.io/v1")["f:note"], json!({}));
    // Nothing that is written again changes the record or the version.
    let again = api.patch(&path, MERGE, &series).await.expect(200);
    assert_eq!(again, written);
}

#[tokio::test]
async fn an_event_is_applied_by_either_group() {
    let api = Api::start().await;
    let path = |events: &str, manager: &str| format!("{events}/e?fieldManager={manager}");
    api.patch(&path(EVENTS, "one"), APPLY, &event()).await.expect(201);
    let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "other"});
    let refused = api.patch(&path(CORE_EVENTS, "two"), APPLY, &core).await.expect(409);
    assert_eq!(refused["details"]["causes"][0]["field"], ".note", "under the name that its owner gave it");
    // The same manager by the other group: what it applied before and applies no longer goes.
    let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "said",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "type": "Normal"});
    let moved = api.patch(&path(CORE_EVENTS, "one"), APPLY, &core).await.expect(200);
    assert_eq!(moved["metadata"]["managedFields"].as_array().map_or(0, Vec::len), 1);
    assert_eq!(owned(&moved, "one", "v1"), &json!({"f:involvedObject": {}, "f:message": {}, "f:type": {}}));
    assert_eq!((&moved["action"], &moved["message"]), (&Value::Null, &"said".into()));
}

/// `kubectl apply` wrote it, and `kubectl apply --server-side` takes it over without a conflict, in whichever version both are.
#[tokio::test]
async fn what_kubectl_applied_before_is_taken_over_in_every_version() {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let api = Api::start().await;
    for version in ["v1beta1", "v1beta2", "v1"] {
        let slices = format!("/apis/resource.k8s.io/{version}/resourceslices");
        let slice = |count: usize| {
            let device = |at: usize| match version {
                "v1beta1" => json!({"name": format!("d-{at}"), "basic": {"attributes": {"a": {"int": at}}}}),
                _ => json!({"name": format!("d-{at}"), "attributes": {"a": {"int": at}}}),
            };
            let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
            json!({
                "apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceSlice", "metadata": {"name": "s"},
                "spec": {"driver": "d.example.com", "allNodes": true, "pool": pool,
                    "devices": (0..count).map(device).collect::<Vec<_>>()},
            })
        };
        let mut made = slice(1);
        made["metadata"]["annotations"] = json!({LAST: made.to_string()});
        api.post(&format!("{slices}?fieldManager=kubectl-client-side-apply"), &made).await.expect(201);
        let path = |manager: &str| format!("{slices}/s?fieldManager={manager}");
        api.patch(&path("other"), APPLY, &slice(2)).await.expect(409);
        api.patch(&path("kubectl"), APPLY, &slice(2)).await.expect(200);
        api.delete(&format!("{slices}/s"), None).await.expect(200);
    }
}
