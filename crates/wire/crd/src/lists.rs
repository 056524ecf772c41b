//! Lists whose items have an identity: no two items may have the same.

use std::collections::{HashMap, HashSet};

use lazaret_fields::{Errors, FieldProblem};
use lazaret_json::Value;

use crate::structural::{ListType, Structural};

/// Items that stand twice in a set or keyed list, wherever one is.
pub(crate) fn check_unique(schema: &Structural, value: &Value, path: &mut String, errors: &mut Errors) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let Some(child) = schema.child(name) else { continue };
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                check_unique(child, value, path, errors);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            of_list(schema, items, path, errors);
            let Some(inner) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                check_unique(inner, item, path, errors);
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {}
    }
}

fn of_list(schema: &Structural, items: &[Value], path: &str, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let shown = match &schema.list {
            ListType::Atomic => return,
            ListType::Set => item.clone(),
            ListType::Map(_) if !item.is_object() && !item.is_null() => {
                let why = "must be an object for an array of list-type map";
                errors.invalid(format!("{path}[{at}]"), item.clone(), why);
                return;
            }
            ListType::Map(keys) => identity(schema, keys, item),
        };
        if !seen.insert(shown.clone()) {
            errors.push(format!("{path}[{at}]"), FieldProblem::Duplicate(shown));
        }
    }
}

/// The keys of an item, with the defaults of those it leaves out.
pub(crate) fn identity(schema: &Structural, keys: &[String], item: &Value) -> Value {
    let default = |key: &String| schema.items.as_ref()?.properties.get(key)?.default.clone();
    let known = |key: &String| Some((key.clone(), item.get(key).cloned().or_else(|| default(key))?));
    Value::Object(keys.iter().filter_map(known).collect())
}

/// The items of a keyed list as it was before, found by their identity. Where items have none, nothing is found.
pub(crate) struct OldItems<'v> {
    items: HashMap<Value, &'v Value>,
}

impl<'v> OldItems<'v> {
    pub(crate) fn of(schema: &Structural, old: Option<&'v Value>) -> Self {
        let mut items = HashMap::new();
        if let ListType::Map(keys) = &schema.list {
            for item in old.and_then(Value::as_array).into_iter().flatten() {
                items.entry(identity(schema, keys, item)).or_insert(item);
            }
        }
        Self { items }
    }

    /// The old value of an item of the list.
    pub(crate) fn get(&self, schema: &Structural, item: &Value) -> Option<&'v Value> {
        match &schema.list {
            ListType::Map(keys) if !self.items.is_empty() => {
                self.items.get(&identity(schema, keys, item)).copied()
            }
            ListType::Map(_) | ListType::Set | ListType::Atomic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    #[test]
    fn no_item_stands_twice() {
        let schema = Structural::read(&json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}},
            "free": {"type": "array", "items": {"type": "string"}},
        }}));
        let mut errors = Errors::new();
        let object = json!({"set": ["a", "b", "a"], "map": [{"port": 1}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}], "free": ["a", "a"]});
        check_unique(&schema, &object, &mut String::new(), &mut errors);
        let found: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [r#"map[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#, r#"set[2]: Duplicate value: "a""#]
        );
    }
}
