//! Taking out what a manager applied before and no longer wants.

use lazaret_json::Value;

use lazaret_schema::{Field, Schema, TypeId};

use crate::{
    FieldSet, PathElement,
    fields::{Granular, child_type, granular, item_element},
};

/// Removes from `object` every path in `last` that no manager owns: a field when nothing at or below it is `owned`, an item of a list or an entry
/// of a map when it is not `owned` itself. A manager that owns only a field of an item does not keep the item.
pub(super) fn prune(schema: &Schema, ty: TypeId, object: &mut Value, last: &FieldSet, owned: &FieldSet) {
    // Metadata identifies the object and has no owner: only its fields are ever pruned.
    let metadata = PathElement::field("metadata");
    let mut owned = owned.clone();
    if last.children.contains_key(&metadata) {
        owned.children.entry(metadata).or_default().member = true;
    }
    below(schema, ty, None, object, last, &owned);
}

fn below(
    schema: &Schema,
    ty: TypeId,
    field: Option<&Field>,
    value: &mut Value,
    last: &FieldSet,
    owned: &FieldSet,
) {
    let nothing = FieldSet::default();
    match (granular(schema, ty, field), value) {
        (Granular::Fields, Value::Object(map)) => {
            map.retain(|name, value| {
                let element = PathElement::field(name);
                let Some(was) = last.children.get(&element).filter(|was| !was.is_empty()) else {
                    return true;
                };
                let now = owned.children.get(&element).unwrap_or(&nothing);
                let is_named =
                    schema.get_struct(ty).is_some_and(|found| found.fields.contains_key(name.as_str()));
                let gone = if is_named { now.is_empty() } else { was.member && !now.member };
                if gone {
                    return false;
                }
                if let Some((ty, field)) = child_type(schema, ty, name) {
                    below(schema, ty, field, value, was, now);
                }
                true
            });
        }
        (Granular::Items(item, kind), Value::Array(items)) => {
            items.retain_mut(|value| {
                let element = item_element(schema, item, kind, value);
                let Some(was) = last.children.get(&element).filter(|was| !was.is_empty()) else {
                    return true;
                };
                let now = owned.children.get(&element).unwrap_or(&nothing);
                if was.member && !now.member {
                    return false;
                }
                below(schema, item, None, value, was, now);
                true
            });
        }
        (Granular::Leaf | Granular::Fields | Granular::Items(..), _) => {}
    }
}
