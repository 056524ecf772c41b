//! Admission policies on a server: each kind of request is checked against them, and no user is locked out.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Client(Server);

impl Client {
    async fn start() -> Self {
        let options = ServerOptions::default();
        let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
        server.bootstrap().await.unwrap();
        Self(server)
    }

    /// The status code, the answer and its warnings.
    async fn send(&self, line: &str, body: &Value) -> (u16, Value, Vec<String>) {
        let admin = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
        self.send_as(&admin, line, body).await
    }

    /// The same as another user.
    async fn send_as(&self, user: &User, line: &str, body: &Value) -> (u16, Value, Vec<String>) {
        let (method, path) = line.split_once(' ').unwrap();
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.0.handle(user, request.body(Bytes::from(body)).unwrap()).await;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null), warnings)
    }

    async fn code(&self, line: &str, body: &Value) -> u16 {
        self.send(line, body).await.0
    }

    /// Makes a policy and its binding.
    async fn make(&self, name: &str, rule: &Value, expression: &str, actions: &Value) {
        let policy = json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression, "message": "not here"}]}});
        let (code, answer, warnings) = self.send(&format!("POST {POLICIES}"), &policy).await;
        assert_eq!((code, warnings.len()), (201, 0), "{answer}");
        let binding =
            json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": actions}});
        let (code, answer, _) = self.send(&format!("POST {BINDINGS}"), &binding).await;
        assert_eq!(code, 201, "{answer}");
    }
}

fn rule(operations: &[&str], groups: &str, resources: &[&str]) -> Value {
    json!({"apiGroups": [groups], "apiVersions": ["*"], "operations": operations.to_vec(), "resources": resources.to_vec()})
}

fn pod(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn requests_are_denied_in_the_words_of_kubernetes() {
    let client = Client::start().await;
    client
        .make(
            "teams",
            &rule(&["CREATE", "UPDATE"], "", &["pods"]),
            "object.metadata.labels.team == 'a'",
            &json!(["Deny"]),
        )
        .await;
    let (code, refused, _) = client.send(&format!("POST {PODS}"), &pod("p", "b")).await;
    assert_eq!(code, 422);
    let why = "ValidatingAdmissionPolicy 'teams' with binding 'teams' denied request: not here";
    assert_eq!(refused["message"], format!("pods \"p\" is forbidden: {why}"));
    assert_eq!(
        (&refused["reason"], &refused["details"]["causes"][0]["message"]),
        (&json!("Invalid"), &json!(why))
    );
    assert_eq!(client.code(&format!("POST {PODS}?dryRun=All"), &pod("p", "b")).await, 422);
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("p", "a")).await, 201);
    let change = json!({"metadata": {"labels": {"team": "b"}}});
    assert_eq!(client.code(&format!("PATCH {PODS}/p"), &change).await, 422, "a patch is an update");
    assert_eq!(
        client.code(&format!("PATCH {PODS}/p/status"), &json!({"status": {"phase": "Running"}})).await,
        200
    );
    assert_eq!(client.code(&format!("DELETE {PODS}/p"), &Value::Null).await, 200);
    assert_eq!(client.code(&format!("DELETE {BINDINGS}/teams"), &Value::Null).await, 200);
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("p", "b")).await, 201, "no binding, no effect");
}

#[tokio::test]
async fn deletes_and_parts_of_objects_are_asked_about_too() {
    let client = Client::start().await;
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("p", "a")).await, 201);
    client
        .make("stay", &rule(&["DELETE"], "", &["pods"]), "oldObject.metadata.name != 'p'", &json!(["Deny"]))
        .await;
    assert_eq!(client.code(&format!("DELETE {PODS}/p"), &Value::Null).await, 422);
    assert_eq!(client.code(&format!("DELETE {PODS}"), &Value::Null).await, 422, "one of a collection");
    client
        .make(
            "bound",
            &rule(&["CREATE"], "", &["pods/binding"]),
            "object.kind == 'Binding' && object.target.name != 'n'",
            &json!(["Deny"]),
        )
        .await;
    let binding = |node: &str| json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
    assert_eq!(client.code(&format!("POST {PODS}/p/binding"), &binding("n")).await, 422);
    assert_eq!(client.code(&format!("POST {PODS}/p/binding"), &binding("m")).await, 201);
    client
        .make(
            "evicted",
            &rule(&["CREATE"], "", &["pods/eviction"]),
            "request.subResource != 'eviction'",
            &json!(["Deny"]),
        )
        .await;
    assert_eq!(
        client.code(&format!("POST {PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await,
        422
    );
    assert_eq!(client.code(&format!("DELETE {BINDINGS}/evicted"), &Value::Null).await, 200);
    let (code, answer, _) =
        client.send(&format!("POST {PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await;
    assert_eq!(code, 201, "an eviction is no DELETE: {answer}");
}

#[tokio::test]
async fn warnings_reach_the_client_and_parameters_come_from_objects() {
    let client = Client::start().await;
    client.make("warn", &rule(&["*"], "", &["pods"]), "false", &json!(["Warn"])).await;
    for (line, body) in [
        (format!("POST {PODS}"), pod("p", "a")),
        (format!("PATCH {PODS}/p"), json!({"metadata": {"labels": {"x": "y"}}})),
        (format!("DELETE {PODS}/p"), Value::Null),
    ] {
        let (code, answer, warnings) = client.send(&line, &body).await;
        assert!(code < 300, "{line}: {answer}");
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("Validation failed for ValidatingAdmissionPolicy 'warn'")),
            "{line}: {warnings:?}"
        );
    }
    let limits = json!({"metadata": {"name": "limits"}, "data": {"team": "a"}});
    assert_eq!(client.code("POST /api/v1/namespaces/default/configmaps", &limits).await, 201);
    let policy = json!({"metadata": {"name": "param"}, "spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule(&["CREATE"], "", &["pods"])]},
        "validations": [{"expression": "object.metadata.labels.team == params.data.team"}]}});
    assert_eq!(client.code(&format!("POST {POLICIES}"), &policy).await, 201);
    let binding = json!({"metadata": {"name": "param"}, "spec": {"policyName": "param", "validationActions": ["Deny"],
        "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}});
    assert_eq!(client.code(&format!("POST {BINDINGS}"), &binding).await, 201);
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("q", "b")).await, 422);
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("q", "a")).await, 201);
    assert_eq!(client.code("DELETE /api/v1/namespaces/default/configmaps/limits", &Value::Null).await, 200);
    let (code, refused, _) = client.send(&format!("POST {PODS}"), &pod("r", "a")).await;
    assert_eq!(code, 422, "what is to be compared with is gone");
    assert!(refused["message"].as_str().unwrap().contains("no params found"), "{refused}");
}

#[tokio::test]
async fn a_policy_that_denies_everything_can_be_taken_back() {
    let client = Client::start().await;
    client.make("all", &rule(&["*"], "*", &["*/*"]), "false", &json!(["Deny"])).await;
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("p", "a")).await, 422);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    assert_eq!(
        client.code("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await,
        201
    );
    client.0.bootstrap().await.unwrap();
    assert_eq!(client.code(&format!("DELETE {POLICIES}/all"), &Value::Null).await, 200);
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("p", "a")).await, 201);
}

/// A user who may create pods and read `/metrics`, and nothing else.
async fn alice(client: &Client) -> User {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let role = json!({"metadata": {"name": "alice"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    assert_eq!(client.code(&format!("POST {ROLES}"), &role).await, 201);
    let binding = json!({"metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "alice"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    assert_eq!(client.code(&format!("POST {BINDINGS}"), &binding).await, 201);
    User { name: "alice".into(), ..User::default() }
}

#[tokio::test]
async fn policies_ask_what_the_user_may_do_otherwise() {
    let client = Client::start().await;
    let alice = alice(&client).await;
    for (expression, code, told) in [
        ("authorizer.requestResource.check('create').allowed()", 201, ""),
        ("authorizer.requestResource.check('delete').allowed()", 422, "not here"),
        ("authorizer.group('').resource('pods').namespace('default').check('create').allowed()", 201, ""),
        (
            "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
            422,
            "not here",
        ),
        (
            "authorizer.group('').resource('pods').subresource('exec').name('p').check('create').allowed()",
            422,
            "not here",
        ),
        ("authorizer.path('/metrics').check('get').allowed()", 201, ""),
        ("authorizer.path('/logs').check('get').allowed()", 422, "not here"),
        ("authorizer.path(' ').check('get').allowed()", 422, "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", 422, "resource must not be empty"),
        ("authorizer.serviceAccount('default', 'robot').path('/metrics').check('get').allowed()", 201, ""),
        (
            "authorizer.serviceAccount('default', 'other').path('/metrics').check('get').allowed()",
            422,
            "not here",
        ),
        (
            "authorizer.serviceAccount('default', 'No!').path('/metrics').check('get').allowed()",
            422,
            "Invalid service account name",
        ),
        (
            "authorizer.serviceAccount('a.b', 'robot').path('/metrics').check('get').allowed()",
            422,
            "Invalid service account namespace",
        ),
        (
            "authorizer.requestResource.fieldSelector('spec.nodeName=n').labelSelector('a=b').check('create').allowed()",
            201,
            "",
        ),
        ("authorizer.requestResource.check('delete').reason().size() >= 0", 201, ""),
        ("!authorizer.requestResource.check('delete').errored()", 201, ""),
        ("authorizer.requestResource.check('delete').error() == ''", 201, ""),
        ("authorizer.requestResource == authorizer.requestResource", 422, "no such overload"),
        ("[1, 2].all(i, authorizer.requestResource.check('create').allowed())", 201, ""),
        ("[1, 2, 3].all(i, authorizer.requestResource.check('create').allowed())", 422, "cost"),
    ] {
        client.make("p", &rule(&["CREATE"], "", &["pods"]), expression, &json!(["Deny"])).await;
        let path = format!("POST {PODS}?dryRun=All");
        let (found, answer, _) = client.send_as(&alice, &path, &pod("p", "a")).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(found == code && message.contains(told), "{expression}: {found} {message}");
        for path in [POLICIES, BINDINGS] {
            assert_eq!(client.code(&format!("DELETE {path}/p"), &Value::Null).await, 200);
        }
    }
}

#[tokio::test]
async fn a_variable_is_worked_out_when_it_is_asked_for() {
    let client = Client::start().await;
    let check = "authorizer.requestResource.check('create').allowed()";
    for (expression, code, told) in [
        ("true", 201, ""),
        ("true || variables.dear", 201, ""),
        ("variables.cheap", 201, ""),
        ("variables.pods.namespace('default').check('create').allowed()", 201, ""),
        ("variables.sum == 4", 201, ""),
        ("dyn(variables).sum == 4", 201, ""),
        ("has(variables.sum) && variables.?sum.orValue(0) == 4", 201, ""),
        ("variables.last == 400", 201, ""),
        (
            "variables.dear",
            422,
            "composited variable \"dear\" fails to evaluate: operation cancelled: actual cost limit exceeded",
        ),
        (
            "variables.above",
            422,
            "composited variable \"above\" fails to evaluate: composited variable \"dear\" fails to evaluate: ",
        ),
        (
            "variables.missing == 1",
            422,
            "composited variable \"missing\" fails to evaluate: no such key: nothing",
        ),
    ] {
        let mut variables = vec![
            json!({"name": "cheap", "expression": check}),
            json!({"name": "dear", "expression": format!("[1, 2, 3].all(i, {check})")}),
            json!({"name": "above", "expression": "variables.dear"}),
            json!({"name": "missing", "expression": "object.spec.nothing"}),
            json!({"name": "pods", "expression": "authorizer.group('').resource('pods')"}),
            json!({"name": "one", "expression": "1"}),
            json!({"name": "two", "expression": "variables.one + variables.one"}),
            json!({"name": "sum", "expression": "variables.two + variables.two"}),
            json!({"name": "v0", "expression": "0"}),
        ];
        for at in 1..=400 {
            variables
                .push(json!({"name": format!("v{at}"), "expression": format!("variables.v{} + 1", at - 1)}));
        }
        variables.push(json!({"name": "last", "expression": "variables.v400"}));
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [rule(&["CREATE"], "", &["pods"])]},
            "variables": variables, "validations": [{"expression": expression}]}});
        let (made, answer, _) = client.send(&format!("POST {POLICIES}"), &policy).await;
        assert_eq!(made, 201, "{answer}");
        let binding =
            json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
        assert_eq!(client.code(&format!("POST {BINDINGS}"), &binding).await, 201);
        let (found, answer, _) = client.send(&format!("POST {PODS}?dryRun=All"), &pod("p", "a")).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(found == code && message.contains(told), "{expression}: {found} {message}");
        for path in [POLICIES, BINDINGS] {
            assert_eq!(client.code(&format!("DELETE {path}/p"), &Value::Null).await, 200);
        }
    }
}

/// Kubernetes evaluates conditions before variables, and refuses a condition that speaks of them.
#[tokio::test]
async fn conditions_may_ask_an_authorizer_and_may_not_use_variables() {
    let client = Client::start().await;
    let alice = alice(&client).await;
    let policy = |condition: &str| {
        json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [rule(&["CREATE"], "", &["pods"])]},
            "matchConditions": [{"name": "c", "expression": condition}],
            "variables": [{"name": "yes", "expression": "true"}],
            "validations": [{"expression": "!variables.yes", "message": "not here"}]}})
    };
    let (code, answer, _) = client.send(&format!("POST {POLICIES}"), &policy("variables.yes")).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(code == 422 && message.contains("undeclared reference to 'variables'"), "{code} {message}");
    let exempt = "!authorizer.group('').resource('pods').check('delete').allowed()";
    assert_eq!(client.code(&format!("POST {POLICIES}"), &policy(exempt)).await, 201);
    let binding =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    assert_eq!(client.code(&format!("POST {BINDINGS}"), &binding).await, 201);
    assert_eq!(client.code(&format!("POST {PODS}"), &pod("p", "a")).await, 201, "an administrator is exempt");
    assert_eq!(client.send_as(&alice, &format!("POST {PODS}"), &pod("q", "a")).await.0, 422);
}

#[tokio::test]
async fn a_message_may_not_ask_an_authorizer_and_a_check_has_its_types() {
    let client = Client::start().await;
    for (validation, wrong) in [
        (
            json!({"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}),
            "undeclared reference to 'authorizer'",
        ),
        (
            json!({"expression": "authorizer.path('/x').allowed()"}),
            "found no matching overload for 'allowed'",
        ),
        (
            json!({"expression": "authorizer.resource('pods').check('get').allowed()"}),
            "found no matching overload for 'resource'",
        ),
        (
            json!({"expression": "authorizer.group('').check('get').allowed()"}),
            "found no matching overload for 'check'",
        ),
        (json!({"expression": "authorizer.requestResource.check('get')"}), "must evaluate to bool"),
    ] {
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [rule(&["CREATE"], "", &["pods"])]}, "validations": [validation]}});
        let (code, answer, _) = client.send(&format!("POST {POLICIES}"), &policy).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(wrong), "{code} {message}");
    }
}
