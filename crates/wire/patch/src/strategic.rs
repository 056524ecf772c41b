//! Strategic merge patch: a merge patch that knows which lists are keyed.

use std::collections::{BTreeSet, HashMap, HashSet};

use lazaret_json::{List, Map, Value};

use lazaret_schema::{Field, Schema, Type, TypeId};

use crate::{PatchError, keyed::KeyedItems};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder";
const DELETE: &str = "$deleteFromPrimitiveList";

/// Deeper patches are refused.
const DEPTH_MAX: usize = lazaret_schema::DEPTH_MAX;

type Object = Map;

/// Applies a strategic merge patch to an object of type `ty`. `null` is a patch that does nothing.
///
/// # Errors
/// When a directive is unknown or misplaced, an item lacks its merge key, or the patch is too deep.
pub fn strategic_merge(
    schema: &Schema,
    ty: TypeId,
    object: Value,
    patch: &Value,
) -> Result<Value, PatchError> {
    if patch.is_null() {
        return Ok(object);
    }
    let Value::Object(patch) = patch else {
        return Err(malformed("a strategic merge patch must be an object"));
    };
    Merge { schema }.object(Some(ty), as_object(object), patch, 0).map(Value::Object)
}

struct Merge<'a> {
    schema: &'a Schema,
}

/// A list in a patch with the directives that stand beside it.
struct ListPatch<'a> {
    name: &'a str,
    items: &'a [Value],
    order: Option<&'a Value>,
    deleted: Option<&'a Value>,
}

impl Merge<'_> {
    fn object(
        &self,
        ty: Option<TypeId>,
        mut result: Object,
        patch: &Object,
        depth: usize,
    ) -> Result<Object, PatchError> {
        if depth > DEPTH_MAX {
            return Err(malformed(format!("the patch is nested deeper than {DEPTH_MAX} levels")));
        }
        match directive(patch)? {
            Directive::Merge => {}
            Directive::Replace => return Ok(without_directives(patch)),
            Directive::Delete => return Ok(Object::new()),
        }
        retain_keys(patch, &mut result)?;
        for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
            let field = self.field(ty, name);
            match value {
                Value::Null => {
                    result.remove(name);
                }
                Value::Object(inner) => {
                    let merged = self.inner_object(field, result.remove(name), inner, depth)?;
                    result.insert(name.clone(), Value::Object(merged));
                }
                Value::Array(items) => {
                    let [order, deleted] =
                        [ORDER, DELETE].map(|prefix| patch.get(&format!("{prefix}/{name}")));
                    let list = ListPatch { name, items, order, deleted };
                    let merged = self.list(field, result.remove(name), &list, depth)?;
                    result.insert(name.clone(), Value::Array(merged.into()));
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
                    result.insert(name.clone(), value.clone());
                }
            }
        }
        self.lone_directives(ty, patch, &mut result, depth)?;
        Ok(result)
    }

    fn inner_object(
        &self,
        field: Option<&Field>,
        current: Option<Value>,
        patch: &Object,
        depth: usize,
    ) -> Result<Object, PatchError> {
        if field.is_some_and(|field| field.replace) {
            return Ok(without_directives(patch));
        }
        let current = current.map(as_object).unwrap_or_default();
        self.object(field.map(|field| field.ty), current, patch, depth + 1)
    }

    /// `$setElementOrder/x` and `$deleteFromPrimitiveList/x` also count where the patch has no `x`.
    fn lone_directives(
        &self,
        ty: Option<TypeId>,
        patch: &Object,
        result: &mut Object,
        depth: usize,
    ) -> Result<(), PatchError> {
        for (key, value) in patch.iter().filter(|(key, _)| key.starts_with('$')) {
            let (prefix, name) = key.split_once('/').unwrap_or((key, ""));
            let list = match prefix {
                DIRECTIVE | RETAIN_KEYS if name.is_empty() => continue,
                ORDER => ListPatch { name, items: &[], order: Some(value), deleted: None },
                DELETE => ListPatch { name, items: &[], order: None, deleted: Some(value) },
                _ => return Err(malformed(format!("unknown directive {key}"))),
            };
            if result.get(name).is_some_and(Value::is_array) && !patch.contains_key(name) {
                let field = self.field(ty, name).filter(|field| field.merge.is_some());
                let merged = self.list(field, result.remove(name), &list, depth)?;
                result.insert(name.to_owned(), Value::Array(merged.into()));
            }
        }
        Ok(())
    }

    fn list(
        &self,
        field: Option<&Field>,
        current: Option<Value>,
        patch: &ListPatch<'_>,
        depth: usize,
    ) -> Result<Vec<Value>, PatchError> {
        let current = match current {
            Some(Value::Array(items)) => items,
            _ => List::default(),
        };
        let Some((field, merge)) = field.and_then(|field| Some((field, field.merge.as_ref()?))) else {
            // Not a list that merges: replaced, unless only directives spoke of it.
            let spoken_of = patch.order.is_none() && patch.deleted.is_none() || !patch.items.is_empty();
            return Ok(if spoken_of { patch.items.iter().map(cleaned).collect() } else { current.into() });
        };
        match merge {
            Some(key) => self.keyed_list(key, self.item_type(field.ty), current.into(), patch, depth),
            None => primitive_list(current.into(), patch),
        }
    }

    fn keyed_list(
        &self,
        key: &str,
        item_type: Option<TypeId>,
        current: Vec<Value>,
        patch: &ListPatch<'_>,
        depth: usize,
    ) -> Result<Vec<Value>, PatchError> {
        let replaces_all = patch
            .items
            .iter()
            .any(|item| item.get(DIRECTIVE) == Some(&"replace".into()) && item.get(key).is_none());
        let mut items = KeyedItems::new(key, if replaces_all { Vec::new() } else { current });
        for item in patch.items {
            let item = item
                .as_object()
                .ok_or_else(|| malformed(format!("{}: items must be objects with a {key}", patch.name)))?;
            let directive = directive(item)?;
            let Some(wanted) = item.get(key) else {
                if directive == Directive::Replace {
                    continue;
                }
                return Err(malformed(format!("{}: an item lacks its merge key {key}", patch.name)));
            };
            match (directive, items.get_mut(wanted)) {
                (Directive::Delete, _) => items.remove(wanted),
                (Directive::Replace, Some(known)) => *known = Value::Object(without_directives(item)),
                (Directive::Merge, Some(known)) => {
                    let merged = self.object(item_type, as_object(known.take()), item, depth + 1)?;
                    *known = Value::Object(merged);
                }
                (Directive::Merge | Directive::Replace, None) => {
                    items.push(Value::Object(self.object(item_type, Object::new(), item, depth + 1)?));
                }
            }
        }
        in_order(items.into(), patch, Some(key))
    }

    fn field(&self, ty: Option<TypeId>, name: &str) -> Option<&Field> {
        self.schema.get_struct(ty?)?.fields.get(name)
    }

    fn item_type(&self, list: TypeId) -> Option<TypeId> {
        match self.schema.get(list) {
            Type::List(item) => Some(*item),
            Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::Map(_) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Object) -> Result<Directive, PatchError> {
    match patch.get(DIRECTIVE) {
        None => Ok(Directive::Merge),
        Some(Value::String(name)) => match name.as_str() {
            "merge" => Ok(Directive::Merge),
            "replace" => Ok(Directive::Replace),
            "delete" => Ok(Directive::Delete),
            other => Err(malformed(format!("unknown {DIRECTIVE}: {other}: use merge, replace or delete"))),
        },
        Some(_) => Err(malformed(format!("{DIRECTIVE} must be a string"))),
    }
}

fn retain_keys(patch: &Object, result: &mut Object) -> Result<(), PatchError> {
    let Some(keep) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keep: BTreeSet<&str> = array(keep, RETAIN_KEYS)?.iter().filter_map(Value::as_str).collect();
    if let Some(stray) = patch.keys().find(|key| !key.starts_with('$') && !keep.contains(key.as_str())) {
        return Err(malformed(format!("{stray} is in the patch but not in its {RETAIN_KEYS}")));
    }
    result.retain(|key, _| keep.contains(key.as_str()));
    Ok(())
}

/// Brings items into the order the patch asks for. Items that it does not name keep their place after the item they followed.
fn in_order(items: Vec<Value>, patch: &ListPatch<'_>, key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    let Some(order) = patch.order else { return Ok(items) };
    let identity = |item: &Value| key.map_or_else(|| Some(item.clone()), |key| item.get(key).cloned());
    let mut ranks = HashMap::new();
    for (rank, wanted) in array(order, ORDER)?.iter().filter_map(identity).enumerate() {
        ranks.entry(wanted).or_insert(rank);
    }
    let mut last = None;
    let mut placed: Vec<((usize, bool), Value)> = Vec::with_capacity(items.len());
    for item in items {
        let rank = identity(&item).and_then(|identity| ranks.get(&identity)).copied();
        last = rank.or(last);
        placed.push(((last.map_or(0, |at| at + 1), rank.is_none()), item));
    }
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, item)| item).collect())
}

/// A list of simple values as a set: what is there stays unless it is deleted, and what is new comes after it.
fn primitive_list(mut items: Vec<Value>, patch: &ListPatch<'_>) -> Result<Vec<Value>, PatchError> {
    let deleted = patch.deleted.map(|list| array(list, DELETE)).transpose()?.unwrap_or(&[]);
    let deleted: HashSet<&Value> = deleted.iter().collect();
    items.retain(|item| !deleted.contains(item));
    let kept: HashSet<&Value> = items.iter().collect();
    let added: Vec<Value> = patch.items.iter().filter(|item| !kept.contains(item)).cloned().collect();
    drop(kept);
    items.extend(added);
    in_order(items, patch, None)
}

/// A value without anything that only speaks to the patch.
fn cleaned(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(items) => Value::Array(items.iter().map(cleaned).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            value.clone()
        }
    }
}

fn without_directives(map: &Object) -> Object {
    map.iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
        .map(|(key, value)| (key.clone(), cleaned(value)))
        .collect()
}

fn as_object(value: Value) -> Object {
    match value {
        Value::Object(map) => map,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Encoded(_)
        | Value::Array(_) => Object::new(),
    }
}

fn array<'a>(value: &'a Value, what: &str) -> Result<&'a [Value], PatchError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| malformed(format!("{what} must be a list")))
}

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

#[cfg(test)]
mod tests;
