//! The claims that a node has prepared, written into its Node: a process that starts again, or takes over, prepares no device a second time.
//!
//! A status says that a pod runs only when a checkpoint with its claims was written, and that it has ended only when one without them was. Each write names the
//! version of the Node that this process has seen, so that of two processes one finds out about the other before it starts a pod.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use lazaret_machine::Contents;
use lazaret_model::{DeviceId, ObjectKey, Pod, Text, Uid};

use crate::{
    claims::{Lack, Wait},
    effect::EffectKind,
    machine::{Item, Kubelet},
    pods::PodSlot,
};

/// A node that has noted more prepares nothing further. Annotations of an object have 256 KiB together.
pub const CHECKPOINT_BYTES_MAX: usize = 64 << 10;
/// A claim takes this many bytes besides its texts, and so does each of its pods and devices.
const ENTRY_BYTES: usize = 96;
const PART_BYTES: usize = 48;
/// Containers of a pod that was gone when this process began are taken to need at least this long to stop: news of the pod may come late.
const UNSEEN_STOP_MS: i64 = 5_000;

/// The checkpoint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The process that wrote it: [`Options::process`](crate::Options::process).
    pub writer: u64,
    /// Grows with each write of that process.
    pub sequence: u64,
    /// The claims that are prepared, by UID.
    pub claims: BTreeMap<Uid, NotedClaim>,
}

/// A claim that is prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedClaim {
    /// Its name.
    pub key: ObjectKey,
    /// UIDs of the pods that use it.
    pub pods: BTreeSet<Uid>,
    /// The devices that it holds, those for administration left out.
    pub held: Vec<HeldDevice>,
    /// How long the containers of its last pod take to stop.
    pub stop_ms: i64,
}

/// A device that a claim holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDevice {
    /// Which.
    pub device: DeviceId,
    /// Of a device that is shared, which share.
    pub share: Option<Text>,
}

/// The checkpoint in a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SeenCheckpoint {
    /// There is none: nothing is prepared.
    #[default]
    Missing,
    /// It was read.
    Known(Checkpoint),
    /// It cannot be read, and this is why.
    Unreadable(Text),
}

/// The knowledge of a process about the checkpoint of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// It was read, or there was none. Until then it is not known what is prepared.
    is_known: bool,
    /// The newest one of another process that was taken over.
    taken_over: Option<(u64, u64)>,
    /// Grows with each change of what is prepared.
    revision: u64,
    /// The revision that is written.
    saved: u64,
    /// The revision that is being written.
    writing: Option<u64>,
    sequence: u64,
}

impl Notes {
    /// The prepared claims change: the revision that says so.
    pub(crate) fn change(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    pub(crate) fn has(&self, revision: u64) -> bool {
        revision <= self.saved
    }

    pub(crate) fn forget_work(&mut self) {
        self.writing = None;
    }

    /// Another Node has the name: it has no checkpoint of this process.
    pub(crate) fn node_is_new(&mut self) {
        (self.saved, self.writing) = (0, None);
    }
}

impl NotedClaim {
    /// Bytes that it takes in a checkpoint, at most.
    pub(crate) fn bytes(&self) -> usize {
        let pods: usize = self.pods.iter().map(|pod| pod.len() + PART_BYTES).sum();
        let held = self.held.iter().map(|one| {
            let DeviceId { driver, pool, device } = &one.device;
            let share = one.share.as_ref().map_or(0, |share| share.len());
            driver.len() + pool.len() + device.len() + share + PART_BYTES
        });
        self.key.namespace.len() + self.key.name.len() + pods + held.sum::<usize>() + ENTRY_BYTES
    }
}

impl Kubelet {
    /// A Node was heard of: takes over what another process has noted there.
    pub(crate) fn read_notes(&mut self, node: usize) {
        let Some(seen) = self.nodes[node].checkpoint() else { return };
        let found = match seen {
            SeenCheckpoint::Unreadable(_) => return,
            SeenCheckpoint::Missing => {
                self.nodes[node].notes.is_known = true;
                return;
            }
            SeenCheckpoint::Known(found) => found.clone(),
        };
        let is_ours = found.writer == self.options.process;
        let is_current = is_ours && found.claims == self.prepared.noted(node);
        let notes = &mut self.nodes[node].notes;
        notes.is_known = true;
        if is_current {
            notes.saved = notes.revision;
        }
        let mark = Some((found.writer, found.sequence));
        if is_ours || notes.taken_over == mark {
            return;
        }
        notes.taken_over = mark;
        let revision = notes.change();
        for (claim, noted) in found.claims {
            self.prepared.take_over(node, claim, noted, revision);
        }
        if self.leads {
            self.release_unseen(node);
        }
    }

    /// Claims of a checkpoint that was taken over may be noted for pods that have ended, or are gone. Nothing is prepared for those that have ended.
    pub(crate) fn release_unseen(&mut self, node: usize) {
        let of_node = self.pods.values().filter(|slot| slot.node == node);
        let (ended, there): (Vec<&PodSlot>, Vec<&PodSlot>) = of_node.partition(|slot| slot.has_ended());
        let ended: Vec<Uid> = ended.into_iter().map(|slot| slot.seen.pod.uid.clone()).collect();
        let there: BTreeSet<Uid> = there.into_iter().map(|slot| slot.seen.pod.uid.clone()).collect();
        for pod in ended {
            self.unprepare_for(node, &pod);
        }
        for claim in self.prepared.release_unseen(node, &there, UNSEEN_STOP_MS) {
            self.touch(Item::Unprepare(node, claim));
        }
    }

    /// Why a pod cannot start: it is not known what is prepared on its node, or there is no room to note more.
    pub(crate) fn lack_of_notes(&self, node: usize, pod: &Pod) -> Option<Lack> {
        let key = crate::prepared::claims_of(pod).next()?;
        let why = match self.nodes[node].checkpoint() {
            Some(SeenCheckpoint::Unreadable(why)) if !self.nodes[node].notes.is_known => format!(
                "claim {} waits: the annotation of the Node that says what is prepared cannot be read ({why}); drain the node and remove the annotation",
                key.name
            ),
            _ if self.needs_room(node, pod) && self.prepared.bytes_on(node) >= CHECKPOINT_BYTES_MAX => {
                format!("claim {} waits: too many claims are prepared on the node", key.name)
            }
            _ => return None,
        };
        Some(Lack { wait: Wait::Node, why })
    }

    /// Whether a pod has a claim that is not prepared yet.
    fn needs_room(&self, node: usize, pod: &Pod) -> bool {
        let mut claims = crate::prepared::claims_of(pod).filter_map(|key| self.claims.get(&key));
        claims.any(|claim| !self.prepared.has(node, &claim.uid))
    }

    /// Why a pod whose claims are prepared cannot start yet: the checkpoint does not have them.
    pub(crate) fn lack_of_save(&self, node: usize, pod: &Pod) -> Option<Lack> {
        let is_unsaved = |key: &ObjectKey| {
            let claim = self.claims.get(key)?;
            let revision = self.prepared.revision(node, &claim.uid)?;
            (!self.nodes[node].notes.has(revision)).then_some(())
        };
        let key = crate::prepared::claims_of(pod).find(|key| is_unsaved(key).is_some())?;
        let why = format!("claim {} waits until the Node says that it is prepared", key.name);
        Some(Lack { wait: Wait::Node, why })
    }

    /// The write of the checkpoint of a node, if the one in its Node says something else.
    pub(crate) fn save(&mut self, node: usize) -> Option<EffectKind> {
        let slot = &self.nodes[node];
        let (uid, version, seen) = slot.identity()?;
        if !slot.notes.is_known {
            return None;
        }
        let claims = self.prepared.noted(node);
        let is_written = match seen {
            SeenCheckpoint::Known(seen) => seen.claims == claims,
            SeenCheckpoint::Missing => claims.is_empty(),
            SeenCheckpoint::Unreadable(_) => false,
        };
        let notes = &mut self.nodes[node].notes;
        if is_written {
            notes.writing = Some(notes.revision);
            self.saved(node);
            return None;
        }
        notes.sequence += 1;
        notes.writing = Some(notes.revision);
        let checkpoint = Checkpoint { writer: self.options.process, sequence: notes.sequence, claims };
        Some(EffectKind::Save { node, uid, version, checkpoint: Contents(checkpoint) })
    }

    /// Whether a pod cannot end yet: the checkpoint may still have its claims.
    pub(crate) fn is_noted_for(&mut self, key: &ObjectKey) -> bool {
        let Some(slot) = self.pods.get(key) else { return false };
        let (node, left) = (slot.node, slot.left);
        let is_noted = left.is_some_and(|left| !self.nodes[node].notes.has(left)) && self.is_registered(node);
        if is_noted {
            self.wait_for(Wait::Node, node, key);
            self.touch(Item::Node(node));
        }
        is_noted
    }

    /// A write of a node was answered; if it was that of its checkpoint, pods that waited for it may start.
    pub(crate) fn saved(&mut self, node: usize) {
        let notes = &mut self.nodes[node].notes;
        if let Some(revision) = notes.writing.take().filter(|revision| *revision > notes.saved) {
            notes.saved = revision;
            self.touch_waiting_for(node);
        }
    }

    /// A write of a node failed, or it is not known what became of it.
    pub(crate) fn not_saved(&mut self, node: usize) {
        self.nodes[node].notes.writing = None;
    }
}

impl PodSlot {
    fn has_ended(&self) -> bool {
        self.seen.pod.phase.is_finished()
    }
}
