//! Twice the input is twice the work, whatever the request. Work is counted, not timed: lookups of fields and comparisons of values. One test,
//! since the count is of the whole process.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "it/support/mod.rs"]
mod support;

use lazaret_json::{Value, json, steps};
use support::Api;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

const COUNT: usize = 400;
/// How much more work twice the input may be, in tenths: what sorts and searches takes a little more than twice.
const TENTHS_MAX: u64 = 25;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn secrets(count: usize, kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"},
        "secrets": list(count, |at| json!({"name": format!("s{at}"), "kind": kind}))})
}

fn finalizers(count: usize) -> Value {
    list(count, |at| format!("example.com/f{at}").into())
}

fn bare_pod() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn pod(count: usize, place: fn(&mut Value, Value), item: fn(usize) -> Value) -> Value {
    let mut pod = bare_pod();
    place(&mut pod, list(count, item));
    pod
}

fn spec_with(count: usize, field: &str, item: fn(usize) -> Value) -> Value {
    let mut pod = bare_pod();
    pod["spec"][field] = list(count, item);
    pod
}

fn container_with(count: usize, field: &str, item: fn(usize) -> Value) -> Value {
    let mut pod = bare_pod();
    pod["spec"]["containers"][0][field] = list(count, item);
    pod
}

fn widget(count: usize, value: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {
        "map": list(count, |at| json!({"key": format!("k{at}"), "value": value})),
        "set": list(count, |at| format!("v{at}").into()),
    }})
}

fn definition() -> Value {
    let item = json!({"type": "object", "required": ["key"], "properties": {
        "key": {"type": "string"}, "value": {"type": "integer"}, "mode": {"type": "string", "default": "m"}},
        "x-kubernetes-validations": [{"rule": "self.value >= oldSelf.value"}]});
    let spec = json!({"type": "object", "properties": {
        "map": {"type": "array", "maxItems": 10_000, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"], "items": item},
        "set": {"type": "array", "maxItems": 10_000, "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": spec}}}}]}})
}

/// The objects before, and the request then: method, path, form and body.
struct Case {
    name: &'static str,
    collection: &'static str,
    before: fn(usize) -> Option<Value>,
    form: &'static str,
    body: fn(usize) -> Value,
    /// Below the object, or of a request for it.
    below: &'static str,
}

const NEW: Case =
    Case { name: "", collection: PODS, before: |_| None, form: JSON, body: |_| Value::Null, below: "" };
const ACCOUNT: Case =
    Case { collection: ACCOUNTS, before: |count| Some(secrets(count, "x")), form: STRATEGIC, ..NEW };

const CASES: &[Case] = &[
    Case { name: "strategic: same items", body: |count| secrets(count, "y"), ..ACCOUNT },
    Case {
        name: "strategic: other items",
        body: |count| json!({"secrets": list(count, |at| json!({"name": format!("t{at}")}))}),
        ..ACCOUNT
    },
    Case {
        name: "strategic: items deleted",
        body: |count| json!({"secrets": list(count, |at| json!({"name": format!("s{at}"), "$patch": "delete"}))}),
        ..ACCOUNT
    },
    Case {
        name: "strategic: items in another order",
        body: |count| {
            let order = list(count, |at| json!({"name": format!("s{}", count - at - 1)}));
            json!({"$setElementOrder/secrets": order, "secrets": [{"name": "s0", "kind": "z"}]})
        },
        ..ACCOUNT
    },
    Case {
        name: "strategic: a set added to",
        before: |count| Some(json!({"metadata": {"name": "a", "finalizers": finalizers(count)}})),
        body: |count| json!({"metadata": {"finalizers": finalizers(count * 2)}}),
        ..ACCOUNT
    },
    Case {
        name: "strategic: a set taken from",
        before: |count| Some(json!({"metadata": {"name": "a", "finalizers": finalizers(count)}})),
        body: |count| {
            let kept = json!(["example.com/kept"]);
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers(count), "finalizers": kept}})
        },
        ..ACCOUNT
    },
    Case {
        name: "strategic: keys retained",
        body: |count| {
            let keys = list(count, |at| format!("l{at}").into());
            let labels: Value = (0..count).map(|at| (format!("l{at}"), json!("v"))).collect();
            let mut labels = labels;
            labels["$retainKeys"] = keys;
            json!({"metadata": {"labels": labels}})
        },
        ..ACCOUNT
    },
    Case { name: "merge", form: MERGE, body: |count| secrets(count, "y"), ..ACCOUNT },
    Case {
        name: "JSON patch",
        form: "application/json-patch+json",
        body: |count| {
            list(count, |at| json!({"op": "replace", "path": format!("/secrets/{at}/kind"), "value": "y"}))
        },
        ..ACCOUNT
    },
    Case { name: "apply: new", before: |_| None, form: APPLY, body: |count| secrets(count, "y"), ..ACCOUNT },
    Case { name: "apply: conflicts", form: APPLY, body: |count| secrets(count, "y"), ..ACCOUNT },
    Case {
        name: "apply: forced",
        form: APPLY,
        body: |count| secrets(count, "y"),
        below: "&force=true",
        ..ACCOUNT
    },
    Case {
        name: "apply: in another order",
        form: APPLY,
        body: |count| {
            let mut account = secrets(count, "x");
            let mut items = account["secrets"].as_array().cloned().unwrap_or_default();
            items.reverse();
            account["secrets"] = Value::Array(items.into());
            account
        },
        ..ACCOUNT
    },
    Case { name: "custom: created", collection: WIDGETS, body: |count| widget(count, 1), ..NEW },
    Case {
        name: "custom: every item changed",
        collection: WIDGETS,
        before: |count| Some(widget(count, 1)),
        form: MERGE,
        body: |count| widget(count, 2),
        ..NEW
    },
    Case {
        name: "custom: applied over another's",
        collection: WIDGETS,
        before: |count| Some(widget(count, 1)),
        form: APPLY,
        body: |count| widget(count, 2),
        below: "&force=true",
    },
    Case {
        name: "custom: unknown fields",
        collection: WIDGETS,
        body: |count| {
            let unknown: Value = (0..count).map(|at| (format!("u{at}"), json!(1))).collect();
            json!({"metadata": {"name": "a"}, "spec": unknown})
        },
        ..NEW
    },
    Case {
        name: "containers",
        body: |count| spec_with(count, "containers", |at| json!({"name": format!("c{at}"), "image": "i"})),
        ..NEW
    },
    Case {
        name: "init containers",
        body: |count| {
            spec_with(
                count,
                "initContainers",
                |at| json!({"name": format!("i{at}"), "image": "i", "restartPolicy": "Always"}),
            )
        },
        ..NEW
    },
    Case {
        name: "variables",
        body: |count| container_with(count, "env", |at| json!({"name": format!("E{at}"), "value": "v"})),
        ..NEW
    },
    Case {
        name: "ports",
        body: |count| {
            container_with(
                count,
                "ports",
                |at| json!({"name": format!("p{at}"), "containerPort": 1 + at, "hostPort": 1 + at}),
            )
        },
        ..NEW
    },
    Case {
        name: "volumes and mounts",
        body: |count| {
            pod(
                count,
                |pod, volumes| {
                    let mounts = volumes.as_array().into_iter().flatten().map(
                        |volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"])}),
                    );
                    pod["spec"]["containers"][0]["volumeMounts"] = mounts.collect::<Vec<Value>>().into();
                    pod["spec"]["volumes"] = volumes;
                },
                |at| json!({"name": format!("v{at}"), "emptyDir": {}}),
            )
        },
        ..NEW
    },
    Case {
        name: "tolerations",
        body: |count| {
            spec_with(count, "tolerations", |at| json!({"key": format!("k{at}"), "operator": "Exists"}))
        },
        ..NEW
    },
    Case {
        name: "claims of a pod",
        body: |count| {
            pod(
                count,
                |pod, claims| {
                    pod["spec"]["containers"][0]["resources"]["claims"] =
                        list(claims.as_array().map_or(0, Vec::len), |at| json!({"name": format!("c{at}")}));
                    pod["spec"]["resourceClaims"] = claims;
                },
                |at| json!({"name": format!("c{at}"), "resourceClaimName": "x"}),
            )
        },
        ..NEW
    },
    Case {
        name: "topology constraints",
        body: |count| {
            spec_with(
                count,
                "topologySpreadConstraints",
                |at| json!({"topologyKey": format!("k{at}"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}),
            )
        },
        ..NEW
    },
    Case {
        name: "keys of labels",
        body: |count| {
            pod(
                count,
                |pod, keys| {
                    let expressions: Vec<Value> = keys
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|key| json!({"key": key, "operator": "Exists"}))
                        .collect();
                    pod["spec"]["topologySpreadConstraints"] = json!([{"topologyKey": "k", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": keys, "labelSelector": {"matchExpressions": expressions}}]);
                },
                |at| json!(format!("k{at}")),
            )
        },
        ..NEW
    },
    Case {
        name: "block devices",
        body: |count| {
            pod(
                count,
                |pod, devices| {
                    let volumes: Vec<Value> = devices.as_array().into_iter().flatten().map(|device| json!({"name": device["name"], "persistentVolumeClaim": {"claimName": "x"}})).collect();
                    pod["spec"]["volumes"] = volumes.into();
                    pod["spec"]["containers"][0]["volumeDevices"] = devices;
                },
                |at| json!({"name": format!("v{at}"), "devicePath": format!("/dev/{at}")}),
            )
        },
        ..NEW
    },
    Case {
        name: "statuses of claims",
        before: |count| {
            Some(spec_with(
                count,
                "resourceClaims",
                |at| json!({"name": format!("c{at}"), "resourceClaimName": "x"}),
            ))
        },
        form: STRATEGIC,
        below: "/status",
        body: |count| json!({"status": {"resourceClaimStatuses": list(count, |at| json!({"name": format!("c{at}"), "resourceClaimName": "x"}))}}),
        ..NEW
    },
    Case {
        name: "tolerations added to a pod",
        before: |count| {
            Some(spec_with(count, "tolerations", |at| json!({"key": format!("k{at}"), "operator": "Exists"})))
        },
        form: MERGE,
        body: |count| json!({"spec": {"tolerations": list(count * 2, |at| json!({"key": format!("k{at}"), "operator": "Exists"}))}}),
        ..NEW
    },
    Case {
        name: "scheduling gates",
        body: |count| spec_with(count, "schedulingGates", |at| json!({"name": format!("example.com/g{at}")})),
        ..NEW
    },
    Case {
        name: "conditions of a pod",
        before: |_| Some(bare_pod()),
        form: STRATEGIC,
        below: "/status",
        body: |count| json!({"status": {"conditions": list(count, |at| json!({"type": format!("C{at}"), "status": "True"}))}}),
        ..NEW
    },
    Case {
        name: "statuses of containers",
        before: |count| {
            Some(spec_with(count, "containers", |at| json!({"name": format!("c{at}"), "image": "i"})))
        },
        form: STRATEGIC,
        below: "/status",
        body: |count| json!({"status": {"containerStatuses": list(count, |at| json!({"name": format!("c{at}"), "image": "i", "imageID": "", "restartCount": 0, "ready": true}))}}),
        ..NEW
    },
    Case {
        name: "owners and finalizers",
        body: |count| {
            pod(
                count,
                |pod, list| {
                    pod["metadata"]["finalizers"] = finalizers(list.as_array().map_or(0, Vec::len));
                    pod["metadata"]["ownerReferences"] = list;
                },
                |at| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": format!("u{at}")}),
            )
        },
        ..NEW
    },
    Case {
        name: "ports of a service",
        collection: "/api/v1/namespaces/default/services",
        body: |count| json!({"metadata": {"name": "a"}, "spec": {"selector": {"a": "b"}, "ports": list(count, |at| json!({"name": format!("p{at}"), "port": 1 + at}))}}),
        ..NEW
    },
    Case {
        name: "taints of a node",
        collection: "/api/v1/nodes",
        body: |count| json!({"metadata": {"name": "a"}, "spec": {"taints": list(count, |at| json!({"key": format!("k{at}"), "effect": "NoSchedule"}))}}),
        ..NEW
    },
    Case {
        name: "rules of a role",
        collection: "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        body: |count| json!({"metadata": {"name": "a"}, "rules": list(count, |_| json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}))}),
        ..NEW
    },
    Case {
        name: "subjects of a binding",
        collection: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        body: |count| {
            json!({"metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"},
            "subjects": list(count, |at| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": format!("u{at}")}))})
        },
        ..NEW
    },
    Case {
        name: "versions of a definition",
        collection: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        body: |count| {
            let mut definition = definition();
            definition["metadata"]["name"] = "others.example.com".into();
            definition["spec"]["names"] =
                json!({"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"});
            definition["spec"]["versions"] = list(
                count / 4,
                |at| json!({"name": format!("v{at}"), "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": {"type": "object"}}}),
            );
            definition
        },
        ..NEW
    },
    Case {
        name: "fields of a definition",
        collection: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        body: |count| {
            let mut definition = definition();
            definition["metadata"]["name"] = "others.example.com".into();
            definition["spec"]["names"] =
                json!({"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"});
            let fields: Value = (0..count)
                .map(|at| (format!("f{at}"), json!({"type": "string", "enum": ["a", "b"]})))
                .collect();
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object", "properties": fields, "required": list(count, |at| format!("f{at}").into())});
            definition
        },
        ..NEW
    },
];

/// The work of a request, after what comes before it.
async fn work(case: &Case, count: usize) -> u64 {
    let api = Api::start().await;
    if case.collection == WIDGETS {
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await.expect(201);
    }
    let before = (case.before)(count);
    let exists = before.is_some() || case.form == APPLY;
    if let Some(before) = before {
        api.post(case.collection, &before).await.expect(201);
    }
    let body = (case.body)(count).to_string();
    let (below, query) = if case.below.starts_with('/') { (case.below, "") } else { ("", case.below) };
    let manager = if exists { "?fieldManager=m" } else { "" };
    let path = match (exists, case.collection) {
        (true, collection) => format!("{collection}/a{below}{manager}{query}"),
        (false, collection) => collection.to_owned(),
    };
    let method = if exists { "PATCH" } else { "POST" };
    let before = steps();
    let answer = api.send(method, &path, case.form, &body).await;
    let taken = steps() - before;
    // A conflict and a refusal are answers like any other, and the one that is meant here.
    assert!(answer.is(200) || answer.is(201) || answer.is(409), "{}: {}", case.name, answer.expect(200));
    taken
}

#[tokio::test]
async fn twice_the_input_is_twice_the_work() {
    let mut worse = Vec::new();
    for case in CASES {
        let (once, twice) = (work(case, COUNT).await, work(case, COUNT * 2).await);
        println!("{:<34} {once:>9} {twice:>9}", case.name);
        assert!(
            usize::try_from(once).is_ok_and(|once| once > COUNT / 4),
            "{}: nothing was counted",
            case.name
        );
        if twice * 10 > once * TENTHS_MAX {
            worse.push(format!("{}: {once} steps, and {twice} for twice as much", case.name));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}
