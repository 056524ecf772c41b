//! A model of the API server: objects with resource versions, refused stale writes, deletion with a grace period,
//! a log per kind that watches read at their own pace, and the lease that the controllers compete for.

mod json_text;
mod notes;
mod objects;
mod pods;
mod table;

use std::sync::Arc;

use lazaret_fleet::Input;
use lazaret_leader::{LeaseRecord, LeaseWrite};
use lazaret_model::{
    ClaimSource, DeviceClass, DeviceTaintRule, Node, ObjectKey, Pod, ResourceClaim, ResourceSlice,
    ResourceSlicePatch, Text, Timestamp, Uid,
};

use crate::{catalog::Catalog, palette};

pub(crate) use notes::ClaimNotes;
pub(crate) use objects::{LoggedObject, StoredObject};
pub(crate) use pods::{GATE, PodMetadata, PodNotes, TRACKING};
pub(crate) use table::Live;
pub use table::{Key, Logged, Refused, Stored, Table, Versions};

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
    /// Its key.
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

/// The claim that an entry of a pod stands for, if that is known.
pub(crate) fn claim_name(source: &ClaimSource) -> Option<&Text> {
    match source {
        ClaimSource::Claim(name) => Some(name),
        ClaimSource::Template { resolved, .. } => resolved.as_ref()?.as_ref(),
        ClaimSource::Unknown => None,
    }
}

/// The record that controllers compete for.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// As it was written last; `None` before the first write.
    pub record: Option<LeaseRecord>,
    /// As it was one write ago: what a cache may still say.
    pub before: Option<LeaseRecord>,
    /// The last holder.
    last: String,
    /// How often it changed hands.
    pub hands: u64,
}

impl Lease {
    /// The holder; empty: none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.record.as_ref().map_or("", |record| &record.holder)
    }
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
    notes: notes::Notes,
    /// The owners of pods, and what belongs to them.
    pub(crate) objects: objects::Objects,
    pod_notes: pods::PodNotesByUid,
    uids: u64,
}

/// The result of a DELETE of a pod.
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
        for logged in &slices.log()[slices_seen..] {
            catalog.slice_written(logged.object.as_deref());
        }
        for logged in &claims.log()[claims_seen..] {
            catalog.claim_written(logged.object.as_deref());
        }
        for logged in &pods.log()[pods_seen..] {
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

    /// Writes the lease, if it is still at the version that the write expects. Its duration is kept in whole seconds, as the API has it.
    ///
    /// # Errors
    /// [`Refused::Conflict`].
    pub fn write_lease(&mut self, write: &LeaseWrite) -> Result<LeaseRecord, Refused> {
        let lease = &mut self.lease;
        if lease.record.as_ref().map_or("", |record| &record.resource_version) != write.resource_version {
            return Err(Refused::Conflict);
        }
        let version = self.versions.next().to_string();
        if !write.holder.is_empty() && lease.last != write.holder {
            lease.last.clone_from(&write.holder);
            lease.hands += 1;
        }
        let record = LeaseRecord {
            holder: write.holder.clone(),
            duration_ms: write.duration_ms.saturating_add(999) / 1_000 * 1_000,
            renewed: version.clone(),
            transitions: write.transitions,
            resource_version: version,
        };
        lease.before = lease.record.replace(record.clone());
        Ok(record)
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
        if stored.object.node.is_none() {
            self.remove_pod(now, key);
            return Ok(Deleted::Begun);
        }
        let deleting_since = Some(wall(now).truncated_to_secs());
        let pod = Arc::new(Pod { deleting_since, ..Pod::clone(stored.object) });
        self.pods.record(&mut self.versions, number, Some(pod));
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
        use lazaret_leader::{Election, ElectionStep, Instants, LeaseOptions};
        let mut api = Api::default();
        let at = Instants { monotonic: Timestamp::EPOCH, wall: wall(0) };
        let [mut one, mut other] = ["one", "other"].map(|name| Election::new(name, LeaseOptions::default()));
        let writes = [&mut one, &mut other].map(|election| {
            election.read(at, None);
            let ElectionStep::Write(write) = election.next(at) else { panic!("it is free") };
            write
        });
        assert!(api.write_lease(&writes[0]).is_ok());
        assert_eq!(api.write_lease(&writes[1]), Err(Refused::Conflict));
        assert_eq!((api.lease.holder(), api.lease.hands), ("one", 1));
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
