//! Checks a body against its type: unknown fields, values of the wrong kind.

use lazaret_json::Value;

use crate::canonical::{Form, canonical, has_form, is_null_to_fill, is_written};
use crate::formats::{is_base64, is_duration, is_quantity, is_time};
use crate::path::Path;
use crate::table::{Scalar, Schema, Type, TypeId};

/// Bound on the findings reported for one body.
const FINDINGS_MAX: usize = 64;

/// An error in a body, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A field that the type does not have. Whether that matters is the request's to say.
    Unknown {
        /// `spec.foo`.
        path: String,
    },
    /// A value that cannot be what the field holds.
    Kind {
        /// `spec.foo`.
        path: String,
        /// The type that the schema requires.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
}

const OBJECT: &str = "an object";
const MAP: &str = "a map";
const LIST: &str = "a list";
const TEXT: &str = "a string";
const NUMBER: &str = "a number";
const TRUTH: &str = "true or false";

impl Finding {
    /// The message of Kubernetes where a strategic merge results in a wrong type. Clients match on it.
    #[must_use]
    pub fn restore_error(&self) -> Option<String> {
        let Self::Kind { expected, found, .. } = self else { return None };
        let found = match *found {
            OBJECT => "map",
            LIST => "slice",
            TEXT => "string",
            NUMBER => "int64",
            TRUTH => "bool",
            _ => return None,
        };
        match *expected {
            OBJECT => Some(format!("cannot restore struct from: {found}")),
            MAP => Some(format!("cannot restore map from {found}")),
            LIST => Some(format!("cannot restore slice from {found}")),
            _ => None,
        }
    }
}

/// Everything wrong with `value` as a `ty`, but for what it shares with `known`, where all is well already; with `prune`, unknown fields are
/// taken out of it. `null` stands for an absent value anywhere.
pub fn check(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    known: Option<&Value>,
    prune: bool,
) -> Vec<Finding> {
    let mut walk = Walk { schema, findings: Vec::new(), unknown: false, form: None, odd: false };
    walk.value(ty, value, known, &Path::Root);
    if prune && walk.unknown {
        pruned(schema, ty, value, true);
    }
    walk.findings
}

/// Reads `value` as a `ty`: the findings of [`check`], unknown fields taken out, and what is left in its [`canonical`] form.
pub fn read(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    known: Option<&Value>,
    form: Form,
) -> Vec<Finding> {
    let mut walk = Walk { schema, findings: Vec::new(), unknown: false, form: Some(form), odd: false };
    walk.value(ty, value, known, &Path::Root);
    if walk.unknown {
        pruned(schema, ty, value, true);
    }
    if walk.odd {
        canonical(schema, ty, value, known, form);
    }
    walk.findings
}

struct Walk<'a> {
    schema: &'a Schema,
    findings: Vec<Finding>,
    unknown: bool,
    /// The form that values should have, if that is asked.
    form: Option<Form>,
    /// One does not have it.
    odd: bool,
}

impl Walk<'_> {
    fn report(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    fn value(&mut self, ty: TypeId, value: &Value, known: Option<&Value>, path: &Path<'_>) {
        if value.is_null() || known.is_some_and(|known| value.is(known)) {
            return;
        }
        let schema = self.schema;
        match (schema.get(ty), value) {
            (Type::Any(_), _) => {}
            (Type::Scalar(scalar), value) => {
                self.scalar(*scalar, value, path);
                self.odd |= self.form.is_some() && !is_written(*scalar, value);
            }
            (Type::Struct(found), Value::Object(map)) => {
                self.odd |= self.form.is_some_and(|form| !has_form(schema, found, map, form));
                for (name, value) in map {
                    let inner = Path::Field(path, name);
                    match found.fields.get(name.as_str()) {
                        Some(field) => {
                            self.value(field.ty, value, known.and_then(|known| known.get(name)), &inner);
                        }
                        None if found.open || is_type_meta(path, name) => {}
                        None => {
                            self.report(Finding::Unknown { path: inner.to_string() });
                            self.unknown = true;
                        }
                    }
                }
            }
            (Type::List(item), Value::Array(items)) => {
                for (at, value) in items.iter().enumerate() {
                    self.odd |= self.form.is_some_and(|form| is_null_to_fill(schema, *item, value, form));
                    let known = known.and_then(|known| known.get(at));
                    self.value(*item, value, known, &Path::Item(path, at));
                }
            }
            (Type::Map(item), Value::Object(map)) => {
                for (name, value) in map {
                    self.odd |= self.form.is_some_and(|form| is_null_to_fill(schema, *item, value, form));
                    let known = known.and_then(|known| known.get(name));
                    self.value(*item, value, known, &Path::Field(path, name));
                }
            }
            (Type::Struct(_), value) => self.mismatch(path, OBJECT, value),
            (Type::Map(_), value) => self.mismatch(path, MAP, value),
            (Type::List(_), value) => self.mismatch(path, LIST, value),
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, path: &Path<'_>) {
        let (fits, expected) = match scalar {
            Scalar::String => (value.is_string(), "a string"),
            Scalar::Bytes => return self.format(value, is_base64, "bytes in base64", path),
            Scalar::Time | Scalar::MicroTime => {
                return self.format(value, is_time, "a time like 2026-01-02T15:04:05Z", path);
            }
            Scalar::Duration => return self.format(value, is_duration, "a duration like 1h30m", path),
            Scalar::Quantity if value.is_number() => return,
            Scalar::Quantity => return self.format(value, is_quantity, "a quantity like 500m or 80Gi", path),
            Scalar::IntOrString => {
                (value.is_string() || as_i32(value).is_some(), "a whole number or a string")
            }
            Scalar::Bool => (value.is_boolean(), "true or false"),
            Scalar::Double => (value.is_number(), "a number"),
            Scalar::Int32 => (as_i32(value).is_some(), "a whole number of 32 bits"),
            Scalar::Int64 => (value.is_i64(), "a whole number of 64 bits"),
        };
        if !fits {
            self.mismatch(path, expected, value);
        }
    }

    /// A string that must be more than text.
    fn format(&mut self, value: &Value, fits: fn(&str) -> bool, expected: &'static str, path: &Path<'_>) {
        match value.as_str() {
            Some(text) if fits(text) => {}
            Some(_) => {
                let found = "another string";
                self.report(Finding::Kind { path: path.to_string(), expected, found });
            }
            None => self.mismatch(path, expected, value),
        }
    }

    fn mismatch(&mut self, path: &Path<'_>, expected: &'static str, value: &Value) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => TRUTH,
            Value::Number(_) => NUMBER,
            Value::String(_) => TEXT,
            Value::Array(_) => LIST,
            Value::Object(_) => OBJECT,
            Value::Encoded(_) => "encoded",
        };
        self.report(Finding::Kind { path: path.to_string(), expected, found });
    }
}

/// `apiVersion` and `kind` belong to every object, at its root.
fn is_type_meta(path: &Path<'_>, name: &str) -> bool {
    matches!(path, Path::Root) && is_type_name(name)
}

fn is_type_name(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

/// Takes out fields that the type does not have. Few bodies have any, so that looking for them leaves a shared tree shared.
fn pruned(schema: &Schema, ty: TypeId, value: &mut Value, root: bool) {
    match (schema.get(ty), value) {
        (Type::Struct(found), Value::Object(map)) => {
            let known =
                |name: &str| found.fields.contains_key(name) || found.open || root && is_type_name(name);
            map.retain(|name, _| known(name));
            for (name, value) in map {
                if let Some(field) = found.fields.get(name.as_str()) {
                    pruned(schema, field.ty, value, false);
                }
            }
        }
        (Type::List(item), Value::Array(items)) => {
            items.iter_mut().for_each(|value| pruned(schema, *item, value, false));
        }
        (Type::Map(item), Value::Object(map)) => {
            map.values_mut().for_each(|value| pruned(schema, *item, value, false));
        }
        (Type::Any(_) | Type::Scalar(_) | Type::Struct(_) | Type::List(_) | Type::Map(_), _) => {}
    }
}

fn as_i32(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use lazaret_json::json;

    #[test]
    fn unknown_fields_and_wrong_kinds_are_found_and_pruned() {
        let schema = builtin();
        let pod = schema.find("core/v1.Pod").unwrap();
        let mut body = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": 1}},
            "spec": {"containers": [{"name": "c", "imag": "x"}], "priority": "high", "nodeSelector": {"a": "b"}, "foo": null},
        });
        let findings = check(schema, pod, &mut body, None, true);
        assert_eq!(
            findings,
            [
                Finding::Kind { path: "metadata.labels.x".into(), expected: "a string", found: "a number" },
                Finding::Unknown { path: "spec.containers[0].imag".into() },
                Finding::Unknown { path: "spec.foo".into() },
                Finding::Kind {
                    path: "spec.priority".into(),
                    expected: "a whole number of 32 bits",
                    found: "a string"
                },
            ]
        );
        assert_eq!(body["spec"]["containers"][0], json!({"name": "c"}));
    }

    #[test]
    fn strings_that_are_more_than_text_are_looked_into() {
        let wrong = |shape: &str, mut body: lazaret_json::Value| {
            let schema = builtin();
            let found = check(schema, schema.find(shape).unwrap(), &mut body, None, true);
            let path = |finding: Finding| match finding {
                Finding::Kind { path, expected, found } => format!("{path}: {expected}, not {found}"),
                Finding::Unknown { path } => path,
            };
            found.into_iter().map(path).collect::<Vec<_>>()
        };
        assert_eq!(
            wrong("resource/v1.DeviceTaintRule", json!({"spec": {"taint": {"timeAdded": "*"}}})),
            ["spec.taint.timeAdded: a time like 2026-01-02T15:04:05Z, not another string"]
        );
        assert_eq!(
            wrong("core/v1.Secret", json!({"data": {"a": "!!", "b": "YQ=="}, "stringData": {"c": "!!"}})),
            ["data.a: bytes in base64, not another string"]
        );
        assert_eq!(
            wrong(
                "core/v1.ResourceQuota",
                json!({"spec": {"hard": {"pods": "many", "cpu": 1, "memory": "1Gi"}}})
            ),
            ["spec.hard.pods: a quantity like 500m or 80Gi, not another string"]
        );
    }
}
