//! The policy of a job that is done before all of its indexes are: `successPolicy`.

use lazaret_json::Value;

use crate::{
    Errors, FieldProblem,
    path::Path,
    value::{has, list, number, text},
};

const RULES_MAX: usize = 20;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

/// Checks the policy of a job with this spec.
pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    if !has(spec, "successPolicy") {
        return;
    }
    let (policy, path) = (&spec["successPolicy"], path.field("successPolicy"));
    if text(spec, "completionMode") != "Indexed" {
        errors.invalid(path, policy.clone(), "requires indexed completion mode");
        return;
    }
    let (rules, path) = (list(policy, "rules"), path.field("rules"));
    if rules.is_empty() {
        errors.required(path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        errors.push(path, FieldProblem::TooMany(rules.len(), RULES_MAX));
    }
    // Without it the job has an error already.
    let completions = has(spec, "completions").then(|| number(spec, "completions"));
    for (at, rule) in rules.iter().enumerate() {
        validate_rule(errors, &path.index(at), rule, completions.unwrap_or(i64::MAX));
    }
}

fn validate_rule(errors: &mut Errors, path: &Path<'_>, rule: &Value, completions: i64) {
    let (counts, lists) = (has(rule, "succeededCount"), has(rule, "succeededIndexes"));
    if !counts && !lists {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut listed = 0;
    if lists {
        let (indexes, path) = (text(rule, "succeededIndexes"), path.field("succeededIndexes"));
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.push(path, FieldProblem::TooLong(INDEXES_BYTES_MAX));
        }
        match count_indexes(indexes, completions) {
            Ok(count) => listed = count,
            Err(why) => errors.invalid(path, indexes, format!("error parsing succeededIndexes: {why}")),
        }
    }
    if !counts {
        return;
    }
    let (count, path) = (number(rule, "succeededCount"), path.field("succeededCount"));
    let mut at_most = |most: i64, of: &str| {
        if count > most {
            errors.invalid(path, count, format!("must be less than or equal to {most} ({of})"));
        }
    };
    at_most(completions, "the number of specified completions");
    if lists {
        at_most(listed, "the number of indexes in the specified succeededIndexes field");
    }
    if count < 0 {
        errors.invalid(path, count, "must be greater than or equal to 0");
    }
}

/// How many indexes a text like `0,2-4` names: ascending, and each below the number of completions.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut last: Option<i64> = None;
    let mut next = |said: &str| -> Result<i64, String> {
        let index: i64 =
            said.parse().map_err(|_| format!("cannot convert string to integer for index: {said:?}"))?;
        if index >= completions {
            return Err(format!("too large index: {said:?}"));
        }
        match last.replace(index) {
            Some(before) if before >= index => {
                Err(format!("non-increasing order, previous: {before}, current: {index}"))
            }
            Some(_) | None => Ok(index),
        }
    };
    let mut count = 0;
    for interval in text.split(',') {
        let mut ends = interval.split('-');
        let (first, second) = (ends.next().unwrap_or_default(), ends.next());
        if ends.next().is_some() {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let first = next(first)?;
        let second = second.map_or(Ok(first), &mut next)?;
        count += 1 + second - first;
    }
    Ok(count)
}
