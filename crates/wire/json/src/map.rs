//! Objects that are shared until they are changed.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    hash::{Hash, Hasher},
    ops, slice,
    sync::Arc,
    vec,
};

use serde_json::value::RawValue;

use crate::{Text, Value, steps::step};

/// An object with more fields than this is kept as a tree: a row of them would have to be moved for each new one.
const FEW_MAX: usize = 64;

/// Of so few fields each is looked at: most differ in length, and two names of one length are compared faster for equality than for order.
const GLANCE_MAX: usize = 24;

/// An object with more fields than this is kept in the order of their names however it was written: to find one of the others takes a look
/// at each.
const SPELLED_MAX: usize = 1_000;

type Field = (Text, Value);

/// The fields of an object in the order of their names, or as they were written where [`Map::spelled`] made it; copied when they are changed
/// while they are shared. One that [`verbatim`](crate::verbatim) read has its text as well, until it is changed.
#[derive(Clone, Default)]
pub struct Map(Arc<Fields>);

#[derive(Clone)]
enum Fields {
    /// In order, each name once.
    Few(Vec<Field>),
    Many(BTreeMap<Text, Value>),
    /// As they were written, each name once.
    Spelled(Vec<Field>),
    /// One of the others, and the text that it was read from.
    Verbatim(Map, Box<RawValue>),
}

impl Default for Fields {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Map {
    /// An object without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An object whose fields stand as they were written. Of fields with one name the last counts.
    #[must_use]
    pub fn spelled(fields: Vec<(Text, Value)>) -> Self {
        let in_order = fields.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if in_order && fields.len() <= FEW_MAX {
            return Self(Arc::new(Fields::Few(fields)));
        }
        if in_order || fields.len() > SPELLED_MAX {
            return Self::from(fields);
        }
        let mut places: Vec<usize> = (0..fields.len()).collect();
        places.sort_by(|a, b| fields[*a].0.cmp(&fields[*b].0).then(a.cmp(b)));
        let mut repeated = vec![false; fields.len()];
        for pair in places.windows(2) {
            repeated[pair[0]] = fields[pair[0]].0 == fields[pair[1]].0;
        }
        let fields = fields.into_iter().zip(repeated).filter(|(_, repeated)| !repeated);
        Self(Arc::new(Fields::Spelled(fields.map(|(field, _)| field).collect())))
    }

    /// The object with the text that it was read from.
    pub(crate) fn with_text(self, text: Box<RawValue>) -> Self {
        Self(Arc::new(Fields::Verbatim(self, text)))
    }

    /// The text that the object was read from, if it has been kept and nothing was changed since.
    pub(crate) fn text(&self) -> Option<&RawValue> {
        match &*self.0 {
            Fields::Verbatim(_, text) => Some(text),
            Fields::Few(_) | Fields::Many(_) | Fields::Spelled(_) => None,
        }
    }

    /// The object without its text.
    fn plain(&self) -> &Self {
        match &*self.0 {
            Fields::Verbatim(map, _) => map,
            Fields::Few(_) | Fields::Many(_) | Fields::Spelled(_) => self,
        }
    }

    /// The fields, to be changed: the text would no longer be true.
    fn fields_mut(&mut self) -> &mut Fields {
        if let Fields::Verbatim(map, _) = &*self.0 {
            *self = map.clone();
        }
        Arc::make_mut(&mut self.0)
    }

    fn is_spelled(&self) -> bool {
        matches!(&*self.plain().0, Fields::Spelled(_))
    }

    /// Whether both are one and the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many fields it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.0 {
            Fields::Few(fields) | Fields::Spelled(fields) => fields.len(),
            Fields::Many(fields) => fields.len(),
            Fields::Verbatim(map, _) => map.len(),
        }
    }

    /// Whether it has no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field's value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        step();
        match &*self.0 {
            Fields::Few(fields) if fields.len() <= GLANCE_MAX => {
                fields.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value)
            }
            Fields::Few(fields) => find(fields, name).ok().map(|at| &fields[at].1),
            Fields::Many(fields) => fields.get(name),
            Fields::Spelled(fields) => seek(fields, name).map(|at| &fields[at].1),
            Fields::Verbatim(map, _) => map.get(name),
        }
    }

    /// A field's value, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        // Asked first: what is not there is not worth a copy.
        if !self.contains_key(name) {
            return None;
        }
        match self.fields_mut() {
            Fields::Few(fields) => find(fields, name).ok().map(|at| &mut fields[at].1),
            Fields::Many(fields) => fields.get_mut(name),
            Fields::Spelled(fields) => seek(fields, name).map(|at| &mut fields[at].1),
            Fields::Verbatim(map, _) => map.get_mut(name),
        }
    }

    /// Whether it has the field.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a field, and returns its old value.
    pub fn insert(&mut self, name: impl Into<Text>, value: Value) -> Option<Value> {
        let name = name.into();
        match self.fields_mut() {
            Fields::Few(fields) => match find(fields, &name) {
                Ok(at) => return Some(std::mem::replace(&mut fields[at].1, value)),
                Err(at) => {
                    fields.insert(at, (name, value));
                    if fields.len() > FEW_MAX {
                        let fields = std::mem::take(fields);
                        self.0 = Arc::new(Fields::Many(fields.into_iter().collect()));
                    }
                }
            },
            Fields::Many(fields) => return fields.insert(name, value),
            Fields::Spelled(fields) => match seek(fields, &name) {
                Some(at) => return Some(std::mem::replace(&mut fields[at].1, value)),
                None => {
                    fields.push((name, value));
                    if fields.len() > SPELLED_MAX {
                        *self = Self::from(std::mem::take(fields));
                    }
                }
            },
            Fields::Verbatim(map, _) => return map.insert(name, value),
        }
        None
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.remove_entry(name).map(|(_, value)| value)
    }

    /// Takes a field out with its name.
    pub fn remove_entry(&mut self, name: &str) -> Option<(Text, Value)> {
        if !self.contains_key(name) {
            return None;
        }
        match self.fields_mut() {
            Fields::Few(fields) => find(fields, name).ok().map(|at| fields.remove(at)),
            Fields::Many(fields) => fields.remove_entry(name),
            Fields::Spelled(fields) => seek(fields, name).map(|at| fields.remove(at)),
            Fields::Verbatim(map, _) => map.remove_entry(name),
        }
    }

    /// A field that may or may not be there.
    pub fn entry(&mut self, name: impl Into<Text>) -> Entry<'_> {
        Entry { map: self, name: name.into() }
    }

    /// Keeps the fields that `keep` says yes to.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        match self.fields_mut() {
            Fields::Few(fields) | Fields::Spelled(fields) => {
                fields.retain_mut(|(name, value)| keep(name, value))
            }
            Fields::Many(fields) => fields.retain(keep),
            Fields::Verbatim(map, _) => map.retain(keep),
        }
    }

    /// All fields.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        match &*self.0 {
            Fields::Few(fields) | Fields::Spelled(fields) => Iter::Few(fields.iter()),
            Fields::Many(fields) => Iter::Many(fields.iter()),
            Fields::Verbatim(map, _) => map.iter(),
        }
    }

    /// All fields, their values to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        match self.fields_mut() {
            Fields::Few(fields) | Fields::Spelled(fields) => IterMut::Few(fields.iter_mut()),
            Fields::Many(fields) => IterMut::Many(fields.iter_mut()),
            Fields::Verbatim(map, _) => map.iter_mut(),
        }
    }

    /// The names of all fields.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.iter().map(|(name, _)| name)
    }

    /// The values of all fields.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// The values of all fields, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }
}

fn seek(fields: &[Field], name: &str) -> Option<usize> {
    fields.iter().position(|(known, _)| known.as_str() == name)
}

fn find(fields: &[Field], name: &str) -> Result<usize, usize> {
    fields.binary_search_by(|(known, _)| known.as_str().cmp(name))
}

/// Of fields with one name the last counts.
impl From<Vec<(Text, Value)>> for Map {
    fn from(mut fields: Vec<Field>) -> Self {
        let in_order = fields.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if in_order && fields.len() <= FEW_MAX {
            return Self(Arc::new(Fields::Few(fields)));
        }
        if fields.len() > FEW_MAX {
            let fields: BTreeMap<Text, Value> = fields.into_iter().collect();
            return Self(Arc::new(Fields::Many(fields)));
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        Self(Arc::new(Fields::Few(fields)))
    }
}

impl<N: Into<Text>> FromIterator<(N, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(fields: I) -> Self {
        Self::from(fields.into_iter().map(|(name, value)| (name.into(), value)).collect::<Vec<_>>())
    }
}

impl<N: Into<Text>> Extend<(N, Value)> for Map {
    fn extend<I: IntoIterator<Item = (N, Value)>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.insert(name, value);
        }
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        if self.is(other) || self.len() != other.len() {
            return self.is(other);
        }
        if self.is_spelled() || other.is_spelled() {
            return self.iter().all(|(name, value)| other.get(name) == Some(value));
        }
        self.iter().eq(other)
    }
}

impl Eq for Map {}

/// By what it holds, however it holds it.
impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        if self.is_spelled() {
            let fields: BTreeMap<&Text, &Value> = self.iter().collect();
            fields.into_iter().for_each(|field| field.hash(state));
        } else {
            self.iter().for_each(|field| field.hash(state));
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// An absent field reads as null.
impl ops::Index<&str> for Map {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        const NULL: &Value = &Value::Null;
        self.get(name).unwrap_or(NULL)
    }
}

/// A field that may or may not be there.
#[derive(Debug)]
pub struct Entry<'a> {
    map: &'a mut Map,
    name: Text,
}

impl<'a> Entry<'a> {
    /// Its value, and `value` if it is not there.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    /// Its value, and what `make` makes if it is not there.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'a mut Value {
        if !self.map.contains_key(&self.name) {
            self.map.insert(self.name.clone(), make());
        }
        let Some(value) = self.map.get_mut(&self.name) else { unreachable!("inserted just above") };
        value
    }
}

/// The fields of an object.
#[derive(Clone, Debug)]
pub enum Iter<'a> {
    #[doc(hidden)]
    Few(slice::Iter<'a, (Text, Value)>),
    #[doc(hidden)]
    Many(btree_map::Iter<'a, Text, Value>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Text, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(fields) => fields.next().map(|(name, value)| (name, value)),
            Self::Many(fields) => fields.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(fields) => fields.size_hint(),
            Self::Many(fields) => fields.size_hint(),
        }
    }
}

/// The fields of an object, their values to be changed.
#[derive(Debug)]
pub enum IterMut<'a> {
    #[doc(hidden)]
    Few(slice::IterMut<'a, (Text, Value)>),
    #[doc(hidden)]
    Many(btree_map::IterMut<'a, Text, Value>),
}

impl<'a> Iterator for IterMut<'a> {
    type Item = (&'a Text, &'a mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(fields) => fields.next().map(|(name, value)| (&*name, value)),
            Self::Many(fields) => fields.next(),
        }
    }
}

/// The fields of an object that is no more.
#[derive(Debug)]
pub enum IntoIter {
    #[doc(hidden)]
    Few(vec::IntoIter<(Text, Value)>),
    #[doc(hidden)]
    Many(btree_map::IntoIter<Text, Value>),
}

impl Iterator for IntoIter {
    type Item = (Text, Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(fields) => fields.next(),
            Self::Many(fields) => fields.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(fields) => fields.size_hint(),
            Self::Many(fields) => fields.size_hint(),
        }
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        match Arc::unwrap_or_clone(self.0) {
            Fields::Few(fields) | Fields::Spelled(fields) => IntoIter::Few(fields.into_iter()),
            Fields::Many(fields) => IntoIter::Many(fields.into_iter()),
            Fields::Verbatim(map, _) => map.into_iter(),
        }
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Value);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spelled, json};

    fn spelled(text: &str) -> Value {
        serde_json::from_str::<Spelled>(text).unwrap().0
    }

    #[test]
    fn what_is_spelled_keeps_its_order_and_is_equal_in_any() {
        let text = r#"{"z":1,"a":{"y":null,"b":[{"d":1,"c":2}]},"m":2}"#;
        let mut value = spelled(text);
        assert_eq!(value.to_string(), text);
        assert_eq!(value, json!({"a": {"b": [{"c": 2, "d": 1}], "y": null}, "m": 2, "z": 1}));
        assert_ne!(value, json!({"a": {"b": [{"c": 2, "d": 1}], "y": null}, "m": 2, "x": 1}));
        assert_eq!((&value["m"], value.get("b")), (&json!(2), None));
        let shared = value.clone();
        value["b"] = 3.into();
        value["z"] = 0.into();
        value.as_object_mut().unwrap().remove("a");
        assert_eq!(value.to_string(), r#"{"z":0,"m":2,"b":3}"#);
        assert_eq!(shared.to_string(), text, "a shared tree does not change");
        assert_eq!(spelled(r#"{"b":1,"a":2,"b":3}"#).to_string(), r#"{"a":2,"b":3}"#);
        assert_eq!(
            spelled(r#"{"c":0,"b":1,"a":2,"b":3}"#).to_string(),
            r#"{"c":0,"a":2,"b":3}"#,
            "the last counts"
        );
    }

    #[test]
    fn equal_objects_have_one_hash_and_large_ones_are_in_order() {
        use std::hash::DefaultHasher;
        let hash = |value: &Value| {
            let mut state = DefaultHasher::new();
            value.hash(&mut state);
            state.finish()
        };
        assert_eq!(hash(&spelled(r#"{"b":1,"a":2}"#)), hash(&json!({"a": 2, "b": 1})));
        let field = |at: usize| (Text::new(format!("f{at:06}")), Value::Null);
        let fields = |count: usize| -> Vec<Field> { (0..count).rev().map(field).collect() };
        assert!(Map::spelled(fields(SPELLED_MAX)).is_spelled());
        assert!(!Map::spelled(fields(SPELLED_MAX + 1)).is_spelled());
        let mut full = Map::spelled(fields(SPELLED_MAX));
        full.insert("x", Value::Null);
        assert!(!full.is_spelled() && full.len() == SPELLED_MAX + 1);
    }
}
