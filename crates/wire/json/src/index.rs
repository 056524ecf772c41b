//! Values by name and by position.

use std::ops;

use crate::{Map, Text, Value};

static NULL: Value = Value::Null;

/// Where in a value another stands: a field's name, or a position in a list.
pub trait Place {
    /// The value at this place.
    fn within<'a>(&self, value: &'a Value) -> Option<&'a Value>;
    /// The value at this place, to be changed.
    fn within_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value>;
}

impl Place for str {
    fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        value.as_object()?.get(self)
    }

    fn within_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        value.as_object_mut()?.get_mut(self)
    }
}

impl Place for usize {
    fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        value.as_array()?.get(*self)
    }

    fn within_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        // Asked first: what is not there is not worth a copy of the list.
        self.within(value)?;
        value.as_array_mut()?.get_mut(*self)
    }
}

impl Place for String {
    fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.as_str().within(value)
    }

    fn within_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        self.as_str().within_mut(value)
    }
}

impl Place for Text {
    fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.as_str().within(value)
    }

    fn within_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        self.as_str().within_mut(value)
    }
}

impl<P: Place + ?Sized> Place for &P {
    fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        (**self).within(value)
    }

    fn within_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        (**self).within_mut(value)
    }
}

/// An absent value reads as null.
impl<P: Place> ops::Index<P> for Value {
    type Output = Self;

    fn index(&self, place: P) -> &Self {
        place.within(self).unwrap_or(&NULL)
    }
}

/// A field that is not there is made; what is no object becomes one.
impl ops::IndexMut<&str> for Value {
    fn index_mut(&mut self, name: &str) -> &mut Self {
        if !self.is_object() {
            *self = Self::Object(Map::new());
        }
        let Self::Object(map) = self else { unreachable!("made an object just above") };
        map.entry(name).or_insert(Self::Null)
    }
}

/// Only what is there can be changed, as with vectors.
impl ops::IndexMut<usize> for Value {
    fn index_mut(&mut self, position: usize) -> &mut Self {
        match self.get_mut(position) {
            Some(value) => value,
            #[allow(clippy::panic, reason = "as with vectors")]
            None => panic!("there is nothing at position {position}"),
        }
    }
}
