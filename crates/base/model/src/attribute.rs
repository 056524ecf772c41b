//! Attributes of a device: names and values.

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use crate::{Interner, Text, Version};

/// A name with its domain, as CEL and constraints see it: `domain/id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// The part before the first `/`; the driver's name where the key has none.
    pub domain: Text,
    /// The part after it.
    pub id: Text,
}

impl QualifiedName {
    /// Splits a key as it stands in a slice. A key without a domain belongs to the driver's.
    #[must_use]
    pub fn of_key(key: &str, driver: &str) -> Self {
        match key.split_once('/') {
            Some((domain, id)) => Self { domain: domain.into(), id: id.into() },
            None => Self { domain: driver.into(), id: key.into() },
        }
    }

    /// Whether two keys mean the same attribute of a device of this driver.
    #[must_use]
    pub fn is_same(key: &str, other: &str, driver: &str) -> bool {
        key.split_once('/').unwrap_or((driver, key)) == other.split_once('/').unwrap_or((driver, other))
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.id)
    }
}

/// A [`QualifiedName`] as its number in an [`AttrNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttrId(pub u32);

impl AttrId {
    /// No device has it: what a name unknown to an [`AttrNames`] binds to.
    pub const ABSENT: Self = Self(u32::MAX);
}

/// The names of attributes and capacities that occur in a fleet, numbered in order of first sight. A number once
/// given stays: programs bound to an earlier state of the table stay right for the names they knew.
#[derive(Clone, Debug, Default)]
pub struct AttrNames {
    keys: Interner,
    names: Vec<QualifiedName>,
}

impl AttrNames {
    /// The number of `name`, new if need be.
    pub fn intern(&mut self, name: &QualifiedName) -> AttrId {
        let symbol = self.keys.intern(&alloc::format!("{}/{}", name.domain, name.id));
        if symbol.0 as usize == self.names.len() {
            self.names.push(name.clone());
        }
        AttrId(symbol.0)
    }

    /// The number of `name`, or [`AttrId::ABSENT`].
    #[must_use]
    pub fn get(&self, name: &QualifiedName) -> AttrId {
        self.keys.get(&alloc::format!("{}/{}", name.domain, name.id)).map_or(AttrId::ABSENT, |s| AttrId(s.0))
    }

    /// The name behind a number.
    ///
    /// # Panics
    /// When `id` is not from this table.
    #[must_use]
    pub fn resolve(&self, id: AttrId) -> &QualifiedName {
        &self.names[id.0 as usize]
    }

    /// How many names there are. Grows only; bind programs again when it has grown.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// A version as published: the text that constraints compare, and what it parses to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionValue {
    /// As written in the slice.
    pub text: Text,
    /// `None` when the text is no semantic version: then every expression on the device fails.
    pub parsed: Option<Arc<Version>>,
}

impl VersionValue {
    /// Keeps the text and parses it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), parsed: Version::parse(text).ok().map(Arc::new) }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AttrValue {
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// At most 64 bytes.
    String(Text),
    /// A semantic version.
    Version(VersionValue),
    /// Several whole numbers.
    Ints(Arc<[i64]>),
    /// Several truth values.
    Bools(Arc<[bool]>),
    /// Several strings.
    Strings(Arc<[Text]>),
    /// Several versions.
    Versions(Arc<[VersionValue]>),
    /// No value that this version knows: every expression on the device fails with an error.
    Unsupported,
}

impl AttrValue {
    /// A single value as text; `None` where there are several.
    #[must_use]
    pub fn as_text(&self) -> Option<Text> {
        match self {
            Self::Int(number) => Some(alloc::format!("{number}").into()),
            Self::Bool(value) => Some(if *value { "true" } else { "false" }.into()),
            Self::String(text) => Some(text.clone()),
            Self::Version(version) => Some(version.text.clone()),
            Self::Ints(_) | Self::Bools(_) | Self::Strings(_) | Self::Versions(_) | Self::Unsupported => None,
        }
    }
}
