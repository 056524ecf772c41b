use std::slice;

use lazaret_json::{Value, json};

use super::{Attributes, Authorizer, Check, ClusterReader, Decision, Operation, Params, Policies, Verdict};
use crate::{
    User, find,
    testing::{World, set},
};

/// A cluster with one namespace and a parameter.
struct FakeCluster;

impl ClusterReader for FakeCluster {
    fn namespace(&self, name: &str) -> Option<Value> {
        (name == "prod").then(|| json!({"metadata": {"name": "prod", "labels": {"env": "prod"}}}))
    }

    fn params(&self, wanted: &Params<'_>) -> Result<Vec<Value>, String> {
        match (wanted.kind, wanted.name) {
            ("ConfigMap", "limits") => Ok(vec![json!({"data": {"max": "3"}})]),
            ("ConfigMap", "") => Ok(vec![json!({"data": {"max": "3"}}), json!({"data": {"max": "1"}})]),
            ("ConfigMap", _) => Ok(vec![]),
            (kind, _) => Err(format!("paramKind kind `{kind}` not known")),
        }
    }
}

/// Tests with an authorizer need a server; this one denies.
impl Authorizer for FakeCluster {
    fn decide(&self, _: &Check) -> Decision {
        Decision::default()
    }
}

fn policy(spec: Value) -> Value {
    let mut policy = json!({"metadata": {"name": "p"}, "spec": spec});
    for (field, value) in [
        ("failurePolicy", json!("Fail")),
        (
            "matchConstraints",
            json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"], "scope": "*"}]}),
        ),
    ] {
        if policy["spec"][field].is_null() {
            policy["spec"][field] = value;
        }
    }
    policy
}

fn binding(spec: Value) -> Value {
    let mut binding = json!({"metadata": {"name": "b"}, "spec": spec});
    binding["spec"]["policyName"] = json!("p");
    if binding["spec"]["validationActions"].is_null() {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    binding
}

fn deployment(replicas: i64) -> Value {
    json!({"metadata": {"name": "d", "namespace": "prod", "labels": {"app": "d"}}, "spec": {"replicas": replicas}})
}

/// The verdict of a policy and its binding on a deployment that is created.
fn asked(policy: &Value, binding: &Value, replicas: i64) -> Verdict {
    ask(policy, binding, Operation::Create, "deployments", "", &deployment(replicas))
}

fn ask(
    policy: &Value,
    binding: &Value,
    operation: Operation,
    resource: &str,
    part: &str,
    object: &Value,
) -> Verdict {
    let policies = Policies::compile(slice::from_ref(policy), slice::from_ref(binding));
    let user = User { name: "jane".into(), groups: vec!["dev".into()], ..User::default() };
    let objects = |_: &str| match operation {
        Operation::Create => (object.clone(), Value::Null),
        Operation::Update => (object.clone(), deployment(2)),
        Operation::Delete | Operation::Connect => (Value::Null, object.clone()),
    };
    policies.ask(
        &Attributes {
            operation,
            group: "apps",
            version: "v1beta2",
            versions: &["v1", "v1beta2"],
            resource,
            subresource: part,
            kind: "Deployment",
            part: None,
            name: "d",
            namespace: "prod",
            user: &user,
            dry_run: false,
            options: &Value::Null,
            objects: &objects,
        },
        &FakeCluster,
    )
}

fn denied(verdict: &Verdict) -> Option<(&str, &str)> {
    verdict.denial.as_ref().map(|denial| (denial.message.as_str(), denial.reason.as_str()))
}

#[test]
fn an_expression_that_does_not_hold_denies() {
    let few = policy(json!({"validations": [{"expression": "object.spec.replicas <= 5"}]}));
    assert_eq!(denied(&asked(&few, &binding(json!({})), 5)), None);
    let wanted = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.spec.replicas <= 5";
    assert_eq!(denied(&asked(&few, &binding(json!({})), 6)), Some((wanted, "Invalid")));

    let words = policy(json!({"validations": [{
        "expression": "object.spec.replicas <= 5", "message": "too many", "reason": "Forbidden",
        "messageExpression": "'at most 5, not ' + string(object.spec.replicas)"}]}));
    let wanted = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: at most 5, not 9";
    assert_eq!(denied(&asked(&words, &binding(json!({})), 9)), Some((wanted, "Forbidden")));
    let fails = set(&words, "/spec/validations/0/messageExpression", json!("object.nothing"));
    assert!(denied(&asked(&fails, &binding(json!({})), 9)).unwrap().0.ends_with(": too many"));
    assert!(Policies::compile(&[few], &[]).is_empty(), "a policy that is not bound does nothing");
}

#[test]
fn bindings_say_what_follows() {
    let none = policy(json!({"validations": [{"expression": "false", "message": "no"}]}));
    let warned = asked(&none, &binding(json!({"validationActions": ["Warn", "Audit"]})), 1);
    assert_eq!(denied(&warned), None);
    assert_eq!(warned.warnings, ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"]);
    assert_eq!(warned.notes.len(), 1);
    let elsewhere =
        binding(json!({"matchResources": {"namespaceSelector": {"matchLabels": {"env": "test"}}}}));
    assert_eq!(denied(&asked(&none, &elsewhere, 1)), None);
    let here = binding(json!({"matchResources": {"namespaceSelector": {"matchLabels": {"env": "prod"}}}}));
    assert!(denied(&asked(&none, &here, 1)).is_some());
    let others = binding(json!({"matchResources": {"objectSelector": {"matchLabels": {"app": "other"}}}}));
    assert_eq!(denied(&asked(&none, &others, 1)), None);
}

#[test]
fn rules_say_which_requests_are_meant() {
    let none = |rule: Value| {
        let matches = json!({"matchPolicy": "Equivalent", "resourceRules": [rule]});
        policy(json!({"matchConstraints": matches, "validations": [{"expression": "false"}]}))
    };
    let rule = |groups: &str, versions: &str, operations: &str, resources: &str| json!({"apiGroups": [groups], "apiVersions": [versions], "operations": [operations], "resources": [resources]});
    let meant = |policy: &Value, operation, resource: &str, part: &str| {
        denied(&ask(policy, &binding(json!({})), operation, resource, part, &deployment(1))).is_some()
    };
    let all = none(rule("*", "*", "*", "*"));
    assert!(meant(&all, Operation::Delete, "deployments", ""));
    assert!(!meant(&all, Operation::Update, "deployments", "status"), "a part is meant only if it is named");
    assert!(meant(&none(rule("*", "*", "*", "*/*")), Operation::Update, "deployments", "status"));
    assert!(meant(
        &none(rule("apps", "*", "UPDATE", "deployments/scale")),
        Operation::Update,
        "deployments",
        "scale"
    ));
    assert!(!meant(&none(rule("batch", "*", "*", "*")), Operation::Create, "deployments", ""));
    assert!(!meant(&none(rule("*", "*", "CREATE", "*")), Operation::Update, "deployments", ""));
    let one = none(rule("apps", "v1", "CREATE", "deployments"));
    assert!(meant(&one, Operation::Create, "deployments", ""), "another version of the same thing");
    let exact = set(&one, "/spec/matchConstraints/matchPolicy", json!("Exact"));
    assert!(!meant(&exact, Operation::Create, "deployments", ""));
    let named = set(&all, "/spec/matchConstraints/resourceRules/0/resourceNames", json!(["other"]));
    assert!(!meant(&named, Operation::Create, "deployments", ""));
    let cluster = set(&all, "/spec/matchConstraints/resourceRules/0/scope", json!("Cluster"));
    assert!(!meant(&cluster, Operation::Create, "deployments", ""));
    let mut but = all.clone();
    but["spec"]["matchConstraints"]["excludeResourceRules"] = json!([rule("apps", "*", "*", "deployments")]);
    assert!(!meant(&but, Operation::Create, "deployments", ""));
}

#[test]
fn policies_see_who_asks_what_was_and_what_they_named() {
    for (expression, holds) in [
        ("request.userInfo.username == 'jane' && 'dev' in request.userInfo.groups", true),
        ("request.operation == 'UPDATE' && request.namespace == 'prod' && request.name == 'd'", true),
        ("object.spec.replicas >= oldObject.spec.replicas", true),
        ("namespaceObject.metadata.labels.env == 'test'", false),
        ("variables.limit > object.spec.replicas && variables.double == 20", true),
        ("!has(object.metadata.annotations)", true),
        ("object.metadata.namespace == 'prod'", true),
    ] {
        let spec = json!({
            "variables": [{"name": "limit", "expression": "10"}, {"name": "double", "expression": "variables.limit * 2"}],
            "validations": [{"expression": expression}],
        });
        let verdict =
            ask(&policy(spec), &binding(json!({})), Operation::Update, "deployments", "", &deployment(3));
        assert_eq!(denied(&verdict).is_none(), holds, "{expression}: {verdict:?}");
    }
}

#[test]
fn what_cannot_be_asked_is_denied_unless_failures_are_ignored() {
    let spec = json!({"validations": [{"expression": "object.spec.nothing == 1"}]});
    let verdict = asked(&policy(spec.clone()), &binding(json!({})), 1);
    assert!(denied(&verdict).unwrap().0.contains("no such key: nothing"), "{verdict:?}");
    let lenient = set(&policy(spec), "/spec/failurePolicy", json!("Ignore"));
    assert_eq!(denied(&asked(&lenient, &binding(json!({})), 1)), None);
    let broken = policy(json!({"validations": [{"expression": "object."}]}));
    assert!(
        denied(&asked(&broken, &binding(json!({})), 1)).unwrap().0.contains("failed to configure policy")
    );
    let costly = policy(json!({"validations": [{"expression":
        "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))"}]}));
    assert!(denied(&asked(&costly, &binding(json!({})), 1)).is_some(), "it ends");
}

#[test]
fn conditions_say_whether_a_policy_applies() {
    let with = |conditions: Value| {
        policy(json!({"matchConditions": conditions, "validations": [{"expression": "false"}]}))
    };
    let denies = |conditions: Value| denied(&asked(&with(conditions), &binding(json!({})), 1)).is_some();
    assert!(denies(json!([{"name": "a", "expression": "true"}])));
    assert!(!denies(json!([{"name": "a", "expression": "request.userInfo.username != 'jane'"}])));
    let mixed =
        json!([{"name": "a", "expression": "object.nothing == 1"}, {"name": "b", "expression": "false"}]);
    assert!(!denies(mixed), "one that does not hold counts more than one that fails");
    assert!(denies(json!([{"name": "a", "expression": "object.nothing == 1"}])));
}

#[test]
fn parameters_are_asked_one_by_one() {
    let limited = policy(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params == null || object.spec.replicas <= int(params.data.max)"}]}));
    let with = |param: Value| binding(json!({"paramRef": param}));
    let denies = |param: Value, replicas| denied(&asked(&limited, &with(param), replicas)).is_some();
    let limits = json!({"name": "limits", "parameterNotFoundAction": "Deny"});
    assert!(!denies(limits.clone(), 3) && denies(limits, 4));
    let each = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    assert!(!denies(each.clone(), 1) && denies(each, 2), "the strictest counts");
    assert!(denies(json!({"name": "absent", "parameterNotFoundAction": "Deny"}), 1));
    assert!(!denies(json!({"name": "absent", "parameterNotFoundAction": "Allow"}), 1));
    assert_eq!(denied(&asked(&limited, &binding(json!({})), 9)), None, "a binding without parameters");
    let unknown = set(&limited, "/spec/paramKind/kind", json!("Widget"));
    assert!(
        denied(&asked(&unknown, &with(json!({"name": "x"})), 1))
            .unwrap()
            .0
            .contains("failed to configure binding")
    );
}

#[test]
fn annotations_are_noted() {
    let noted = policy(json!({"auditAnnotations": [
        {"key": "replicas", "valueExpression": "'replicas: ' + string(object.spec.replicas)"}, {"key": "none", "valueExpression": "null"}]}));
    let verdict = asked(&noted, &binding(json!({})), 4);
    assert_eq!(verdict.notes, [("p".to_owned(), "replicas".to_owned(), "replicas: 4".to_owned())]);
}

#[test]
fn what_is_wrong_with_a_policy_is_said_when_it_is_made() {
    let policies = find("admissionregistration.k8s.io", "validatingadmissionpolicies").unwrap();
    let bindings = find("admissionregistration.k8s.io", "validatingadmissionpolicybindings").unwrap();
    let world = World::new();
    let good = policy(json!({"validations": [{"expression": "true"}]}));
    let made = world.create(policies, json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "true"}]}})).ok();
    assert_eq!(made["spec"]["failurePolicy"], "Fail");
    assert_eq!(made["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(made["spec"]["matchConstraints"]["resourceRules"][0]["scope"], "*");
    for (field, value, wrong) in [
        ("/spec/failurePolicy", json!("Perhaps"), "spec.failurePolicy NotSupported"),
        ("/spec/matchConstraints/resourceRules", json!([]), "spec.matchConstraints.resourceRules Required"),
        (
            "/spec/matchConstraints/resourceRules/0/operations",
            json!(["READ"]),
            "spec.matchConstraints.resourceRules[0].operations[0] NotSupported",
        ),
        ("/spec/validations/0/expression", json!("object."), "spec.validations[0].expression Invalid"),
        ("/spec/validations/0/expression", json!("1"), "spec.validations[0].expression Invalid"),
        ("/spec/validations/0/expression", json!(" "), "spec.validations[0].expression Required"),
        ("/spec/validations/0/expression", json!("params.x"), "spec.validations[0].expression Invalid"),
        (
            "/spec/validations/0/messageExpression",
            json!("authorizer.path('/').check('get').reason()"),
            "spec.validations[0].messageExpression Invalid",
        ),
        (
            "/spec/validations/0/expression",
            json!("authorizer.path('/').allowed()"),
            "spec.validations[0].expression Invalid",
        ),
        ("/spec/validations/0/reason", json!("Teapot"), "spec.validations[0].reason NotSupported"),
        ("/spec/validations/0/message", json!("a\nb"), "spec.validations[0].message Invalid"),
    ] {
        assert_eq!(
            world.create(policies, set(&good, field, value.clone())).wrong(),
            [wrong],
            "{field} {value}"
        );
    }
    let empty = set(&good, "/spec/validations", json!([]));
    assert_eq!(
        world.create(policies, empty).wrong(),
        ["spec.auditAnnotations Required", "spec.validations Required"]
    );
    let bound = binding(json!({}));
    world.create(bindings, bound.clone()).ok();
    for (actions, wrong) in [
        (json!([]), "spec.validationActions Required"),
        (json!(["Deny", "Warn"]), "spec.validationActions Invalid"),
        (json!(["Deny", "Deny"]), "spec.validationActions[1] Duplicate"),
        (json!(["Shrug"]), "spec.validationActions[0] NotSupported"),
    ] {
        let refused = world.create(bindings, set(&bound, "/spec/validationActions", actions.clone()));
        assert_eq!(refused.wrong(), [wrong], "{actions}");
    }
    let both = set(
        &bound,
        "/spec/paramRef",
        json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}),
    );
    assert_eq!(
        world.create(bindings, both).wrong(),
        ["spec.paramRef.name Forbidden", "spec.paramRef.selector Forbidden"]
    );
}
