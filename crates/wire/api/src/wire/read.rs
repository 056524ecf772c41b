//! Reads objects through one function for all of their types.
//!
//! `derive(Deserialize)` writes a reader for every type, and one more for every kind of input. Here a type has a table of the names of its fields and says
//! where each of them is; the reader, which is there once, does the rest. It is a fraction of the code, and a page loads it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{Amount, Instant, Nullable, Raw};

/// Something that can be read.
pub trait Read {
    /// Where its value goes.
    fn place(&mut self) -> Place<'_>;
}

/// Where a value goes, by what is read there.
#[allow(missing_debug_implementations, reason = "lives as long as one value is read")]
pub enum Place<'a> {
    /// A truth value.
    Bool(&'a mut bool),
    /// A number.
    I32(&'a mut i32),
    /// A number.
    I64(&'a mut i64),
    /// A number.
    U32(&'a mut u32),
    /// A number.
    U64(&'a mut u64),
    /// A text.
    Text(&'a mut String),
    /// A quantity.
    Amount(&'a mut Amount),
    /// An instant.
    Instant(&'a mut Instant),
    /// JSON as it is.
    Raw(&'a mut Raw),
    /// Null leaves it as it is.
    Nullable(&'a mut dyn Inner),
    /// An object of a known shape.
    Fields(&'a mut dyn Fields),
    /// A list.
    List(&'a mut dyn List),
    /// A map.
    Map(&'a mut dyn Map),
    /// Nowhere: no field has its name.
    Nowhere,
}

/// Something that may be null.
pub trait Inner {
    /// Where the value goes when it is not.
    fn inner(&mut self) -> Place<'_>;
}

/// The names of a type and of its fields, as they are written.
#[derive(Debug)]
pub struct Shape {
    /// Of the type, for errors.
    pub name: &'static str,
    /// Of the fields; at most 64.
    pub fields: &'static [&'static str],
    /// Of the fields that must be there.
    pub required: &'static [&'static str],
    /// Unknown fields are refused.
    pub is_strict: bool,
}

/// A type that is read field by field. Absent fields keep their values; unknown ones are ignored, unless the shape is strict.
pub trait Fields {
    /// Its names.
    fn shape(&self) -> &'static Shape;

    /// The field with this number in the shape.
    fn field(&mut self, at: usize) -> Option<Place<'_>>;
}

/// A list that is read.
pub trait List {
    /// Where the next item goes.
    fn item(&mut self) -> Option<Place<'_>>;

    /// There was no next item.
    fn end(&mut self);
}

/// A map that is read.
pub trait Map {
    /// Where the value of a key goes. A key that comes again starts again.
    fn entry(&mut self, key: String) -> Place<'_>;
}

/// Reads a value.
///
/// # Errors
/// When the input is something else.
pub fn read<'de, T: Read + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let mut value = T::default();
    value.place().read(deserializer, &mut Trail::default())?;
    Ok(value)
}

/// The way up from a value that could not be read.
#[derive(Debug, Default)]
pub struct Trail {
    /// The names that are not kept anyway are kept for it, which costs more than reading.
    pub is_kept: bool,
    /// The last first.
    pub steps: Vec<Step>,
}

/// A step down.
#[derive(Debug)]
pub enum Step {
    /// To an item.
    Index(usize),
    /// To a field, or to an entry of a map.
    Name(String),
}

impl Trail {
    fn name(&self, name: &str) -> String {
        if self.is_kept { name.to_owned() } else { String::new() }
    }
}

/// Declares types whose fields are read by the names behind them. `or` stands before the value of a field that is absent; after the name of a type,
/// whether it is strict, and the fields that must be there.
#[macro_export]
macro_rules! fields {
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    ($(
        $(#[$attribute:meta])*
        $scope:vis struct $type:ident $(($strict:literal; $($required:literal),*))? {
            $($(#[$field_attribute:meta])* $field_scope:vis $field:ident: $of:ty = $name:literal $(or $default:expr)?,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Debug)]
        $scope struct $type {
            $($(#[$field_attribute])* $field_scope $field: $of,)*
        }

        impl Default for $type {
            fn default() -> Self {
                Self { $($field: $crate::fields!(@default $($default)?),)* }
            }
        }

        impl $crate::wire::Fields for $type {
            fn shape(&self) -> &'static $crate::wire::Shape {
                const {
                    &$crate::wire::Shape {
                        name: stringify!($type),
                        fields: &[$($name),*],
                        required: &[$($($required),*)?],
                        is_strict: false $(|| $strict)?,
                    }
                }
            }

            #[allow(unused_mut, unused_variables, reason = "a type may have no fields")]
            fn field(&mut self, at: usize) -> Option<$crate::wire::Place<'_>> {
                let mut numbers = 0..;
                $(if numbers.next() == Some(at) {
                    return Some($crate::wire::Read::place(&mut self.$field));
                })*
                None
            }
        }

        impl $crate::wire::Read for $type {
            fn place(&mut self) -> $crate::wire::Place<'_> {
                $crate::wire::Place::Fields(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> core::result::Result<Self, D::Error> {
                $crate::wire::read(deserializer)
            }
        }
    )*};
}

impl Place<'_> {
    /// Reads what belongs here.
    ///
    /// # Errors
    /// When the input is something else. The trail leads to it.
    pub fn read<'de, D: Deserializer<'de>>(self, deserializer: D, trail: &mut Trail) -> Result<(), D::Error> {
        match self {
            Self::Bool(value) => *value = bool::deserialize(deserializer)?,
            Self::I32(value) => *value = i32::deserialize(deserializer)?,
            Self::I64(value) => *value = i64::deserialize(deserializer)?,
            Self::U32(value) => *value = u32::deserialize(deserializer)?,
            Self::U64(value) => *value = u64::deserialize(deserializer)?,
            Self::Text(value) => *value = String::deserialize(deserializer)?,
            Self::Amount(value) => *value = Amount::deserialize(deserializer)?,
            Self::Instant(value) => *value = Instant::deserialize(deserializer)?,
            Self::Raw(value) => *value = Raw::deserialize(deserializer)?,
            Self::Nullable(value) => deserializer.deserialize_option(OrNull(value, trail))?,
            Self::Fields(value) => deserializer.deserialize_map(Object(value, trail))?,
            Self::List(value) => deserializer.deserialize_seq(Items(value, trail))?,
            Self::Map(value) => deserializer.deserialize_map(Entries(value, trail))?,
            Self::Nowhere => _ = IgnoredAny::deserialize(deserializer)?,
        }
        Ok(())
    }
}

/// A value below another one.
struct Below<'a>(Place<'a>, &'a mut Trail, Step);

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self(place, trail, step) = self;
        place.read(deserializer, trail).inspect_err(|_| trail.steps.push(step))
    }
}

struct OrNull<'a>(&'a mut dyn Inner, &'a mut Trail);

impl<'de> Visitor<'de> for OrNull<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("option")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.inner().read(deserializer, self.1)
    }
}

struct Object<'a>(&'a mut dyn Fields, &'a mut Trail);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "struct {}", self.0.shape().name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(object, trail) = self;
        let Shape { fields: names, required, is_strict, .. } = *object.shape();
        let mut seen = 0_u64;
        let mut after = 0;
        while let Some(found) = map.next_key_seed(Key { names, after, is_strict, trail: &mut *trail })? {
            let (place, name) = match found {
                Ok(at) if seen & (1 << at) != 0 => return Err(A::Error::duplicate_field(names[at])),
                Ok(at) => {
                    seen |= 1 << at;
                    after = at + 1;
                    (object.field(at).unwrap_or(Place::Nowhere), trail.name(names[at]))
                }
                Err(unknown) => (Place::Nowhere, unknown),
            };
            map.next_value_seed(Below(place, &mut *trail, Step::Name(name)))?;
        }
        let is_missing =
            |name: &str| names.iter().position(|one| *one == name).is_some_and(|at| seen & (1 << at) == 0);
        match required.iter().find(|name| is_missing(name)) {
            Some(&name) => Err(A::Error::missing_field(name)),
            None => Ok(()),
        }
    }
}

/// The number of a name in a shape. Most objects are written in the order of the shape, so it is looked for after the one before.
struct Key<'a> {
    names: &'static [&'static str],
    after: usize,
    is_strict: bool,
    trail: &'a mut Trail,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    /// Or the name that is not in the shape.
    type Value = Result<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Result<usize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field identifier")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let (before, after) = self.names.split_at(self.after);
        let at = |list: &[&str]| list.iter().position(|one| *one == name);
        let found = at(after).map(|at| at + self.after).or_else(|| at(before));
        if found.is_none() && self.is_strict {
            self.trail.steps.push(Step::Name(name.to_owned()));
            return Err(E::unknown_field(name, self.names));
        }
        Ok(found.ok_or_else(|| self.trail.name(name)))
    }
}

struct Items<'a>(&'a mut dyn List, &'a mut Trail);

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        // The item is made before it is known whether there is one: the last is taken back.
        for at in 0.. {
            let Some(place) = self.0.item() else { break };
            if items.next_element_seed(Below(place, &mut *self.1, Step::Index(at)))?.is_none() {
                self.0.end();
                break;
            }
        }
        Ok(())
    }
}

struct Entries<'a>(&'a mut dyn Map, &'a mut Trail);

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let name = self.1.name(&key);
            map.next_value_seed(Below(self.0.entry(key), &mut *self.1, Step::Name(name)))?;
        }
        Ok(())
    }
}

macro_rules! plain {
    ($($type:ty => $place:ident),*) => {$(
        impl Read for $type {
            fn place(&mut self) -> Place<'_> {
                Place::$place(self)
            }
        }
    )*};
}

plain! { bool => Bool, i32 => I32, i64 => I64, u32 => U32, u64 => U64, String => Text, Amount => Amount, Instant => Instant, Raw => Raw }

impl<T: Read> Read for Nullable<T> {
    fn place(&mut self) -> Place<'_> {
        Place::Nullable(self)
    }
}

impl<T: Read> Inner for Nullable<T> {
    fn inner(&mut self) -> Place<'_> {
        self.0.place()
    }
}

impl<T: Read + Default> Read for Option<T> {
    fn place(&mut self) -> Place<'_> {
        Place::Nullable(self)
    }
}

impl<T: Read + Default> Inner for Option<T> {
    fn inner(&mut self) -> Place<'_> {
        self.insert(T::default()).place()
    }
}

impl<T: Read> Read for Box<T> {
    fn place(&mut self) -> Place<'_> {
        (**self).place()
    }
}

impl<T: Read + Default> Read for Vec<T> {
    fn place(&mut self) -> Place<'_> {
        Place::List(self)
    }
}

impl<T: Read + Default> List for Vec<T> {
    fn item(&mut self) -> Option<Place<'_>> {
        self.push(T::default());
        self.last_mut().map(Read::place)
    }

    fn end(&mut self) {
        self.pop();
    }
}

impl<T: Read + Default> Read for BTreeMap<String, T> {
    fn place(&mut self) -> Place<'_> {
        Place::Map(self)
    }
}

impl<T: Read + Default> Map for BTreeMap<String, T> {
    fn entry(&mut self, key: String) -> Place<'_> {
        match self.entry(key) {
            Entry::Vacant(entry) => entry.insert(T::default()).place(),
            Entry::Occupied(entry) => {
                let value = entry.into_mut();
                *value = T::default();
                value.place()
            }
        }
    }
}
