//! The table in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use lazaret_json::Value;

use crate::{limits::Limits, parse};

/// A type by its number in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) u32);

/// Types that refer to each other by number.
#[derive(Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    names: BTreeMap<String, TypeId>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// A single value.
    Scalar(Scalar),
    /// Any JSON without a schema.
    Any(Holder),
    /// Named fields.
    Struct(StructType),
    /// Several values of one type. How they are distinguished is a property of the field.
    List(TypeId),
    /// Values of one type by name.
    Map(TypeId),
}

/// The kinds of single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// True or false.
    Bool,
    /// A floating-point number.
    Double,
    /// Bytes: base64 in JSON.
    Bytes,
    /// A quantity: text, or a number that people write without quotes.
    Quantity,
    /// An instant to the second.
    Time,
    /// An instant to the microsecond.
    MicroTime,
    /// A length of time, as Go writes it.
    Duration,
    /// A whole number or text.
    IntOrString,
}

/// How protobuf carries arbitrary JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A message whose field 1 holds JSON text, or an enveloped object.
    Raw,
    /// A message whose field 1 holds JSON text.
    Json,
    /// A message whose field 1 is a list of strings, a plain list in JSON.
    StringList,
    /// The message of a JSON schema, which refers to itself: any JSON elsewhere.
    Schema,
    /// A message with a schema, or with a list of them.
    SchemaOrList,
    /// A message with a schema, or with a truth value.
    SchemaOrBool,
    /// A message with a schema, or with a list of names.
    SchemaOrStrings,
    /// A message of which nothing is known: skipped.
    Opaque,
}

/// A type with named fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StructType {
    /// `group/version.Name`.
    pub name: String,
    /// Owned and merged as a whole.
    pub atomic: bool,
    /// Fields that are not listed are kept all the same.
    pub open: bool,
    /// One of the fields is set, and no other.
    pub union: bool,
    /// By JSON name; those of embedded structs among them.
    pub fields: BTreeMap<String, Field>,
    /// Structs that are a message of their own in protobuf but flat in JSON, by number.
    pub(crate) inline: BTreeMap<u32, TypeId>,
    /// In the order of the table, then those of embedded structs.
    pub(crate) listed: Vec<String>,
    /// Single values that are written even when they say nothing, and how.
    pub(crate) always: Vec<(String, Value)>,
    /// By protobuf number, for the fields that are not in an inline struct.
    pub(crate) numbers: BTreeMap<u32, String>,
}

impl StructType {
    /// All fields with a number of their own, in the order of the numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.numbers.values().filter_map(|name| Some((name.as_str(), self.fields.get(name)?)))
    }

    /// All fields, in the order of the table.
    pub fn listed(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.listed.iter().filter_map(|name| Some((name.as_str(), self.fields.get(name)?)))
    }

    /// A type without a message in protobuf.
    #[must_use]
    pub fn of(name: &str, fields: BTreeMap<String, Field>, open: bool) -> Self {
        Self { name: name.to_owned(), open, fields, ..Self::default() }
    }
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The type of its value.
    pub ty: TypeId,
    /// Distinguishes absent from zero.
    pub optional: bool,
    /// Written even when zero.
    pub always: bool,
    /// Must be set by the client that writes the object.
    pub required: bool,
    /// For a list: how its items are distinguished.
    pub list: ListKind,
    /// For a map or struct: owned as a whole.
    pub atomic: bool,
    /// For a struct that is otherwise owned as a whole: owned by field here.
    pub granular: bool,
    /// A strategic merge patch merges this list, matching items by this key (`None`: by value).
    pub merge: Option<Option<String>>,
    /// A strategic merge patch replaces this map.
    pub replace: bool,
    /// A strategic merge patch may name the only keys to keep.
    pub retain_keys: bool,
    /// The value that stands for an absent one.
    pub default: Option<Value>,
    /// The values that it may have, where its type permits more.
    pub limits: Option<Box<Limits>>,
}

/// How items of a list are distinguished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// They are not: the list is one value.
    #[default]
    Atomic,
    /// By value.
    Set,
    /// By these fields.
    Map(Vec<String>),
}

impl Schema {
    /// The type of this name: `group/version.Name`, as in `resource/v1.ResourceClaim`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    /// The type behind a number.
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The struct behind a number, if it is one.
    #[must_use]
    pub fn get_struct(&self, id: TypeId) -> Option<&StructType> {
        match self.get(id) {
            Type::Struct(found) => Some(found),
            Type::Scalar(_) | Type::Any(_) | Type::List(_) | Type::Map(_) => None,
        }
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, TypeId)> {
        self.names.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// Adds a type without a name.
    pub fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(ty);
        id
    }

    /// Adds a type under a name, or gives the one of that name new content.
    pub fn define(&mut self, name: &str, ty: Type) -> TypeId {
        let id = self.declare(name);
        self.types[id.0 as usize] = ty;
        id
    }

    /// Takes a type over from another table, with all that it refers to.
    pub fn import(&mut self, from: &Schema, id: TypeId) -> TypeId {
        let mut taken = BTreeMap::new();
        self.take_over(from, id, &mut taken)
    }

    fn take_over(&mut self, from: &Schema, id: TypeId, taken: &mut BTreeMap<TypeId, TypeId>) -> TypeId {
        if let Some(known) = taken.get(&id) {
            return *known;
        }
        let own = self.add(Type::Any(Holder::Opaque));
        taken.insert(id, own);
        let mut ty = from.get(id).clone();
        match &mut ty {
            Type::Scalar(_) | Type::Any(_) => {}
            Type::List(inner) | Type::Map(inner) => *inner = self.take_over(from, *inner, taken),
            Type::Struct(found) => {
                let referred = found.fields.values_mut().map(|field| &mut field.ty);
                for inner in referred.chain(found.inline.values_mut()) {
                    *inner = self.take_over(from, *inner, taken);
                }
                self.names.insert(found.name.clone(), own);
            }
        }
        self.types[own.0 as usize] = ty;
        own
    }

    /// The number of a name whose content may come later.
    pub fn declare(&mut self, name: &str) -> TypeId {
        if let Some(known) = self.find(name) {
            return known;
        }
        let id = self.add(Type::Any(Holder::Opaque));
        self.names.insert(name.to_owned(), id);
        id
    }
}

/// The built-in types in which some JSON stands of which nothing is known but that it is kept as it was written.
pub fn builtin_with_raw() -> &'static BTreeSet<TypeId> {
    static FOUND: OnceLock<BTreeSet<TypeId>> = OnceLock::new();
    FOUND.get_or_init(|| builtin().leading_to(&Type::Any(Holder::Raw)))
}

/// The fields of a built-in struct in which quantities can stand, and their types.
#[must_use]
pub fn builtin_quantity_fields(of: TypeId) -> &'static [(&'static str, TypeId)] {
    static FOUND: OnceLock<BTreeMap<TypeId, Vec<(&'static str, TypeId)>>> = OnceLock::new();
    let find = || {
        let leading = builtin().leading_to(&Type::Scalar(Scalar::Quantity));
        let fields = |id: &TypeId| {
            let fields =
                builtin().get_struct(*id)?.fields.iter().map(|(name, field)| (name.as_str(), field.ty));
            Some((*id, fields.filter(|(_, ty)| leading.contains(ty)).collect()))
        };
        leading.iter().filter_map(fields).collect()
    };
    FOUND.get_or_init(find).get(&of).map_or(&[], Vec::as_slice)
}

impl Schema {
    /// This type, and all in which it stands.
    fn leading_to(&self, wanted: &Type) -> BTreeSet<TypeId> {
        let ids = || (0..).map(TypeId).zip(&self.types);
        let is_it = |(_, ty): &(TypeId, &Type)| *ty == wanted;
        let mut found: BTreeSet<TypeId> = ids().filter(is_it).map(|(id, _)| id).collect();
        loop {
            let leads = |(_, ty): &(TypeId, &Type)| match ty {
                Type::Scalar(_) | Type::Any(_) => false,
                Type::List(inner) | Type::Map(inner) => found.contains(inner),
                Type::Struct(content) => content.fields.values().any(|field| found.contains(&field.ty)),
            };
            let more: Vec<TypeId> =
                ids().filter(leads).map(|(id, _)| id).filter(|id| !found.contains(id)).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}

/// The shapes of all built-in kinds, and of our own.
pub fn builtin() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| parse::tables(TABLES))
}

macro_rules! tables {
    ($($package:literal => $file:literal),* $(,)?) => { &[$(($package, include_str!(concat!("../tables/", $file, ".txt")))),*] };
}

pub(crate) const TABLES: &[(&str, &str)] = tables! {
    "meta/v1" => "meta_v1",
    "core/v1" => "core_v1",
    "resource/v1" => "resource_v1",
    "resource/v1beta1" => "resource_v1beta1",
    "resource/v1beta2" => "resource_v1beta2",
    "resource/v1alpha3" => "resource_v1alpha3",
    "cdi/v1alpha1" => "cdi_v1alpha1",
    "apps/v1" => "apps_v1",
    "batch/v1" => "batch_v1",
    "policy/v1" => "policy_v1",
    "rbac/v1" => "rbac_v1",
    "certificates/v1" => "certificates_v1",
    "coordination/v1" => "coordination_v1",
    "events/v1" => "events_v1",
    "node/v1" => "node_v1",
    "scheduling/v1" => "scheduling_v1",
    "scheduling/v1beta1" => "scheduling_v1beta1",
    "scheduling/v1alpha3" => "scheduling_v1alpha3",
    "authentication/v1" => "authentication_v1",
    "authorization/v1" => "authorization_v1",
    "storage/v1" => "storage_v1",
    "autoscaling/v1" => "autoscaling_v1",
    "discovery/v1" => "discovery_v1",
    "autoscaling/v2" => "autoscaling_v2",
    "networking/v1" => "networking_v1",
    "admissionregistration/v1" => "admissionregistration_v1",
    "apiextensions/v1" => "apiextensions_v1",
    "lazaret/v1alpha1" => "lazaret_v1alpha1",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_taken_over_with_all_that_it_refers_to() {
        let mut own = Schema::default();
        own.add(Type::Scalar(Scalar::Bool));
        let id = own.import(builtin(), builtin().find("meta/v1.ObjectMeta").unwrap());
        let metadata = own.get_struct(id).unwrap();
        let labels = own.get(metadata.fields["labels"].ty);
        let Type::Map(value) = labels else { panic!("labels are {labels:?}") };
        assert_eq!(own.get(*value), &Type::Scalar(Scalar::String));
        let Type::List(owner) = own.get(metadata.fields["ownerReferences"].ty) else {
            panic!("no list of owners")
        };
        assert!(own.get_struct(*owner).unwrap().fields.contains_key("uid"));
    }
}
