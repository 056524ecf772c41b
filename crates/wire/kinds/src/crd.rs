//! Definitions of kinds that others bring.

use std::collections::BTreeMap;

use lazaret_crd::{begin_removal, check_schema, is_known_format};
use lazaret_json::{Value, json};
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use crate::{
    Column, Context, Errors, FieldProblem, JsonPath, Rules,
    check::{each_named, immutable, name, one_of},
    path::Path,
    rules::keep_status,
    value::{ByText, append, field_mut, fill, has, is_filled, is_true, list, put, text, texts},
};

/// Definitions of kinds.
#[derive(Debug)]
pub(crate) struct CustomResourceDefinition;

impl Rules for CustomResourceDefinition {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        let names = field_mut(spec, "names");
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            fill(names, "singular", kind.to_lowercase());
            fill(names, "listKind", format!("{kind}List"));
        }
        fill(field_mut(spec, "conversion"), "strategy", "None");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({}));
        note_stored_version(object);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(object, errors);
        let (group, at) =
            (text(&object["spec"], "group"), "metadata.annotations[api-approved.kubernetes.io]");
        let protected = [".k8s.io", ".kubernetes.io"].iter().any(|end| group.ends_with(end));
        if protected && !is_filled(&object["metadata"]["annotations"], "api-approved.kubernetes.io") {
            let why = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
            errors.required(at, why);
        }
    }

    fn begin_delete(&self, object: &mut Value, context: &Context<'_>) {
        begin_removal(object, &context.timestamp());
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep_status(new, old);
        note_stored_version(new);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(new, errors);
        let path = Path::root("spec");
        for field in ["group", "scope"] {
            immutable(errors, &path.field(field), &new["spec"], &old["spec"], field);
        }
        for field in ["plural", "kind"] {
            let names = path.field("names");
            immutable(errors, &names.field(field), &new["spec"]["names"], &old["spec"]["names"], field);
        }
        check_stored_versions(new, errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        check_stored_versions(new, errors);
        check_accepted_names(&new["status"]["acceptedNames"], errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Created At")];
        COLUMNS
    }

    fn cells(&self, object: &Value, _context: &Context<'_>) -> Vec<Value> {
        vec![text(&object["metadata"], "creationTimestamp").into()]
    }
}

/// Remembers that objects may be stored in the version that is the stored one now.
fn note_stored_version(object: &mut Value) {
    let storage = list(&object["spec"], "versions").iter().find(|version| is_true(version, "storage"));
    let Some(name) = storage.map(|version| text(version, "name").to_owned()) else { return };
    if !texts(&object["status"], "storedVersions").any(|known| known == name) {
        append(field_mut(object, "status"), "storedVersions", name.into());
    }
}

/// A version in which objects may still be stored cannot go.
fn check_stored_versions(object: &Value, errors: &mut Errors) {
    let known = ByText::of(list(&object["spec"], "versions"), "name");
    for (at, name) in texts(&object["status"], "storedVersions").enumerate() {
        if !known.has(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(format!("status.storedVersions[{at}]"), name, why);
        }
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::root("spec"));
    let (group, names) = (text(spec, "group"), &spec["names"]);
    if group.is_empty() {
        errors.required(path.field("group"), "");
    } else if !group.contains('.') {
        errors.invalid(path.field("group"), group, "should be a domain with at least one dot");
    } else {
        name(errors, &path.field("group"), group, validate_dns_subdomain);
    }
    let wanted = format!("{}.{group}", text(names, "plural"));
    if text(&object["metadata"], "name") != wanted {
        errors.invalid(
            "metadata.name",
            text(&object["metadata"], "name"),
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    check_names(names, &path.field("names"), errors);
    one_of(errors, &path.field("scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
    if is_true(spec, "preserveUnknownFields") {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(path.field("preserveUnknownFields"), true, why);
    }
    check_conversion(&spec["conversion"], &path.field("conversion"), errors);
    let versions = list(spec, "versions");
    each_named(errors, &path.field("versions"), versions, usize::MAX, "name", check_version);
    if versions.iter().filter(|version| is_true(version, "storage")).count() != 1 {
        let shown = Value::Array(versions.iter().map(|version| version["name"].clone()).collect());
        errors.invalid(
            path.field("versions"),
            shown,
            "must have exactly one version marked as storage version",
        );
    }
}

/// Objects are served by the accepted names, so these are checked whichever client writes them.
fn check_accepted_names(names: &Value, errors: &mut Errors) {
    if ["plural", "kind"].iter().any(|field| is_filled(names, field)) {
        check_names(names, &Path::root("status").field("acceptedNames"), errors);
    }
}

fn check_names(names: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let (at, said) = (path.field(field), text(names, field));
        if said.is_empty() {
            errors.required(at, "");
        } else if let Err(why) = validate_dns_label(&said.to_ascii_lowercase()) {
            errors.invalid(at, said, format!("may have mixed case, but should otherwise match: {why}"));
        } else if matches!(field, "plural" | "singular") {
            name(errors, &at, said, validate_dns_label);
        }
    }
    if text(names, "kind") == text(names, "listKind") && is_filled(names, "kind") {
        errors.invalid(
            path.field("listKind"),
            text(names, "listKind"),
            "kind and listKind may not be the same",
        );
    }
    for field in ["shortNames", "categories"] {
        let at = path.field(field);
        for (index, said) in texts(names, field).enumerate() {
            name(errors, &at.index(index), said, validate_dns_label);
        }
    }
}

// DEVIATION(crd-conversion): objects are never sent to anybody to be converted.
fn check_conversion(conversion: &Value, path: &Path<'_>, errors: &mut Errors) {
    match text(conversion, "strategy") {
        "None" if has(conversion, "webhook") => {
            errors.forbidden(path.field("webhook"), "should not be set when strategy is not set to Webhook");
        }
        "None" => {}
        "Webhook" => {
            let why = "webhooks that convert are not called: use None, with versions that differ in their schema alone";
            errors.invalid(path.field("strategy"), "Webhook", why);
        }
        other => one_of(errors, &path.field("strategy"), other, &["None", "Webhook"]),
    }
}

fn check_version(errors: &mut Errors, path: &Path<'_>, version: &Value) {
    name(errors, &path.field("name"), text(version, "name"), validate_dns_label);
    let (holder, schema) = (path.field("schema"), &version["schema"]["openAPIV3Schema"]);
    let at = holder.field("openAPIV3Schema");
    if schema.as_object().is_none_or(lazaret_json::Map::is_empty) {
        errors.required(at, "schemas are required");
    } else {
        check_schema(schema, &at.to_string(), errors);
        warn_of_formats(schema, errors);
    }
    if has(version, "deprecationWarning") && !is_true(version, "deprecated") {
        let said = text(version, "deprecationWarning");
        errors.invalid(path.field("deprecationWarning"), said, "can only be set for deprecated versions");
    }
    check_columns(version, &path.field("additionalPrinterColumns"), errors);
    check_selectable(version, schema, &path.field("selectableFields"), errors);
    check_scale(&version["subresources"]["scale"], &path.field("subresources"), errors);
}

fn check_columns(version: &Value, path: &Path<'_>, errors: &mut Errors) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] =
        &["", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (at, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let path = path.index(at);
        if text(column, "name").is_empty() {
            errors.required(path.field("name"), "");
        }
        match text(column, "type") {
            "" => errors.required(path.field("type"), &format!("must be one of {}", TYPES.join(","))),
            ty if !TYPES.contains(&ty) => {
                errors.invalid(path.field("type"), ty, format!("must be one of {}", TYPES.join(",")));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !FORMATS.contains(&format) {
            errors.invalid(
                path.field("format"),
                format,
                format!("must be one of {}", FORMATS[1..].join(",")),
            );
        }
        match (text(column, "jsonPath"), JsonPath::parse(text(column, "jsonPath"))) {
            ("", _) => errors.required(path.field("jsonPath"), ""),
            (said, Err(why)) => errors.invalid(path.field("jsonPath"), said, why),
            (_, Ok(_)) => {}
        }
    }
}

/// Fields that lists can be selected by, at most.
const SELECTABLE_MAX: usize = 8;

fn check_selectable(version: &Value, schema: &Value, path: &Path<'_>, errors: &mut Errors) {
    let fields = list(version, "selectableFields");
    if fields.len() > SELECTABLE_MAX {
        errors.push(path, FieldProblem::TooMany(fields.len(), SELECTABLE_MAX));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for field in fields {
        *counts.entry(text(field, "jsonPath")).or_default() += 1;
    }
    for (at, field) in fields.iter().enumerate() {
        let said = text(field, "jsonPath");
        let (entry, wrong) = (path.index(at), |why: &str| FieldProblem::Invalid(said.into(), why.to_owned()));
        let at = entry.field("jsonPath");
        if said.is_empty() {
            errors.required(at, "");
            continue;
        }
        let Some(parsed) = JsonPath::parse(said).ok() else {
            errors.push(at, wrong("is an invalid path"));
            continue;
        };
        let steps = parsed.fields().unwrap_or_default();
        if steps.first() == Some(&"metadata") {
            errors.push(at, wrong("must not point to fields in metadata"));
            continue;
        }
        let found = steps.iter().fold(schema, |schema, name| &schema["properties"][*name]);
        if steps.is_empty() || !matches!(found["type"].as_str(), Some("string" | "boolean" | "integer")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(at, wrong(why));
        }
        if counts.get(said).is_some_and(|count| *count > 1) {
            errors.push(at, FieldProblem::Duplicate(said.into()));
        }
    }
}

fn check_scale(scale: &Value, path: &Path<'_>, errors: &mut Errors) {
    if scale.is_null() {
        return;
    }
    for (field, under) in [
        ("specReplicasPath", &[".spec"][..]),
        ("statusReplicasPath", &[".status"]),
        ("labelSelectorPath", &[".spec", ".status"]),
    ] {
        let (holder, said) = (path.field("scale"), text(scale, field));
        let at = holder.field(field);
        if said.is_empty() {
            if field != "labelSelectorPath" {
                errors.required(at, "");
            }
            continue;
        }
        let plain = JsonPath::parse(said).is_ok_and(|parsed| parsed.fields().is_some());
        if !plain {
            errors.invalid(at, said, "must be a json path in the dot notation");
        }
        if !under.iter().any(|start| said.strip_prefix(start).is_some_and(|rest| rest.starts_with('.'))) {
            let either = if under.len() > 1 { "either " } else { "" };
            errors.invalid(at, said, format!("should be a json path under {either}{}", under.join(" or ")));
        }
    }
}

/// A format that nothing is held against is probably a slip.
fn warn_of_formats(schema: &Value, errors: &mut Errors) {
    match schema {
        Value::Object(map) => {
            if let Some(format) =
                map.get("format").and_then(Value::as_str).filter(|format| !is_known_format(format))
            {
                errors.warn(format!("unrecognized format {format:?}"));
            }
            map.values().for_each(|inner| warn_of_formats(inner, errors));
        }
        Value::Array(items) => items.iter().for_each(|inner| warn_of_formats(inner, errors)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
    }
}
