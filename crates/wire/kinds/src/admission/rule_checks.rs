//! Validation of the rules that select the requests of a policy or a webhook.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::matching::is_operation;
use crate::{
    Errors,
    check::not_supported,
    path::Path,
    value::{has, list, text},
};

const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// A rule of operations, groups, versions and resources.
pub(super) fn resource_rule(errors: &mut Errors, path: &Path<'_>, rule: &Value) {
    for (field, others) in
        [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")]
    {
        let (path, words) = (path.field(field), list(rule, field));
        if words.is_empty() {
            errors.required(path, "");
        } else if words.len() > 1 && words.iter().any(|word| word == "*") {
            let why = format!("if '*' is present, must not specify other {others}");
            errors.invalid(path, rule[field].clone(), why);
        }
        for (at, word) in words.iter().enumerate() {
            let word = word.as_str().unwrap_or_default();
            if field == "operations" && !is_operation(word) {
                errors.push(path.index(at), not_supported(word, OPERATIONS));
            } else if field == "apiVersions" && word.is_empty() {
                errors.required(path.index(at), "");
            }
        }
    }
    resources(errors, &path.field("resources"), &rule["resources"]);
    let scope = text(rule, "scope");
    if has(rule, "scope") && !SCOPES.contains(&scope) {
        errors.push(path.field("scope"), not_supported(scope, SCOPES));
    }
}

/// `resource`, `resource/subresource` and wildcards, none of which makes another needless.
fn resources(errors: &mut Errors, path: &Path<'_>, said: &Value) {
    let words: Vec<&str> =
        said.as_array().into_iter().flatten().map(|word| word.as_str().unwrap_or_default()).collect();
    if words.is_empty() {
        errors.required(*path, "");
    }
    let (mut all_parts_of, mut part_of_all) = (BTreeSet::new(), BTreeSet::new());
    let mut last_whole_is_named = false;
    for (at, word) in words.iter().copied().enumerate() {
        if word.is_empty() {
            errors.required(path.index(at), "");
            continue;
        }
        let Some((resource, part)) = word.split_once('/') else {
            last_whole_is_named = word != "*";
            continue;
        };
        if all_parts_of.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {word}");
            errors.invalid(path.index(at), word, why);
        }
        if part_of_all.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {word}");
            errors.invalid(path.index(at), word, why);
        }
        if part == "*" {
            all_parts_of.insert(resource);
        }
        if resource == "*" {
            part_of_all.insert(part);
        }
    }
    if words.len() > 1 && words.contains(&"*/*") {
        errors.invalid(*path, said.clone(), "if '*/*' is present, must not specify other resources");
    }
    if words.contains(&"*") && last_whole_is_named {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(*path, said.clone(), why);
    }
}
