//! The author and the approver of a rule are recorded by the server alone.
#![allow(missing_docs)]

use lazaret_json::{Value, json};
use lazaret_kinds::review::{Writer, author_of, incident_of, policy_of, sign, wants_approval};

const WRITTEN_BY: &str = "lazaret.dev/written-by";
const APPROVED_BY: &str = "lazaret.dev/approved-by";
const APPROVAL: &str = "lazaret.dev/approval";

fn rule(spec: &str, annotations: Value) -> Value {
    json!({"metadata": {"name": "r", "annotations": annotations}, "spec": {"taint": {"key": spec}}})
}

fn signed(new: &Value, old: Option<&Value>, user: &str, wanted: bool) -> Value {
    let mut new = new.clone();
    sign(&mut new, old, Writer { user, wished_by: None }, wanted);
    new
}

#[test]
fn a_rule_that_uses_none_of_it_stays_as_it_is() {
    let bare = json!({"metadata": {"name": "r"}, "spec": {}});
    let other = rule("a", json!({"example.com/note": "x"}));
    for object in [&bare, &other] {
        assert_eq!(signed(object, None, "ada", false), *object);
        assert_eq!(signed(object, Some(object), "ada", false), *object);
        assert_eq!(signed(object, Some(object), "ada", true), *object, "who changes nothing wrote nothing");
    }
}

#[test]
fn the_author_of_a_spec_is_its_last_writer() {
    let new = signed(&rule("a", json!({WRITTEN_BY: "eve"})), None, "ada", true);
    assert_eq!(new["metadata"]["annotations"], json!({WRITTEN_BY: "ada"}));
    let relabelled = signed(&rule("a", json!({WRITTEN_BY: "eve", "b": "c"})), Some(&new), "eve", true);
    assert_eq!(relabelled["metadata"]["annotations"], json!({WRITTEN_BY: "ada", "b": "c"}));
    let emptied = signed(&rule("a", Value::Null), Some(&new), "eve", true);
    assert_eq!(emptied["metadata"]["annotations"], json!({WRITTEN_BY: "ada"}));
    let changed = signed(&rule("b", json!({WRITTEN_BY: "ada"})), Some(&new), "eve", true);
    assert_eq!(changed["metadata"]["annotations"][WRITTEN_BY], "eve");
    let unwanted = signed(&rule("c", json!({WRITTEN_BY: "ada"})), Some(&changed), "eve", false);
    assert_eq!(unwanted["metadata"]["annotations"], json!({}), "no guard wants to know");
    assert_eq!(
        signed(&rule("a", json!({WRITTEN_BY: "eve"})), None, "ada", false)["metadata"]["annotations"],
        json!({}),
        "what was forged before there is a guard is not there when it comes"
    );
}

#[test]
fn the_approver_is_the_writer_of_the_approval() {
    let old = signed(&rule("a", Value::Null), None, "ada", true);
    let claimed = rule("a", json!({APPROVAL: "{}", APPROVED_BY: "bob"}));
    assert_eq!(
        signed(&claimed, None, "ada", true)["metadata"]["annotations"],
        json!({WRITTEN_BY: "ada"}),
        "a rule is not born approved"
    );
    let approved = signed(&claimed, Some(&old), "ada", true);
    assert_eq!(approved["metadata"]["annotations"][APPROVED_BY], "ada");
    let claimed = rule("a", json!({APPROVAL: "{}", APPROVED_BY: "bob"}));
    let again = signed(&claimed, Some(&approved), "eve", true);
    assert_eq!(again["metadata"]["annotations"][APPROVED_BY], "ada");
    let withdrawn = signed(&rule("a", json!({APPROVED_BY: "bob"})), Some(&approved), "eve", true);
    assert_eq!(withdrawn["metadata"]["annotations"], json!({WRITTEN_BY: "ada"}));
}

/// A rule compiled from a policy by controllers has no author of its own; such a rule of any other user has.
#[test]
fn compiled_rules_are_signed_by_everybody_but_the_controller_that_compiles() {
    let mut compiled = rule("a", Value::Null);
    compiled["metadata"]["ownerReferences"] = json!([{"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "name": "p", "controller": true}]);
    let compiler = "system:lazaret:device-taint-policies";
    assert_eq!(signed(&compiled, None, compiler, true)["metadata"]["annotations"], Value::Null);
    for user in ["eve", "system:lazaret:device-health"] {
        assert_eq!(signed(&compiled, None, user, true)["metadata"]["annotations"][WRITTEN_BY], user);
    }
    let own = signed(&rule("a", Value::Null), None, compiler, true);
    assert_eq!(own["metadata"]["annotations"][WRITTEN_BY], compiler);
}

/// A rule that the controller of health makes for an incident has the author of the incident's policy, and no other user may say so.
#[test]
fn what_a_controller_makes_for_an_author_has_that_author() {
    let health = "system:lazaret:device-health";
    let mut made = rule("a", Value::Null);
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceIncident", "name": "i"}]);
    assert_eq!(incident_of(&made, health), Some("i"));
    for user in ["eve", "system:lazaret", "system:lazaret:device-taint-policies"] {
        assert_eq!(incident_of(&made, user), None, "{user}");
    }
    let mut foreign = made.clone();
    foreign["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1".into();
    assert_eq!(incident_of(&foreign, health), None);
    assert_eq!(policy_of(&json!({"spec": {"policy": "old"}, "status": {"policy": "gpus"}})), Some("gpus"));
    assert_eq!(policy_of(&json!({"spec": {"policy": "old"}})), Some("old"));
    assert_eq!((policy_of(&json!({"status": {"policy": ""}})), policy_of(&json!({}))), (None, None));
    let policy = signed(&rule("p", Value::Null), None, "ada", true);
    assert_eq!((author_of(&policy), author_of(&made)), (Some("ada"), None));
    let signed_for = |wished_by| {
        let mut made = made.clone();
        sign(&mut made, None, Writer { user: health, wished_by }, true);
        made["metadata"]["annotations"][WRITTEN_BY].clone()
    };
    assert_eq!((signed_for(Some("ada")), signed_for(None)), (json!("ada"), json!(health)));
}

#[test]
fn a_guard_wants_approval_if_it_says_above_what() {
    assert!(wants_approval(&json!({"spec": {"confirmAbove": {"pods": 1}}})));
    assert!(!wants_approval(&json!({"spec": {"paused": {"reason": "x"}}})));
}
