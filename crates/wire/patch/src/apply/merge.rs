//! Merges the applied configuration into the live object.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::{Map, Value};

use lazaret_schema::{Field, ListKind, Schema, TypeId};

use crate::{
    PatchError, PathElement,
    fields::{Granular, child_type, granular, item_element},
};

/// `live` with `config` over it: single values and undivided ones from `config`, the rest merged by field and item.
pub(super) fn merged(
    schema: &Schema,
    ty: TypeId,
    field: Option<&Field>,
    live: &Value,
    config: &Value,
) -> Value {
    match (granular(schema, ty, field), live, config) {
        (Granular::Fields, Value::Object(live), Value::Object(config)) => {
            Value::Object(fields(schema, ty, live, config))
        }
        (Granular::Items(item, kind), Value::Array(live), Value::Array(config)) => {
            Value::Array(items(schema, item, kind, live, config).into())
        }
        (Granular::Leaf | Granular::Fields | Granular::Items(..), _, _) => config.clone(),
    }
}

fn fields(schema: &Schema, ty: TypeId, live: &Map, config: &Map) -> Map {
    let mut result = live.clone();
    for (name, wanted) in config {
        let value = match (child_type(schema, ty, name), live.get(name)) {
            (_, _) if wanted.is_null() => {
                result.remove(name);
                continue;
            }
            (Some((ty, field)), Some(current)) => merged(schema, ty, field, current, wanted),
            _ => wanted.clone(),
        };
        result.insert(name.clone(), value);
    }
    result
}

/// Items in the order of `config` where it has them; items that only `live` has stay where they stood between their neighbours.
fn items(schema: &Schema, item: TypeId, kind: &ListKind, live: &[Value], config: &[Value]) -> Vec<Value> {
    let identify = |value: &Value| item_element(schema, item, kind, value);
    let wanted: Vec<(PathElement, &Value)> = config.iter().map(|value| (identify(value), value)).collect();
    let known: Vec<(PathElement, &Value)> = live.iter().map(|value| (identify(value), value)).collect();
    let wanted_ids: BTreeSet<&PathElement> = wanted.iter().map(|(id, _)| id).collect();
    let mut result = Vec::with_capacity(live.len() + config.len());
    let mut next = wanted.iter();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    // Of items that stand twice the first counts.
    let by_id: BTreeMap<&PathElement, &Value> = known.iter().rev().map(|(id, value)| (id, *value)).collect();
    let take = |(id, value): &(PathElement, &Value)| {
        let current = by_id.get(id);
        current.map_or_else(|| (*value).clone(), |current| merged(schema, item, None, current, value))
    };
    for (id, value) in &known {
        if !wanted_ids.contains(id) {
            result.push((*value).clone());
        } else if !done.contains(id) {
            // All that is wanted up to this item comes before what follows it in `live`.
            for entry in next.by_ref() {
                done.insert(&entry.0);
                result.push(take(entry));
                if entry.0 == *id {
                    break;
                }
            }
        }
    }
    result.extend(next.map(take));
    result
}

/// No item of a keyed list or set may stand twice in what is applied.
pub(super) fn check_unique(
    schema: &Schema,
    ty: TypeId,
    field: Option<&Field>,
    value: &Value,
    path: &str,
) -> Result<(), PatchError> {
    match (granular(schema, ty, field), value) {
        (Granular::Fields, Value::Object(map)) => {
            for (name, value) in map {
                if let Some((ty, field)) = child_type(schema, ty, name) {
                    check_unique(schema, ty, field, value, &format!("{path}.{name}"))?;
                }
            }
            Ok(())
        }
        (Granular::Items(item, kind), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for value in items {
                let id = item_element(schema, item, kind, value);
                let below = format!("{path}{}", id.display());
                if id.is_nameless() {
                    return Err(PatchError::Malformed(format!(
                        "{path}: an item has none of the keys that identify it"
                    )));
                }
                if !seen.insert(id) {
                    return Err(PatchError::Malformed(format!(
                        "{below}: stands twice in the applied object"
                    )));
                }
                check_unique(schema, item, None, value, &below)?;
            }
            Ok(())
        }
        (Granular::Leaf | Granular::Fields | Granular::Items(..), _) => Ok(()),
    }
}
