//! Holding an object against the schema of its kind.

use lazaret_fields::{Errors, FieldProblem};
use lazaret_json::Value;
use lazaret_schema::DEPTH_MAX;

use crate::{
    formats,
    lists::OldItems,
    structural::{Bound, Checks, Size, Structural, Type},
};

/// Validates `value`. With `old`, unchanged parts may stay invalid: a schema that became stricter must not
/// prevent changes elsewhere in the object.
pub(crate) fn validate(schema: &Structural, value: &Value, old: Option<&Value>, errors: &mut Errors) {
    let mut steps = 0;
    Walk { errors, steps: &mut steps }.value(schema, value, old, &mut String::new(), 0);
    if steps > STEPS_MAX {
        let why = format!("holding it against its schema takes more than {STEPS_MAX} steps");
        errors.push("<nil>", FieldProblem::Forbidden(why));
    }
}

/// Values that are held against a schema, and alternatives that they are compared with, at most: as a schema may have a hundred thousand
/// alternatives for each of a hundred thousand values. A step takes less than a microsecond.
const STEPS_MAX: usize = 5_000_000;

struct Walk<'a> {
    errors: &'a mut Errors,
    steps: &'a mut usize,
}

impl Walk<'_> {
    fn value(
        &mut self,
        schema: &Structural,
        value: &Value,
        old: Option<&Value>,
        path: &mut String,
        depth: usize,
    ) {
        *self.steps += 1;
        if old == Some(value) || depth > DEPTH_MAX || *self.steps > STEPS_MAX {
            return;
        }
        if value.is_null() && schema.nullable {
            return;
        }
        if !self.type_fits(schema, value, path) {
            return;
        }
        if let Some(checks) = &schema.checks {
            self.checks(checks, value, path, depth);
        }
        let length = path.len();
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let Some(child) = schema.child(name) else { continue };
                    step(path, name);
                    self.value(child, value, old.and_then(|old| old.get(name)), path, depth + 1);
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(inner) = &schema.items else { return };
                let earlier = OldItems::of(schema, old);
                for (at, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    self.value(inner, item, earlier.get(schema, item), path, depth + 1);
                    path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
        }
    }

    fn type_fits(&mut self, schema: &Structural, value: &Value, path: &str) -> bool {
        let found = type_name(value);
        if schema.int_or_string {
            let fits = matches!(found, "integer" | "string");
            if !fits {
                self.wrong_type(path, "integer,string", found);
            }
            return fits;
        }
        let Some(ty) = schema.ty else { return true };
        let fits = ty.name() == found || ty == Type::Number && found == "integer";
        if !fits {
            self.wrong_type(path, ty.name(), found);
        }
        fits
    }

    fn wrong_type(&mut self, path: &str, expected: &str, found: &str) {
        let why = format!("{path} in body must be of type {expected}: {found:?}");
        self.errors.push(shown(path), FieldProblem::TypeInvalid(found.into(), why));
    }

    fn checks(&mut self, checks: &Checks, value: &Value, path: &mut String, depth: usize) {
        self.junctors(checks, value, path, depth);
        *self.steps += checks.values.as_ref().map_or(0, Vec::len);
        if let Some(values) = &checks.values
            && !values.contains(value)
        {
            let known = values.iter().map(text_of).collect();
            self.errors.push(shown(path), FieldProblem::NotSupported(value.clone(), known));
        }
        match value {
            Value::String(text) => self.text(checks, text, path),
            Value::Number(_) => self.number(checks, value, path),
            Value::Array(items) => {
                if let Some(max) = checks.items.max.filter(|max| items.len() > *max) {
                    self.errors.push(shown(path), FieldProblem::TooMany(items.len(), max));
                }
                self.too_few(checks.items, items.len(), "items", path);
            }
            Value::Object(map) => {
                if let Some(max) = checks.properties.max.filter(|max| map.len() > *max) {
                    self.errors.push(shown(path), FieldProblem::TooMany(map.len(), max));
                }
                self.too_few(checks.properties, map.len(), "properties", path);
                for name in checks.required.iter().filter(|name| !map.contains_key(name)) {
                    let length = path.len();
                    step(path, name);
                    self.errors.required(path.as_str(), "");
                    path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Encoded(_) => {}
        }
    }

    fn text(&mut self, checks: &Checks, text: &str, path: &str) {
        let count = text.chars().count();
        if let Some(max) = checks.length.max.filter(|max| count > *max) {
            self.errors.push(shown(path), FieldProblem::TooLong(max));
        }
        if let Some(min) = checks.length.min.filter(|min| count < *min) {
            self.errors.invalid(
                shown(path),
                text,
                format!("{path} in body should be at least {min} chars long"),
            );
        }
        if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            let why = format!("{path} in body should match '{}'", pattern.source());
            self.errors.invalid(shown(path), text, why);
        }
        if !formats::fits(&checks.format, text) {
            let why = format!("{path} in body must be of type {}: {text:?}", checks.format);
            self.errors.push(shown(path), FieldProblem::TypeInvalid(text.into(), why));
        }
    }

    fn number(&mut self, checks: &Checks, value: &Value, path: &str) {
        let mut outside = |bound: &Bound, wrong: std::cmp::Ordering, inclusive: &str, exclusive: &str| {
            let order = compare(value, &bound.value);
            if order == Some(wrong) || bound.exclusive && order == Some(std::cmp::Ordering::Equal) {
                let how = if bound.exclusive { exclusive } else { inclusive };
                let why = format!("{path} in body should be {how} {}", bound.value);
                self.errors.invalid(shown(path), value.clone(), why);
            }
        };
        if let Some(bound) = &checks.minimum {
            outside(bound, std::cmp::Ordering::Less, "greater than or equal to", "greater than");
        }
        if let Some(bound) = &checks.maximum {
            outside(bound, std::cmp::Ordering::Greater, "less than or equal to", "less than");
        }
        if let Some(factor) = &checks.multiple_of
            && !is_multiple(value, factor)
        {
            let why = format!("{path} in body should be a multiple of {factor}");
            self.errors.invalid(shown(path), value.clone(), why);
        }
    }

    fn too_few(&mut self, size: Size, count: usize, what: &str, path: &str) {
        if let Some(min) = size.min.filter(|min| count < *min) {
            self.errors.invalid(
                shown(path),
                count,
                format!("{path} in body should have at least {min} {what}"),
            );
        }
    }

    fn junctors(&mut self, checks: &Checks, value: &Value, path: &mut String, depth: usize) {
        for schema in &checks.all_of {
            self.value(schema, value, None, path, depth + 1);
        }
        let Self { errors, steps } = self;
        let mut holds = |schema: &Structural, path: &mut String| {
            let mut errors = Errors::new();
            Walk { errors: &mut errors, steps }.value(schema, value, None, path, depth + 1);
            errors.is_empty()
        };
        let mut fail = |path: &str, why: &str| {
            errors.invalid(shown(path), "", format!("{path:?} {why}"));
        };
        if !checks.any_of.is_empty() && !checks.any_of.iter().any(|schema| holds(schema, path)) {
            fail(path, "must validate at least one schema (anyOf)");
        }
        if !checks.one_of.is_empty() {
            match checks.one_of.iter().filter(|schema| holds(schema, path)).count() {
                1 => {}
                0 => fail(path, "must validate one and only one schema (oneOf). Found none valid"),
                several => fail(
                    path,
                    &format!(
                        "must validate one and only one schema (oneOf). Found {several} valid alternatives"
                    ),
                ),
            }
        }
        if checks.not.as_ref().is_some_and(|schema| holds(schema, path)) {
            fail(path, "must not validate the schema (not)");
        }
    }
}

fn step(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// The object itself has no path; Kubernetes then writes `<nil>`.
fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A whole number written with a point is a whole number all the same.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => {
            if number.as_f64().is_some_and(|number| number.fract() == 0.0) { "integer" } else { "number" }
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Encoded(_) => "encoded",
    }
}

fn compare(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn is_multiple(value: &Value, factor: &Value) -> bool {
    match (value.as_i64(), factor.as_i64()) {
        (_, Some(0)) => true,
        (Some(value), Some(factor)) => value.checked_rem(factor).is_none_or(|rest| rest == 0),
        _ => match (value.as_f64(), factor.as_f64()) {
            (Some(value), Some(factor)) => (value / factor).fract() == 0.0,
            _ => true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    fn found(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&Structural::read(schema), value, old, &mut errors);
        errors.list().iter().map(ToString::to_string).collect()
    }

    fn widget_schema() -> Value {
        json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "port": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
            "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "boolean"}},
            "even": {"type": "integer", "multipleOf": 2},
            "null": {"type": "string", "nullable": true},
        }}}})
    }

    #[test]
    fn values_are_held_against_their_schema_in_kubernetes_words() {
        let schema = widget_schema();
        for (spec, expected) in [
            (json!({"size": 3, "ratio": 1, "port": "http", "null": null, "even": 4.0}), vec![]),
            (json!({}), vec!["spec.size: Required value"]),
            (
                json!({"size": "3"}),
                vec![
                    r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
                ],
            ),
            (
                json!({"size": 0}),
                vec!["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
            ),
            (
                json!({"size": 11}),
                vec!["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"],
            ),
            (
                json!({"size": 1, "ratio": 0}),
                vec!["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
            ),
            (
                json!({"size": 1, "name": "A"}),
                vec![
                    r#"spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long"#,
                    r#"spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'"#,
                ],
            ),
            (json!({"size": 1, "name": "abcde"}), vec!["spec.name: Too long: may not be more than 4 bytes"]),
            (
                json!({"size": 1, "mode": "c"}),
                vec![r#"spec.mode: Unsupported value: "c": supported values: "a", "b""#],
            ),
            (
                json!({"size": 1, "port": true}),
                vec![
                    r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
                ],
            ),
            (
                json!({"size": 1, "list": []}),
                vec!["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"],
            ),
            (
                json!({"size": 1, "list": ["a", 1, "c"]}),
                vec![
                    "spec.list: Too many: 3: must have at most 2 items",
                    r#"spec.list[1]: Invalid value: "integer": spec.list[1] in body must be of type string: "integer""#,
                ],
            ),
            (
                json!({"size": 1, "map": {"a": true, "b": 1}}),
                vec![
                    "spec.map: Too many: 2: must have at most 1 items",
                    r#"spec.map.b: Invalid value: "integer": spec.map.b in body must be of type boolean: "integer""#,
                ],
            ),
            (
                json!({"size": 1, "even": 3}),
                vec!["spec.even: Invalid value: 3: spec.even in body should be a multiple of 2"],
            ),
            (
                json!({"size": null}),
                vec![
                    r#"spec.size: Invalid value: "null": spec.size in body must be of type integer: "null""#,
                ],
            ),
        ] {
            assert_eq!(found(&schema, &json!({"spec": spec.clone()}), None), expected, "{spec}");
        }
        assert_eq!(found(&schema, &json!({}), None), ["spec: Required value"]);
    }

    #[test]
    fn schemas_are_joined() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"properties": {"a": {"enum": [7]}}, "required": ["a"]}});
        assert!(found(&schema, &json!({"a": 1}), None).is_empty());
        assert!(found(&schema, &json!({}), None)[0].contains("Found none valid"));
        assert!(found(&schema, &json!({"a": 1, "b": 1}), None)[0].contains("Found 2 valid alternatives"));
        assert!(found(&schema, &json!({"a": 7}), None)[0].contains("must not validate the schema (not)"));
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "allOf": [{"minimum": 2}], "anyOf": [{"maximum": 3}, {"minimum": 10}]}}});
        assert!(found(&schema, &json!({"n": 2}), None).is_empty());
        assert_eq!(found(&schema, &json!({"n": 1}), None).len(), 1);
        assert!(found(&schema, &json!({"n": 5}), None)[0].contains("anyOf"));
    }

    #[test]
    fn what_was_wrong_before_may_stay_but_not_become_wrong() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "string", "maxLength": 1},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
                "k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}}}});
        let old = json!({"a": "long", "b": "x", "l": [{"k": "1", "v": "long"}]});
        assert!(
            found(
                &schema,
                &json!({"a": "long", "b": "y", "l": [{"k": "2", "v": "x"}, {"k": "1", "v": "long"}]}),
                Some(&old)
            )
            .is_empty()
        );
        assert_eq!(found(&schema, &json!({"a": "longer", "b": "long"}), Some(&old)).len(), 2);
    }
}
