//! The server alone says who approved a driver's taint, and who wrote and approved a patch.
#![allow(missing_docs)]

use lazaret_json::{Value, json};
use lazaret_kinds::{
    find,
    review::{approves_taints, is_signed, sign_taint_approvals},
};

const APPROVALS: &str = "lazaret.dev/taint-approvals";

fn guard(approvals: &Value) -> Value {
    json!({"metadata": {"name": "fleet", "annotations": {APPROVALS: approvals.to_string()}}, "spec": {}})
}

fn entry(driver: &str, pods: u64, by: &str) -> Value {
    json!({
        "driver": driver, "key": "k", "value": "v", "since": "2026-01-01T00:00:00.000000Z",
        "pods": pods, "namespaces": 1, "devices": 4, "by": by,
    })
}

fn signed(new: &Value, old: Option<&Value>, user: &str) -> Vec<(String, String)> {
    let mut new = new.clone();
    sign_taint_approvals(&mut new, old, user);
    let text = new["metadata"]["annotations"][APPROVALS].as_str().unwrap();
    let entries: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    let word = |entry: &serde_json::Value, name: &str| entry[name].as_str().unwrap().to_owned();
    entries.iter().map(|entry| (word(entry, "driver"), word(entry, "by"))).collect()
}

fn by(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(driver, by)| ((*driver).to_owned(), (*by).to_owned())).collect()
}

#[test]
fn an_approval_of_a_taint_has_the_name_of_who_wrote_it() {
    let claimed = guard(&json!([entry("a", 1, "bob")]));
    assert_eq!(signed(&claimed, None, "ada"), by(&[("a", "ada")]), "in a guard that is made, too");
    let old = guard(&json!([entry("a", 1, "ada")]));
    assert_eq!(signed(&old, Some(&old), "eve"), by(&[("a", "ada")]), "one that stays is whose it was");
    let stolen = guard(&json!([entry("a", 1, "bob"), entry("b", 1, "bob")]));
    assert_eq!(signed(&stolen, Some(&old), "eve"), by(&[("a", "ada"), ("b", "eve")]));
    let larger = guard(&json!([entry("a", 9, "ada")]));
    assert_eq!(signed(&larger, Some(&old), "eve"), by(&[("a", "eve")]), "of another reach it is another");
}

#[test]
fn approvals_are_bounded_and_other_text_stays() {
    let many: Value = (0..40).map(|at| entry(&format!("d{at}"), 1, "")).collect();
    assert_eq!(signed(&guard(&many), None, "ada").len(), 16);
    let mut other = json!({"metadata": {"name": "g", "annotations": {APPROVALS: "no list"}}});
    let before = other.clone();
    sign_taint_approvals(&mut other, None, "ada");
    assert_eq!(other, before);
    let mut bare = json!({"metadata": {"name": "g"}});
    sign_taint_approvals(&mut bare, None, "ada");
    assert_eq!(bare, json!({"metadata": {"name": "g"}}));
}

/// Whatever sets taints is signed as a rule is.
#[test]
fn patches_are_signed_and_guards_have_approvals() {
    let kind = |group: &str, plural: &str| find(group, plural).unwrap();
    assert!(is_signed(kind("resource.k8s.io", "devicetaintrules")));
    assert!(is_signed(kind("resource.k8s.io", "resourceslicepatches")));
    assert!(!is_signed(kind("resource.k8s.io", "resourceslices")));
    assert!(!approves_taints(kind("resource.k8s.io", "resourceslicepatches")));
}
