//! Schemas of definitions from the table of our kinds: fields with their limits, defaults and descriptions.

use lazaret_json::{Map, Value, json};
use lazaret_schema::{Companion, Description, Field, Scalar, Type, TypeId, builtin, pattern};

use super::beyond;

/// The table of our kinds.
const PACKAGE: &str = "lazaret/v1alpha1";
/// Characters of a length of time.
const DURATION_CHARS_MAX: usize = 32;

/// The schema of a type by its name, as in `DisruptionGuardSpec`, with its own description. Nothing where there is no such type.
pub(super) fn described(name: &str) -> Option<Value> {
    let shape = format!("{PACKAGE}.{name}");
    let id = builtin().find(&shape)?;
    Some(of_type(id, Description::of(&shape).itself()))
}

/// The description of a type.
pub(super) fn description(name: &str) -> Option<&'static str> {
    Description::of(&format!("{PACKAGE}.{name}")).itself()
}

fn of_type(id: TypeId, description: Option<&str>) -> Value {
    let mut schema = match builtin().get(id) {
        Type::Scalar(scalar) => single(*scalar),
        Type::Struct(found) => object(&found.name, found.listed(), found.open, found.union),
        Type::List(item) => json!({"type": "array", "items": of_type(*item, itself(*item))}),
        Type::Map(value) => {
            json!({"type": "object", "additionalProperties": of_type(*value, itself(*value))})
        }
        Type::Any(_) => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    if let Some(description) = description {
        schema["description"] = description.into();
    }
    schema
}

fn itself(id: TypeId) -> Option<&'static str> {
    Description::of(&builtin().get_struct(id)?.name).itself()
}

fn single(scalar: Scalar) -> Value {
    match scalar {
        Scalar::IntOrString => json!({"x-kubernetes-int-or-string": true}),
        Scalar::Duration => {
            json!({"type": "string", "maxLength": DURATION_CHARS_MAX, "pattern": pattern("duration")})
        }
        Scalar::String
        | Scalar::Int32
        | Scalar::Int64
        | Scalar::Bool
        | Scalar::Double
        | Scalar::Bytes
        | Scalar::Quantity
        | Scalar::Time
        | Scalar::MicroTime => scalar.open_api(),
    }
}

/// The fields of a type, and a rule for each that needs another.
fn object<'a>(
    shape: &str,
    fields: impl Iterator<Item = (&'a str, &'a Field)>,
    is_open: bool,
    is_union: bool,
) -> Value {
    let mut properties = Map::new();
    let (mut rules, mut needs, mut required) = (Vec::new(), Vec::new(), Vec::new());
    for (name, field) in fields {
        properties.insert(name, property(shape, name, field));
        if field.required || field.always && !field.optional {
            required.push(name);
        }
        if let Some(limits) = &field.limits {
            rules.extend(limits.required_with.as_ref().map(|other| required_with(name, other)));
            needs.extend(limits.needs.as_ref().map(|other| needed(name, other)));
        }
    }
    rules.append(&mut needs);
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = rules.into();
    }
    if is_open {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if is_union {
        (schema["minProperties"], schema["maxProperties"]) = (1.into(), 1.into());
    }
    beyond::complete(shape.trim_start_matches(PACKAGE).trim_start_matches('.'), &mut schema);
    schema
}

fn required_with(name: &str, Companion { field, value }: &Companion) -> Value {
    json!({
        "rule": format!("!has(self.{field}) || self.{field} != '{value}' || has(self.{name})"),
        "message": format!("{name} is required with {field} {value}"),
    })
}

fn needed(name: &str, Companion { field, value }: &Companion) -> Value {
    json!({
        "rule": format!("!has(self.{name}) || (has(self.{field}) && self.{field} == '{value}')"),
        "message": format!("{name} needs {field} {value}"),
    })
}

fn property(shape: &str, name: &str, field: &Field) -> Value {
    let mut schema = of_type(field.ty, Description::of(shape).field(name));
    field.decorate(&mut schema, builtin());
    let Some(limits) = &field.limits else { return schema };
    let is_text = matches!(builtin().get(field.ty), Type::Scalar(Scalar::String));
    if let Some(most) = limits.chars.or(limits.bytes).filter(|_| is_text) {
        schema["maxLength"] = most.into();
    }
    if limits.filled && limits.values.is_empty() {
        schema[if is_text { "minLength" } else { "minItems" }] = 1.into();
    }
    if let Some(pattern) = limits.pattern {
        schema["pattern"] = pattern.into();
    }
    if limits.fixed {
        schema["x-kubernetes-validations"] = beyond::fixed();
    }
    schema
}
