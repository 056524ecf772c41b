//! Pods by their outlines and templates.

use lazaret_api::{Object, PodOutline, decode_as};
use lazaret_model::HostPort;

fn outline(metadata: &str, spec: &str) -> PodOutline {
    PodOutline::read(&format!(r#"{{"metadata":{metadata},"spec":{spec}}}"#)).unwrap()
}

#[test]
fn only_the_node_and_names_of_volumes_make_no_difference() {
    let metadata = r#"{"name":"a","namespace":"n","labels":{"team":"red"}}"#;
    let spec = r#"{"containers":[{"name":"c","volumeMounts":[{"name":"v"}]}],"volumes":[{"name":"v"}]}"#;
    let first = outline(metadata, spec);
    let same = r#"{"containers":[{"name":"c","volumeMounts":[{"name":"w"}]}],"nodeName":"x"}"#;
    assert_eq!(outline(&metadata.replace("\"a\"", "\"b\""), same).key(), first.key());
    for (metadata, spec) in [
        (metadata.replace("red", "blue"), spec.to_owned()),
        (metadata.replace("\"n\"", "\"m\""), spec.to_owned()),
        (metadata.to_owned(), spec.replace("\"c\"", "\"d\"")),
        (metadata.to_owned(), spec.replace("containers", "initContainers")),
    ] {
        assert_ne!(outline(&metadata, &spec).key(), first.key(), "{metadata} {spec}");
    }
}

/// A key must not be the same when a field moves from one object to the one around it.
#[test]
fn a_field_belongs_to_its_object() {
    let metadata = r#"{"name":"a","labels":{}}"#;
    for (one, other) in [
        (
            outline(metadata, r#"{"containers":[{"name":"c","resources":{}}]}"#),
            outline(metadata, r#"{"containers":[{"name":"c"}],"resources":{}}"#),
        ),
        (outline(r#"{"name":"a","labels":{"priority":"5"}}"#, "{}"), outline(metadata, r#"{"priority":5}"#)),
    ] {
        assert_ne!(one.key(), other.key());
    }
}

#[test]
fn a_pod_is_the_same_by_its_outline_and_at_once() {
    let json = r#"{"apiVersion":"v1","kind":"Pod",
        "metadata":{"name":"p","namespace":"n","uid":"u","labels":{"a":"b","lazaret.dev/group":"g"},
            "annotations":{"kubernetes.io/config.mirror":"x"},"creationTimestamp":"2026-01-01T00:00:00Z"},
        "spec":{"nodeName":"node","priority":7,"schedulingGates":[{"name":"wait"}],
            "affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
                {"labelSelector":{"matchLabels":{"x":"y"}},"matchLabelKeys":["a"],"topologyKey":"zone"}]}},
            "containers":[{"name":"c","ports":[{"hostPort":80}],
                "resources":{"requests":{"cpu":"500m","example.com/gpu":2},"claims":[{"name":"gpu"}]}}],
            "resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"t"}]},
        "status":{"phase":"Running","startTime":"2026-01-01T00:00:01Z","nominatedNodeName":"m",
            "resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"p-gpu"}],
            "containerStatuses":[{"name":"c","allocatedResourcesStatus":[{"name":"claim:gpu/r",
                "resources":[{"resourceID":"d/p/x","health":"Unhealthy"}]}]}]}}"#;
    let template = PodOutline::template(json).unwrap();
    let pod = PodOutline::read(json).unwrap().pod(&template).unwrap();
    assert_eq!(decode_as("", "v1", "Pod", json), Ok(Object::Pod(pod.clone())));
    assert_eq!((pod.spec.requests.cpu_milli, pod.spec.requests.other("example.com/gpu")), (500, 2));
    assert_eq!(
        pod.spec.ports[0].clone(),
        HostPort { port: 80, protocol: "TCP".into(), address: "0.0.0.0".into() }
    );
    assert_eq!(pod.spec.anti_affinity[0].selector.as_ref().unwrap().requirements.len(), 2);
    assert_eq!(pod.spec.anti_affinity[0].namespaces, ["n"]);
    assert_eq!((pod.nominated.as_deref(), pod.eviction_group.as_deref()), (Some("m"), Some("g")));
    let rare = pod.rare.unwrap();
    let health = &rare.device_health[0];
    assert_eq!((&*health.claim, health.request.as_deref(), rare.mirror), ("p-gpu", Some("r"), true));
}

#[test]
fn a_wrong_field_is_left_to_the_other_reader() {
    assert!(PodOutline::read(r#"{"metadata":{"name":"a"},"spec":{"containers":1}}"#).is_none());
    assert!(PodOutline::read(r#"{"metadata":{"name":1},"spec":{}}"#).is_none());
    assert!(PodOutline::read("[]").is_none());
}
