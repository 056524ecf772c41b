//! Whether a schema is structural: it gives the type of every value outside of its value validations. Only then can
//! unknown fields be distinguished from known ones.

use std::collections::HashSet;

use lazaret_cel::Pattern;
use lazaret_fields::{Errors, FieldProblem, value::is_true};
use lazaret_json::{Text, Value};

use crate::{fill, rule_tree::check_rules, structural::Structural, validate::validate};

/// Where in a schema something stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const UNSUPPORTED: &[&str] =
    &["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const JUNCTORS: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Fields that only the structure of a schema may set, and the message with which Kubernetes refuses them elsewhere.
const STRUCTURE_ONLY: &[(&str, &str)] = &[
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// The errors in a schema at `path`.
pub fn check_schema(schema: &Value, path: &str, errors: &mut Errors) {
    if is_true(schema, "nullable") {
        errors.forbidden(format!("{path}.nullable"), "nullable cannot be true at the root");
    }
    structure(schema, Level::Root, path, errors);
    check_rules(schema, true, true, path, errors);
}

fn structure(schema: &Value, level: Level, path: &str, errors: &mut Errors) {
    keywords(schema, level, path, errors);
    type_of(schema, level, path, errors);
    list(schema, path, errors);
    own_fields(schema, level, path, errors);
    values(schema, schema, path, path, errors);
    default_of(schema, path, errors);
    if schema["items"].is_object() {
        structure(&schema["items"], Level::Item, &format!("{path}.items"), errors);
    }
    for (name, inner) in fields(schema) {
        if level == Level::Root && name == "metadata" {
            continue;
        }
        structure(inner, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    if schema["additionalProperties"].is_object() {
        structure(
            &schema["additionalProperties"],
            Level::Field,
            &format!("{path}.additionalProperties"),
            errors,
        );
    }
}

fn keywords(schema: &Value, level: Level, path: &str, errors: &mut Errors) {
    for name in UNSUPPORTED.iter().filter(|name| schema.get(**name).is_some_and(|value| !value.is_null())) {
        errors.forbidden(format!("{path}.{name}"), format!("{name} is not supported"));
    }
    if schema["items"].is_array() {
        errors.forbidden(format!("{path}.items"), "items must be a schema object and not an array");
    }
    if is_true(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(format!("{path}.uniqueItems"), why);
    }
    let additional = &schema["additionalProperties"];
    let at = format!("{path}.additionalProperties");
    if *additional == false {
        errors.forbidden(at.as_str(), "additionalProperties cannot be set to false");
    } else if !additional.is_null() {
        // Free additional properties restrict no named property.
        if *additional != true && fields(schema).next().is_some() {
            errors.forbidden(at.as_str(), "additionalProperties and properties are mutual exclusive");
        }
        if level == Level::Root {
            errors.forbidden(at.as_str(), "must not be used at the root");
        }
        if is_true(schema, "x-kubernetes-embedded-resource") {
            errors.forbidden(at.as_str(), "must not be used if x-kubernetes-embedded-resource is set");
        }
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        errors.invalid(
            format!("{path}.x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        );
    }
    if is_true(schema, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if is_true(schema, name) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(format!("{path}.{name}"), true, why);
            }
        }
    }
}

fn type_of(schema: &Value, level: Level, path: &str, errors: &mut Errors) {
    let at = format!("{path}.type");
    let ty = schema["type"].as_str().unwrap_or_default();
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    let free = is_true(schema, "x-kubernetes-int-or-string")
        || is_true(schema, "x-kubernetes-preserve-unknown-fields");
    match ty {
        "null" => errors.forbidden(at.as_str(), "type cannot be set to null, use nullable as an alternative"),
        "" if embedded => {
            errors.required(at.as_str(), "must be object if x-kubernetes-embedded-resource is true")
        }
        "" if free => {}
        "" => errors.required(
            at.as_str(),
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ),
        ty if !TYPES.contains(&ty) => {
            let known = TYPES.iter().map(|name| (*name).to_owned()).collect();
            errors.push(at.as_str(), FieldProblem::NotSupported(ty.into(), known));
        }
        ty if embedded && ty != "object" => {
            errors.invalid(at.as_str(), ty, "must be object if x-kubernetes-embedded-resource is true");
        }
        ty if level == Level::Root && ty != "object" => {
            errors.invalid(at.as_str(), ty, "must be object at the root");
        }
        "array" if schema["items"].is_null() => errors.required(format!("{path}.items"), "must be specified"),
        _ => {}
    }
}

fn list(schema: &Value, path: &str, errors: &mut Errors) {
    let ty = schema["type"].as_str().unwrap_or_default();
    let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
    let list_type = schema["x-kubernetes-list-type"].as_str();
    if let Some(list_type) = list_type {
        match ty {
            "array" => {}
            "" => errors
                .required(format!("{path}.type"), "must be array if x-kubernetes-list-type is specified"),
            ty => errors.invalid(
                format!("{path}.type"),
                ty,
                "must be array if x-kubernetes-list-type is specified",
            ),
        }
        one_of(errors, format!("{path}.x-kubernetes-list-type"), list_type, &["atomic", "set", "map"]);
    }
    if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
        match ty {
            "object" => {}
            "" => errors
                .required(format!("{path}.type"), "must be object if x-kubernetes-map-type is specified"),
            ty => errors.invalid(
                format!("{path}.type"),
                ty,
                "must be object if x-kubernetes-map-type is specified",
            ),
        }
        one_of(errors, format!("{path}.x-kubernetes-map-type"), map_type, &["atomic", "granular"]);
    }
    if list_type != Some("map") {
        if !keys.is_empty() {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.required(format!("{path}.x-kubernetes-list-type"), why);
        }
        return;
    }
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.required(format!("{path}.x-kubernetes-list-map-keys"), why);
    }
    keyed_items(schema, keys, path, errors);
}

fn keyed_items(schema: &Value, keys: &[Value], path: &str, errors: &mut Errors) {
    let items = &schema["items"];
    if items["type"] != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(format!("{path}.items.type"), items["type"].clone(), why);
    }
    let shown = Value::Array(keys.to_vec().into());
    let at = format!("{path}.x-kubernetes-list-map-keys");
    let mut seen = HashSet::new();
    let required: HashSet<&Value> = items["required"].as_array().into_iter().flatten().collect();
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let property = &items["properties"][name];
        if !seen.insert(key) {
            errors.invalid(at.as_str(), shown.clone(), "must not contain duplicate entries");
        }
        let inner = format!("{path}.items.properties[{name}]");
        match property["type"].as_str() {
            None => {
                errors.invalid(at.as_str(), shown.clone(), "entries must all be names of item properties")
            }
            Some(ty @ ("array" | "object")) => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(format!("{inner}.type"), ty, why);
            }
            Some(_) => {
                if !required.contains(key) && property.get("default").is_none_or(Value::is_null) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    errors.required(format!("{inner}.default"), why);
                }
                if is_true(property, "nullable") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    errors.forbidden(format!("{inner}.nullable"), why);
                }
            }
        }
    }
}

/// Rules for `apiVersion`, `kind` and `metadata` in a schema, which the server keeps.
fn own_fields(schema: &Value, level: Level, path: &str, errors: &mut Errors) {
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    if level == Level::Root || embedded {
        for name in ["apiVersion", "kind"] {
            let ty = &schema["properties"][name]["type"];
            if schema["properties"].get(name).is_some() && ty != "string" {
                errors.invalid(format!("{path}.properties[{name}].type"), ty.clone(), "must be string");
            }
        }
        let metadata = &schema["properties"]["metadata"];
        if !metadata.is_null() && metadata["type"] != "object" {
            errors.invalid(
                format!("{path}.properties[metadata].type"),
                metadata["type"].clone(),
                "must be object",
            );
        }
        let only_names = metadata.as_object().into_iter().flatten().all(|(key, value)| match key.as_str() {
            "type" | "description" => true,
            "properties" => value.as_object().is_some_and(|names| {
                names.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
            }),
            _ => false,
        });
        if level == Level::Root && !only_names {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.forbidden(format!("{path}.properties[metadata]"), why);
        }
    }
    if embedded && !is_true(schema, "x-kubernetes-preserve-unknown-fields") && fields(schema).next().is_none()
    {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(format!("{path}.properties"), why);
    }
}

/// Checks the value validations of a schema: for values whose structure is given outside (`outer`).
fn values(schema: &Value, outer: &Value, path: &str, outer_path: &str, errors: &mut Errors) {
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !pattern.is_empty())
        && let Err(why) = Pattern::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(format!("{path}.pattern"), pattern, why);
    }
    let plain_choice = is_int_or_string(&schema["anyOf"]);
    let choice_in_first = is_int_or_string(&schema["allOf"][0]["anyOf"]);
    for junctor in JUNCTORS {
        for (at, nested_schema) in schema[*junctor].as_array().into_iter().flatten().enumerate() {
            let exempt = match *junctor {
                "anyOf" => plain_choice,
                "allOf" => choice_in_first && at == 0,
                _ => false,
            };
            if !exempt {
                nested(nested_schema, outer, &format!("{path}.{junctor}[{at}]"), outer_path, errors);
            }
        }
    }
    if schema["not"].is_object() {
        nested(&schema["not"], outer, &format!("{path}.not"), outer_path, errors);
    }
}

fn nested(schema: &Value, outer: &Value, path: &str, outer_path: &str, errors: &mut Errors) {
    if outer.is_null() {
        errors.required(outer_path, &format!("because it is defined in {path}"));
        return;
    }
    if schema["type"].as_str().is_some_and(|ty| !ty.is_empty()) {
        errors.forbidden(format!("{path}.type"), "must be empty to be structural");
    }
    for (name, why) in STRUCTURE_ONLY {
        let value = &schema[*name];
        let says_nothing = match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Bool(true) | Value::Number(_) | Value::Object(_) | Value::Encoded(_) => false,
        };
        if !says_nothing {
            errors.forbidden(format!("{path}.{name}"), *why);
        }
    }
    values(schema, outer, path, outer_path, errors);
    if schema["items"].is_object() {
        let (inner, at) = (&outer["items"], format!("{outer_path}.items"));
        nested(&schema["items"], inner, &format!("{path}.items"), &at, errors);
    }
    for (name, inner) in fields(schema) {
        let at = format!("{path}.properties[{name}]");
        if name == "metadata" {
            errors.forbidden(at, "must not be specified in a nested context");
            continue;
        }
        let outer_at = format!("{outer_path}.properties[{name}]");
        nested(inner, &outer["properties"][name], &at, &outer_at, errors);
    }
}

/// `anyOf: [{type: integer}, {type: string}]`, the one choice between types that is allowed.
fn is_int_or_string(choice: &Value) -> bool {
    let only = |schema: &Value, ty: &str| {
        schema.as_object().is_some_and(|map| map.len() == 1) && schema["type"] == ty
    };
    matches!(choice.as_array().map(Vec::as_slice), Some([a, b]) if only(a, "integer") && only(b, "string"))
}

/// A default must be what the schema itself would accept.
fn default_of(schema: &Value, path: &str, errors: &mut Errors) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else { return };
    let parsed = Structural::read(schema);
    let mut filled = default.clone();
    let at = format!("{path}.default");
    if parsed.properties.is_empty() || filled.is_object() {
        for finding in fill::prune(&parsed, &mut filled) {
            if let lazaret_schema::Finding::Unknown { path } = finding {
                errors.invalid(at.as_str(), default.clone(), format!("must not have unknown fields: {path}"));
            }
        }
    }
    fill::fill_defaults(&parsed, &mut filled);
    let mut found = Errors::new();
    validate(&parsed, &filled, None, &mut found);
    for error in found.list() {
        let below = if error.path == "<nil>" { at.clone() } else { format!("{at}.{}", error.path) };
        errors.push(below, error.problem.clone());
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&Text, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn one_of(errors: &mut Errors, path: String, value: &str, known: &[&str]) {
    if !known.contains(&value) {
        let known = known.iter().map(|name| (*name).to_owned()).collect();
        errors.push(path, FieldProblem::NotSupported(value.into(), known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    fn found(schema: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        check_schema(schema, "s", &mut errors);
        errors.list().iter().map(ToString::to_string).collect()
    }

    fn object(properties: Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    fn check_all(cases: Vec<(Value, Vec<&str>)>) {
        for (schema, expected) in cases {
            assert_eq!(found(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn every_value_must_have_a_type() {
        check_all(vec![
            (object(json!({"a": {"type": "string"}})), vec![]),
            (json!({"properties": {}}), vec!["s.type: Required value: must not be empty at the root"]),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                vec![r#"s.type: Invalid value: "array": must be object at the root"#],
            ),
            (
                object(json!({"a": {}})),
                vec!["s.properties[a].type: Required value: must not be empty for specified object fields"],
            ),
            (
                object(json!({"a": {"type": "array"}})),
                vec!["s.properties[a].items: Required value: must be specified"],
            ),
            (
                object(json!({"a": {"type": "array", "items": {}}})),
                vec![
                    "s.properties[a].items.type: Required value: must not be empty for specified array items",
                ],
            ),
        ]);
    }

    #[test]
    fn what_must_hold_may_not_say_what_a_value_is() {
        let choice = json!([{"type": "integer"}, {"type": "string"}]);
        check_all(vec![
            (
                object(json!({"a": {"type": "string", "anyOf": [{"type": "string"}]}})),
                vec!["s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
            ),
            (object(json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": choice}})), vec![]),
            (
                object(
                    json!({"a": {"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": choice}, {"pattern": "a"}]}}),
                ),
                vec![],
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}),
                vec!["s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]"],
            ),
        ]);
    }

    #[test]
    fn what_cannot_be_served_is_refused_where_it_stands() {
        let key = json!({"type": "object", "properties": {"k": {"type": "string"}}});
        check_all(vec![
            (
                object(
                    json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "a"}}}}),
                ),
                vec![],
            ),
            (
                object(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
                vec![
                    "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
            (
                object(
                    json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}),
                ),
                vec![
                    "s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
                ],
            ),
            (
                object(
                    json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": true}}),
                ),
                vec![],
            ),
            (
                object(json!({"a": {"type": "string", "$ref": "#/x"}})),
                vec!["s.properties[a].$ref: Forbidden: $ref is not supported"],
            ),
            (
                object(json!({"a": {"type": "integer", "default": "x"}})),
                vec![
                    r#"s.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
                ],
            ),
            (
                object(
                    json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": key}}),
                ),
                vec![
                    "s.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                ],
            ),
        ]);
        let pattern = found(&object(json!({"a": {"type": "string", "pattern": "("}})));
        assert!(pattern[0].contains("must be a valid regular expression, but isn't"), "{pattern:?}");
    }
}
