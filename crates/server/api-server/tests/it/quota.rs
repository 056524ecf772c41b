//! Quotas, limit ranges, runtime classes and pod security, asked through the API.

use std::sync::Arc;

use crate::support::Api;
use lazaret_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// A quota whose usage has been counted: nothing.
async fn quota(api: &Api, name: &str, spec: Value) {
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let mut made = api.post(QUOTAS, &body).await.expect(201);
    let hard = made["spec"]["hard"].clone();
    made["status"]["hard"] = hard.clone();
    for (name, _) in hard.as_object().unwrap() {
        made["status"]["used"][name.as_str()] = "0".into();
    }
    api.put(&format!("{QUOTAS}/{name}/status"), &made).await.expect(200);
}

async fn used(api: &Api, name: &str) -> Value {
    api.get(&format!("{QUOTAS}/{name}")).await.expect(200)["status"]["used"].clone()
}

fn pod(name: &str, resources: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

async fn refused(api: &Api, path: &str, body: &Value, code: u16) -> String {
    api.post(path, body).await.expect(code)["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[allow(clippy::disallowed_methods, reason = "clients of their own")]
async fn however_many_ask_at_once_no_more_than_the_quota_is_used() {
    let api = Arc::new(Api::start().await);
    quota(&api, "few", json!({"hard": {"pods": "20", "requests.cpu": "30"}})).await;
    let attempts = (0..200).map(|at| {
        let api = Arc::clone(&api);
        tokio::spawn(async move {
            let body = pod(&format!("p{at}"), json!({"requests": {"cpu": "1"}}));
            let answer = api.post(PODS, &body).await;
            if answer.is(201) {
                return true;
            }
            let said = answer.expect(403)["message"].as_str().unwrap().to_owned();
            let wanted = format!("pods \"p{at}\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=20, limited: pods=20");
            assert_eq!(said, wanted);
            false
        })
    });
    let mut made = 0;
    for attempt in attempts.collect::<Vec<_>>() {
        made += usize::from(attempt.await.unwrap());
    }
    assert_eq!(made, 20);
    assert_eq!(api.get(PODS).await.expect(200)["items"].as_array().unwrap().len(), 20);
    assert_eq!(used(&api, "few").await, json!({"pods": "20", "requests.cpu": "20"}));
    let list = api.get(PODS).await.expect(200);
    for at in 0..5 {
        let name = list["items"][at]["metadata"]["name"].as_str().unwrap();
        api.delete(&format!("{PODS}/{name}"), None).await.expect(200);
    }
    assert_eq!(
        used(&api, "few").await,
        json!({"pods": "15", "requests.cpu": "15"}),
        "what goes is given back at once"
    );
}

#[tokio::test]
async fn a_pod_says_what_it_requests_and_is_not_charged_when_it_is_only_tried() {
    let api = Api::start().await;
    quota(&api, "q", json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})).await;
    assert_eq!(
        refused(&api, PODS, &pod("p", json!({})), 403).await,
        "pods \"p\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    let small = pod("p", json!({"requests": {"cpu": "600m"}, "limits": {"memory": "512Mi"}}));
    api.post(&format!("{PODS}?dryRun=All"), &small).await.expect(201);
    assert_eq!(used(&api, "q").await, json!({"requests.cpu": "0", "limits.memory": "0"}));
    api.post(PODS, &small).await.expect(201);
    assert_eq!(used(&api, "q").await, json!({"requests.cpu": "600m", "limits.memory": "512Mi"}));
    let again = pod("other", json!({"requests": {"cpu": "600m"}, "limits": {"memory": "512Mi"}}));
    let why = "pods \"other\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1";
    assert_eq!(refused(&api, PODS, &again, 403).await, why);
    assert_eq!(refused(&api, &format!("{PODS}?dryRun=All"), &again, 403).await, why);
    // A write that is refused for another reason is not charged either.
    api.post(PODS, &small).await.expect(403);
    let ended = json!({"status": {"phase": "Succeeded"}});
    api.patch(&format!("{PODS}/p/status"), "application/merge-patch+json", &ended).await.expect(200);
    assert_eq!(
        used(&api, "q").await,
        json!({"requests.cpu": "0", "limits.memory": "0"}),
        "an ended pod uses nothing"
    );
    api.post(PODS, &again).await.expect(201);
}

#[tokio::test]
async fn objects_of_every_kind_are_counted_and_changes_by_the_difference() {
    for api in Api::over_each_store().await {
        let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
        let definition = json!({"metadata": {"name": "notes.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "notes", "kind": "Note"}, "versions": versions}});
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
        quota(&api, "q", json!({"hard": {"configmaps": "1", "count/notes.example.com": "1", "count/deployments.apps": "0", "resourcequotas": "0",
        "services": "1", "services.nodeports": "1", "requests.storage": "3Gi", "gpu.deviceclass.resource.k8s.io/devices": "3"}})).await;
        let named = |name: &str| json!({"metadata": {"name": name}});
        let maps = "/api/v1/namespaces/default/configmaps";
        api.post(maps, &named("a")).await.expect(201);
        assert_eq!(
            refused(&api, maps, &named("b"), 403).await,
            "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
        );
        let notes = "/apis/example.com/v1/namespaces/default/notes";
        let note =
            |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": name}});
        api.post(notes, &note("a")).await.expect(201);
        assert!(
            refused(&api, notes, &note("b"), 403)
                .await
                .contains("requested: count/notes.example.com=1, used: count/notes.example.com=1")
        );
        api.delete(&format!("{notes}/a"), None).await.expect(200);
        api.post(notes, &note("b")).await.expect(201);
        assert!(
            refused(
                &api,
                QUOTAS,
                &json!({"metadata": {"name": "second"}, "spec": {"hard": {"resourcequotas": "0"}}}),
                403
            )
            .await
            .contains("requested: resourcequotas=1")
        );

        let services = "/api/v1/namespaces/default/services";
        let service =
            json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
        let made = api.post(services, &service).await.expect(201);
        let mut outside = made.clone();
        outside["spec"]["type"] = "NodePort".into();
        let outside = api.put(&format!("{services}/s"), &outside).await.expect(200);
        assert_eq!(used(&api, "q").await["services.nodeports"], "1");
        let mut more = outside.clone();
        more["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
        let said = api.put(&format!("{services}/s"), &more).await.expect(403)["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            said,
            "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1"
        );
        api.delete(&format!("{services}/s"), None).await.expect(200);
        assert_eq!(
            (&used(&api, "q").await["services"], &used(&api, "q").await["services.nodeports"]),
            (&json!("0"), &json!("0"))
        );

        let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
        let claim = |name: &str, count: i64| json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}});
        api.post(claims, &claim("two", 2)).await.expect(201);
        assert_eq!(
            refused(&api, claims, &claim("more", 2), 403).await,
            "resourceclaims.resource.k8s.io \"more\" is forbidden: exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=2, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=3"
        );
        let other = "/api/v1/namespaces/kube-system/configmaps";
        api.post(other, &named("a")).await.expect(201);
    }
}

#[tokio::test]
async fn quotas_that_make_no_sense_are_refused_and_scopes_stay() {
    let api = Api::start().await;
    let made = |spec: Value| json!({"metadata": {"name": "q"}, "spec": spec});
    let rows = [
        (
            json!({"hard": {"bananas": "1"}}),
            r#"[spec.hard[bananas]: Invalid value: "bananas": must be a standard resource type or fully qualified, spec.hard[bananas]: Invalid value: "bananas": must be a standard resource for quota]"#,
        ),
        (
            json!({"hard": {"pods": "-1"}}),
            r#"spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0"#,
        ),
        (json!({"hard": {"pods": "500m"}}), r#"spec.hard[pods]: Invalid value: "500m": must be an integer"#),
        (
            json!({"hard": {"services": "1"}, "scopes": ["BestEffort"]}),
            r#"spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource"#,
        ),
        (
            json!({"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}),
            r#"spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes"#,
        ),
        (
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}),
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
    ];
    for (spec, wanted) in rows {
        let said = refused(&api, QUOTAS, &made(spec), 422).await;
        assert_eq!(said, format!("ResourceQuota \"q\" is invalid: {wanted}"));
    }
    let mut stored =
        api.post(QUOTAS, &made(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}))).await.expect(201);
    stored["spec"]["scopes"] = json!(["NotBestEffort"]);
    let said = api.put(&format!("{QUOTAS}/q"), &stored).await.expect(422);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("spec.scopes: Invalid value: [\"NotBestEffort\"]: field is immutable"),
        "{said}"
    );
}

#[tokio::test]
async fn a_limit_range_fills_in_what_containers_leave_out_and_refuses_the_rest() {
    let api = Api::start().await;
    let ranges = "/api/v1/namespaces/default/limitranges";
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}});
    let answer = api.post(ranges, &range).await;
    assert_eq!(answer.warnings(), [] as [&str; 0]);
    answer.expect(201);
    let made = api.post(PODS, &pod("p", json!({}))).await.expect(201);
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    assert_eq!(
        refused(&api, PODS, &pod("q", json!({"limits": {"cpu": "2"}})), 403).await,
        "pods \"q\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
    let claim = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    assert_eq!(
        refused(&api, "/api/v1/namespaces/default/persistentvolumeclaims", &claim, 403).await,
        "persistentvolumeclaims \"v\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
    let elsewhere = api.post("/api/v1/namespaces/kube-system/pods", &pod("p", json!({}))).await.expect(201);
    assert_eq!(elsewhere["spec"]["containers"][0]["resources"], json!({}));
}

#[tokio::test]
async fn a_pod_gets_what_its_runtime_class_says() {
    let api = Api::start().await;
    let class = json!({"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {"nodeSelector": {"kata": "yes"}}});
    api.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await.expect(201);
    let mut body = pod("p", json!({}));
    body["spec"]["runtimeClassName"] = "kata".into();
    let made = api.post(PODS, &body).await.expect(201);
    assert_eq!(
        (&made["spec"]["overhead"], &made["spec"]["nodeSelector"]),
        (&json!({"cpu": "250m"}), &json!({"kata": "yes"}))
    );
    body["metadata"]["name"] = "q".into();
    body["spec"]["overhead"] = json!({"cpu": "1"});
    assert_eq!(
        refused(&api, PODS, &body, 403).await,
        "pods \"q\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    );
    body["spec"]["runtimeClassName"] = Value::Null;
    assert_eq!(
        refused(&api, PODS, &body, 403).await,
        "pods \"q\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
    body["spec"]["runtimeClassName"] = "gvisor".into();
    assert_eq!(
        refused(&api, PODS, &body, 403).await,
        "pods \"q\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found"
    );
}

#[tokio::test]
async fn a_namespace_takes_only_pods_that_its_labels_allow() {
    let api = Api::start().await;
    api.post(PODS, &pod("old", json!({}))).await.expect(201);
    let label = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let merge = "application/merge-patch+json";
    let answer = api.patch("/api/v1/namespaces/default", merge, &label("restricted")).await;
    let said = answer.warnings().join("\n");
    answer.expect(200);
    assert!(said.contains(r#"existing pods in namespace \"default\" violate the new PodSecurity enforce level \"restricted:latest\""#), "{said}");
    assert!(said.contains("old: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"), "{said}");
    let why = refused(&api, PODS, &pod("p", json!({})), 403).await;
    assert!(
        why.starts_with(r#"pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), "#),
        "{why}"
    );
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let answer = api.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await;
    assert!(
        answer.warnings().join("").contains(r#"would violate PodSecurity \"restricted:latest\""#),
        "{:?}",
        answer.warnings()
    );
    answer.expect(201);
    api.patch("/api/v1/namespaces/default", merge, &label("baseline")).await.expect(200);
    api.post(PODS, &pod("p", json!({}))).await.expect(201);
    let mut privileged = pod("q", json!({}));
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    assert_eq!(
        refused(&api, PODS, &privileged, 403).await,
        r#"pods "q" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)"#
    );
    let said = api.patch("/api/v1/namespaces/default", merge, &label("most")).await.expect(422);
    assert_eq!(
        said["message"],
        r#"Namespace "default" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "most": must be one of privileged, baseline, restricted"#
    );
}

#[tokio::test]
async fn a_namespace_has_only_so_many_quotas_and_limit_ranges() {
    for api in Api::over_each_store().await {
        let ranges = "/api/v1/namespaces/default/limitranges";
        let body = |at: usize| json!({"metadata": {"name": format!("n{at}")}, "spec": {}});
        for at in 0..64 {
            api.post(QUOTAS, &body(at)).await.expect(201);
            api.post(ranges, &body(at)).await.expect(201);
        }
        assert_eq!(
            refused(&api, QUOTAS, &body(64), 403).await,
            r#"resourcequotas "n64" is forbidden: exceeded limit: there are 64 resourcequotas of 64 in namespace "default""#
        );
        api.post(ranges, &body(64)).await.expect(403);
        api.post("/api/v1/namespaces/kube-system/resourcequotas", &body(64)).await.expect(201);
    }
}
