//! Changes that a schema makes to an object before validation: unknown fields are pruned, absent ones get their defaults.

use lazaret_json::Value;
use lazaret_schema::Finding;

use crate::structural::{Additional, Structural};

/// Fields that every object has, whether its schema lists them or not.
const OWN: &[&str] = &["apiVersion", "kind", "metadata"];

/// Bound on the unknown fields that are reported; more are pruned without a report.
const FINDINGS_MAX: usize = 64;

/// Bound on the bytes of the defaults of one object: a default of a list's items is repeated for each of them. No object
/// of half that size can be stored, so that none is stored with less than all of its defaults.
const DEFAULTS_BYTES_MAX: usize = 6 << 20;

/// Prunes the fields that the schema does not list, and returns them.
pub(crate) fn prune(schema: &Structural, object: &mut Value) -> Vec<Finding> {
    let mut unknown = Vec::new();
    Pruner { unknown: &mut unknown }.fields(schema, object, &mut String::new(), true);
    unknown.sort();
    unknown.into_iter().map(|path| Finding::Unknown { path }).collect()
}

struct Pruner<'a> {
    unknown: &'a mut Vec<String>,
}

impl Pruner<'_> {
    fn fields(&mut self, schema: &Structural, value: &mut Value, path: &mut String, whole: bool) {
        match value {
            Value::Object(map) => {
                let length = path.len();
                map.retain(|name, value| {
                    if (whole || schema.embedded) && OWN.contains(&name.as_str()) {
                        return true;
                    }
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                    let kept = self.field(schema, name, value, path);
                    path.truncate(length);
                    kept
                });
            }
            Value::Array(items) => self.items(schema, items, path),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
        }
    }

    fn field(&mut self, schema: &Structural, name: &str, value: &mut Value, path: &mut String) -> bool {
        match (schema.properties.get(name), &schema.additional) {
            (Some(schema), _) => self.fields(schema, value, path, false),
            (None, Additional::Each(each)) => self.fields(each, value, path, false),
            (None, Additional::Anything) => {}
            (None, Additional::Nothing) if schema.preserve_unknown => {}
            (None, Additional::Nothing) => {
                if self.unknown.len() < FINDINGS_MAX {
                    self.unknown.push(path.clone());
                }
                return false;
            }
        }
        true
    }

    fn items(&mut self, schema: &Structural, items: &mut [Value], path: &mut String) {
        let nothing = Structural::default();
        let inner = match &schema.items {
            Some(inner) => inner,
            None if schema.preserve_unknown => return,
            None => &nothing,
        };
        let length = path.len();
        for (at, item) in items.iter_mut().enumerate() {
            path.push_str(&format!("[{at}]"));
            self.fields(inner, item, path, false);
            path.truncate(length);
        }
    }
}

/// Takes out `null` where there can be none and no default stands in for it.
pub(crate) fn drop_nulls(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| {
                !value.is_null()
                    || schema.child(name).is_none_or(|child| child.nullable || child.default.is_some())
            });
            for (name, value) in map {
                if let Some(child) = schema.child(name) {
                    drop_nulls(child, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                items.iter_mut().for_each(|item| drop_nulls(inner, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
    }
}

/// Sets absent fields, and `null` where there can be none, to their defaults, up to a limit.
pub(crate) fn fill_defaults(schema: &Structural, value: &mut Value) {
    Filler { bytes_left: DEFAULTS_BYTES_MAX }.inner(schema, value);
}

struct Filler {
    /// Nothing once a default did not fit.
    bytes_left: usize,
}

impl Filler {
    /// A default, as long as there is room for it.
    fn take<'a>(&mut self, default: Option<&'a Value>) -> Option<&'a Value> {
        let default = default?;
        self.bytes_left = self.bytes_left.saturating_sub(weight(default));
        Some(default).filter(|_| self.bytes_left > 0)
    }

    fn inner(&mut self, schema: &Structural, value: &mut Value) {
        if self.bytes_left == 0 {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, child) in &schema.properties {
                    if map.get(name).is_none_or(|value| value.is_null() && !child.nullable)
                        && let Some(default) = self.take(child.default.as_ref())
                    {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map {
                    if let Some(child) = schema.child(name) {
                        self.fill(child, value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(inner) = &schema.items {
                    items.iter_mut().for_each(|item| self.fill(inner, item));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
        }
    }

    fn fill(&mut self, schema: &Structural, value: &mut Value) {
        if value.is_null()
            && !schema.nullable
            && let Some(default) = self.take(schema.default.as_ref())
        {
            *value = default.clone();
        }
        self.inner(schema, value);
    }
}

/// About how many bytes of text a value has.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Encoded(encoded) => encoded.as_str().len(),
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + items.len() + 2,
        Value::Object(map) => {
            map.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    fn schema() -> Structural {
        Structural::read(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "size": {"type": "integer", "default": 3},
                "maybe": {"type": "string", "nullable": true, "default": "x"},
                "plain": {"type": "string"},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {}}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            }},
        }}))
    }

    #[test]
    fn what_nobody_knows_goes_and_is_named() {
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x"}, "other": 1,
            "spec": {
                "odd": {"deep": 1}, "map": {"k": {"a": "1", "z": 2}}, "list": [{"n": 1}, {"m": 2}],
                "any": {"free": {"deep": true}, "known": {"gone": 1}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}, "status": {}},
            },
        });
        let found: Vec<String> = prune(&schema(), &mut object)
            .into_iter()
            .map(|finding| match finding {
                Finding::Unknown { path } => path,
                Finding::Kind { path, .. } => panic!("{path} is of the wrong kind"),
            })
            .collect();
        assert_eq!(
            found,
            [
                "other",
                "spec.any.known.gone",
                "spec.list[1].m",
                "spec.map.k.z",
                "spec.odd",
                "spec.pod.spec.x",
                "spec.pod.status"
            ]
        );
        assert_eq!(
            object["spec"],
            json!({
                "map": {"k": {"a": "1"}}, "list": [{"n": 1}, {}], "any": {"free": {"deep": true}, "known": {}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
            })
        );
    }

    #[test]
    fn defaults_stand_in_for_what_is_absent_and_for_null_where_null_cannot_be() {
        let schema = schema();
        let mut object =
            json!({"spec": {"size": null, "maybe": null, "plain": null, "map": {"k": {}}, "list": [{}]}});
        drop_nulls(&schema, &mut object);
        fill_defaults(&schema, &mut object);
        assert_eq!(
            object["spec"],
            json!({"size": 3, "maybe": null, "map": {"k": {"a": "b"}}, "list": [{"n": 1}]})
        );
        let mut empty = json!({});
        fill_defaults(&schema, &mut empty);
        assert_eq!(empty, json!({"spec": {"size": 3, "maybe": "x"}}), "a default is filled in itself");
    }

    #[test]
    fn a_default_is_not_repeated_without_end() {
        let long = "x".repeat(100_000);
        let schema = Structural::read(&json!({"type": "array", "items": {"type": "object", "properties": {
            "text": {"type": "string", "default": long}}}}));
        let mut few = json!([{}, {}]);
        fill_defaults(&schema, &mut few);
        assert_eq!(few[1]["text"], long);
        let mut many = json!(vec![json!({}); 100]);
        fill_defaults(&schema, &mut many);
        let bytes = many.to_string().len();
        assert!((DEFAULTS_BYTES_MAX / 2..DEFAULTS_BYTES_MAX).contains(&bytes), "{bytes}");
    }

    #[test]
    fn of_many_unknown_fields_some_are_named() {
        let mut object: Value = (0..1_000).map(|at| (format!("f{at}"), json!(1))).collect();
        assert_eq!(prune(&schema(), &mut object).len(), FINDINGS_MAX);
        assert_eq!(object, json!({}));
    }
}
