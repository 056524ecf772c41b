//! Checks that several kinds share: names, lists, conditions, selectors of nodes and labels.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_model::{
    NameError, validate_c_identifier, validate_dns_label, validate_dns_subdomain, validate_driver_name,
    validate_label_name, validate_label_value, validate_pool_name,
};

use crate::{
    Errors, FieldProblem,
    path::Path,
    value::{entries, has, list, number, same_field, text, texts},
};

/// The message for a field that may not change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

const DRIVER_BYTES_MAX: usize = 63;
pub(crate) const POOL_BYTES_MAX: usize = 253;
const SUBDOMAIN_BYTES_MAX: usize = 253;
const IDENTIFIER_BYTES_MAX: usize = 32;
const CONDITION_REASON_BYTES_MAX: usize = 1024;
const CONDITION_MESSAGE_BYTES_MAX: usize = 32_768;

/// A name that must satisfy `valid`.
pub(crate) fn name(
    errors: &mut Errors,
    path: &Path<'_>,
    name: &str,
    valid: impl Fn(&str) -> Result<(), NameError>,
) {
    if let Err(error) = valid(name) {
        errors.invalid(path, name, error.to_string());
    }
}

/// A DNS label: a device, a request, a counter.
pub(crate) fn dns_label(errors: &mut Errors, path: &Path<'_>, text: &str) {
    name(errors, path, text, validate_dns_label);
}

/// A DNS subdomain that must be there.
pub(crate) fn subdomain(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        errors.required(path, "");
    } else {
        name(errors, path, text, validate_dns_subdomain);
    }
}

/// A driver.
pub(crate) fn driver(errors: &mut Errors, path: &Path<'_>, text: &str) {
    sized_name(errors, path, text, DRIVER_BYTES_MAX, validate_driver_name);
}

/// A pool.
pub(crate) fn pool(errors: &mut Errors, path: &Path<'_>, text: &str) {
    sized_name(errors, path, text, POOL_BYTES_MAX, validate_pool_name);
}

fn sized_name(
    errors: &mut Errors,
    path: &Path<'_>,
    text: &str,
    bytes_max: usize,
    valid: impl Fn(&str) -> Result<(), NameError>,
) {
    if text.is_empty() {
        errors.required(path, "");
        return;
    }
    if text.len() > bytes_max {
        errors.push(path, FieldProblem::TooLong(bytes_max));
    }
    // A name that is only too long for what it is can still be a name.
    if text.len() <= bytes_max || text.len() > SUBDOMAIN_BYTES_MAX {
        name(errors, path, text, valid);
    }
}

/// The key of a label or taint, the type of a condition.
pub(crate) fn label_name(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        // Clients know two complaints about an empty name: of its length and of its characters.
        errors.invalid(path, text, "name part must be non-empty");
    }
    name(errors, path, text, validate_label_name);
}

/// The value of a label or taint.
pub(crate) fn label_value(errors: &mut Errors, path: &Path<'_>, text: &str) {
    name(errors, path, text, validate_label_value);
}

/// An identifier, maybe after a domain.
pub(crate) fn qualified_name(errors: &mut Errors, path: &Path<'_>, text: &str) {
    match text.split_once('/') {
        None => identifier(errors, path, text),
        Some((_, id)) if id.contains('/') => {
            errors.invalid(path, text, "must be an identifier, maybe after a domain and one slash");
        }
        Some((domain, id)) => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                driver(errors, path, domain);
            }
            if id.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                identifier(errors, path, id);
            }
        }
    }
}

/// An identifier after a domain.
pub(crate) fn fully_qualified_name(errors: &mut Errors, path: &Path<'_>, text: &str) {
    qualified_name(errors, path, text);
    if !text.contains('/') {
        errors.invalid(path, text, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.len() > IDENTIFIER_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(IDENTIFIER_BYTES_MAX));
    } else {
        name(errors, path, text, validate_c_identifier);
    }
}

/// A UUID in lower case.
pub(crate) fn uuid(errors: &mut Errors, path: &Path<'_>, text: &str) {
    let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { hexadecimal(byte) });
    if !fits {
        errors.invalid(
            path,
            text,
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters",
        );
    }
}

/// Checks each item of a list that may have at most `count_max`; a longer one is not looked into.
pub(crate) fn each(
    errors: &mut Errors,
    path: &Path<'_>,
    items: &[Value],
    count_max: usize,
    mut check: impl FnMut(&mut Errors, &Path<'_>, &Value),
) -> bool {
    if items.len() > count_max {
        errors.push(path, FieldProblem::TooMany(items.len(), count_max));
        return false;
    }
    for (at, item) in items.iter().enumerate() {
        check(errors, &path.index(at), item);
    }
    true
}

/// As [`each`], and no two items have the same key.
pub(crate) fn each_unique<K: Ord>(
    errors: &mut Errors,
    path: &Path<'_>,
    items: &[Value],
    count_max: usize,
    key: impl Fn(&Value) -> K,
    shown: impl Fn(&Value) -> Value,
    check: impl FnMut(&mut Errors, &Path<'_>, &Value),
) {
    if !each(errors, path, items, count_max, check) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        if !seen.insert(key(item)) {
            errors.push(path.index(at), FieldProblem::Duplicate(shown(item)));
        }
    }
}

/// As [`each_unique`] for items with a name.
pub(crate) fn each_named(
    errors: &mut Errors,
    path: &Path<'_>,
    items: &[Value],
    count_max: usize,
    field: &'static str,
    check: impl FnMut(&mut Errors, &Path<'_>, &Value),
) {
    each_unique(
        errors,
        path,
        items,
        count_max,
        |item| text(item, field).to_owned(),
        |item| text(item, field).into(),
        check,
    );
}

/// As [`each_unique`] for items that are texts.
pub(crate) fn each_text(
    errors: &mut Errors,
    path: &Path<'_>,
    items: &[Value],
    count_max: usize,
    mut check: impl FnMut(&mut Errors, &Path<'_>, &str),
) {
    each_unique(
        errors,
        path,
        items,
        count_max,
        |item| item.as_str().unwrap_or_default().to_owned(),
        Value::clone,
        |errors, path, item| check(errors, path, item.as_str().unwrap_or_default()),
    );
}

/// One of some texts that must be there.
pub(crate) fn one_of(errors: &mut Errors, path: &Path<'_>, text: &str, known: &[&str]) {
    if text.is_empty() {
        errors.required(path, "");
    } else if !known.contains(&text) {
        errors.push(path, not_supported(text, known));
    }
}

/// `example.com/controller`: a domain and a path.
pub(crate) fn domain_prefixed_path(errors: &mut Errors, path: &Path<'_>, said: &str) {
    const USUAL: &str = "/-._~%!$&'()*+,;=:";
    match said.split_once('/') {
        _ if said.is_empty() => errors.required(path, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            name(errors, path, domain, validate_dns_subdomain);
            if !rest.chars().all(|c| c.is_ascii_alphanumeric() || USUAL.contains(c)) {
                let regex = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
                errors.invalid(path, rest, format!("Invalid path (regex used for validation is '{regex}')"));
            }
        }
        Some(_) | None => {
            errors.invalid(path, said, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
    }
}

/// A text that is none of the known ones.
pub(crate) fn not_supported(text: &str, known: &[&str]) -> FieldProblem {
    FieldProblem::NotSupported(text.into(), known.iter().map(|name| (*name).to_owned()).collect())
}

/// A field that must stay as it is.
pub(crate) fn immutable(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value, field: &str) {
    if !same_field(new, old, field) {
        errors.invalid(path, new.get(field).cloned().unwrap_or_default(), IMMUTABLE);
    }
}

/// A JSON object of limited size in its shortest form.
pub(crate) fn raw_object(errors: &mut Errors, path: &Path<'_>, value: Option<&Value>, bytes_max: usize) {
    match value {
        None | Some(Value::Null) => errors.required(path, ""),
        Some(value) if value.to_string().len() > bytes_max => {
            errors.push(path, FieldProblem::TooLong(bytes_max));
        }
        Some(Value::Object(_)) => {}
        Some(_) => errors.invalid(path, "<value omitted>", "must be a valid JSON object"),
    }
}

/// The conditions of a status.
pub(crate) fn conditions(errors: &mut Errors, path: &Path<'_>, items: &[Value], count_max: usize) {
    if items.len() > count_max {
        errors.push(path, FieldProblem::TooMany(items.len(), count_max));
    }
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let path = path.index(at);
        if !seen.insert(text(item, "type")) {
            errors.push(path, FieldProblem::Duplicate(text(item, "type").into()));
        }
        condition(errors, &path, item);
    }
}

fn condition(errors: &mut Errors, path: &Path<'_>, item: &Value) {
    match text(item, "type") {
        "" => errors.required(path.field("type"), ""),
        kind => label_name(errors, &path.field("type"), kind),
    }
    let status = text(item, "status");
    if status.is_empty() {
        errors.required(path.field("status"), "");
    } else if !["True", "False", "Unknown"].contains(&status) {
        errors.push(path.field("status"), not_supported(status, &["False", "True", "Unknown"]));
    }
    if number(item, "observedGeneration") < 0 {
        errors.invalid(
            path.field("observedGeneration"),
            number(item, "observedGeneration"),
            "must be greater than or equal to zero",
        );
    }
    if text(item, "lastTransitionTime").is_empty() {
        errors.required(path.field("lastTransitionTime"), "");
    }
    let reason = text(item, "reason");
    let reads = reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && reason.chars().all(|c| c.is_ascii_alphanumeric() || "_,:".contains(c));
    if reason.is_empty() {
        errors.required(path.field("reason"), "");
    } else if reason.len() > CONDITION_REASON_BYTES_MAX {
        errors.push(path.field("reason"), FieldProblem::TooLong(CONDITION_REASON_BYTES_MAX));
    } else if !reads {
        errors.invalid(
            path.field("reason"),
            reason,
            "must start with a letter and have letters, digits, '_', ',' and ':' only, as in 'InProgress'",
        );
    }
    if text(item, "message").len() > CONDITION_MESSAGE_BYTES_MAX {
        errors.push(path.field("message"), FieldProblem::TooLong(CONDITION_MESSAGE_BYTES_MAX));
    }
}

/// A selector of nodes.
pub(crate) fn node_selector(errors: &mut Errors, path: &Path<'_>, selector: &Value) {
    let terms = list(selector, "nodeSelectorTerms");
    let path = path.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(path, "must have at least one node selector term");
        return;
    }
    for (at, term) in terms.iter().enumerate() {
        node_selector_term(errors, &path.index(at), term);
    }
}

fn node_selector_term(errors: &mut Errors, path: &Path<'_>, term: &Value) {
    node_preference(errors, path, term);
    for (at, requirement) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.field("matchExpressions");
        let path = path.index(at);
        for (at, value) in texts(requirement, "values").enumerate() {
            label_value(errors, &path.field("values").index(at), value);
        }
    }
}

/// A term that nodes need not fulfil, so that its values need not be those that a label can have.
pub(crate) fn node_preference(errors: &mut Errors, path: &Path<'_>, term: &Value) {
    for (at, requirement) in list(term, "matchExpressions").iter().enumerate() {
        node_requirement(errors, &path.field("matchExpressions").index(at), requirement);
    }
    for (at, requirement) in list(term, "matchFields").iter().enumerate() {
        node_field(errors, &path.field("matchFields").index(at), requirement);
    }
}

fn node_requirement(errors: &mut Errors, path: &Path<'_>, requirement: &Value) {
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
            path.field("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(
                path.field("values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
    }
    label_name(errors, &path.field("key"), text(requirement, "key"));
}

fn node_field(errors: &mut Errors, path: &Path<'_>, requirement: &Value) {
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.len() != 1 => errors.required(
            path.field("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        "In" | "NotIn" => {}
        other => {
            errors.invalid(path.field("operator"), other, "not a valid selector operator for a field");
        }
    }
    if text(requirement, "key") != "metadata.name" {
        errors.invalid(path.field("key"), text(requirement, "key"), "not a valid field selector key");
        return;
    }
    for (at, value) in texts(requirement, "values").enumerate() {
        name(errors, &path.field("values").index(at), value, validate_dns_subdomain);
    }
}

/// A selector of labels.
pub(crate) fn label_selector(errors: &mut Errors, path: &Path<'_>, selector: &Value) {
    for (key, value) in entries(selector, "matchLabels") {
        label_name(errors, &path.field("matchLabels"), key);
        label_value(errors, &path.field("matchLabels"), value.as_str().unwrap_or_default());
    }
    for (at, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        let path = path.field("matchExpressions");
        let path = path.index(at);
        let values = list(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
                path.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(path.field("operator"), other, "not a valid selector operator"),
        }
        label_name(errors, &path.field("key"), text(requirement, "key"));
        for (at, value) in texts(requirement, "values").enumerate() {
            label_value(errors, &path.field("values").index(at), value);
        }
    }
}

/// Whether a selector of labels, known to be valid, selects an object with these labels.
#[must_use]
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    entries(selector, "matchLabels").all(|(key, value)| of(key) == value.as_str())
        && list(selector, "matchExpressions").iter().all(|requirement| {
            let found = of(text(requirement, "key"));
            let listed = found.is_some_and(|found| texts(requirement, "values").any(|value| value == found));
            match text(requirement, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// A selector of labels as one line of text.
pub(crate) fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = entries(selector, "matchLabels")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for requirement in list(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let values = texts(requirement, "values").collect::<Vec<_>>().join(",");
        parts.push(match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() { "<none>".into() } else { parts.join(",") }
}

/// Labels or annotations of objects yet to be made.
pub(crate) fn template_metadata(errors: &mut Errors, path: &Path<'_>, metadata: &Value) {
    for (key, value) in entries(metadata, "labels") {
        label_name(errors, &path.field("labels"), key);
        label_value(errors, &path.field("labels"), value.as_str().unwrap_or_default());
    }
    for (key, _) in entries(metadata, "annotations") {
        label_name(errors, &path.field("annotations"), &key.to_ascii_lowercase());
    }
}

/// Those of some fields that are there.
pub(crate) fn set_fields<'a>(value: &Value, fields: &[&'a str]) -> Vec<&'a str> {
    fields.iter().copied().filter(|field| has(value, field)).collect()
}
