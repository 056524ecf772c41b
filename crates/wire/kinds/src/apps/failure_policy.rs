//! The policy of a job for pods that fail: `podFailurePolicy`.

use std::collections::BTreeSet;

use lazaret_json::Value;

use crate::{
    Errors, FieldProblem,
    check::{label_name, not_supported},
    path::Path,
    value::{fill, has, list, list_mut, text},
};

const RULES_MAX: usize = 20;
const CONDITIONS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

/// A condition that does not say so is meant to be true.
pub(super) fn default(spec: &mut Value) {
    let Some(policy) = spec.get_mut("podFailurePolicy").filter(|policy| policy.is_object()) else { return };
    for rule in list_mut(policy, "rules") {
        list_mut(rule, "onPodConditions").iter_mut().for_each(|pattern| fill(pattern, "status", "True"));
    }
}

/// Checks the policy of a job with this spec.
pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    if !has(spec, "podFailurePolicy") {
        return;
    }
    let pod = &spec["template"]["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|field| list(pod, field));
    let names: BTreeSet<&str> = containers.map(|container| text(container, "name")).collect();
    let rules = list(&spec["podFailurePolicy"], "rules");
    let policy = path.field("podFailurePolicy");
    let rules_path = policy.field("rules");
    if rules.len() > RULES_MAX {
        errors.push(rules_path, FieldProblem::TooMany(rules.len(), RULES_MAX));
    }
    for (at, rule) in rules.iter().enumerate() {
        validate_rule(errors, &rules_path.index(at), rule, has(spec, "backoffLimitPerIndex"), &names);
    }
    let replacement = text(spec, "podReplacementPolicy");
    if !replacement.is_empty() && replacement != "Failed" {
        errors.push(path.field("podReplacementPolicy"), not_supported(replacement, &["Failed"]));
    }
    let (template, restart) = (path.field("template"), text(pod, "restartPolicy"));
    if restart == "OnFailure" {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.invalid(template.field("spec").field("restartPolicy"), restart, why);
    }
}

fn validate_rule(
    errors: &mut Errors,
    path: &Path<'_>,
    rule: &Value,
    limits_indexes: bool,
    names: &BTreeSet<&str>,
) {
    let action = text(rule, "action");
    if action == "FailIndex" {
        if !limits_indexes {
            errors.invalid(path.field("action"), action, "requires the backoffLimitPerIndex to be set");
        }
    } else {
        known(errors, &path.field("action"), action, ACTIONS);
    }
    let (by_code, conditions) = (has(rule, "onExitCodes"), list(rule, "onPodConditions"));
    if by_code {
        exit_codes(errors, &path.field("onExitCodes"), &rule["onExitCodes"], names);
    }
    let of_conditions = path.field("onPodConditions");
    if conditions.len() > CONDITIONS_MAX {
        errors.push(of_conditions, FieldProblem::TooMany(conditions.len(), CONDITIONS_MAX));
    }
    for (at, pattern) in conditions.iter().enumerate() {
        let path = of_conditions.index(at);
        label_name(errors, &path.field("type"), text(pattern, "type"));
        known(errors, &path.field("status"), text(pattern, "status"), STATUSES);
    }
    let why = match (by_code, conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) | (false, false) => return,
    };
    errors.push(path, FieldProblem::Unfit(why.to_owned()));
}

fn exit_codes(errors: &mut Errors, path: &Path<'_>, wanted: &Value, names: &BTreeSet<&str>) {
    let operator = text(wanted, "operator");
    known(errors, &path.field("operator"), operator, OPERATORS);
    let container = text(wanted, "containerName");
    if has(wanted, "containerName") && !names.contains(container) {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.invalid(path.field("containerName"), container, why);
    }
    let (codes, path) = (list(wanted, "values"), path.field("values"));
    if codes.is_empty() {
        errors.invalid(path, Vec::<Value>::new(), "at least one value is required");
    } else if codes.len() > EXIT_CODES_MAX {
        errors.push(path, FieldProblem::TooMany(codes.len(), EXIT_CODES_MAX));
    }
    let numbers: Vec<i64> = codes.iter().filter_map(Value::as_i64).collect();
    let mut seen = BTreeSet::new();
    for (at, code) in numbers.iter().enumerate() {
        if operator == "In" && *code == 0 {
            errors.invalid(path.index(at), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.push(path.index(at), FieldProblem::Duplicate((*code).into()));
        }
    }
    if !numbers.is_sorted() {
        errors.invalid(path, codes.to_vec(), "must be ordered");
    }
}

/// A text that must be one of these, in the words that jobs have for that.
fn known(errors: &mut Errors, path: &Path<'_>, said: &str, known: &[&str]) {
    if said.is_empty() {
        let names: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
        errors.required(path, &format!("valid values: [{}]", names.join(" ")));
    } else if !known.contains(&said) {
        errors.push(path, not_supported(said, known));
    }
}
