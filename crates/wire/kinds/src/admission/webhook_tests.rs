use lazaret_json::{Value, json};

use super::{
    Address, Attributes, Authorizer, Check, ClusterReader, Decision, Matched, Operation, Params,
    ReviewVersion, Url, webhooks,
};
use crate::{User, find, testing::World};

struct FakeCluster;

impl ClusterReader for FakeCluster {
    fn namespace(&self, name: &str) -> Option<Value> {
        Some(json!({"metadata": {"name": name, "labels": {"env": name}}}))
    }

    fn params(&self, _: &Params<'_>) -> Result<Vec<Value>, String> {
        Err("a webhook has no parameters".to_owned())
    }
}

impl Authorizer for FakeCluster {
    fn decide(&self, _: &Check) -> Decision {
        Decision::default()
    }
}

fn hook(changes: &Value) -> Value {
    let mut hook = json!({
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://hook.example.com/check"},
        "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}],
    });
    for (field, value) in changes.as_object().unwrap() {
        hook[field.as_str()] = value.clone();
    }
    hook
}

fn configuration(name: &str, hooks: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "webhooks": hooks.to_vec()})
}

/// The errors and the warnings of a configuration with one webhook.
fn checked(plural: &str, changes: &Value) -> (Vec<String>, Vec<String>) {
    let kind = find("admissionregistration.k8s.io", plural).unwrap();
    let made = World::new().create(kind, configuration("c", &[hook(changes)]));
    let errors = made.errors.list().iter().map(ToString::to_string).collect();
    (errors, made.errors.warnings().to_vec())
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn configurations_are_checked_in_the_words_of_kubernetes() {
    let rules = |rule: Value| json!({"rules": [rule]});
    let rule = |field: &str, value: Value| {
        let mut rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]});
        rule[field] = value;
        rules(rule)
    };
    let url = |text: &str| json!({"clientConfig": {"url": text}});
    let service = |service: Value| json!({"clientConfig": {"service": service}});
    for (changes, wanted) in [
        (json!({}), ""),
        (json!({"name": ""}), "webhooks[0].name: Required value"),
        (
            json!({"name": "a.b"}),
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ),
        (
            json!({"sideEffects": null}),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (
            json!({"sideEffects": "Some"}),
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ),
        (
            json!({"timeoutSeconds": 31}),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            json!({"failurePolicy": "Open"}),
            "webhooks[0].failurePolicy: Unsupported value: \"Open\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            json!({"admissionReviewVersions": []}),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            json!({"admissionReviewVersions": ["v7"]}),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v7\"]: must include at least one of v1, v1beta1",
        ),
        (
            json!({"clientConfig": {}}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (
            url("http://a.b"),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            url("https://u:p@a.b"),
            "webhooks[0].clientConfig.url: Invalid value: \"u:p\": user information is not permitted in the URL",
        ),
        (
            url("https://a.b/c?d=e"),
            "webhooks[0].clientConfig.url: Invalid value: \"d=e\": query parameters are not permitted in the URL",
        ),
        (
            url("https://a.b/c#d"),
            "webhooks[0].clientConfig.url: Invalid value: \"d\": fragments are not permitted in the URL",
        ),
        (
            url("https:///c"),
            "webhooks[0].clientConfig.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
        ),
        (
            url("https://a:b"),
            "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \"https://a:b\": invalid port \":b\" after host; desired format: https://host[/path]",
        ),
        (service(json!({"name": "s", "namespace": "n", "path": "/a/b/"})), ""),
        (
            service(json!({"name": "s", "namespace": "n", "path": "ab"})),
            "webhooks[0].clientConfig.service.path: Invalid value: \"ab\": must start with a '/'",
        ),
        (
            service(json!({"name": "s", "namespace": "n", "path": "/a//b"})),
            "webhooks[0].clientConfig.service.path: Invalid value: \"/a//b\": segment[1] may not be empty",
        ),
        (
            service(json!({"name": "s", "namespace": "n", "port": 70000})),
            "webhooks[0].clientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (rule("operations", json!([])), "webhooks[0].rules[0].operations: Required value"),
        (
            rule("operations", json!(["*", "CREATE"])),
            "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
        ),
        (
            rule("apiGroups", json!(["*", "apps"])),
            "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
        ),
        (
            rule("resources", json!(["*", "pods"])),
            "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
        ),
        (
            rule("resources", json!(["pods/*", "pods/status"])),
            "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
        ),
        (
            rule("scope", json!("Galaxy")),
            "webhooks[0].rules[0].scope: Unsupported value: \"Galaxy\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
        ),
        (
            json!({"matchConditions": [{"name": "", "expression": "true"}]}),
            "webhooks[0].matchConditions[0].name: Required value",
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": ""}]}),
            "webhooks[0].matchConditions[0].expression: Required value",
        ),
    ] {
        for plural in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
            let (errors, warnings) = checked(plural, &changes);
            assert_eq!((errors.join("; ").as_str(), warnings.len()), (wanted, 0), "{changes}");
        }
    }
    let condition = json!({"matchConditions": [{"name": "a", "expression": "nothing.known"}]});
    assert!(checked("validatingwebhookconfigurations", &condition).0[0].contains("compilation failed"));
    let rule = json!({"apiGroups": ["authentication.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["tokenreviews"]});
    let wanted = "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect";
    assert_eq!(checked("validatingwebhookconfigurations", &rules(rule)).1, [wanted]);
}

#[test]
fn absent_fields_stand_for_what_kubernetes_says() {
    let kind = find("admissionregistration.k8s.io", "mutatingwebhookconfigurations").unwrap();
    let service = hook(&json!({"clientConfig": {"service": {"name": "s", "namespace": "n"}}}));
    let made = World::new().create(kind, configuration("c", &[service])).ok();
    let hook = &made["webhooks"][0];
    let of = |field: &str| hook[field].clone();
    assert_eq!(of("failurePolicy"), "Fail");
    assert_eq!(of("matchPolicy"), "Equivalent");
    assert_eq!((of("namespaceSelector"), of("objectSelector")), (json!({}), json!({})));
    assert_eq!((of("timeoutSeconds"), of("reinvocationPolicy")), (json!(10), json!("Never")));
    assert_eq!(
        (&hook["rules"][0]["scope"], &hook["clientConfig"]["service"]["port"]),
        (&json!("*"), &json!(443))
    );
    let compiled = &webhooks(&[made])[0];
    let address =
        Address::Service { namespace: "n".into(), name: "s".into(), path: String::new(), port: 443 };
    assert_eq!((&compiled.address, compiled.review_version), (&address, Some(ReviewVersion::V1)));
}

/// Whether a webhook is called for a deployment with these labels that is made or changed.
fn matched(changes: &Value, operation: Operation, labels: &Value) -> Matched {
    let stored = configuration("c", &[hook(changes)]);
    let compiled = webhooks(&[stored]);
    let object = json!({"metadata": {"name": "d", "labels": labels.clone()}, "spec": {"replicas": 3}});
    let objects = |_: &str| match operation {
        Operation::Delete => (Value::Null, object.clone()),
        Operation::Create | Operation::Update | Operation::Connect => (object.clone(), Value::Null),
    };
    let user = User { name: "jane".into(), ..User::default() };
    let request = Attributes {
        operation,
        group: "apps",
        version: "v1beta2",
        versions: &["v1", "v1beta2"],
        resource: "deployments",
        subresource: "",
        kind: "Deployment",
        part: None,
        name: "d",
        namespace: "prod",
        user: &user,
        dry_run: false,
        options: &Value::Null,
        objects: &objects,
    };
    compiled[0].matches(&request, &FakeCluster)
}

#[test]
fn webhooks_are_called_for_what_they_are_about() {
    let called = Matched::InVersion("v1".to_owned());
    let matches = |changes: Value| matched(&changes, Operation::Create, &json!({"skip": "yes"})) == called;
    assert!(matches(json!({})), "another version of the same resource");
    assert!(!matches(json!({"matchPolicy": "Exact"})));
    assert!(!matches(json!({"rules": []})), "no rule, no call");
    assert!(matches(json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}})));
    assert!(!matches(json!({"namespaceSelector": {"matchLabels": {"env": "test"}}})));
    assert!(matches(json!({"objectSelector": {"matchLabels": {"skip": "yes"}}})));
    let opted_out =
        json!({"objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}});
    assert!(!matches(opted_out.clone()), "what was not there before the request has no say");
    assert_eq!(matched(&opted_out, Operation::Create, &json!({})), called);
    assert_eq!(matched(&json!({}), Operation::Delete, &json!({})), Matched::No);
}

#[test]
fn conditions_decide_last_and_fail_as_the_policy_says() {
    let condition = |expression: &str, policy: &str| {
        let changes = json!({"failurePolicy": policy, "matchConditions": [
            {"name": "always", "expression": "request.userInfo.username == 'jane'"},
            {"name": "own", "expression": expression}]});
        matched(&changes, Operation::Create, &json!({}))
    };
    assert_eq!(condition("object.spec.replicas > 2", "Fail"), Matched::InVersion("v1".to_owned()));
    assert_eq!(condition("object.spec.replicas > 3", "Fail"), Matched::No);
    assert!(matches!(condition("object.spec.nothing > 3", "Fail"), Matched::Failed(_)));
    assert_eq!(condition("object.spec.nothing > 3", "Ignore"), Matched::No);
    assert_eq!(
        condition("request.requestKind.version == 'v1beta2' && request.kind.version == 'v1'", "Fail"),
        Matched::InVersion("v1".to_owned())
    );
}

#[test]
fn webhooks_are_called_in_order_of_their_configurations() {
    let named = |name: &str| hook(&json!({"name": name}));
    let stored = [
        configuration("b", &[named("z.example.com"), named("a.example.com")]),
        configuration("a", &[named("y.example.com")]),
    ];
    let names: Vec<String> = webhooks(&stored).into_iter().map(|hook| hook.name).collect();
    assert_eq!(names, ["y.example.com", "z.example.com", "a.example.com"]);
}

#[test]
fn urls_are_taken_apart() {
    let parsed = |text: &str| Url::parse(text).map(|url| (url.authority(), url.path));
    for (text, authority, path) in [
        ("https://a.b/c/d", "a.b", "/c/d"),
        ("https://a.b:8443", "a.b:8443", ""),
        ("https://[::1]:8443/x", "[::1]:8443", "/x"),
        ("HTTPS://a.b/", "a.b", "/"),
        ("a.b/c", "", "a.b/c"),
    ] {
        assert_eq!(parsed(text), Ok((authority.to_owned(), path.to_owned())), "{text}");
    }
    for wrong in ["https://a.b:x", "https://a.b:99999", "https://[::1", ":x", "https://a b/", "https://a\n/"]
    {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_form_of_a_review_that_nobody_knows_is_not_taken_for_another() {
    let stored = configuration("c", &[hook(&json!({"admissionReviewVersions": ["v7"]}))]);
    assert_eq!(webhooks(&[stored])[0].review_version, None);
    let stored = configuration("c", &[hook(&json!({"admissionReviewVersions": ["v7", "v1beta1", "v1"]}))]);
    assert_eq!(
        webhooks(&[stored])[0].review_version,
        Some(ReviewVersion::V1Beta1),
        "the first that is known"
    );
}
