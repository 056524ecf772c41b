//! Admission webhooks on a server over TLS: who is called, with what, and what follows from each kind of answer.

use std::sync::Arc;

use lazaret_json::{Value, json};
use lazaret_server::Pem;
use lazaret_store::Op;

use crate::https::Cluster;
use crate::webhook_server::{Reply, WebhookServer, allowing, patching};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Api {
    cluster: Cluster,
    admin: Option<Pem>,
}

impl Api {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let admin = cluster.identity("admin", "system:masters");
        Self { cluster, admin }
    }

    async fn send(&self, line: &str, body: &Value) -> (u16, Value) {
        let (code, answer, _) = self.send_as(self.admin.as_ref(), line, body).await;
        (code, answer)
    }

    /// With the head of the answer.
    async fn send_as(&self, who: Option<&Pem>, line: &str, body: &Value) -> (u16, Value, String) {
        let (method, path) = line.split_once(' ').unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = match method {
            "PATCH" if path.contains("fieldManager") => "application/apply-patch+yaml",
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let headers = format!("Content-Type: {kind}\r\n");
        self.cluster.send_whole(who, &headers, method, path, &body).await
    }

    #[track_caller]
    fn refused(answer: &(u16, Value)) -> (u16, &str) {
        (answer.0, answer.1["message"].as_str().unwrap_or_default())
    }

    /// Configures one webhook.
    async fn configure(&self, path: &str, name: &str, hook: &WebhookServer, changes: Value) {
        let mut said = json!({
            "name": format!("{name}.example.com"), "clientConfig": hook.client_config(), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 20,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        });
        for (field, value) in changes.as_object().unwrap() {
            said[field.as_str()] = value.clone();
        }
        let configuration = json!({"metadata": {"name": name}, "webhooks": [said]});
        let (code, answer) = self.send(&format!("POST {path}"), &configuration).await;
        assert_eq!(code, 201, "{answer}");
    }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn rules(operations: &[&str], resources: &[&str]) -> Value {
    json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": operations.to_vec(), "resources": resources.to_vec()}]})
}

#[tokio::test]
async fn a_validating_webhook_is_told_all_and_its_refusal_is_repeated_to_the_byte() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|asked| {
        Reply::Response(match asked["name"].as_str().unwrap() {
            "silent" => json!({"allowed": false}),
            "reason" => json!({"allowed": false, "status": {"reason": "Because"}}),
            "coded" => json!({"allowed": false, "status": {
                "code": 451, "message": "for legal reasons", "reason": "Lawyers",
                "details": {"causes": [{"message": "they"}], "retryAfterSeconds": 7}, "bogus": 1}}),
            "success" => json!({"allowed": false, "status": {"status": "Success", "code": 200}}),
            _ => json!({"allowed": true, "warnings": ["mind the gap"], "auditAnnotations": {"k": "v"}}),
        })
    })
    .await;
    api.configure(VALIDATING, "judge", &hook, json!({})).await;
    let post = format!("POST {MAPS}?fieldManager=me&fieldValidation=Strict");
    let denied = "admission webhook \"judge.example.com\" denied the request";
    let (code, answer) = api.send(&post, &map("silent")).await;
    assert_eq!((code, &answer["message"]), (400, &json!(format!("{denied} without explanation"))));
    assert_eq!((&answer["status"], answer.get("reason")), (&json!("Failure"), None));
    let (code, answer) = api.send(&post, &map("reason")).await;
    assert_eq!((code, &answer["message"]), (400, &json!(format!("{denied}: Because"))));
    let (code, answer) = api.send(&post, &map("coded")).await;
    let wanted = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 451, "reason": "Lawyers",
        "message": format!("{denied}: for legal reasons"),
        "details": {"causes": [{"message": "they"}], "retryAfterSeconds": 7}});
    assert_eq!((code, answer), (451, wanted));
    assert_eq!(api.send(&post, &map("success")).await.0, 400, "a refusal never looks like a success");
    assert_eq!(api.send(&format!("GET {MAPS}/silent"), &Value::Null).await.0, 404, "nothing was written");

    let (code, _, head) = api.send_as(api.admin.as_ref(), &post, &map("good")).await;
    assert_eq!(code, 201);
    assert!(head.contains("warning: 299 - \"mind the gap\""), "{head}");
    let asked = hook.seen().pop().unwrap();
    let gvk = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let gvr = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!((&asked["kind"], &asked["requestKind"]), (&gvk, &gvk));
    assert_eq!((&asked["resource"], &asked["requestResource"]), (&gvr, &gvr));
    assert_eq!((&asked["operation"], &asked["namespace"]), (&json!("CREATE"), &json!("default")));
    assert_eq!(asked["userInfo"]["username"], "admin");
    assert_eq!(asked["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!((&asked["dryRun"], &asked["oldObject"]), (&json!(false), &Value::Null));
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "fieldValidation": "Strict"});
    assert_eq!(asked["options"], options);
    assert_eq!(
        (&asked["object"]["kind"], &asked["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    assert!(asked["object"]["metadata"]["uid"].is_string(), "a validating webhook sees what will be stored");
    assert!(asked["object"]["metadata"]["managedFields"].is_array());
    assert_eq!((&asked["target"], asked.get("subResource")), (&json!("/check?timeout=20s"), None));
    assert_eq!(asked["apiVersionOfReview"], "admission.k8s.io/v1");
    assert_eq!(hook.connections(), 1, "connections are used again");
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "a table")]
async fn every_kind_of_request_is_asked_about() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|_| allowing()).await;
    let said = rules(&["*"], &["*/*"]);
    api.configure(VALIDATING, "all", &hook, said).await;
    let none = Value::Null;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"metadata": {"name": "p"}});
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    for (line, body, wanted) in [
        (format!("POST {MAPS}"), map("m"), "CREATE configmaps// ConfigMap m"),
        (format!("PATCH {MAPS}/m"), json!({"data": {"k": "w"}}), "UPDATE configmaps// ConfigMap m"),
        (format!("PATCH {MAPS}/a?fieldManager=me"), applied.clone(), "CREATE configmaps// ConfigMap a"),
        (format!("PATCH {MAPS}/a?fieldManager=me"), applied, "UPDATE configmaps// ConfigMap a"),
        (format!("DELETE {MAPS}/m"), none.clone(), "DELETE configmaps// ConfigMap m"),
        (
            format!("DELETE {MAPS}?fieldSelector=metadata.name%3Da"),
            none.clone(),
            "DELETE configmaps// ConfigMap a",
        ),
        (format!("POST {deployments}"), deployment, "CREATE deployments/apps/ Deployment d"),
        (
            format!("PATCH {deployments}/d/scale"),
            json!({"spec": {"replicas": 2}}),
            "UPDATE deployments/apps/scale Scale d",
        ),
        (
            format!("PATCH {deployments}/d/status"),
            json!({"status": {"replicas": 2}}),
            "UPDATE deployments/apps/status Deployment d",
        ),
        (format!("POST {PODS}"), pod, "CREATE pods// Pod p"),
        (format!("POST {PODS}/p/binding"), binding, "CREATE pods//binding Binding p"),
        (
            format!("POST {PODS}/p/exec?command=a&command=b&stdin=true"),
            none,
            "CONNECT pods//exec PodExecOptions p",
        ),
        (format!("POST {PODS}/p/eviction"), eviction, "CREATE pods//eviction Eviction p"),
        (
            "POST /api/v1/namespaces".into(),
            json!({"metadata": {"name": "n"}}),
            "CREATE namespaces// Namespace n",
        ),
    ] {
        let before = hook.seen().len();
        let (code, answer) = api.send(&line, &body).await;
        assert!(matches!(code, 200 | 201 | 501), "{line}: {answer}");
        let seen = hook.seen();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let asked: Vec<String> = seen[before..]
            .iter()
            .map(|asked| {
                let (resource, kind) = (&asked["resource"], &asked["kind"]);
                format!(
                    "{} {}/{}/{} {} {}",
                    text(&asked["operation"]),
                    text(&resource["resource"]),
                    text(&resource["group"]),
                    text(&asked["subResource"]),
                    text(&kind["kind"]),
                    text(&asked["name"])
                )
            })
            .collect();
        assert_eq!(asked, [wanted], "{line}");
        let last = seen.last().unwrap();
        match wanted.split(' ').next().unwrap() {
            "DELETE" => assert_eq!(
                (&last["object"], last["oldObject"]["kind"].as_str()),
                (&Value::Null, Some("ConfigMap"))
            ),
            "UPDATE" => assert_eq!(last["object"]["kind"], last["oldObject"]["kind"]),
            "CONNECT" => assert_eq!(last["object"]["command"], json!(["a", "b"])),
            _ => {}
        }
        if wanted.contains("scale") {
            let replicas = (&last["object"]["spec"]["replicas"], &last["oldObject"]["spec"]["replicas"]);
            assert_eq!(replicas, (&json!(2), &json!(1)));
        }
        if wanted.contains("namespaces") {
            assert_eq!(last["namespace"], "n", "a namespace is in itself");
        }
    }
    for line in [
        "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
    ] {
        let before = hook.seen().len();
        let body = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
        assert_eq!(api.send(line, &body).await.0, 201);
        assert_eq!(hook.seen().len(), before, "{line}");
    }
}

#[tokio::test]
async fn nobody_is_locked_out_of_configurations() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|_| Reply::Response(json!({"allowed": false}))).await;
    let all = rules(&["*"], &["*/*"]);
    api.configure(MUTATING, "shut", &hook, all.clone()).await;
    api.configure(VALIDATING, "shut", &hook, all).await;
    assert_eq!(api.send(&format!("POST {MAPS}"), &map("m")).await.0, 400);
    for path in [MUTATING, VALIDATING] {
        assert_eq!(api.send(&format!("DELETE {path}/shut"), &Value::Null).await.0, 200);
    }
    assert_eq!(api.send(&format!("POST {MAPS}"), &map("m")).await.0, 201);
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "a table")]
async fn a_mutating_webhook_changes_what_is_stored_within_the_rules_of_the_kind() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|asked| match asked["name"].as_str().unwrap_or_default() {
        "labelled" | "" => patching(&json!([
            {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}},
            {"op": "add", "path": "/metadata/uid", "value": "forged"},
            {"op": "add", "path": "/unheard", "value": "of"}])),
        "renamed" => patching(&json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        "moved" => {
            patching(&json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]))
        }
        "retyped" => patching(&json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
        "broken" => patching(&json!([{"op": "replace", "path": "/data", "value": 7}])),
        "invalid" => patching(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}])),
        "missing" => patching(&json!([{"op": "remove", "path": "/nothing"}])),
        "endless" => {
            let copy = json!({"op": "copy", "from": "/data", "path": "/data/more"});
            patching(&Value::Array((0..2_000).map(|_| copy.clone()).collect()))
        }
        "untyped" => Reply::Response(json!({"allowed": true, "patch": "W10="})),
        _ => allowing(),
    })
    .await;
    api.configure(MUTATING, "tailor", &hook, rules(&["CREATE", "UPDATE"], &["configmaps"])).await;
    let post = format!("POST {MAPS}");
    let (code, made) = api.send(&post, &map("labelled")).await;
    assert_eq!((code, &made["metadata"]["labels"]), (201, &json!({"by": "hook"})));
    assert_ne!(made["metadata"]["uid"], "forged");
    assert!(made.get("unheard").is_none(), "what nobody knows is taken out");
    let owned = made["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("f:by"), "what a webhook sets belongs to no manager: {owned}");
    let asked = hook.seen().pop().unwrap();
    assert!(asked["object"]["metadata"].get("uid").is_none(), "it is asked before the object is prepared");

    let (code, made) = api.send(&post, &json!({"metadata": {"generateName": "gen-"}})).await;
    assert_eq!((code, &made["metadata"]["labels"]["by"]), (201, &json!("hook")));
    assert!(made["metadata"]["name"].as_str().unwrap().starts_with("gen-"));
    let asked = hook.seen().pop().unwrap();
    assert!(asked.get("name").is_none() && asked["object"]["metadata"].get("name").is_none(), "{asked}");

    let (code, made) = api.send(&post, &map("renamed")).await;
    assert_eq!((code, &made["metadata"]["name"]), (201, &json!("other")), "a new object may get its name");
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "renamed"}});
    let answer = api.send(&format!("PATCH {MAPS}/renamed?fieldManager=me"), &applied).await;
    assert_eq!(answer.0, 400, "but not another one than the path says: {}", answer.1);
    for (name, code, text) in [
        (
            "moved",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "retyped",
            500,
            "Internal error occurred: the kind in the data (Secret) does not match the expected kind (ConfigMap)",
        ),
        (
            "broken",
            500,
            "Internal error occurred: ConfigMap in version \"v1\" cannot be handled as a ConfigMap: data: must be a map, not a number",
        ),
        ("missing", 500, "Internal error occurred: "),
        ("endless", 500, "Internal error occurred: "),
        (
            "untyped",
            500,
            "Internal error occurred: failed calling webhook \"tailor.example.com\": received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        ("invalid", 422, "ConfigMap \"invalid\" is invalid: metadata.labels: Invalid value: \"a b\""),
    ] {
        let answer = api.send(&post, &map(name)).await;
        let (found, message) = Api::refused(&answer);
        assert!(found == code && message.starts_with(text), "{name}: {found} {message}");
    }
    // An update keeps what only the server sets.
    let (code, changed) = api.send(&format!("PATCH {MAPS}/labelled"), &json!({"data": {"x": "y"}})).await;
    assert_eq!(code, 200);
    assert_ne!(changed["metadata"]["uid"], "forged");
    assert_eq!(changed["data"], json!({"k": "v", "x": "y"}));
}

#[tokio::test]
async fn a_scale_and_a_binding_are_changed_as_what_they_are() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|asked| match asked["kind"]["kind"].as_str().unwrap() {
        "Scale" => patching(&json!([{"op": "replace", "path": "/spec/replicas", "value": 3}])),
        _ => patching(&json!([{"op": "replace", "path": "/target/name", "value": "elsewhere"}])),
    })
    .await;
    api.configure(MUTATING, "parts", &hook, rules(&["*"], &["*/scale", "pods/binding"])).await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(api.send(&format!("POST {deployments}"), &deployment).await.0, 201);
    let (code, scale) =
        api.send(&format!("PATCH {deployments}/d/scale"), &json!({"spec": {"replicas": 9}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(3)));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(api.send(&format!("POST {PODS}"), &pod).await.0, 201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(api.send(&format!("POST {PODS}/p/binding"), &binding).await.0, 201);
    assert_eq!(api.send(&format!("GET {PODS}/p"), &Value::Null).await.1["spec"]["nodeName"], "elsewhere");
}

#[tokio::test]
async fn webhooks_that_ask_for_it_are_called_once_more_when_others_changed_the_object() {
    let api = Api::start().await;
    let count = |asked: &Value| asked["object"]["data"].as_object().map_or(0, lazaret_json::Map::len);
    let first = WebhookServer::start(move |asked| {
        patching(&json!([{"op": "add", "path": format!("/data/first{}", count(asked)), "value": "x"}]))
    })
    .await;
    let second =
        WebhookServer::start(|_| patching(&json!([{"op": "add", "path": "/data/second", "value": "x"}])))
            .await;
    let check = WebhookServer::start(|_| allowing()).await;
    api.configure(MUTATING, "a", &first, json!({"reinvocationPolicy": "IfNeeded"})).await;
    api.configure(MUTATING, "b", &second, json!({})).await;
    api.configure(VALIDATING, "c", &check, json!({})).await;
    let (code, made) = api.send(&format!("POST {MAPS}"), &map("m")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["data"], json!({"first1": "x", "first3": "x", "k": "v", "second": "x"}));
    assert_eq!((first.seen().len(), second.seen().len(), check.seen().len()), (2, 1, 1));
    assert_eq!(
        check.seen()[0]["object"]["data"],
        made["data"],
        "validating webhooks see what all of them made"
    );
}

#[tokio::test]
async fn what_cannot_be_asked_fails_or_is_ignored_as_the_webhook_says() {
    let api = Api::start().await;
    let other = WebhookServer::start(|_| allowing()).await;
    let elsewhere = format!("https://localhost:{}/check", other.port);
    let hook = WebhookServer::start(move |asked| match asked["name"].as_str().unwrap() {
        "hang" => Reply::Hang,
        "garbage" => Reply::Raw(200, b"garbage".to_vec()),
        "huge" => Reply::Raw(200, vec![b' '; 4 << 20]),
        "boom" => Reply::Raw(500, b"boom".to_vec()),
        "redirect" => Reply::Redirect(elsewhere.clone()),
        "uid" => Reply::Response(json!({"uid": "other", "allowed": true})),
        "patch" => patching(&json!([{"op": "remove", "path": "/data"}])),
        _ => allowing(),
    })
    .await;
    let url = |seconds: u64| format!("https://localhost:{}/check?timeout={seconds}s", hook.port);
    let post = format!("POST {MAPS}");
    let names = ["hang", "garbage", "huge", "boom", "redirect", "uid", "patch"];
    for (name, wanted) in names.iter().zip([
        format!("failed to call webhook: Post \"{}\": context deadline exceeded", url(1)),
        "failed to call webhook: couldn't get version/kind; json parse error: ".to_owned(),
        format!("failed to call webhook: Post \"{}\": the response is longer than 3145728 bytes", url(30)),
        "failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding".to_owned(),
        "failed to call webhook: the server responded with the status code 307 but did not return more information".to_owned(),
        "received invalid webhook response: expected response.uid=".to_owned(),
        "received invalid webhook response: validating webhook may not return response.patch".to_owned(),
    ]) {
        // A webhook that answers has the longest time that there is.
        let seconds = if *name == "hang" { 1 } else { 30 };
        api.configure(VALIDATING, "strict", &hook, json!({"timeoutSeconds": seconds})).await;
        let answer = api.send(&post, &map(name)).await;
        let (code, message) = Api::refused(&answer);
        let head = "Internal error occurred: failed calling webhook \"strict.example.com\": ";
        assert_eq!(code, 500);
        assert!(message.starts_with(&format!("{head}{wanted}")), "{name}: {message}");
        assert_eq!(answer.1["reason"], "InternalError");
        assert_eq!(api.send(&format!("DELETE {VALIDATING}/strict"), &Value::Null).await.0, 200);
    }
    assert_eq!(other.seen().len(), 0, "nobody is called whom no configuration names");
    api.configure(VALIDATING, "lax", &hook, json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"})).await;
    for name in names {
        let (code, answer) = api.send(&post, &map(name)).await;
        assert_eq!(code, 201, "{name}: {answer}");
    }
    let (_, metrics) = api.send("GET /metrics", &Value::Null).await;
    let metrics = metrics.as_str().unwrap();
    for wanted in [
        "apiserver_admission_webhook_fail_open_count{name=\"lax.example.com\",type=\"validating\"} 7",
        "apiserver_admission_webhook_rejection_count{name=\"strict.example.com\",type=\"validating\",operation=\"CREATE\",error_type=\"calling_webhook_error\",rejection_code=\"503\"}",
        "apiserver_admission_webhook_request_total{name=\"strict.example.com\",type=\"validating\",operation=\"CREATE\",code=\"500\",rejected=\"true\"} 1",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"lax.example.com\",type=\"validating\",operation=\"CREATE\",rejected=\"false\"} 7",
    ] {
        assert!(metrics.contains(wanted), "{wanted}");
    }
}

#[tokio::test]
async fn only_the_server_with_the_right_certificate_is_told_anything() {
    let api = Api::start().await;
    let hook = WebhookServer::named(&["elsewhere.example.com"], |_| allowing()).await;
    let stranger = WebhookServer::start(|_| allowing()).await;
    let post = format!("POST {MAPS}");
    let url = |port: u16| format!("https://localhost:{port}/check");
    let refused = |port: u16, why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"{}?timeout=20s\": {why}",
            url(port)
        )
    };
    // No program listens there, and none can while the socket exists.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = taken.local_addr().unwrap().port();
    for (client, wanted) in [
        (
            hook.client_config(),
            refused(hook.port, "tls: failed to verify certificate: x509: certificate is valid for elsewhere.example.com, not localhost"),
        ),
        (
            json!({"url": url(stranger.port), "caBundle": hook.ca_bundle()}),
            refused(stranger.port, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        ),
        (
            json!({"url": format!("https://127.0.0.1:{closed}/"), "caBundle": hook.ca_bundle()}),
            format!("Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"https://127.0.0.1:{closed}/?timeout=20s\": dial tcp 127.0.0.1:{closed}: connect: connection refused"),
        ),
        (
            json!({"url": url(hook.port), "caBundle": "bm8gUEVN"}),
            "Internal error occurred: failed calling webhook \"w.example.com\": could not get REST client: unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
        ),
        (
            json!({"service": {"namespace": "default", "name": "hook", "path": "/a"}}),
            "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"https://hook.default.svc:443/a?timeout=20s\": service \"hook\" not found".to_owned(),
        ),
    ] {
        api.configure(VALIDATING, "w", &hook, json!({"clientConfig": client})).await;
        let answer = api.send(&post, &map("m")).await;
        assert_eq!(Api::refused(&answer), (500, wanted.as_str()));
        assert_eq!(api.send(&format!("DELETE {VALIDATING}/w"), &Value::Null).await.0, 200);
    }
    assert_eq!((hook.seen().len(), stranger.seen().len()), (0, 0));
}

#[tokio::test]
async fn a_webhook_behind_a_service_is_called_at_a_ready_endpoint() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|_| allowing()).await;
    let service = json!({"namespace": "default", "name": "hook", "path": "/a/b"});
    api.configure(
        VALIDATING,
        "w",
        &hook,
        json!({"clientConfig": {"service": service, "caBundle": hook.ca_bundle()}}),
    )
    .await;
    let post = format!("POST {MAPS}");
    let namespace = "/api/v1/namespaces/default";
    let service = |port: i64| json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "tls", "port": port}], "selector": {"a": "b"}}});
    let url = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \"https://hook.default.svc:443/a/b?timeout=20s\": ";
    assert_eq!(api.send(&format!("POST {namespace}/services"), &service(444)).await.0, 201);
    let answer = api.send(&post, &map("m")).await;
    assert_eq!(
        Api::refused(&answer),
        (500, format!("{url}no service port 443 found for service \"hook\"").as_str())
    );
    assert_eq!(api.send(&format!("DELETE {namespace}/services/hook"), &Value::Null).await.0, 200);
    assert_eq!(api.send(&format!("POST {namespace}/services"), &service(443)).await.0, 201);
    let answer = api.send(&post, &map("m")).await;
    assert_eq!(
        Api::refused(&answer),
        (500, format!("{url}no endpoints available for service \"hook\"").as_str())
    );
    // Past the API, which may refuse addresses on loopback.
    let endpoints = json!({"metadata": {"resourceVersion": "1", "name": "hook", "namespace": "default"}, "subsets": [
        {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "other", "port": 1}, {"name": "tls", "port": hook.port}]}]});
    let op = Op::create("/core/endpoints/default/hook", bytes::Bytes::from(endpoints.to_string()));
    api.cluster.server.store().txn(vec![op]).await.unwrap();
    let (code, answer) = api.send(&post, &map("m")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(hook.seen()[0]["target"], "/a/b?timeout=20s");
}

#[tokio::test]
async fn a_dry_run_is_said_to_be_one() {
    let api = Api::start().await;
    let hook =
        WebhookServer::start(|_| patching(&json!([{"op": "add", "path": "/data/by", "value": "hook"}])))
            .await;
    api.configure(MUTATING, "w", &hook, rules(&["CREATE"], &["configmaps"])).await;
    let (code, made) = api.send(&format!("POST {MAPS}?dryRun=All"), &map("m")).await;
    assert_eq!((code, &made["data"]["by"]), (201, &json!("hook")));
    assert_eq!(api.send(&format!("GET {MAPS}/m"), &Value::Null).await.0, 404);
    let asked = hook.seen().pop().unwrap();
    assert_eq!((&asked["dryRun"], &asked["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    // A delete says it in its body.
    let deletes = WebhookServer::start(|_| allowing()).await;
    api.configure(VALIDATING, "d", &deletes, rules(&["DELETE"], &["configmaps"])).await;
    assert_eq!(api.send(&format!("POST {MAPS}"), &map("m")).await.0, 201);
    let options = json!({"dryRun": ["All"], "propagationPolicy": "Foreground"});
    assert_eq!(api.send(&format!("DELETE {MAPS}/m"), &options).await.0, 200);
    let asked = deletes.seen().pop().unwrap();
    let wanted = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "propagationPolicy": "Foreground"});
    assert_eq!((&asked["dryRun"], &asked["options"]), (&json!(true), &wanted));
    assert_eq!(api.send(&format!("GET {MAPS}/m"), &Value::Null).await.0, 200);
}

#[tokio::test]
async fn nothing_is_told_that_whoever_asks_may_not_do() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|_| allowing()).await;
    api.configure(MUTATING, "w", &hook, json!({})).await;
    api.configure(VALIDATING, "w", &hook, json!({})).await;
    let alice = api.cluster.identity("alice", "people");
    for line in [
        format!("POST {MAPS}"),
        format!("PATCH {MAPS}/m"),
        format!("DELETE {MAPS}/m"),
        format!("POST {VALIDATING}"),
    ] {
        assert_eq!(api.send_as(alice.as_ref(), &line, &map("m")).await.0, 403, "{line}");
    }
    assert_eq!(hook.seen().len(), 0);
    // Nor is a webhook called when what is built in refuses.
    let missing = "/api/v1/namespaces/nowhere/configmaps";
    assert_eq!(api.send(&format!("POST {missing}"), &map("m")).await.0, 404);
    assert_eq!(hook.seen().len(), 0);
}

#[tokio::test]
async fn a_request_that_waits_for_a_webhook_holds_no_seat() {
    const REQUESTS: usize = 12;
    let api = Arc::new(Api::start().await);
    let hook = WebhookServer::start(|_| Reply::Hang).await;
    let role = json!({
        "metadata": {"name": "alice"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["create"]}]});
    let binding = json!({
        "metadata": {"name": "alice"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "alice"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("POST /apis/rbac.authorization.k8s.io/v1/namespaces/default/{plural}");
        assert_eq!(api.send(&path, &object).await.0, 201);
    }
    api.configure(VALIDATING, "hangs", &hook, json!({"timeoutSeconds": 30})).await;
    let alice = Arc::new(api.cluster.identity("alice", "people"));
    let mut waiting = tokio::task::JoinSet::new();
    for at in 0..REQUESTS {
        let (api, alice) = (api.clone(), alice.clone());
        // Some are long: they have a thread and a place of their own.
        let data = "x".repeat(if at % 2 == 0 { 1 } else { 100 << 10 });
        let body = json!({"metadata": {"name": format!("m{at}")}, "data": {"k": data}});
        waiting.spawn(async move { api.send_as((*alice).as_ref(), &format!("POST {MAPS}"), &body).await });
    }
    tokio::select! {
        () = hook.reached(REQUESTS) => {}
        ended = waiting.join_next() => panic!("a request did not wait: {ended:?}"),
    }
    let (_, metrics) = api.send("GET /metrics", &Value::Null).await;
    let free = "apiserver_flowcontrol_current_executing_seats{priority_level=\"workload\"} 0";
    assert!(metrics.as_str().unwrap().contains(free), "all seats are free while {REQUESTS} requests wait");
    // A long request of another user finds a place.
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "x".repeat(100 << 10)}});
    let posted = api.send_as((*alice).as_ref(), "POST /api/v1/namespaces/default/secrets", &secret).await;
    assert_eq!(posted.0, 201, "{}", posted.1);
    waiting.abort_all();
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let api = Api::start().await;
    let hook = WebhookServer::start(|_| allowing()).await;
    api.configure(VALIDATING, "w", &hook, json!({})).await;
    for at in 0..20 {
        assert_eq!(api.send(&format!("POST {MAPS}"), &map(&format!("m{at}"))).await.0, 201);
    }
    assert_eq!((hook.seen().len(), hook.connections()), (20, 1));
}
