//! Schemas of definitions from the tables of Kubernetes' kinds: a DeviceTaintPolicy has the fields of a DeviceTaintRule.

use lazaret_json::{Map, Value, json};
use lazaret_schema::{Description, Field, Scalar, Type, builtin};

/// The schema of a type by its name, as in `resource/v1alpha3.DeviceTaintRuleEviction`: its fields with their limits and descriptions, and a rule for
/// each that needs another field.
pub(super) fn object(shape: &str, description: &str) -> Value {
    let found = builtin().find(shape).and_then(|id| builtin().get_struct(id));
    let mut properties = Map::new();
    let (mut needs, mut companions, mut required) = (Vec::new(), Vec::new(), Vec::new());
    for (name, field) in found.into_iter().flat_map(|found| found.numbered()) {
        properties.insert(name, property(shape, name, field));
        if field.required || field.always && !field.optional {
            required.push(name);
        }
        let Some(limits) = &field.limits else { continue };
        if let Some(other) = &limits.required_with {
            let (holder, value) = (&other.field, &other.value);
            companions.push(json!({
                "rule": format!("!has(self.{holder}) || self.{holder} != '{value}' || has(self.{name})"),
                "message": format!("{name} is required with {holder} {value}"),
            }));
        }
        if let Some(other) = &limits.needs {
            let (holder, value) = (&other.field, &other.value);
            needs.push(json!({
                "rule": format!("!has(self.{name}) || (has(self.{holder}) && self.{holder} == '{value}')"),
                "message": format!("{name} needs {holder} {value}"),
            }));
        }
    }
    companions.append(&mut needs);
    let mut schema = json!({"type": "object", "description": description, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !companions.is_empty() {
        schema["x-kubernetes-validations"] = companions.into();
    }
    schema
}

fn property(shape: &str, name: &str, field: &Field) -> Value {
    let description = Description::of(shape).field(name).unwrap_or_default();
    let mut schema = match builtin().get(field.ty) {
        Type::Scalar(scalar) => scalar.open_api(),
        Type::Struct(inner) => object(&inner.name, description),
        Type::List(item) => {
            let items = match builtin().get(*item) {
                Type::Scalar(scalar) => scalar.open_api(),
                Type::Struct(inner) => {
                    object(&inner.name, Description::of(&inner.name).itself().unwrap_or_default())
                }
                Type::List(_) | Type::Map(_) | Type::Any(_) => {
                    json!({"x-kubernetes-preserve-unknown-fields": true})
                }
            };
            json!({"type": "array", "items": items})
        }
        Type::Map(_) | Type::Any(_) => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        }
    };
    field.decorate(&mut schema, builtin());
    let is_text = matches!(builtin().get(field.ty), Type::Scalar(Scalar::String));
    if let Some(bytes) = field.limits.as_ref().and_then(|limits| limits.bytes).filter(|_| is_text) {
        schema["maxLength"] = bytes.into();
    }
    schema["description"] = description.into();
    schema
}
