//! Claims, classes and pods as the enhancement writes them, and all that is refused of them.

use lazaret_json::{Value, json};

use super::{convert_patched_pods, convert_pods};
use crate::{
    Kind,
    testing::{World, kind, set},
};

fn claims() -> &'static Kind {
    kind("cdi.k8s.io", "resourceclaims")
}

fn world() -> World {
    World::new().in_version("v1alpha1")
}

fn claim() -> Value {
    json!({
        "metadata": {"name": "c", "namespace": "default", "uid": "1", "creationTimestamp": "2026-03-01T11:00:00Z"},
        "spec": {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}},
    })
}

/// A pod with one classic entry, used by its container.
fn pod(entry: Value) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "resourceClaims": [entry],
            "containers": [{"name": "c", "image": "example.com/i:1", "resources": {"claims": ["gpu"]}}],
        },
    })
}

fn converted(mut pod: Value) -> Value {
    convert_pods(kind("", "pods"), &mut pod);
    pod
}

#[test]
fn a_claim_begins_pending_with_one_user_and_delayed() {
    let made = world().create(claims(), set(&claim(), "/status", json!({"phase": "Allocated"}))).ok();
    assert_eq!(made["spec"]["allocationMode"], "Delayed");
    assert_eq!(made["status"], json!({"phase": "Pending", "userLimit": 1}));
}

#[test]
fn the_spec_of_a_claim_can_only_be_set_once() {
    let made = world().create(claims(), claim()).ok();
    let other = set(&made, "/spec/parameters/memory", json!("4Gi"));
    assert_eq!(world().update(claims(), &made, other).wrong(), ["spec Invalid"]);
    let labelled = set(&made, "/metadata/labels", json!({"a": "b"}));
    world().update(claims(), &made, labelled).ok();
}

#[test]
fn a_bad_claim_is_refused_with_the_field() {
    for (pointer, value, expected) in [
        ("/spec/resourceClassName", Value::Null, "spec.resourceClassName Required"),
        ("/spec/resourceClassName", json!("A B"), "spec.resourceClassName Invalid"),
        ("/spec/allocationMode", json!("Later"), "spec.allocationMode NotSupported"),
        ("/spec/parameters", json!("x".repeat(11 * 1024)), "spec.parameters TooLong"),
    ] {
        assert_eq!(world().create(claims(), set(&claim(), pointer, value)).wrong(), [expected]);
    }
}

#[test]
fn a_status_follows_the_rules_of_the_core() {
    let made = world().create(claims(), claim()).ok();
    let pod = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let write = |old: &Value, status: Value| world().status(claims(), old, set(old, "/status", status));
    assert_eq!(write(&made, json!({"phase": "Lost"})).wrong(), ["status.phase NotSupported"]);
    assert_eq!(write(&made, json!({"phase": "Allocated"})).wrong(), ["status.driverName Required"]);
    let allocated =
        json!({"phase": "Allocated", "driverName": "gpu.acme.com", "attributes": {"device": "7"}});
    let allocated = write(&made, allocated).ok();
    assert_eq!(allocated["status"]["userLimit"], 1);
    let reserved = |users: Value| set(&allocated["status"], "/reservedFor", users);
    let two = reserved(json!([pod("1"), pod("2")]));
    assert_eq!(write(&allocated, two).wrong(), ["status.reservedFor TooMany"]);
    let used = write(&allocated, reserved(json!([pod("1")]))).ok();
    let freed = set(&used["status"], "/phase", json!("Reallocate"));
    let wrong = write(&used, freed).wrong();
    assert!(wrong.contains(&"status.phase Forbidden".to_owned()), "{wrong:?}");
    let other = set(&used["status"], "/attributes/device", json!("8"));
    assert_eq!(write(&used, other).wrong(), ["status Forbidden"]);
}

#[test]
fn columns_say_class_state_driver_and_users() {
    let made = world().create(claims(), claim()).ok();
    let status = json!({
        "phase": "Allocated", "driverName": "gpu.acme.com", "userLimit": -1,
        "reservedFor": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}],
    });
    assert_eq!(
        world().row(claims(), &set(&made, "/status", status)),
        [
            "Class=acme-gpu",
            "Mode=Delayed",
            "State=allocated,reserved",
            "Driver=gpu.acme.com",
            "Users=1/unlimited",
            "Selected Node=-",
            "Unsuitable=0/0",
            "Age=60m",
        ]
    );
    assert_eq!(world().row(claims(), &made)[2], "State=pending");
}

#[test]
fn a_class_needs_a_driver() {
    let classes = kind("cdi.k8s.io", "resourceclasses");
    let class = json!({
        "metadata": {"name": "acme-gpu"}, "driverName": "gpu.acme.com",
        "parameters": {"initCommand": ["/usr/local/bin/acme-gpu-init", "--cluster", "my-cluster"]},
    });
    let made = world().create(classes, class.clone()).ok();
    assert_eq!(world().row(classes, &made)[0], "Driver=gpu.acme.com");
    assert_eq!(
        world().create(classes, set(&class, "/driverName", Value::Null)).wrong(),
        ["driverName Required"]
    );
    let other = set(&made, "/driverName", json!("not a driver"));
    assert_eq!(world().update(classes, &made, other).wrong(), ["driverName Invalid"]);
}

/// The pod of "partial GPU allocation" in the enhancement.
#[test]
fn a_pod_as_the_enhancement_writes_it_becomes_what_is_stored() {
    let entry = json!({"name": "gpu", "template": {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}}});
    let stored = converted(pod(entry));
    assert_eq!(
        stored["spec"]["resourceClaims"][0]["template"],
        json!({"spec": {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}}})
    );
    assert_eq!(stored["spec"]["containers"][0]["resources"]["claims"], json!([{"name": "gpu"}]));
    assert_eq!(converted(stored.clone()), stored, "what is stored stays as it is");
    World::new().create(kind("", "pods"), stored).ok();
}

#[test]
fn templates_of_workloads_are_converted_too() {
    let spec = pod(json!({"name": "gpu", "template": {"resourceClassName": "acme-gpu"}}))["spec"].clone();
    let template = json!({"template": {"spec": spec}});
    for (group, plural, object, at) in [
        ("apps", "deployments", json!({"spec": template.clone()}), "/spec/template/spec"),
        ("batch", "jobs", json!({"spec": template.clone()}), "/spec/template/spec"),
        (
            "batch",
            "cronjobs",
            json!({"spec": {"jobTemplate": {"spec": template.clone()}}}),
            "/spec/jobTemplate/spec/template/spec",
        ),
    ] {
        let mut object = object;
        convert_pods(kind(group, plural), &mut object);
        let spec = object.pointer(at).unwrap();
        assert_eq!(spec["containers"][0]["resources"]["claims"], json!([{"name": "gpu"}]), "{plural}");
        assert_eq!(
            spec["resourceClaims"][0]["template"]["spec"]["resourceClassName"], "acme-gpu",
            "{plural}"
        );
    }
}

#[test]
fn classic_entries_of_pods_are_checked_in_their_own_way() {
    let at = "spec.resourceClaims[0]";
    let template = json!({"spec": {"resourceClassName": "acme-gpu"}});
    let with = |pointer: &str, value: Value| set(&template, pointer, value);
    for (entry, expected) in [
        (json!({"name": "gpu", "classicClaimName": "c"}), vec![]),
        (json!({"name": "gpu", "classicClaimName": "!"}), vec![format!("{at}.classicClaimName Invalid")]),
        (
            json!({"name": "gpu", "classicClaimName": "c", "template": template}),
            vec![format!("{at} Invalid")],
        ),
        (
            json!({"name": "gpu", "resourceClaimName": "c", "template": template}),
            vec![format!("{at}.resourceClaimName Forbidden")],
        ),
        (
            json!({"name": "gpu", "classicClaimName": "c", "resourceClaimTemplateName": "t"}),
            vec![format!("{at}.resourceClaimTemplateName Forbidden")],
        ),
        (
            json!({"name": "gpu", "template": {"spec": {}}}),
            vec![format!("{at}.template.spec.resourceClassName Required")],
        ),
        (
            json!({"name": "gpu", "template": with("/spec/allocationMode", json!("Later"))}),
            vec![format!("{at}.template.spec.allocationMode NotSupported")],
        ),
        (
            json!({"name": "gpu", "template": with("/metadata", json!({"name": "x", "labels": {"a": "b"}}))}),
            vec![format!("{at}.template.metadata.name Forbidden")],
        ),
        (
            json!({"name": "gpu", "template": with("/metadata", json!({"labels": {"a": "!"}}))}),
            vec![format!("{at}.template.metadata.labels Invalid")],
        ),
    ] {
        assert_eq!(
            World::new().create(kind("", "pods"), converted(pod(entry.clone()))).wrong(),
            expected,
            "{entry}"
        );
    }
}

#[test]
fn a_pod_is_refused_whose_claim_would_have_too_long_a_name() {
    let entry = json!({"name": "gpu", "template": {"spec": {"resourceClassName": "acme-gpu"}}});
    let long = set(&converted(pod(entry)), "/metadata/name", json!("p".repeat(250)));
    assert_eq!(World::new().create(kind("", "pods"), long).wrong(), ["spec.resourceClaims[0].name Invalid"]);
}

#[test]
fn a_classic_claim_has_no_requests() {
    let entry = json!({"name": "gpu", "template": {"spec": {"resourceClassName": "acme-gpu"}}});
    let pod = set(
        &converted(pod(entry)),
        "/spec/containers/0/resources/claims",
        json!([{"name": "gpu", "request": "a"}]),
    );
    let wrong = World::new().create(kind("", "pods"), pod).wrong();
    assert_eq!(wrong, ["spec.containers[0].resources.claims[0].request Forbidden"]);
}

/// Off: no new pod with classic claims, and pods that are there keep their fields.
#[test]
fn with_the_gate_off_new_pods_are_refused_and_old_ones_stay() {
    let entry = json!({"name": "gpu", "template": {"spec": {"resourceClassName": "acme-gpu"}}});
    let off = World::new().with(super::FEATURE, false);
    let pods = kind("", "pods");
    assert_eq!(off.create(pods, converted(pod(entry.clone()))).wrong(), ["spec.resourceClaims[0] Forbidden"]);
    let made = World::new().create(pods, converted(pod(entry))).ok();
    let labelled = off.update(pods, &made, set(&made, "/metadata/labels", json!({"a": "b"}))).ok();
    assert_eq!(labelled["spec"]["resourceClaims"], made["spec"]["resourceClaims"]);
    assert!(claims().versions[0].feature == Some(super::FEATURE));
}

#[test]
fn a_patch_in_the_short_form_replaces_the_spec_that_is_stored() {
    let stored = converted(pod(json!({
        "name": "gpu", "template": {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}},
    })));
    // As a strategic merge patch leaves it.
    let flat = json!({"spec": {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}}, "resourceClassName": "acme-gpu"});
    let mut same =
        set(&stored, "/spec/resourceClaims/0/template", set(&flat, "/parameters", json!({"memory": "2Gi"})));
    same = set(&same, "/spec/containers/0/resources/claims", json!(["gpu"]));
    convert_patched_pods(kind("", "pods"), &mut same);
    assert_eq!(same, stored);
    let mut without = set(&stored, "/spec/resourceClaims/0/template", flat);
    convert_patched_pods(kind("", "pods"), &mut without);
    let template = &without["spec"]["resourceClaims"][0]["template"];
    assert_eq!(
        *template,
        json!({"spec": {"resourceClassName": "acme-gpu"}}),
        "parameters that were removed are gone"
    );
}
