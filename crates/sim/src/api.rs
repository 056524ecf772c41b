//! A model of the API server: objects with resource versions, refused stale writes, deletion with a grace period,
//! a log per kind that watches read at their own pace, and the lease that the controllers compete for.

use std::{hash::Hash, sync::Arc};

use lazaret_fleet::Input;
use lazaret_model::{
    ClaimSource, DeviceClass, DeviceTaintRule, Node, ObjectKey, Pod, ResourceClaim, ResourceSlice,
    ResourceSlicePatch, Text, Timestamp, Uid,
};

use crate::{
    catalog::Catalog,
    numbers::{Numbers, hash},
    palette,
};

/// The instant of virtual time zero, a round number far from the epoch.
pub const EPOCH_MS: i64 = 1_700_000_000_000;

/// The wall clock of the API server at virtual time `now`.
#[must_use]
pub fn wall(now: u64) -> Timestamp {
    Timestamp::from_millis(EPOCH_MS.saturating_add(i64::try_from(now).unwrap_or(i64::MAX)))
}

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Resource slices.
    Slice,
    /// Device taint rules.
    Rule,
    /// Resource slice patches.
    Patch,
    /// Device classes.
    Class,
    /// Resource claims.
    Claim,
    /// Pods.
    Pod,
    /// Nodes.
    Node,
}

impl Kind {
    /// All of them; the position is the number used in arrays.
    pub const ALL: [Self; 7] =
        [Self::Slice, Self::Rule, Self::Patch, Self::Class, Self::Claim, Self::Pod, Self::Node];
}

/// A kind of object that the server keeps.
pub trait Resource: Sized + 'static {
    /// What it is found by.
    type Key: Key;
    /// Its kind.
    const KIND: Kind;
    /// Where it is.
    fn key(&self) -> &Self::Key;
    /// As a watch delivers it.
    fn found(this: Arc<Self>) -> Input;
    /// As a watch says that it is gone.
    fn gone(key: Self::Key) -> Input;
    /// Where the server keeps it.
    fn table(api: &Api) -> &Table<Self>;
}

/// What an object is found by.
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

macro_rules! resource {
    ($type:ty, $kind:ident, $key:ty, $field:ident, $table:ident, $gone:ident) => {
        impl Resource for $type {
            type Key = $key;
            const KIND: Kind = Kind::$kind;
            fn key(&self) -> &$key {
                &self.$field
            }
            fn found(this: Arc<Self>) -> Input {
                Input::$kind(this)
            }
            fn gone(key: $key) -> Input {
                Input::$gone(key)
            }
            fn table(api: &Api) -> &Table<Self> {
                &api.$table
            }
        }
    };
}
resource!(ResourceSlice, Slice, Text, name, slices, SliceGone);
resource!(DeviceTaintRule, Rule, Text, name, rules, RuleGone);
resource!(ResourceSlicePatch, Patch, Text, name, patches, PatchGone);
resource!(DeviceClass, Class, Text, name, classes, ClassGone);
resource!(ResourceClaim, Claim, ObjectKey, key, claims, ClaimGone);
resource!(Pod, Pod, ObjectKey, key, pods, PodGone);
resource!(Node, Node, Text, name, nodes, NodeGone);

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
    /// What was written: the number of its key.
    pub number: u32,
    /// What it is now; `None`: gone.
    pub object: Option<Arc<T>>,
}

/// All objects of a kind, and everything that happened to them. The log is never trimmed: a world is short. What there
/// is, for the server now as for a client some time ago, is a list of places in the log, by number of key.
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

    fn next(&mut self) -> u64 {
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
    fn number_or_reserve(&mut self, namespace: &Text, name: &Text) -> u32 {
        self.number_of(namespace, name)
            .unwrap_or_else(|| self.add_key(&ObjectKey { namespace: namespace.clone(), name: name.clone() }))
    }
}

/// The claim that an entry of a pod stands for, if that is known.
pub(crate) fn claim_name(source: &ClaimSource) -> Option<&Text> {
    match source {
        ClaimSource::Claim(name) => Some(name),
        ClaimSource::Template { resolved, .. } => resolved.as_ref()?.as_ref(),
        ClaimSource::Unknown => None,
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

    /// Every object with the number of its key, in the order of numbers.
    pub(crate) fn latest(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.live).filter_map(|(number, place)| Some((number, &**self.written(*place)?.object)))
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

    fn record(&mut self, versions: &mut Versions, number: u32, object: Option<Arc<T>>) -> u64 {
        let (version, is) = (versions.next(), object.is_some());
        self.log.push(Logged { version, number, object });
        let place = u32::try_from(self.log.len()).unwrap_or(u32::MAX);
        let was = core::mem::replace(&mut self.live[number as usize], if is { place } else { 0 });
        self.len = self.len + usize::from(is) - usize::from(was != 0);
        version
    }
}

/// The record that controllers compete for.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// Who holds it: the number of a controller.
    pub holder: Option<usize>,
    /// Its resource version.
    pub version: u64,
    /// Who held it last.
    last: Option<usize>,
    /// How often it changed hands.
    pub hands: u64,
}

/// The server.
#[derive(Clone, Debug, Default)]
pub struct Api {
    /// Slices.
    pub slices: Table<ResourceSlice>,
    /// Rules.
    pub rules: Table<DeviceTaintRule>,
    /// Patches.
    pub patches: Table<ResourceSlicePatch>,
    /// Classes.
    pub classes: Table<DeviceClass>,
    /// Claims.
    pub claims: Table<ResourceClaim>,
    /// Pods.
    pub pods: Table<Pod>,
    /// Nodes.
    pub nodes: Table<Node>,
    /// The lease.
    pub lease: Lease,
    /// The last resource version.
    pub versions: Versions,
    pub(crate) catalog: Catalog,
    uids: u64,
}

/// What a DELETE of a pod did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is terminating from now on, or gone if it was on no node.
    Begun,
    /// It was terminating before.
    Already,
}

impl Api {
    /// Brings the catalog up to what was written.
    pub(crate) fn catalogue(&mut self) {
        let Self { slices, claims, pods, catalog, .. } = self;
        let (slices_seen, claims_seen, pods_seen) = catalog.seen();
        for logged in &slices.log[slices_seen..] {
            catalog.slice_written(logged.object.as_deref());
        }
        for logged in &claims.log[claims_seen..] {
            catalog.claim_written(logged.object.as_deref());
        }
        for logged in &pods.log[pods_seen..] {
            let pod = logged.object.as_deref();
            let names = pod.into_iter().flat_map(|pod| {
                let listed = pod.claims.iter().filter_map(|entry| claim_name(&entry.source));
                listed.chain(&pod.extended_claim).map(|name| (&pod.key.namespace, name))
            });
            catalog.pod_written(names.map(|(namespace, name)| claims.number_or_reserve(namespace, name)));
        }
    }

    /// A UID that was never given before.
    pub fn new_uid(&mut self) -> Uid {
        self.uids += 1;
        palette::text(format_args!("u{}", self.uids))
    }

    /// Takes or renews the lease if it is still at `expected`.
    ///
    /// # Errors
    /// [`Refused::Conflict`].
    pub fn hold_lease(&mut self, expected: u64, holder: usize) -> Result<u64, Refused> {
        if self.lease.version != expected {
            return Err(Refused::Conflict);
        }
        let hands = self.lease.hands + u64::from(self.lease.last != Some(holder));
        self.lease = Lease { holder: Some(holder), last: Some(holder), hands, version: self.versions.next() };
        Ok(self.lease.version)
    }

    /// Whoever holds the lease gives it back.
    pub fn release_lease(&mut self) {
        self.lease = Lease { holder: None, version: self.versions.next(), ..self.lease };
    }

    /// Asks for a pod's deletion, with its UID as a precondition unless that is `None`.
    ///
    /// # Errors
    /// [`Refused::NotFound`], [`Refused::Conflict`] when the UID is another.
    pub fn delete_pod(&mut self, now: u64, key: &ObjectKey, uid: Option<&Uid>) -> Result<Deleted, Refused> {
        let number = self.pods.number(key).ok_or(Refused::NotFound)?;
        let stored = self.pods.now(number).ok_or(Refused::NotFound)?;
        if uid.is_some_and(|uid| stored.object.uid != *uid) {
            return Err(Refused::Conflict);
        }
        if stored.object.deleting_since.is_some() {
            return Ok(Deleted::Already);
        }
        let ends = stored.object.node.is_some().then(|| {
            let deleting_since = Some(wall(now).truncated_to_secs());
            Arc::new(Pod { deleting_since, ..Pod::clone(stored.object) })
        });
        self.pods.record(&mut self.versions, number, ends);
        Ok(Deleted::Begun)
    }

    /// Changes a pod of this incarnation; false when there is none.
    pub fn edit_pod(&mut self, key: &ObjectKey, uid: &Uid, edit: impl FnOnce(&mut Pod)) -> bool {
        let Some(number) = self.pods.number(key) else { return false };
        let Some(stored) = self.pods.now(number).filter(|stored| stored.object.uid == *uid) else {
            return false;
        };
        let mut pod = Pod::clone(stored.object);
        edit(&mut pod);
        self.pods.record(&mut self.versions, number, Some(Arc::new(pod)));
        true
    }

    /// Changes the spec of a rule as the server's strategy does: the generation grows when anything differs, and a
    /// changed effect counts from now unless the writer said since when. False when there is no such rule.
    pub fn edit_rule(&mut self, now: u64, name: &Text, edit: impl FnOnce(&mut DeviceTaintRule)) -> bool {
        let Some(stored) = self.rules.get(name) else { return false };
        let old = Arc::clone(stored.object);
        let mut rule = DeviceTaintRule::clone(&old);
        edit(&mut rule);
        if rule.taint.effect != old.taint.effect && rule.taint.time_added == old.taint.time_added {
            rule.taint.time_added = Some(wall(now).truncated_to_secs());
        }
        if rule.taint != old.taint || rule.selector != old.selector {
            rule.generation += 1;
        }
        self.rules.put(&mut self.versions, rule);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, node: Option<&str>) -> Pod {
        Pod { key: ObjectKey::new("a", name), uid: uid.into(), node: node.map(Text::from), ..Pod::default() }
    }

    #[test]
    fn a_stale_write_is_refused() {
        let mut api = Api::default();
        let Api { pods, versions, .. } = &mut api;
        let first = pods.create(versions, pod("p", "1", None)).expect("new");
        assert_eq!(pods.create(versions, pod("p", "2", None)), Err(Refused::Exists));
        let second = pods.update(versions, first, pod("p", "1", Some("n"))).expect("current");
        assert_eq!(pods.update(versions, first, pod("p", "1", None)), Err(Refused::Conflict));
        assert!(second > first);
        assert_eq!(pods.log().len(), 2);
    }

    #[test]
    fn deletion_checks_the_uid_and_begins_once() {
        let mut api = Api::default();
        api.pods.put(&mut api.versions, pod("p", "1", Some("n")));
        let key = ObjectKey::new("a", "p");
        assert_eq!(api.delete_pod(0, &key, Some(&"2".into())), Err(Refused::Conflict));
        assert_eq!(api.delete_pod(0, &key, Some(&"1".into())), Ok(Deleted::Begun));
        assert_eq!(api.delete_pod(0, &key, Some(&"1".into())), Ok(Deleted::Already));
        api.pods.put(&mut api.versions, pod("q", "3", None));
        assert_eq!(api.delete_pod(0, &ObjectKey::new("a", "q"), None), Ok(Deleted::Begun));
        assert!(api.pods.get(&ObjectKey::new("a", "q")).is_none());
    }

    #[test]
    fn the_lease_goes_to_whoever_saw_it_last() {
        let mut api = Api::default();
        let version = api.hold_lease(0, 0).expect("free");
        assert_eq!(api.hold_lease(0, 1), Err(Refused::Conflict));
        assert!(api.hold_lease(version, 1).is_ok());
    }

    #[test]
    fn a_changed_effect_counts_from_now() {
        use lazaret_model::{Effect, Taint};
        let mut api = Api::default();
        let taint = Taint { time_added: Some(wall(0)), ..Taint::default() };
        api.rules.put(
            &mut api.versions,
            DeviceTaintRule { name: "r".into(), taint, ..DeviceTaintRule::default() },
        );
        assert!(api.edit_rule(5_000, &"r".into(), |rule| rule.taint.effect = Effect::NoExecute));
        let stored = api.rules.get(&"r".into()).expect("there").object;
        assert_eq!((stored.taint.time_added, stored.generation), (Some(wall(5_000)), 1));
    }
}
