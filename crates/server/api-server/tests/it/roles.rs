//! Permissions by roles, and the authorization of each request.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{Access, Authorizer, ObjectStore, Rbac, Server, ServerOptions, User};
use lazaret_store::Store;

async fn server(authorizer: Box<dyn Authorizer>) -> Server {
    let options = ServerOptions { authorizer, ..ServerOptions::default() };
    let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
    server.bootstrap().await.unwrap();
    server
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|&group| group.into()).collect(), ..User::default() }
}

fn admin() -> User {
    user("admin", &["system:masters"])
}

async fn send(server: &Server, user: &User, line: &str, content_type: &str, body: String) -> (u16, Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
    let response = server.handle(user, request.body(Bytes::from(body)).unwrap()).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Allows everything and remembers what it was asked.
#[derive(Debug, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Authorizer for Recorder {
    fn access(&self, _: &ObjectStore, user: &User, access: Access<'_>) -> Result<(), String> {
        if user.name == "asker" {
            let Access { verb, group, resource, subresource, namespace, name, .. } = access;
            let slash = if subresource.is_empty() { "" } else { "/" };
            let text = format!("{verb} {group}|{resource}{slash}{subresource}|{namespace}|{name}");
            self.0.lock().unwrap().push(text);
        }
        Ok(())
    }

    fn path(&self, _: &ObjectStore, _: &User, verb: &str, path: &str) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("{verb} {path}"));
        Ok(())
    }
}

/// One row a way to ask, and all that is asked about it: verb, group, resource, namespace, name.
#[allow(clippy::too_many_lines, reason = "a table")]
#[tokio::test]
async fn what_is_authorized_is_what_is_carried_out() {
    let recorder = Recorder::default();
    let asked = recorder.0.clone();
    let server = server(Box::new(recorder)).await;
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}"#;
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#;
    let role = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"}}"#;
    let bound = r#"{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"view"}}"#;
    let (plain, apply, merge) =
        ("application/json", "application/apply-patch+yaml", "application/merge-patch+json");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let core = "/api/v1/namespaces/default";
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    for (line, kind, body, expected) in [
        ("GET /api/v1/pods".to_owned(), plain, "", &["list |pods||"][..]),
        (format!("GET {core}/pods"), plain, "", &["list |pods|default|"]),
        (format!("GET {core}/pods?watch=1&continue=x"), plain, "", &["watch |pods|default|"]),
        (format!("GET {core}/pods?fieldSelector=metadata.name%3Dx"), plain, "", &["list |pods|default|x"]),
        (
            format!("GET {core}/pods?fieldSelector=spec.nodeName=n,metadata.name=x"),
            plain,
            "",
            &["list |pods|default|x"],
        ),
        (format!("GET {core}/pods?fieldSelector=metadata.name!=x"), plain, "", &["list |pods|default|"]),
        (
            format!("GET {core}/pods/x?watch=true&fieldSelector=metadata.name=y"),
            plain,
            "",
            &["get |pods|default|x"],
        ),
        (
            "GET /api/v1/watch/namespaces/default/pods/x?continue=x".to_owned(),
            plain,
            "",
            &["watch |pods|default|x"],
        ),
        (
            format!("DELETE {core}/pods?fieldSelector=metadata.name=x"),
            plain,
            "",
            &["deletecollection |pods|default|"],
        ),
        (format!("DELETE {core}/pods/x"), plain, "", &["delete |pods|default|x"]),
        (format!("GET {core}"), plain, "", &["get |namespaces|default|default"]),
        (
            "GET /api/v1/namespaces?fieldSelector=metadata.name=default".to_owned(),
            plain,
            "",
            &["list |namespaces||default"],
        ),
        (format!("PUT {core}/finalize"), plain, "{}", &["update |namespaces/finalize|default|default"]),
        (
            format!("POST {core}/configmaps?fieldSelector=metadata.name=x"),
            plain,
            r#"{"metadata":{"name":"x"}}"#,
            &["create |configmaps|default|"],
        ),
        (
            format!("POST {core}/configmaps"),
            plain,
            r#"{"metadata":{"generateName":"x"}}"#,
            &["create |configmaps|default|"],
        ),
        (format!("PUT {core}/configmaps/m"), plain, map, &["update |configmaps|default|m"]),
        (
            format!("PATCH {core}/configmaps/m?fieldManager=t"),
            apply,
            map,
            &["patch |configmaps|default|m", "create |configmaps|default|m"],
        ),
        (format!("PATCH {core}/configmaps/m?fieldManager=t"), apply, map, &["patch |configmaps|default|m"]),
        (
            format!("PUT {leases}/l"),
            plain,
            lease,
            &["update coordination.k8s.io|leases|default|l", "create coordination.k8s.io|leases|default|l"],
        ),
        (format!("PATCH {leases}/l"), merge, "{}", &["patch coordination.k8s.io|leases|default|l"]),
        (format!("PATCH {leases}/none"), merge, "{}", &["patch coordination.k8s.io|leases|default|none"]),
        (
            format!("PUT {core}/pods/none/status"),
            plain,
            r#"{"metadata":{"name":"none"}}"#,
            &["update |pods/status|default|none"],
        ),
        (format!("POST {core}/pods/none/eviction"), plain, "{}", &["create |pods/eviction|default|none"]),
        (
            format!("POST {core}/pods/none/binding"),
            plain,
            r#"{"target":{"name":"n"}}"#,
            &["create |pods/binding|default|none"],
        ),
        (
            format!("POST {core}/serviceaccounts/none/token"),
            plain,
            "{}",
            &["create |serviceaccounts/token|default|none"],
        ),
        (
            "PUT /apis/apps/v1/namespaces/default/deployments/none/scale".to_owned(),
            plain,
            "{}",
            &["update apps|deployments/scale|default|none"],
        ),
        (
            format!("POST {rbac}/roles"),
            plain,
            role,
            &[
                "create rbac.authorization.k8s.io|roles|default|",
                "escalate rbac.authorization.k8s.io|roles|default|",
            ],
        ),
        (
            format!("POST {rbac}/rolebindings"),
            plain,
            bound,
            &[
                "create rbac.authorization.k8s.io|rolebindings|default|",
                "bind rbac.authorization.k8s.io|clusterroles|default|view",
            ],
        ),
        (
            "GET /apis/example.com/v1/namespaces/a/widgets/w".to_owned(),
            plain,
            "",
            &["get example.com|widgets|a|w"],
        ),
        (
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews/x/status".to_owned(),
            plain,
            "{}",
            &["create authorization.k8s.io|subjectaccessreviews/status||x"],
        ),
        ("GET /version/".to_owned(), plain, "", &["get /version"]),
        ("GET //version".to_owned(), plain, "", &["get //version"]),
    ] {
        asked.lock().unwrap().clear();
        let (code, answer) = send(&server, &user("asker", &[]), &line, kind, body.to_owned()).await;
        assert_eq!(*asked.lock().unwrap(), expected, "{line}: {code} {answer}");
    }
}

/// Makes a role of the cluster and a binding of it, in a namespace or everywhere (empty).
async fn grant(server: &Server, role: &str, rules: Value, namespace: &str, users: &[&str]) {
    let base = "/apis/rbac.authorization.k8s.io/v1";
    let made = json!({"metadata": {"name": role}, "rules": rules}).to_string();
    send(server, &admin(), &format!("POST {base}/clusterroles"), "application/json", made).await;
    let subjects: Vec<Value> = users
        .iter()
        .map(|name| match name.strip_prefix("group:") {
            Some(name) => json!({"kind": "Group", "name": name}),
            None => json!({"kind": "User", "name": name}),
        })
        .collect();
    let binding = json!({"metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects});
    let path = match namespace {
        "" => format!("POST {base}/clusterrolebindings"),
        namespace => format!("POST {base}/namespaces/{namespace}/rolebindings"),
    };
    let (code, answer) = send(server, &admin(), &path, "application/json", binding.to_string()).await;
    assert_eq!(code, 201, "{answer}");
}

async fn namespaces(server: &Server, names: &[&str]) {
    for name in names {
        let body = json!({"metadata": {"name": name}}).to_string();
        let made = send(server, &admin(), "POST /api/v1/namespaces", "application/json", body).await;
        assert_eq!(made.0, 201);
    }
}

fn rule(verbs: &[&str], group: &str, resource: &str) -> Value {
    json!([{"verbs": verbs, "apiGroups": [group], "resources": [resource]}])
}

/// Kubernetes' TestRBAC, with leases in place of limit ranges.
#[allow(clippy::too_many_lines, reason = "a table")]
#[tokio::test]
async fn roles_allow_as_in_kubernetes() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let server = server(Box::new(Rbac::default())).await;
    namespaces(&server, &["pod-namespace", "job-namespace", "forbidden-namespace"]).await;
    let jobs = || rule(&["*"], "batch", "*");
    let bindings = || rule(&["create"], GROUP, "rolebindings");
    let bind = || rule(&["bind"], GROUP, "clusterroles");
    grant(&server, "read-pods", rule(&["list", "get", "watch"], "", "pods"), "", &["pod-reader"]).await;
    grant(&server, "write-jobs", jobs(), "", &["job-writer"]).await;
    let writers = ["job-writer", "nonescalating-rolebinding-writer", "any-rolebinding-writer"];
    grant(&server, "create-rolebindings", bindings(), "", &writers).await;
    grant(&server, "bind-any-clusterrole", bind(), "", &["any-rolebinding-writer"]).await;
    let here = "job-namespace";
    grant(&server, "write-jobs", jobs(), here, &["job-writer-namespace"]).await;
    let writers = ["job-writer-namespace", "any-rolebinding-writer-namespace"];
    grant(&server, "create-rolebindings", bindings(), here, &writers).await;
    grant(&server, "bind-any-clusterrole", bind(), here, &["any-rolebinding-writer-namespace"]).await;
    grant(&server, "update-leases", rule(&["update"], "coordination.k8s.io", "leases"), "", &["updater"])
        .await;
    grant(&server, "patch-leases", rule(&["patch"], "coordination.k8s.io", "leases"), "", &["patcher"]).await;

    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"foo","image":"bar"}]}}"#;
    let job = r#"{"metadata":{"name":"pi"},"spec":{"template":{"spec":{"containers":[{"name":"pi","image":"perl"}],"restartPolicy":"Never"}}}}"#;
    let to_jobs = r#"{"metadata":{"name":"pi"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"write-jobs"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"admin"}]}"#;
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"}}"#;
    let again = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"b"}}"#;
    let pods = "/api/v1/namespaces/pod-namespace/pods";
    let jobs = |namespace: &str| format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let bindings = |namespace: &str| format!("/apis/{GROUP}/v1/namespaces/{namespace}/rolebindings");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let (there, away) = ("job-namespace", "forbidden-namespace");
    let on_update = format!("PUT {leases}/a");
    let on_patch = format!("PATCH {leases}/b?fieldManager=t");
    for (who, line, body, expected) in [
        ("admin", "GET /api/v1/pods".to_owned(), "", 200),
        ("admin", format!("GET {pods}/a"), "", 404),
        ("admin", format!("POST {pods}"), pod, 201),
        ("admin", format!("GET {pods}/a"), "", 200),
        ("bob", "GET /api/v1/pods".to_owned(), "", 403),
        ("bob", format!("GET {pods}/a"), "", 403),
        ("pod-reader", "GET /api/v1/pods".to_owned(), "", 200),
        ("pod-reader", format!("POST {pods}"), pod, 403),
        ("user-with-no-permissions", format!("POST {}", jobs(there)), job, 403),
        ("user-with-no-permissions", format!("GET {}/pi", jobs(there)), "", 403),
        ("job-writer-namespace", format!("GET {}", jobs(away)), "", 403),
        ("job-writer-namespace", format!("GET {}/pi", jobs(away)), "", 403),
        ("job-writer-namespace", format!("POST {}", jobs(away)), job, 403),
        ("job-writer", format!("GET {}", jobs(away)), "", 200),
        ("job-writer", format!("GET {}/pi", jobs(away)), "", 404),
        ("job-writer", format!("POST {}", jobs(away)), job, 201),
        ("job-writer", format!("GET {}/pi", jobs(away)), "", 200),
        ("job-writer-namespace", format!("GET {}", jobs(there)), "", 200),
        ("job-writer-namespace", format!("GET {}/pi", jobs(there)), "", 404),
        ("job-writer-namespace", format!("POST {}", jobs(there)), job, 201),
        ("job-writer-namespace", format!("GET {}/pi", jobs(there)), "", 200),
        ("user-with-no-permissions", format!("POST {}", bindings(there)), to_jobs, 403),
        ("any-rolebinding-writer-namespace", format!("POST {}", bindings(away)), to_jobs, 403),
        ("job-writer-namespace", format!("POST {}", bindings(away)), to_jobs, 403),
        ("job-writer-namespace", format!("POST {}", bindings(there)), to_jobs, 201),
        ("admin", format!("DELETE {}/pi", bindings(there)), "", 200),
        ("job-writer", format!("POST {}", bindings(away)), to_jobs, 201),
        ("admin", format!("DELETE {}/pi", bindings(away)), "", 200),
        ("nonescalating-rolebinding-writer", format!("POST {}", bindings(there)), to_jobs, 403),
        ("any-rolebinding-writer", format!("POST {}", bindings(there)), to_jobs, 201),
        ("admin", format!("DELETE {}/pi", bindings(there)), "", 200),
        ("any-rolebinding-writer-namespace", format!("POST {}", bindings(there)), to_jobs, 201),
        ("admin", format!("DELETE {}/pi", bindings(there)), "", 200),
        ("updater", on_update.clone(), lease, 403),
        ("admin", on_update.clone(), lease, 201),
        ("admin", format!("PATCH {leases}/a"), "{}", 200),
        ("patcher", on_patch.clone(), again, 403),
        ("admin", on_patch.clone(), again, 201),
        ("admin", on_patch.clone(), again, 200),
        ("patcher", on_patch, again, 200),
    ] {
        let asker = if who == "admin" { admin() } else { user(who, &["system:authenticated"]) };
        let kind = match line.split_once(' ').unwrap() {
            ("PATCH", path) if path.contains("fieldManager") => "application/apply-patch+yaml",
            ("PATCH", _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let (code, answer) = send(&server, &asker, &line, kind, body.to_owned()).await;
        assert_eq!(code, expected, "{who} {line}: {answer}");
    }
}

/// Kubernetes' TestAuthorizer, as questions: `user groups verb resource subresource namespace`, a dash for nothing.
#[tokio::test]
async fn questions_are_answered_as_in_kubernetes() {
    let server = server(Box::new(Rbac::default())).await;
    namespaces(&server, &["ns1", "ns2", "ns3"]).await;
    let all = |resource: &str| json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": [resource]}]);
    grant(&server, "everything", all("*"), "ns1", &["admin1", "group:admins1"]).await;
    grant(&server, "pods", all("pods"), "ns2", &["admin2"]).await;
    let parts = json!([all("pods/status")[0], all("*/scale")[0]]);
    grant(&server, "parts", parts, "ns3", &["admin3"]).await;
    let paths = |verb: &str, path: &str| json!([{"verbs": [verb], "nonResourceURLs": [path]}]);
    grant(&server, "getter", paths("get", "/apis"), "", &["foo", "group:bar"]).await;
    grant(&server, "url", paths("*", "/apis"), "", &["urls", "group:urls"]).await;
    grant(&server, "prefix", paths("get", "/apis/*"), "", &["prefixed", "group:prefixed"]).await;
    for (question, expected) in [
        ("admin1 - get Pods - ns1", true),
        ("admin1 - watch Pods - ns1", true),
        ("admin1 group1 watch Foobar - ns1", true),
        ("joe admins1 watch Foobar - ns1", true),
        ("joe group1,admins1 watch Foobar - ns1", true),
        ("admin1 - GET Pods - ns2", false),
        ("admin1 - GET Nodes - -", false),
        ("admin1 admins1 GET Pods - ns2", false),
        ("admin1 admins1 GET Nodes - -", false),
        ("admin2 - get pods - ns2", true),
        ("admin2 - get pods status ns2", false),
        ("admin3 - get pods status ns3", true),
        ("admin3 - get pods scale ns3", true),
        ("admin3 - get deployments scale ns3", true),
        ("admin3 - get anything scale ns3", true),
        ("admin3 - get pods - ns3", false),
        ("foo - get /apis", true),
        ("- bar get /apis", true),
        ("urls - get /apis", true),
        ("- urls watch /apis", true),
        ("prefixed - get /apis/v1", true),
        ("- prefixed get /apis/v1/foobar", true),
        ("foo - watch /apis", false),
        ("- bar watch /apis", false),
        ("foo - get /api/v1", false),
        ("urls - get /api/v1", false),
        ("prefixed - get /api/v1", false),
        ("prefixed - get /apis", false),
    ] {
        let words: Vec<&str> = question.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
        let mut spec = json!({"user": words[0]});
        if !words[1].is_empty() {
            spec["groups"] = json!(words[1].split(',').collect::<Vec<_>>());
        }
        if let [_, _, verb, path] = words[..] {
            spec["nonResourceAttributes"] = json!({"verb": verb, "path": path});
        } else {
            spec["resourceAttributes"] = json!({"verb": words[2], "resource": words[3], "subresource": words[4], "namespace": words[5]});
        }
        let line = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review = json!({"spec": spec}).to_string();
        let (code, answer) = send(&server, &admin(), line, "application/json", review).await;
        assert_eq!(code, 201, "{question}: {answer}");
        assert_eq!(answer["status"]["allowed"], expected, "{question}");
    }
}
