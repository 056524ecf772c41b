//! Which fields differ between two states of an object.

use std::collections::BTreeMap;

use lazaret_json::Value;

use lazaret_schema::{Field, Schema, TypeId};

use crate::{
    FieldSet, PathElement,
    fields::{Granular, child_type, collect_field, collect_item, granular, item_element},
};

/// What differs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Added, or with another value.
    pub(super) changed: FieldSet,
    /// No longer there.
    pub(super) removed: FieldSet,
}

pub(super) fn compare(schema: &Schema, ty: TypeId, before: &Value, after: &Value) -> Difference {
    let mut difference = Difference::default();
    Walk { schema }.both(ty, None, (before, after), &mut difference.changed, &mut difference.removed);
    difference
}

struct Walk<'a> {
    schema: &'a Schema,
}

impl Walk<'_> {
    fn both(
        &self,
        ty: TypeId,
        field: Option<&Field>,
        values: (&Value, &Value),
        changed: &mut FieldSet,
        removed: &mut FieldSet,
    ) {
        let schema = self.schema;
        match (granular(schema, ty, field), values) {
            (Granular::Fields, (Value::Object(old), Value::Object(new))) => {
                for (name, gone) in old.iter().filter(|(name, _)| !new.contains_key(name)) {
                    collect_field(schema, ty, name, gone, removed);
                }
                for (name, value) in new {
                    let Some(was) = old.get(name) else {
                        collect_field(schema, ty, name, value, changed);
                        continue;
                    };
                    if was == value {
                        continue;
                    }
                    let element = PathElement::field(name);
                    match child_type(schema, ty, name) {
                        Some((ty, field)) => self.descend(element, ty, field, (was, value), changed, removed),
                        None => changed.insert(&[element]),
                    }
                }
            }
            (Granular::Items(item, kind), (Value::Array(old), Value::Array(new))) => {
                let identify = |value| (item_element(schema, item, kind, value), value);
                let old: BTreeMap<PathElement, &Value> = old.iter().map(identify).collect();
                let new: BTreeMap<PathElement, &Value> = new.iter().map(identify).collect();
                for (element, gone) in old.iter().filter(|(element, _)| !new.contains_key(*element)) {
                    collect_item(schema, item, element.clone(), gone, removed);
                }
                for (element, value) in new {
                    match old.get(&element) {
                        Some(was) if *was == value => {}
                        Some(was) => self.descend(element, item, None, (was, value), changed, removed),
                        None => collect_item(schema, item, element, value, changed),
                    }
                }
            }
            (Granular::Leaf | Granular::Fields | Granular::Items(..), (before, after)) => {
                changed.member |= before != after
            }
        }
    }

    /// Goes on below one element that differs, and leaves no empty node behind.
    fn descend(
        &self,
        element: PathElement,
        ty: TypeId,
        field: Option<&Field>,
        values: (&Value, &Value),
        changed: &mut FieldSet,
        removed: &mut FieldSet,
    ) {
        let (mut changed_below, mut removed_below) = (FieldSet::default(), FieldSet::default());
        self.both(ty, field, values, &mut changed_below, &mut removed_below);
        for (set, below) in [(changed, changed_below), (removed, removed_below)] {
            if !below.is_empty() {
                set.children.entry(element.clone()).or_default().extend(&below);
            }
        }
    }
}
