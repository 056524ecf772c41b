use lazaret_json::{Value, json};

use super::{Operation, PERMITTED, World, pod};

fn request(pod: &str, uid: &str, audiences: &[&str]) -> Value {
    let mut reference = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    if !uid.is_empty() {
        reference["uid"] = uid.into();
    }
    json!({"spec": {"audiences": audiences, "boundObjectRef": reference}})
}

fn with_volumes(name: &str, volumes: Value) -> Value {
    let mut pod = pod(name, "mynode");
    pod["spec"]["volumes"] = volumes;
    pod
}

fn projected(token: Value) -> Value {
    json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": token}]}}])
}

/// Pods of the node, one for each way to name an audience.
fn world() -> World {
    let mut world = World::new();
    let mut put = |pod: Value| {
        world.put(&format!("pods/ns/{}", pod["metadata"]["name"].as_str().unwrap()), pod);
    };
    let of_claim = |claim: &str| json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    put(pod("plain", "mynode"));
    put(pod("other", "othernode"));
    put(with_volumes("default", projected(json!({"path": "token"}))));
    put(with_volumes("foo", projected(json!({"path": "token", "audience": "foo"}))));
    put(with_volumes("inline", json!([{"name": "v", "csi": {"driver": "mydriver"}}])));
    put(with_volumes("stranger", json!([{"name": "v", "csi": {"driver": "unknown"}}])));
    put(with_volumes("claim", of_claim("pvclaim")));
    put(with_volumes("lost", of_claim("lost")));
    put(with_volumes("unbound", of_claim("unbound")));
    put(with_volumes("ephemeral", json!([{"name": "myvol", "ephemeral": {"volumeClaimTemplate": {}}}])));
    put(with_volumes("intree-pv", of_claim("azure")));
    put(with_volumes("intree", json!([{"name": "v", "azureFile": {"secretName": "s", "shareName": "x"}}])));
    put(with_volumes(
        "lost-and-inline",
        json!([
            {"name": "v", "persistentVolumeClaim": {"claimName": "lost"}},
            {"name": "w", "csi": {"driver": "mydriver"}},
        ]),
    ));
    for (claim, volume) in
        [("pvclaim", "pvname"), ("ephemeral-myvol", "pvname"), ("azure", "pv-azure"), ("unbound", "none")]
    {
        world.put(&format!("persistentvolumeclaims/ns/{claim}"), json!({"spec": {"volumeName": volume}}));
    }
    world.put("persistentvolumes//pvname", json!({"spec": {"csi": {"driver": "mydriver"}}}));
    world.put("persistentvolumes//pv-azure", json!({"spec": {"azureFile": {"secretName": "s"}}}));
    for driver in ["mydriver", "file.csi.azure.com"] {
        world
            .put(&format!("csidrivers//{driver}"), json!({"spec": {"tokenRequests": [{"audience": "foo"}]}}));
    }
    world
}

fn ask(world: &World, request: &Value) -> String {
    world.attempt(Operation::Create, "serviceaccounts/token", "ns/mysa", (request, &json!({})))
}

#[test]
fn a_token_is_bound_to_a_pod_of_the_node() {
    let unbound = "node requested token not bound to a pod";
    let mut of_secret = request("plain", "pod-uid", &[]);
    of_secret["spec"]["boundObjectRef"]["kind"] = "Secret".into();
    let mut of_group = request("plain", "pod-uid", &[]);
    of_group["spec"]["boundObjectRef"]["apiVersion"] = "v2".into();
    let recreated = "the UID in the bound object reference (old-uid) does not match the UID in record. The object might have been deleted and then recreated";
    let elsewhere = "node requested token bound to a pod scheduled on a different node";
    for (request, expected) in [
        (json!({"spec": {"audiences": ["foo"]}}), unbound),
        (of_secret, unbound),
        (of_group, unbound),
        (request("", "pod-uid", &[]), unbound),
        (request("nopod", "someuid", &["foo"]), r#"pods "nopod" not found"#),
        (request("plain", "", &["foo"]), "node requested token with a pod binding without a uid"),
        (request("plain", "old-uid", &["foo"]), recreated),
        (request("other", "pod-uid", &["foo"]), elsewhere),
        (request("default", "pod-uid", &[]), PERMITTED),
    ] {
        assert_eq!(ask(&world(), &request), expected, "{request}");
    }
}

#[test]
fn a_token_is_for_an_audience_that_the_pod_names() {
    let refused = |audience: &str| {
        format!("system:node:mynode is not authorized to request tokens for audience {audience:?}")
    };
    let lost = |what: &str| format!("error validating audience \"foo\": {what} not found");
    for (pod, audiences, expected) in [
        ("default", &[][..], PERMITTED.to_owned()),
        ("default", &[""][..], PERMITTED.into()),
        ("default", &["foo"][..], refused("foo")),
        ("foo", &["foo"][..], PERMITTED.into()),
        ("foo", &["foo", "bar"][..], "node may only request 0 or 1 audiences".into()),
        ("foo", &["bar"][..], refused("bar")),
        ("foo", &[][..], refused("")),
        ("plain", &["foo"][..], refused("foo")),
        ("plain", &[][..], refused("")),
        ("inline", &["foo"][..], PERMITTED.into()),
        ("inline", &["bar"][..], refused("bar")),
        ("stranger", &["foo"][..], lost("csidriver.storage.k8s.io \"unknown\"")),
        ("claim", &["foo"][..], PERMITTED.into()),
        ("claim", &["bar"][..], refused("bar")),
        ("lost", &["foo"][..], lost("persistentvolumeclaim \"lost\"")),
        ("unbound", &["foo"][..], lost("persistentvolume \"none\"")),
        ("ephemeral", &["foo"][..], PERMITTED.into()),
        ("ephemeral", &["bar"][..], refused("bar")),
        ("lost-and-inline", &["foo"][..], PERMITTED.into()),
        ("intree-pv", &["foo"][..], PERMITTED.into()),
        ("intree", &["foo"][..], PERMITTED.into()),
    ] {
        let found = ask(&world(), &request(pod, "pod-uid", audiences));
        assert_eq!(found, expected, "{pod} {audiences:?}");
    }
}

#[test]
fn a_role_permits_further_audiences() {
    let mut world = world();
    world.granted.push("request-serviceaccounts-token-audience foo ns/mysa");
    assert_eq!(ask(&world, &request("plain", "pod-uid", &["foo"])), PERMITTED);
    let other = r#"system:node:mynode is not authorized to request tokens for audience "bar""#;
    assert_eq!(ask(&world, &request("plain", "pod-uid", &["bar"])), other);
}

#[test]
fn without_the_feature_audiences_are_not_looked_at() {
    let mut world = world();
    world.features.set("ServiceAccountNodeAudienceRestriction", false);
    for pod in ["plain", "stranger", "lost", "unbound", "foo"] {
        assert_eq!(ask(&world, &request(pod, "pod-uid", &["foo", "bar"])), PERMITTED, "{pod}");
    }
    let elsewhere = "node requested token bound to a pod scheduled on a different node";
    assert_eq!(ask(&world, &request("other", "pod-uid", &["foo"])), elsewhere);
}
