//! Sets of fields: who owns what, as paths into an object.

use std::collections::BTreeMap;

use lazaret_json::{Map, Value};

use lazaret_schema::{Field, ListKind, Schema, Type, TypeId};

use crate::PathElement;

/// A set of paths, as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// The path to here is in the set.
    pub(crate) member: bool,
    pub(crate) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// No path at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(Self::is_empty)
    }

    /// The same paths, where fields at the top have other names.
    pub(crate) fn renamed<'a>(mut self, names: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        for (from, to) in names {
            if let Some(below) = self.children.remove(&PathElement::field(from)) {
                self.children.insert(PathElement::field(to), below);
            }
        }
        self
    }

    /// The path to here and nothing below.
    pub(crate) fn member() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    /// No path, and nothing that could lead to one.
    pub(crate) fn is_bare(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// The paths that a manager that applies `value`, an object of type `ty`, claims: its leaves, and the items of keyed lists and maps
    /// themselves.
    #[must_use]
    pub fn of(schema: &Schema, ty: TypeId, value: &Value) -> Self {
        let mut set = Self::default();
        collect(schema, ty, None, value, &mut set);
        set
    }

    /// Paths in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.extend(other);
        result
    }

    /// Adds the paths of `other`. Whether any of them is new.
    pub fn extend(&mut self, other: &Self) -> bool {
        let mut grew = other.member && !self.member;
        self.member |= other.member;
        for (element, child) in &other.children {
            match self.children.get_mut(element) {
                Some(mine) => grew |= mine.extend(child),
                None => {
                    grew |= !child.is_empty();
                    self.children.insert(element.clone(), child.clone());
                }
            }
        }
        grew
    }

    /// Paths in this set alone.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && !theirs, true)
    }

    /// Paths in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && theirs, false)
    }

    /// Adds one path.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => self.member = true,
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Every path, as people read it.
    #[must_use]
    pub fn display(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.display_into(&mut String::new(), &mut paths);
        paths
    }

    fn display_into(&self, prefix: &mut String, paths: &mut Vec<String>) {
        if self.member {
            paths.push(prefix.clone());
        }
        for (element, child) in &self.children {
            let length = prefix.len();
            prefix.push_str(&element.display());
            child.display_into(prefix, paths);
            prefix.truncate(length);
        }
    }

    fn combine(&self, other: &Self, member: fn(bool, bool) -> bool, keep_unmatched: bool) -> Self {
        let mut result = Self { member: member(self.member, other.member), children: BTreeMap::new() };
        for (element, child) in &self.children {
            let combined = match other.children.get(element) {
                Some(theirs) => child.combine(theirs, member, keep_unmatched),
                None if keep_unmatched => child.clone(),
                None => continue,
            };
            if !combined.is_empty() {
                result.children.insert(element.clone(), combined);
            }
        }
        result
    }
}

fn collect(schema: &Schema, ty: TypeId, field: Option<&Field>, value: &Value, set: &mut FieldSet) {
    match (granular(schema, ty, field), value) {
        (Granular::Fields, Value::Object(map)) => {
            for (name, value) in map {
                collect_field(schema, ty, name, value, set);
            }
        }
        (Granular::Items(item, kind), Value::Array(items)) => {
            for value in items {
                collect_item(schema, item, item_element(schema, item, kind, value), value, set);
            }
        }
        (Granular::Fields | Granular::Items(..), Value::Null) => {}
        (Granular::Leaf | Granular::Fields | Granular::Items(..), _) => set.member = true,
    }
}

/// The paths of a field of a struct or map. An entry of a map is owned itself, too, and so is an empty value.
fn collect_field(schema: &Schema, owner: TypeId, name: &str, value: &Value, set: &mut FieldSet) {
    let child = set.children.entry(PathElement::field(name)).or_default();
    match child_type(schema, owner, name) {
        Some((ty, field)) => collect(schema, ty, field, value, child),
        None => child.member = true,
    }
    let is_named = schema.get_struct(owner).is_some_and(|found| found.fields.contains_key(name));
    let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
    child.member |= is_empty || !is_named;
}

/// The paths of an item of a list, and the item itself.
fn collect_item(schema: &Schema, item: TypeId, element: PathElement, value: &Value, set: &mut FieldSet) {
    let child = set.children.entry(element).or_default();
    collect(schema, item, None, value, child);
    child.member = true;
}

/// How a value is divided for ownership.
#[derive(Clone, Copy)]
pub(crate) enum Granular<'a> {
    /// It is not.
    Leaf,
    /// By field or map key.
    Fields,
    /// By item.
    Items(TypeId, &'a ListKind),
}

pub(crate) fn granular<'a>(schema: &'a Schema, ty: TypeId, field: Option<&'a Field>) -> Granular<'a> {
    let atomic = field.is_some_and(|field| field.atomic);
    let by_field = field.is_some_and(|field| field.granular);
    match schema.get(ty) {
        Type::Struct(found) if by_field || !found.atomic && !atomic => Granular::Fields,
        Type::Map(_) if !atomic => Granular::Fields,
        Type::List(item) => match field.map(|field| &field.list) {
            Some(kind @ (ListKind::Set | ListKind::Map(_))) => Granular::Items(*item, kind),
            Some(ListKind::Atomic) | None => Granular::Leaf,
        },
        Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::Map(_) => Granular::Leaf,
    }
}

/// The type of what is called `name` in a struct or map.
pub(crate) fn child_type<'a>(
    schema: &'a Schema,
    ty: TypeId,
    name: &str,
) -> Option<(TypeId, Option<&'a Field>)> {
    match schema.get(ty) {
        Type::Struct(found) => found.fields.get(name).map(|field| (field.ty, Some(field))),
        Type::Map(value) => Some((*value, None)),
        Type::Scalar(_) | Type::Any(_) | Type::List(_) => None,
    }
}

/// The identity of an item of a list. A key that the item omits and that has no default is no part of it.
pub(crate) fn item_element(schema: &Schema, item: TypeId, kind: &ListKind, value: &Value) -> PathElement {
    let ListKind::Map(keys) = kind else { return PathElement::value(value) };
    let fields = schema.get_struct(item).map(|found| &found.fields);
    let mut identity: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| {
            let default = || fields?.get(key)?.default.clone();
            Some((key.clone(), value.get(key).cloned().or_else(default)?))
        })
        .collect();
    identity.sort_by(|(a, _), (b, _)| a.cmp(b));
    PathElement::key(identity)
}
