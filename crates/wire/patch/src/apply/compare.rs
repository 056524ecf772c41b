//! Which fields differ between two states of an object.

use std::collections::{BTreeMap, btree_map};

use lazaret_json::{Map, Value};

use lazaret_schema::{Field, ListKind, Scalar, Schema, Type, TypeId};

use crate::{
    FieldSet, PathElement,
    fields::{Granular, child_type, granular, item_element},
};

/// The difference of two states.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Added, or with another value. A new element counts with all of its content: a map and its keys, an item and its fields.
    pub(super) changed: FieldSet,
    /// No longer there, and all that was in it.
    pub(super) removed: FieldSet,
}

/// Compares two states; `null` is that of an object which is not there yet.
pub(super) fn compare(schema: &Schema, ty: TypeId, before: &Value, after: &Value) -> Difference {
    let mut difference = Difference::default();
    Walk { schema, literal: false }.both(ty, None, (before, after), &mut difference);
    difference
}

/// The same for the result of an apply: a manager that applies `false` or 0 where there is more changes the field, and does not leave
/// it out.
pub(super) fn compare_applied(schema: &Schema, ty: TypeId, before: &Value, after: &Value) -> Difference {
    let mut difference = Difference::default();
    Walk { schema, literal: true }.both(ty, None, (before, after), &mut difference);
    difference
}

struct Walk<'a> {
    schema: &'a Schema,
    /// A value that says no more than its absence is still one.
    literal: bool,
}

impl Walk<'_> {
    /// Two states of what is there on both sides. `null` stands for one with nothing in it.
    fn both(&self, ty: TypeId, field: Option<&Field>, values: (&Value, &Value), found: &mut Difference) {
        use Value::{Array, Null, Object};
        match (granular(self.schema, ty, field), values) {
            (Granular::Fields, (old @ (Null | Object(_)), new @ (Null | Object(_)))) => {
                self.fields(ty, (old.as_object(), new.as_object()), found);
            }
            (Granular::Items(item, kind), (old @ (Null | Array(_)), new @ (Null | Array(_)))) => {
                self.items(item, kind, (list(old), list(new)), found);
            }
            (Granular::Leaf | Granular::Fields | Granular::Items(..), (before, after)) => {
                found.changed.member |= before != after && !(is_nothing(before) && is_nothing(after));
            }
        }
    }

    fn fields(&self, ty: TypeId, (old, new): (Option<&Map>, Option<&Map>), found: &mut Difference) {
        for (name, gone) in old.into_iter().flatten() {
            let wanted = new.and_then(|new| new.get(name));
            if wanted.is_some_and(|value| !is_empty(value) || self.literal && !value.is_null()) {
                continue;
            }
            let child = child_type(self.schema, ty, name);
            if self.present_value(new, name, child).is_some() || self.is_left_out(child, gone) {
                continue;
            }
            let element = PathElement::field(name);
            match child {
                Some((ty, Some(field))) if self.is_always_there(name, field) => {
                    self.descend(element, ty, Some(field), (gone, &Value::Null), found);
                }
                child => drop(found.removed.children.insert(element, self.whole(child, gone))),
            }
        }
        for (name, value) in new.into_iter().flatten() {
            if old.and_then(|old| old.get(name)) == Some(value) {
                continue;
            }
            let child = child_type(self.schema, ty, name);
            let replaces = self.literal && self.present_value(old, name, child).is_some();
            if self.is_left_out(child, value) && !replaces {
                continue;
            }
            let element = PathElement::field(name);
            match (self.present_value(old, name, child), child) {
                (Some(was), Some((ty, field))) => self.descend(element, ty, field, (was, value), found),
                (None, Some((ty, Some(field)))) if self.is_always_there(name, field) => {
                    self.descend(element, ty, Some(field), (&Value::Null, value), found);
                }
                (Some(_), None) => drop(found.changed.children.insert(element, FieldSet::member())),
                (None, child) => drop(found.changed.children.insert(element, self.whole(child, value))),
            }
        }
    }

    /// The value of a field, unless it counts as left out.
    fn present_value<'v>(
        &self,
        map: Option<&'v Map>,
        name: &str,
        child: Option<Child<'_>>,
    ) -> Option<&'v Value> {
        map?.get(name).filter(|value| !self.is_left_out(child, value))
    }

    fn items(&self, item: TypeId, kind: &ListKind, (old, new): (&[Value], &[Value]), found: &mut Difference) {
        let mut states: BTreeMap<PathElement, (Occurrence<'_>, Occurrence<'_>)> = BTreeMap::new();
        let identify = |value| item_element(self.schema, item, kind, value);
        old.iter().for_each(|value| states.entry(identify(value)).or_default().0.add(value));
        new.iter().for_each(|value| states.entry(identify(value)).or_default().1.add(value));
        for (element, states) in states {
            self.item(item, element, &states, found);
        }
    }

    /// Items that stand more than once are compared and owned undivided.
    fn item(
        &self,
        item: TypeId,
        element: PathElement,
        (old, new): &(Occurrence<'_>, Occurrence<'_>),
        found: &mut Difference,
    ) {
        use Occurrence::{Once, Repeated};
        match (old, new) {
            (Once(was), Once(value)) if was == value => {}
            (Once(was), Once(value)) => self.descend(element, item, None, (was, value), found),
            (Repeated(was), Repeated(values)) if was == values => {}
            (Repeated(_), Repeated(_)) => drop(found.changed.children.insert(element, FieldSet::member())),
            (old, new) => {
                if let Some(gone) = old.set(|value| self.whole(Some((item, None)), value)) {
                    found.removed.children.insert(element.clone(), gone);
                }
                if let Some(added) = new.set(|value| self.whole(Some((item, None)), value)) {
                    found.changed.children.insert(element, added);
                }
            }
        }
    }

    /// All of what one side alone has.
    fn whole(&self, child: Option<Child<'_>>, value: &Value) -> FieldSet {
        let mut set = FieldSet::member();
        let Some((ty, field)) = child else { return set };
        match (granular(self.schema, ty, field), value) {
            (Granular::Fields, Value::Object(map)) => {
                for (name, value) in map {
                    let child = child_type(self.schema, ty, name);
                    if !self.is_left_out(child, value) {
                        set.children.insert(PathElement::field(name), self.whole(child, value));
                    }
                }
                self.add_always_present(ty, map, &mut set);
            }
            (Granular::Items(item, kind), Value::Array(items)) => {
                for value in items {
                    self.whole_item(item, item_element(self.schema, item, kind, value), value, &mut set);
                }
            }
            (Granular::Leaf | Granular::Fields | Granular::Items(..), _) => {}
        }
        set
    }

    /// The fields that a struct has even where they are not set.
    fn add_always_present(&self, ty: TypeId, map: &Map, set: &mut FieldSet) {
        let fields = self.schema.get_struct(ty).into_iter().flat_map(|found| &found.fields);
        for (name, _) in fields.filter(|(name, field)| self.is_always_there(name, field)) {
            if !map.contains_key(name) {
                set.children.insert(PathElement::field(name), FieldSet::member());
            }
        }
    }

    /// An item with all that is in it; one that stands twice is owned undivided.
    fn whole_item(&self, item: TypeId, element: PathElement, value: &Value, set: &mut FieldSet) {
        match set.children.entry(element) {
            btree_map::Entry::Vacant(free) => drop(free.insert(self.whole(Some((item, None)), value))),
            btree_map::Entry::Occupied(mut taken) => drop(taken.insert(FieldSet::member())),
        }
    }

    /// Goes on below one element that differs, and leaves no empty node behind.
    fn descend(
        &self,
        element: PathElement,
        ty: TypeId,
        field: Option<&Field>,
        values: (&Value, &Value),
        found: &mut Difference,
    ) {
        let mut below = Difference::default();
        self.both(ty, field, values, &mut below);
        if !below.removed.is_bare() {
            found.removed.children.insert(element.clone(), below.removed);
        }
        if !below.changed.is_bare() {
            found.changed.children.insert(element, below.changed);
        }
    }

    /// Whether every object has the field, even if empty: no manager owns the field itself, only its content.
    fn is_always_there(&self, name: &str, field: &Field) -> bool {
        let by_type = || match self.schema.get(field.ty) {
            Type::Struct(_) => true,
            Type::Scalar(Scalar::Time | Scalar::MicroTime) => name != LEFT_OUT_TIME,
            Type::Scalar(_) | Type::Any(_) | Type::List(_) | Type::Map(_) => false,
        };
        field.always || !field.optional && by_type()
    }

    /// Whether it is the same to say this of a field and to say nothing.
    fn is_left_out(&self, child: Option<Child<'_>>, value: &Value) -> bool {
        is_empty(value)
            && child.and_then(|(_, field)| field).is_some_and(|field| {
                let can_be_empty = match self.schema.get(field.ty) {
                    Type::Scalar(_) | Type::List(_) | Type::Map(_) => true,
                    Type::Struct(_) | Type::Any(_) => false,
                };
                can_be_empty && !field.optional && !field.always
            })
    }
}

/// How often an item stands in a list.
#[derive(Default)]
enum Occurrence<'v> {
    #[default]
    Never,
    Once(&'v Value),
    Repeated(Vec<&'v Value>),
}

impl<'v> Occurrence<'v> {
    fn add(&mut self, value: &'v Value) {
        *self = match std::mem::take(self) {
            Self::Never => Self::Once(value),
            Self::Once(first) => Self::Repeated(vec![first, value]),
            Self::Repeated(mut values) => {
                values.push(value);
                Self::Repeated(values)
            }
        };
    }

    /// The fields owned of it.
    fn set(&self, whole: impl FnOnce(&Value) -> FieldSet) -> Option<FieldSet> {
        match self {
            Self::Never => None,
            Self::Once(value) => Some(whole(value)),
            Self::Repeated(_) => Some(FieldSet::member()),
        }
    }
}

/// The type of a field or item, and the field.
type Child<'a> = (TypeId, Option<&'a Field>);

/// The one time that an object does not have before it is set.
const LEFT_OUT_TIME: &str = "creationTimestamp";

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The value of a field that is always there before it is set.
fn is_nothing(value: &Value) -> bool {
    is_empty(value) && !value.is_array()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Encoded(_) => false,
    }
}
