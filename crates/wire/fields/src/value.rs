//! Looking into JSON objects and changing them without ever panicking: `null` stands for an absent value, and what is of the wrong type
//! reads as absent.

use std::collections::BTreeMap;

use lazaret_json::{Map, Text, Value};
use lazaret_model::Quantity;
use lazaret_schema::{Scalar, Schema, Type, TypeId, builtin, builtin_quantity_fields};

/// The text of a field, empty if absent.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list, none if absent.
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The items of a list by the text of a field, so that each is found without looking at the others; of several with the same text the
/// first.
#[derive(Debug)]
pub struct ByText<'v>(BTreeMap<&'v str, &'v Value>);

impl<'v> ByText<'v> {
    /// The items by the text of this field.
    #[must_use]
    pub fn of(items: &'v [Value], field: &str) -> Self {
        Self(items.iter().rev().map(|item| (text(item, field), item)).collect())
    }

    /// The item with this text.
    #[must_use]
    pub fn get(&self, text: &str) -> Option<&'v Value> {
        self.0.get(text).copied()
    }

    /// Whether an item has this text.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        self.0.contains_key(text)
    }
}

/// The items of a list to be changed.
pub fn list_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut [Value] {
    value.get_mut(field).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The texts in a list.
pub fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(value, field).iter().filter_map(Value::as_str)
}

/// The entries of a map, none if absent.
pub fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a Text, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flatten()
}

/// How many entries a map has.
pub fn count(value: &Value, field: &str) -> usize {
    value.get(field).and_then(Value::as_object).map_or(0, Map::len)
}

/// A whole number, 0 if absent.
pub fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a field is true.
pub fn is_true(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// A field that is there.
pub fn some<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|found| !found.is_null())
}

/// Whether a field is there.
pub fn has(value: &Value, field: &str) -> bool {
    some(value, field).is_some()
}

/// Whether a value says something: neither `null` nor empty.
pub fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Encoded(_) => false,
    }
}

/// Whether a field is there and neither an empty text, list nor map.
pub fn is_filled(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|found| !is_blank(found))
}

/// The value as a map, made into one if need be.
pub fn map_mut(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Encoded(_)
        | Value::Array(_) => {
            unreachable!("made an object just above")
        }
    }
}

/// A field to be changed, made if need be.
pub fn field_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    map_mut(value).entry(field).or_insert(Value::Null)
}

/// Sets a field.
pub fn put(value: &mut Value, field: &str, new: impl Into<Value>) {
    map_mut(value).insert(field.to_owned(), new.into());
}

/// Sets a field, or takes it away.
pub fn put_or_remove(value: &mut Value, field: &str, new: Option<Value>) {
    match new {
        Some(new) => put(value, field, new),
        None => remove(value, field),
    }
}

/// Takes a field away.
pub fn remove(value: &mut Value, field: &str) {
    if let Value::Object(map) = value {
        map.remove(field);
    }
}

/// Takes a field out.
pub fn take(value: &mut Value, field: &str) -> Option<Value> {
    value.as_object_mut().and_then(|map| map.remove(field)).filter(|found| !found.is_null())
}

/// Adds an item to a list, made if need be.
pub fn append(value: &mut Value, field: &str, item: Value) {
    let list = field_mut(value, field);
    if let Value::Array(items) = list {
        items.push(item);
    } else {
        *list = Value::Array(vec![item].into());
    }
}

/// Sets a field that is absent or an empty text.
pub fn fill(value: &mut Value, field: &str, default: impl Into<Value>) {
    let absent = match value.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if absent {
        put(value, field, default);
    }
}

/// Sets a number that is absent or 0.
pub fn fill_zero(value: &mut Value, field: &str, default: i64) {
    if number(value, field) == 0 {
        put(value, field, default);
    }
}

/// Whether two values say the same: an absent field, `null` and an empty list or map are alike, because clients that read an object and
/// write it back make the one of the other.
pub fn same(a: &Value, b: &Value) -> bool {
    let nothing = |value: &Value| !value.is_string() && is_blank(value);
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter().all(|(key, value)| same(value, right.get(key).unwrap_or(&Value::Null)))
                && right.iter().all(|(key, value)| left.contains_key(key) || nothing(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (left, right) => left == right || nothing(left) && nothing(right),
    }
}

/// A flat object without the fields that say nothing: those that are the [`same`] are equal.
pub fn stripped(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let said = map.iter().filter(|(_, value)| value.is_string() || !is_blank(value));
    Value::Object(said.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Whether a field says the same in two values.
pub fn same_field(a: &Value, b: &Value, field: &str) -> bool {
    same(a.get(field).unwrap_or(&Value::Null), b.get(field).unwrap_or(&Value::Null))
}

/// Writes every quantity of an object in canonical form. Text that is no quantity stays, and validation refuses it.
pub fn canonical_quantities(object: &mut Value, shape: &str) {
    if let Some(ty) = builtin().find(shape) {
        canonical(builtin(), ty, object);
    }
}

/// Goes where quantities can stand, and nowhere else: what is looked at to be changed is copied.
fn canonical(schema: &Schema, ty: TypeId, value: &mut Value) {
    match (schema.get(ty), value) {
        (Type::Scalar(Scalar::Quantity), value) => {
            if let Some(quantity) = quantity(value) {
                *value = quantity.to_string().into();
            }
        }
        (Type::Struct(_), Value::Object(map)) => {
            for (name, ty) in builtin_quantity_fields(ty) {
                if let Some(value) = map.get_mut(name).filter(|value| !value.is_null()) {
                    canonical(schema, *ty, value);
                }
            }
        }
        (Type::List(item), Value::Array(items)) => {
            items.iter_mut().for_each(|value| canonical(schema, *item, value));
        }
        (Type::Map(item), Value::Object(map)) => {
            map.iter_mut().for_each(|(_, value)| canonical(schema, *item, value));
        }
        (Type::Any(_) | Type::Scalar(_) | Type::Struct(_) | Type::List(_) | Type::Map(_), _) => {}
    }
}

/// A quantity that is nothing if absent.
pub fn quantity_or_zero(holder: &Value, field: &str) -> Option<Quantity> {
    some(holder, field).map_or_else(|| Some(Quantity::zero()), quantity)
}

/// A quantity, written as text or as a number.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) | Value::Encoded(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    #[test]
    fn absent_null_and_empty_say_the_same_and_nothing_else_does() {
        let object = json!({"a": {"b": [1]}, "c": null, "d": [], "e": {}});
        assert!(same(&object, &json!({"a": {"b": [1]}})));
        assert!(same(&json!({"a": {"b": [1]}}), &object));
        for other in
            [json!({"a": {"b": [2]}}), json!({"a": {"b": [1, 1]}}), json!({"a": {"b": [1]}, "f": false})]
        {
            assert!(!same(&object, &other), "{other}");
            assert!(!same(&other, &object), "{other}");
        }
        assert!(!same(&json!({"a": ""}), &json!({})), "an empty text is a value");
    }

    #[test]
    fn quantities_become_canonical_wherever_the_shape_has_them() {
        let mut node = json!({"status": {"capacity": {"memory": "1024Mi", "cpu": 2, "odd": "x"}}, "metadata": {"labels": {"m": "1024Mi"}}});
        canonical_quantities(&mut node, "core/v1.Node");
        assert_eq!(node["status"]["capacity"], json!({"memory": "1Gi", "cpu": "2", "odd": "x"}));
        assert_eq!(node["metadata"]["labels"]["m"], "1024Mi");
    }

    #[test]
    fn fields_are_made_where_something_else_was() {
        let mut value = json!({"spec": "text", "n": 0, "s": ""});
        put(field_mut(&mut value, "spec"), "x", 1);
        fill(&mut value, "s", "default");
        fill_zero(&mut value, "n", 3);
        assert_eq!(value, json!({"spec": {"x": 1}, "n": 3, "s": "default"}));
    }
}
