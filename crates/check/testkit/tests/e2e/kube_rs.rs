//! The API as kube-rs uses it, over TLS.

use std::collections::BTreeSet;

use crate::support::{connect, object, refusal};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod},
    policy::v1::PodDisruptionBudget,
    resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice},
};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams,
        Preconditions, ValidationDirective,
    },
    core::GroupVersionKind,
};
use lazaret_testkit::Cluster;
use serde_json::{Value, json};

fn pod(name: &str) -> Pod {
    object(json!({
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]},
    }))
}

fn config(name: &str, data: Value) -> ConfigMap {
    object(json!({"metadata": {"name": name}, "data": data}))
}

#[tokio::test]
async fn typed_objects_are_defaulted_listed_and_told_apart() {
    let cluster = Cluster::start();
    let pods: Api<Pod> = Api::default_namespaced(connect(&cluster).await);
    let made = pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let spec = made.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("IfNotPresent"));
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"));
    let list =
        pods.list(&ListParams::default().labels("app in (a,b)").fields("metadata.name=a")).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert!(pods.list(&ListParams::default().labels("app=b")).await.unwrap().items.is_empty());
    let (code, reason, _) = refusal(pods.create(&PostParams::default(), &pod("a")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    let (code, reason, message) = refusal(pods.create(&PostParams::default(), &pod("A_")).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(message.contains("metadata.name"), "{message}");
    assert!(pods.get_opt("b").await.unwrap().is_none());
}

#[tokio::test]
async fn devices_classes_claims_slices_and_rules_go_through_typed_clients() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let classes: Api<DeviceClass> = Api::all(client.clone());
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}});
    classes.create(&PostParams::default(), &object(class)).await.unwrap();
    let claims: Api<ResourceClaim> = Api::default_namespaced(client.clone());
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}});
    let claim = claims.create(&PostParams::default(), &object(claim)).await.unwrap();
    let exactly = claim.spec.unwrap().devices.unwrap().requests.unwrap()[0].exactly.clone().unwrap();
    assert_eq!((exactly.allocation_mode.as_deref(), exactly.count), (Some("ExactCount"), Some(1)));
    let slices: Api<ResourceSlice> = Api::all(client.clone());
    let slice = json!({
        "metadata": {"name": "n1-gpu"},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": [{"key": "gpu.example.com/unhealthy", "effect": "NoExecute"}]}],
        },
    });
    let slice = slices.create(&PostParams::default(), &object(slice)).await.unwrap();
    let taints = slice.spec.devices.unwrap()[0].taints.clone().unwrap();
    assert!(taints[0].time_added.is_some(), "the server says when");
    let of_node = ListParams::default().fields("spec.nodeName=n1,spec.driver=gpu.example.com");
    assert_eq!(slices.list(&of_node).await.unwrap().items.len(), 1);
    let rules: Api<DeviceTaintRule> = Api::all(client);
    let rule = json!({"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "a.example.com/x", "effect": "NoSchedule"}}});
    let rule = rules.create(&PostParams::default(), &object(rule)).await.unwrap();
    assert!(rule.spec.taint.time_added.is_some());
    let bad = json!({"metadata": {"name": "b"}, "spec": {"taint": {"key": "x", "effect": "NoExecut"}}});
    assert_eq!(refusal(rules.create(&PostParams::default(), &object(bad)).await).0, 422);
}

/// Conditions of a rule are a map by type, taints of a device one value.
#[tokio::test]
async fn conditions_are_merged_by_type_and_taints_are_replaced_whole() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let rules: Api<DeviceTaintRule> = Api::all(client.clone());
    let rule = json!({"metadata": {"name": "r"}, "spec": {"taint": {"key": "x", "effect": "None"}}});
    rules.create(&PostParams::default(), &object(rule)).await.unwrap();
    let condition = |kind: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "status": {"conditions": [
            {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    };
    for kind in ["EvictionInProgress", "Other"] {
        rules.patch_status("r", &PatchParams::apply(kind), &Patch::Apply(condition(kind))).await.unwrap();
    }
    let conditions = rules.get("r").await.unwrap().status.unwrap().conditions.unwrap();
    let kinds: Vec<&str> = conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(kinds, ["EvictionInProgress", "Other"], "each manager has its own");

    let slices: Api<ResourceSlice> = Api::all(client);
    let slice = |key: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "taints": [{"key": key, "effect": "None"}]}],
            },
        })
    };
    let apply = |manager: &str, key: &str, force: bool| {
        let parameters = PatchParams { force, ..PatchParams::apply(manager) };
        let (slices, patch) = (slices.clone(), Patch::Apply(slice(key)));
        async move { slices.patch("s", &parameters, &patch).await }
    };
    apply("one", "a", false).await.unwrap();
    assert_eq!(refusal(apply("two", "b", false).await).0, 409, "the list has one owner");
    let taken = apply("two", "b", true).await.unwrap();
    let taints = taken.spec.devices.unwrap()[0].taints.clone().unwrap();
    assert_eq!(taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn objects_without_a_type_are_found_by_discovery() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let group = kube::discovery::group(&client, "resource.k8s.io").await.unwrap();
    let (resource, _) = group.recommended_kind("ResourceClaimTemplate").unwrap();
    assert_eq!(resource.version, "v1");
    let templates: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let template = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    });
    let made = templates.create(&PostParams::default(), &object(template)).await.unwrap();
    assert_eq!(made.types.unwrap().kind, "ResourceClaimTemplate");
    let list = templates.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].data["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
    let nobody = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Nothing"));
    let nothing: Api<DynamicObject> = Api::all_with(client, &nobody);
    assert_eq!(refusal(nothing.list(&ListParams::default()).await).0, 404);
}

#[tokio::test]
async fn every_kind_of_patch_does_what_its_media_type_says() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let plain = PatchParams::default();
    let merge = json!({"metadata": {"labels": {"app": null, "tier": "x"}}});
    let labels = pods.patch("a", &plain, &Patch::Merge(&merge)).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("tier".to_owned(), "x".to_owned())]);
    let strategic = json!({"spec": {"containers": [{"name": "c", "image": "registry.example/c:2"}]}});
    let patched = pods.patch("a", &plain, &Patch::Strategic(&strategic)).await.unwrap();
    assert_eq!(patched.spec.unwrap().containers[0].image.as_deref(), Some("registry.example/c:2"));
    let steps: json_patch::Patch = object(json!([
        {"op": "test", "path": "/metadata/labels/tier", "value": "x"},
        {"op": "add", "path": "/metadata/labels/zone", "value": "z"},
    ]));
    let patched = pods.patch("a", &plain, &Patch::Json::<()>(steps.clone())).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["zone"], "z");
    let steps: json_patch::Patch =
        object(json!([{"op": "test", "path": "/metadata/labels/tier", "value": "y"}]));
    assert_eq!(refusal(pods.patch("a", &plain, &Patch::Json::<()>(steps)).await).0, 422);
    let immutable = json!({"spec": {"nodeName": "n", "restartPolicy": "Never"}});
    assert_eq!(refusal(pods.patch("a", &plain, &Patch::Merge(&immutable)).await).0, 422);
    let status = json!({"status": {"phase": "Running"}});
    let patched = pods.patch_status("a", &plain, &Patch::Merge(&status)).await.unwrap();
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test]
async fn who_applies_what_somebody_else_owns_is_told_and_may_insist() {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    let wish = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
    let (one, other) = (PatchParams::apply("one"), PatchParams::apply("other"));
    maps.patch("a", &one, &Patch::Apply(wish("1"))).await.unwrap();
    let (code, reason, message) = refusal(maps.patch("a", &other, &Patch::Apply(wish("2"))).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains(r#"conflict with "one""#) && message.contains(".data.k"), "{message}");
    maps.patch("a", &other, &Patch::Apply(wish("1"))).await.expect("the same wish is no conflict");
    let forced = maps.patch("a", &other.clone().force(), &Patch::Apply(wish("2"))).await.unwrap();
    assert_eq!(forced.data.unwrap()["k"], "2");
    let managers: BTreeSet<_> =
        forced.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert!(managers.contains("other"), "{managers:?}");
    let none = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let left = maps.patch("a", &other, &Patch::Apply(none)).await.unwrap();
    assert!(left.data.unwrap_or_default().is_empty(), "what nobody wants any more goes");
}

#[tokio::test]
async fn ten_thousand_objects_are_paged_through_as_they_were() {
    const COUNT: usize = 10_000;
    let cluster = Cluster::start();
    let inside: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let post = PostParams::default();
    for first in (0..COUNT).step_by(500) {
        let batch: Vec<_> =
            (first..first + 500).map(|n| config(&format!("m{n:05}"), json!({"n": "x"}))).collect();
        let made = futures_util::future::join_all(batch.iter().map(|map| inside.create(&post, map))).await;
        assert!(made.iter().all(Result::is_ok));
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    let mut seen = Vec::new();
    let mut params = ListParams::default().limit(700);
    let mut revision = None;
    loop {
        let page = maps.list(&params).await.unwrap();
        assert!(page.items.len() <= 700);
        let now = page.metadata.resource_version.clone();
        assert_eq!(*revision.get_or_insert(now.clone()), now, "all pages are of one state");
        seen.extend(page.items.into_iter().filter_map(|map| map.metadata.name));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
        // Neither what comes nor what goes meanwhile is part of it.
        inside.delete(seen.last().unwrap(), &DeleteParams::default()).await.unwrap();
        inside.create(&post, &config(&format!("z{}", seen.len()), json!({}))).await.unwrap();
    }
    let expected: Vec<String> = (0..COUNT).map(|n| format!("m{n:05}")).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn of_many_writers_of_one_version_one_wins() {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    let made = maps.create(&PostParams::default(), &config("a", json!({}))).await.unwrap();
    let tries: Vec<ConfigMap> = (0..16)
        .map(|n| {
            let mut mine = made.clone();
            mine.data = Some([("who".to_owned(), n.to_string())].into());
            mine
        })
        .collect();
    let post = PostParams::default();
    let answers =
        futures_util::future::join_all(tries.iter().map(|mine| maps.replace("a", &post, mine))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for answer in answers.into_iter().filter(Result::is_err) {
        let (code, reason, _) = refusal(answer);
        assert_eq!((code, reason.as_str()), (409, "Conflict"));
    }
}

#[tokio::test]
async fn a_deletion_may_insist_on_which_object_it_means() {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    let made = maps.create(&PostParams::default(), &config("a", json!({}))).await.unwrap();
    let only = |uid: Option<String>, version: Option<String>| {
        DeleteParams::default().preconditions(Preconditions { uid, resource_version: version })
    };
    let (code, reason, _) = refusal(maps.delete("a", &only(Some("another".into()), None)).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(refusal(maps.delete("a", &only(None, Some("1".into()))).await).0, 409);
    let exact = only(made.metadata.uid.clone(), made.metadata.resource_version.clone());
    maps.delete("a", &exact).await.unwrap();
    assert_eq!(refusal(maps.delete("a", &exact).await).0, 404);
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_does_nothing() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let dry = PostParams { dry_run: true, field_manager: None };
    let would = pods.create(&dry, &pod("a")).await.unwrap();
    assert!(would.metadata.uid.is_some() && would.spec.unwrap().restart_policy.is_some());
    assert!(pods.get_opt("a").await.unwrap().is_none());
    pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let patch = json!({"metadata": {"labels": {"app": "b"}}});
    assert_eq!(
        pods.patch("a", &params, &Patch::Merge(&patch)).await.unwrap().metadata.labels.unwrap()["app"],
        "b"
    );
    pods.delete("a", &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.unwrap();
    let still = pods.get("a").await.unwrap();
    assert_eq!(still.metadata.labels.unwrap()["app"], "a");
    assert!(still.metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn unknown_fields_are_refused_where_that_is_asked_for() {
    let cluster = Cluster::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(connect(&cluster).await);
    maps.create(&PostParams::default(), &config("a", json!({}))).await.unwrap();
    let typo = json!({"datum": {"k": "v"}});
    let how = |directive| PatchParams { field_validation: Some(directive), ..PatchParams::default() };
    let (code, _, message) =
        refusal(maps.patch("a", &how(ValidationDirective::Strict), &Patch::Merge(&typo)).await);
    assert_eq!(code, 422);
    assert!(message.contains(r#"unknown field "datum""#), "{message}");
    maps.patch("a", &how(ValidationDirective::Ignore), &Patch::Merge(&typo)).await.unwrap();
}

async fn budget(client: &Client, name: &str, status: Value) {
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let spec = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    let made = budgets.create(&PostParams::default(), &object(spec)).await.unwrap();
    let mut status = json!({ "status": status });
    status["status"]["observedGeneration"] = made.metadata.generation.into();
    budgets.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

#[tokio::test]
async fn an_eviction_asks_the_budget_first() {
    let cluster = Cluster::start();
    let client = connect(&cluster).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    }
    let counts =
        json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2});
    budget(&client, "one", counts).await;
    let dry = EvictParams {
        post_options: PostParams { dry_run: true, field_manager: None },
        ..EvictParams::default()
    };
    pods.evict("a", &dry).await.unwrap();
    // The body may ask for it too. Written out, because kube calls the field by another name than Kubernetes does.
    let body = json!({"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}});
    let request = http::Request::post("/api/v1/namespaces/default/pods/a/eviction");
    let request =
        request.header("content-type", "application/json").body(body.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap();
    assert!(pods.get("a").await.unwrap().metadata.deletion_timestamp.is_none());
    pods.evict("a", &EvictParams::default()).await.expect("asking took nothing from the budget");
    let (code, reason, _) = refusal(pods.evict("b", &EvictParams::default()).await);
    assert_eq!((code, reason.as_str()), (429, "TooManyRequests"));
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client);
    let status = budgets.get("one").await.unwrap().status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    assert!(
        status.disrupted_pods.unwrap().contains_key("a"),
        "remembered until its controller has seen it go"
    );
}
