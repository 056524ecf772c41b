//! All objects of one kind, and everything that happened to them.

use std::{hash::Hash, sync::Arc};

use lazaret_model::{ObjectKey, Text};

use super::Resource;
use crate::numbers::{Numbers, hash};

/// The key of an object.
pub trait Key: Ord + Hash + Clone + core::fmt::Debug {
    /// Orders most keys as they order themselves, and says the same of the others: cheap to compare.
    fn rank(&self) -> u128;
}

impl Key for Text {
    fn rank(&self) -> u128 {
        rank(&[self])
    }
}

impl Key for ObjectKey {
    fn rank(&self) -> u128 {
        rank(&[&self.namespace, &self.name])
    }
}

/// The first bytes of some names, each ended by a zero, which no name has.
fn rank(names: &[&str]) -> u128 {
    let mut bytes = [0; 16];
    let all = names.iter().flat_map(|name| name.bytes().chain([0]));
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
    u128::from_be_bytes(bytes)
}

/// An object with the version of its last write.
#[derive(Debug)]
pub struct Stored<'a, T> {
    /// The resource version.
    pub version: u64,
    /// The object.
    pub object: &'a Arc<T>,
}

impl<T> Clone for Stored<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Stored<'_, T> {}

/// One write, as watches see it.
#[derive(Debug)]
pub struct Logged<T> {
    /// The resource version of the write.
    pub version: u64,
    /// The number of the object's key.
    pub number: u32,
    /// The object after the write; `None`: deleted.
    pub object: Option<Arc<T>>,
}

/// All objects of a kind, and all their changes. The log is never trimmed: a world is short. A state, of the server now as of a client some time ago,
/// is a list of places in the log, by number of key.
#[derive(Debug)]
pub struct Table<T: Resource> {
    keys: Numbers<T::Key>,
    /// The ranks of all keys there ever were, by number.
    ranks: Vec<u128>,
    /// The numbers of all keys, in the order of the keys.
    order: Vec<u32>,
    live: Live,
    len: usize,
    log: Vec<Logged<T>>,
}

impl<T> Clone for Logged<T> {
    fn clone(&self) -> Self {
        Self { version: self.version, number: self.number, object: self.object.clone() }
    }
}

impl<T: Resource> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            ranks: self.ranks.clone(),
            order: self.order.clone(),
            live: self.live.clone(),
            len: self.len,
            log: self.log.clone(),
        }
    }
}

/// For each number of a key, one more than the place in the log where its object was written; 0: there is none.
pub(crate) type Live = Vec<u32>;

impl<T: Resource> Default for Table<T> {
    fn default() -> Self {
        Self {
            keys: Numbers::default(),
            ranks: Vec::new(),
            order: Vec::new(),
            live: Live::new(),
            len: 0,
            log: Vec::new(),
        }
    }
}

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such object.
    NotFound,
    /// It has another version or UID than expected.
    Conflict,
    /// There is one already.
    Exists,
}

/// Counts writes.
#[derive(Clone, Debug, Default)]
pub struct Versions(u64);

impl Versions {
    /// How many writes there were.
    pub(crate) fn last(&self) -> u64 {
        self.0
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

impl<T: Resource<Key = ObjectKey>> Table<T> {
    /// The number of the key of these two parts.
    pub(crate) fn number_of(&self, namespace: &Text, name: &Text) -> Option<u32> {
        // The same hash as that of the two as a key.
        let same = |key: &ObjectKey| key.name == *name && key.namespace == *namespace;
        self.keys.find(hash(&(namespace, name)), same)
    }

    /// The same, given if there is no such key yet.
    pub(super) fn number_or_reserve(&mut self, namespace: &Text, name: &Text) -> u32 {
        self.number_of(namespace, name)
            .unwrap_or_else(|| self.add_key(&ObjectKey { namespace: namespace.clone(), name: name.clone() }))
    }
}

impl<T: Resource> Table<T> {
    /// The object now.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<Stored<'_, T>> {
        self.get_in(&self.live, key)
    }

    /// The object as it was when these were the latest writes.
    pub(crate) fn get_in(&self, live: &Live, key: &T::Key) -> Option<Stored<'_, T>> {
        self.at(live, self.number(key)?)
    }

    /// The object of a key's number, the same way.
    pub(crate) fn at(&self, live: &Live, number: u32) -> Option<Stored<'_, T>> {
        self.written(*live.get(number as usize)?)
    }

    /// The object written at the place before this one.
    pub(crate) fn written(&self, after: u32) -> Option<Stored<'_, T>> {
        let logged = self.log.get((after as usize).checked_sub(1)?)?;
        Some(Stored { version: logged.version, object: logged.object.as_ref()? })
    }

    /// The object of a key's number now.
    pub(crate) fn now(&self, number: u32) -> Option<Stored<'_, T>> {
        self.at(&self.live, number)
    }

    /// The number of a key that was written at some time.
    pub(crate) fn number(&self, key: &T::Key) -> Option<u32> {
        self.keys.find(hash(key), |known| known == key)
    }

    /// How many keys were ever written.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The key that has a number.
    pub(crate) fn key(&self, number: u32) -> &T::Key {
        self.keys.thing(number)
    }

    /// The numbers of all keys, in the order of the keys.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> {
        self.order.iter().copied()
    }

    /// Every object, in key order.
    pub fn iter(&self) -> impl Iterator<Item = Stored<'_, T>> {
        self.iter_in(&self.live)
    }

    /// Every object when these were the latest writes, in key order.
    pub(crate) fn iter_in<'a>(&'a self, live: &'a Live) -> impl Iterator<Item = Stored<'a, T>> {
        self.order.iter().filter_map(|number| self.at(live, *number))
    }

    /// The latest writes.
    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Everything that happened, oldest first.
    #[must_use]
    pub fn log(&self) -> &[Logged<T>] {
        &self.log
    }

    /// Makes an object.
    ///
    /// # Errors
    /// [`Refused::Exists`].
    pub fn create(&mut self, versions: &mut Versions, object: T) -> Result<u64, Refused> {
        let number = self.number_or_new(&object);
        if self.now(number).is_some() {
            return Err(Refused::Exists);
        }
        Ok(self.record(versions, number, Some(Arc::new(object))))
    }

    /// Writes an object, made or not, whatever its version.
    pub fn put(&mut self, versions: &mut Versions, object: T) -> u64 {
        let number = self.number_or_new(&object);
        self.record(versions, number, Some(Arc::new(object)))
    }

    /// Writes an object if its stored version is still `expected`.
    ///
    /// # Errors
    /// [`Refused::NotFound`], [`Refused::Conflict`].
    pub fn update(&mut self, versions: &mut Versions, expected: u64, object: T) -> Result<u64, Refused> {
        let number = self.number_or_new(&object);
        match self.now(number) {
            None => Err(Refused::NotFound),
            Some(stored) if stored.version != expected => Err(Refused::Conflict),
            Some(_) => Ok(self.record(versions, number, Some(Arc::new(object)))),
        }
    }

    /// Removes an object; false when there is none.
    pub fn remove(&mut self, versions: &mut Versions, key: &T::Key) -> bool {
        let Some(number) = self.number(key).filter(|number| self.now(*number).is_some()) else {
            return false;
        };
        self.record(versions, number, None);
        true
    }

    /// The number of an object's key, given if it has none.
    fn number_or_new(&mut self, object: &T) -> u32 {
        self.number(object.key()).unwrap_or_else(|| self.add_key(object.key()))
    }

    fn add_key(&mut self, key: &T::Key) -> u32 {
        let rank = key.rank();
        let place = self.place(rank, key);
        let number = self.keys.add(hash(key), key.clone());
        self.ranks.push(rank);
        self.order.insert(place, number);
        self.live.push(0);
        number
    }

    /// Where a key is among all of them, or would be.
    fn place(&self, rank: u128, key: &T::Key) -> usize {
        self.order.partition_point(|number| {
            let other = self.ranks[*number as usize];
            other < rank || (other == rank && self.keys.thing(*number) < key)
        })
    }

    pub(super) fn record(&mut self, versions: &mut Versions, number: u32, object: Option<Arc<T>>) -> u64 {
        let (version, is) = (versions.next(), object.is_some());
        self.log.push(Logged { version, number, object });
        let place = u32::try_from(self.log.len()).unwrap_or(u32::MAX);
        let was = core::mem::replace(&mut self.live[number as usize], if is { place } else { 0 });
        self.len = self.len + usize::from(is) - usize::from(was != 0);
        version
    }
}
