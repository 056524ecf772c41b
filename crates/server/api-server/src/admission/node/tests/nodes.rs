use lazaret_json::{Value, json};

use super::{Operation, PERMITTED, World};
use crate::admission::node::nodes::differing;

const ALLOWED: &[&str] = &[
    "foo",
    "example.com/foo",
    "kubernetes.io/hostname",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "kubelet.kubernetes.io/foo",
    "foo.kubelet.kubernetes.io/foo",
    "node.kubernetes.io/foo",
    "foo.node.kubernetes.io/foo",
    "notkubernetes.io/foo",
    "node-role.example.com/foo",
];

const FORBIDDEN: &[&str] = &[
    "foo.node-restriction.kubernetes.io/foo",
    "node-restriction.kubernetes.io/foo",
    "other.k8s.io/foo",
    "other.kubernetes.io/foo",
];

/// The labels in a refusal.
const LISTED: &str = "foo.node-restriction.kubernetes.io/foo, node-restriction.kubernetes.io/foo, other.k8s.io/foo, other.kubernetes.io/foo";

fn node(lists: &[&[&str]], value: &str) -> Value {
    let mut node = json!({"metadata": {"name": "mynode", "uid": "mynode-uid"}, "spec": {}});
    for label in lists.iter().copied().flatten() {
        node["metadata"]["labels"][*label] = value.into();
    }
    node
}

fn plain() -> Value {
    node(&[], "")
}

fn with(section: &str, field: &str, value: Value) -> Value {
    let mut node = plain();
    node[section][field] = value;
    node
}

fn config(name: &str) -> Value {
    with(
        "spec",
        "configSource",
        json!({"configMap": {"name": name, "namespace": "bar", "kubeletConfigKey": "kubelet"}}),
    )
}

fn taint(value: &str) -> Value {
    with("spec", "taints", json!([{"key": "mykey", "value": value}]))
}

fn owner(name: &str) -> Value {
    with("metadata", "ownerReferences", json!([{"name": name, "controller": true}]))
}

fn asked(text: &str) -> Value {
    with("metadata", "annotations", json!({"lazaret.dev/awaiting-unprepare": text}))
}

#[test]
fn a_node_answers_questions_and_asks_none() {
    let answer = with("metadata", "annotations", json!({"lazaret.dev/unprepared": "[]"}));
    let refused = r#"node "mynode" is not allowed to modify annotation lazaret.dev/awaiting-unprepare"#;
    for (new, old, expected) in [
        (answer, plain(), PERMITTED),
        (asked("[]"), asked("[]"), PERMITTED),
        (asked("[1]"), plain(), refused),
        (plain(), asked("[1]"), refused),
    ] {
        let found = World::new().attempt(Operation::Update, "nodes", "/mynode", (&new, &old));
        assert_eq!(found, expected, "{new}");
    }
    let found = World::new().attempt(Operation::Create, "nodes", "/mynode", (&asked("[]"), &Value::Null));
    assert_eq!(found, refused);
    let classic = with("metadata", "annotations", json!({"lazaret.dev/awaiting-classic-unprepare": "[]"}));
    let found = World::new().attempt(Operation::Update, "nodes", "/mynode", (&classic, &plain()));
    assert_eq!(
        found,
        r#"node "mynode" is not allowed to modify annotation lazaret.dev/awaiting-classic-unprepare"#
    );
}

#[test]
fn a_node_registers_itself() {
    let set = format!(r#"node "mynode" is not allowed to set the following labels: {LISTED}"#);
    let source = r#"node "mynode" is not allowed to create pods with a non-nil configSource"#;
    for (object, expected) in [
        (plain(), PERMITTED),
        (taint("A"), PERMITTED),
        (node(&[ALLOWED], "v"), PERMITTED),
        (node(&[FORBIDDEN], "v"), &set),
        (node(&[ALLOWED, FORBIDDEN], "v"), &set),
        (config("foo"), source),
    ] {
        let found = World::new().attempt(Operation::Create, "nodes", "/mynode", (&object, &Value::Null));
        assert_eq!(found, expected, "{object}");
    }
}

#[test]
fn a_node_changes_nothing_of_itself_that_draws_pods_to_it() {
    let source = r#"node "mynode" is not allowed to update configSource to a new non-nil configSource"#;
    let taints = r#"node "mynode" is not allowed to modify taints"#;
    let owners = r#"node "mynode" is not allowed to modify ownerReferences"#;
    let labels = format!("is not allowed to modify labels: {LISTED}");
    for (case, new, old, expected) in [
        ("nothing", plain(), plain(), PERMITTED),
        ("a new config", config("foo"), plain(), source),
        ("another config", config("qux"), config("foo"), source),
        ("the same config", config("foo"), config("foo"), PERMITTED),
        ("no config any more", plain(), config("foo"), PERMITTED),
        ("the same taints", taint("A"), taint("A"), PERMITTED),
        ("a new taint", taint("A"), plain(), taints),
        ("no taint any more", plain(), taint("A"), taints),
        ("another taint", taint("A"), taint("B"), taints),
        ("no taints, said", with("spec", "taints", json!([])), plain(), PERMITTED),
        ("a new owner", owner("a"), plain(), owners),
        ("no owner any more", plain(), owner("a"), owners),
        ("another owner", owner("a"), owner("b"), owners),
        ("allowed labels", node(&[ALLOWED], "v"), plain(), PERMITTED),
        ("allowed labels go", plain(), node(&[ALLOWED], "v"), PERMITTED),
        ("allowed labels change", node(&[ALLOWED], "b"), node(&[ALLOWED], "a"), PERMITTED),
        ("the same labels", node(&[ALLOWED, FORBIDDEN], "v"), node(&[ALLOWED, FORBIDDEN], "v"), PERMITTED),
        ("allowed beside forbidden", node(&[ALLOWED, FORBIDDEN], "v"), node(&[FORBIDDEN], "v"), PERMITTED),
        ("allowed go, forbidden stay", node(&[FORBIDDEN], "v"), node(&[ALLOWED, FORBIDDEN], "v"), PERMITTED),
        ("forbidden labels", node(&[FORBIDDEN], "v"), plain(), &labels),
        ("forbidden labels go", plain(), node(&[FORBIDDEN], "v"), &labels),
        ("forbidden labels change", node(&[FORBIDDEN], "new"), node(&[FORBIDDEN], "old"), &labels),
    ] {
        for resource in ["nodes", "nodes/status"] {
            let found = World::new().attempt(Operation::Update, resource, "/mynode", (&new, &old));
            assert_eq!(found, expected, "{resource}: {case}");
        }
    }
}

#[test]
fn a_node_writes_no_other_node() {
    let other = json!({"metadata": {"name": "othernode"}});
    let why = r#"node "mynode" is not allowed to modify node "othernode""#;
    for (operation, resource) in [
        (Operation::Create, "nodes"),
        (Operation::Update, "nodes"),
        (Operation::Delete, "nodes"),
        (Operation::Update, "nodes/status"),
    ] {
        let found = World::new().attempt(operation, resource, "/othernode", (&other, &other));
        assert_eq!(found, why, "{operation} {resource}");
    }
    let own = World::new().attempt(Operation::Delete, "nodes", "/mynode", (&Value::Null, &plain()));
    assert_eq!(own, PERMITTED);
}

#[test]
fn labels_differ_where_one_has_what_the_other_has_not() {
    for (a, b, expected) in [
        (Value::Null, Value::Null, ""),
        (json!({"x": "1", "y": "2"}), json!({"x": "1", "y": "2"}), ""),
        (json!({}), json!({"a": "0"}), "a"),
        (json!({"z": "3"}), json!({}), "z"),
        (json!({"z": "3"}), json!({"z": "4"}), "z"),
        (json!({}), json!({"a": ""}), "a"),
        (json!({"z": ""}), json!({}), "z"),
        (json!({"z": "3"}), json!({"z": ""}), "z"),
        (json!({"a": "1", "b": "2"}), json!({"a": "2", "c": "3"}), "a b c"),
    ] {
        let found: Vec<String> = differing(&a, &b).into_iter().map(String::from).collect();
        assert_eq!(found.join(" "), expected, "{a} {b}");
    }
}
