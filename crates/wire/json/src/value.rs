//! The tree.

use std::{
    fmt,
    hash::{Hash, Hasher},
    mem,
};

use crate::{Encoded, List, Map, Number, Place, Text, steps::step};

/// Any JSON value. A clone shares what is below it.
#[derive(Clone, Default, Eq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true`
    Bool(bool),
    /// `12`
    Number(Number),
    /// `"text"`
    String(Text),
    /// `[…]`
    Array(List),
    /// `{…}`
    Object(Map),
    /// Any of these, as text.
    Encoded(Encoded),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        step();
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            (Self::Encoded(a), Self::Encoded(b)) => a == b,
            (
                Self::Null
                | Self::Bool(_)
                | Self::Number(_)
                | Self::String(_)
                | Self::Array(_)
                | Self::Object(_)
                | Self::Encoded(_),
                _,
            ) => false,
        }
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Number(number) => number.hash(state),
            Self::String(text) => text.hash(state),
            Self::Array(list) => list.hash(state),
            Self::Object(map) => map.hash(state),
            Self::Encoded(encoded) => encoded.hash(state),
        }
    }
}

impl Value {
    /// The value at a field's name or at a position.
    pub fn get(&self, place: impl Place) -> Option<&Self> {
        place.within(self)
    }

    /// The value at a field's name or at a position, to be changed.
    pub fn get_mut(&mut self, place: impl Place) -> Option<&mut Self> {
        place.within_mut(self)
    }

    /// The value at a JSON pointer (`/metadata/name`).
    #[must_use]
    pub fn pointer(&self, path: &str) -> Option<&Self> {
        steps(path)?.try_fold(self, |at, step| match at {
            Self::Object(map) => map.get(&unescaped(step)),
            Self::Array(list) => list.get(position(step)?),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Encoded(_) => None,
        })
    }

    /// The value at a JSON pointer, to be changed.
    pub fn pointer_mut(&mut self, path: &str) -> Option<&mut Self> {
        // Looked up first: the path to an absent value is not copied.
        self.pointer(path)?;
        steps(path)?.try_fold(self, |at, step| match at {
            Self::Object(map) => map.get_mut(&unescaped(step)),
            Self::Array(list) => list.get_mut(position(step)?),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Encoded(_) => None,
        })
    }

    /// Whether both are known to be equal without being looked into: the same list or object, or the same simple value.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.is(b),
            (Self::Object(a), Self::Object(b)) => a.is(b),
            (Self::Array(_) | Self::Object(_), _) | (_, Self::Array(_) | Self::Object(_)) => false,
            (a, b) => a == b,
        }
    }

    /// The value, and null in its place.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether it is true or false.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Whether it is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Whether it is a number that an `i64` holds.
    #[must_use]
    pub fn is_i64(&self) -> bool {
        self.as_i64().is_some()
    }

    /// Whether it is a number with a fraction or an exponent.
    #[must_use]
    pub fn is_f64(&self) -> bool {
        matches!(self, Self::Number(number) if number.is_f64())
    }

    /// Whether it is text.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Whether it is a list.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// True or false, if it is that.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The whole number, if it is one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The whole number that is not negative, if it is one.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::as_u64)
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().and_then(Number::as_f64)
    }

    /// The number as it was written, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// The text, if it is that.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(list) = self { Some(list) } else { None }
    }

    /// The list, if it is one, to be changed.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Array(list) = self { Some(list) } else { None }
    }

    /// The object, if it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// The object, if it is one, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn steps(path: &str) -> Option<std::str::Split<'_, char>> {
    let mut steps = path.split('/');
    // The path of the whole is empty; every other begins with a slash.
    (steps.next()?.is_empty()).then_some(steps)
}

fn unescaped(step: &str) -> std::borrow::Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

fn position(step: &str) -> Option<usize> {
    let plain = !step.starts_with('+') && (step.len() == 1 || !step.starts_with('0'));
    plain.then(|| step.parse().ok()).flatten()
}
