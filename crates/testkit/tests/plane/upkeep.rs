//! What a cluster cleans up by itself.

use serde_json::{Value, json};

use crate::stage::Stage;

/// What is at a path; `Err` says why there is nothing.
fn found(stage: &Stage, path: &str) -> Result<Value, String> {
    stage.try_request("GET", path, "application/json", &Value::Null)
}

fn missing(stage: &Stage, path: &str) -> Result<(), String> {
    found(stage, path).map_or(Ok(()), |object| Err(object.to_string()))
}

#[test]
fn a_namespace_takes_objects_of_kinds_that_definitions_brought_with_it() {
    let stage = Stage::with(1, 1);
    stage.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "notes.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "notes", "singular": "note", "kind": "Note", "listKind": "NoteList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }),
    );
    stage.create("/api/v1/namespaces", &json!({"metadata": {"name": "short"}}));
    let notes = "/apis/example.com/v1/namespaces/short/notes";
    stage.until("the kind is served", || found(&stage, notes));
    let note = |name: &str, finalizers: &[&str]| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Note",
            "metadata": {"name": name, "finalizers": finalizers},
        })
    };
    stage.create(notes, &note("free", &[]));
    stage.create(notes, &note("held", &["example.com/held"]));
    stage.delete("/api/v1/namespaces/short");
    stage.until("what nothing holds is gone", || missing(&stage, &format!("{notes}/free")));
    found(&stage, "/api/v1/namespaces/short").expect("something is still in it");
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
