//! Nodes: registered, ready, and alive.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_model::{Text, Timestamp, Uid};

use crate::{
    checkpoint::{Notes, SeenCheckpoint},
    effect::EffectKind,
    machine::{Item, Kubelet, RECHECK_MS},
    node::SeenNode,
    pods::PodSlot,
};

/// Addresses of each node for its pods: more than the pods that it takes.
pub const POD_ADDRESSES: u8 = 128;

/// A node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSlot {
    seen: Option<SeenNode>,
    /// The last write should be seen by then.
    settled_until: Option<Timestamp>,
    /// Something was heard since the last write began: it may be what was written, or need another.
    news: bool,
    renewed: Option<Timestamp>,
    /// The last parts of addresses in use.
    pub(crate) addresses: [u64; 2],
    /// Claims of which it said that nothing is prepared, each with the time until which others may rely on that whatever is seen of the Node.
    said_unprepared: BTreeMap<Uid, Timestamp>,
    /// Its checkpoint.
    pub(crate) notes: Notes,
}

impl NodeSlot {
    pub(crate) fn forget_work(&mut self) {
        (self.settled_until, self.renewed) = (None, None);
        self.notes.forget_work();
    }

    /// The checkpoint in its Node, if it has one.
    pub(crate) fn checkpoint(&self) -> Option<&SeenCheckpoint> {
        self.seen.as_ref().map(|seen| &seen.checkpoint)
    }

    /// Its Node as it was seen.
    pub(crate) fn identity(&self) -> Option<(Uid, Text, &SeenCheckpoint)> {
        let seen = self.seen.as_ref()?;
        Some((seen.uid.clone(), seen.version.clone(), &seen.checkpoint))
    }

    /// An address that no pod of the node has.
    pub(crate) fn take_address(&mut self) -> u8 {
        let last = POD_ADDRESSES - 1;
        let free = (2..last).find(|number| !self.is_taken(*number)).unwrap_or(last);
        self.mark(free, true);
        free
    }

    pub(crate) fn mark(&mut self, number: u8, taken: bool) {
        let word = &mut self.addresses[usize::from(number / 64)];
        let bit = 1_u64 << (number % 64);
        *word = if taken { *word | bit } else { *word & !bit };
    }

    /// How long its driver takes to unprepare.
    pub(crate) fn unprepare_after_ms(&self) -> i64 {
        self.seen.as_ref().and_then(|seen| seen.unprepare_after_ms).unwrap_or(0)
    }

    fn is_taken(&self, number: u8) -> bool {
        self.addresses[usize::from(number / 64)] & (1 << (number % 64)) != 0
    }
}

impl Kubelet {
    /// A Node as it is now. Those of other processes are ignored.
    pub(crate) fn hear_node(&mut self, now: Timestamp, seen: SeenNode) {
        let Some(&index) = self.numbers.get(&seen.name) else { return };
        if self.leads && !self.is_registered(index) {
            // Nothing was prepared there for the pods of before, and some of them may be gone.
            let claims = self.claims_on(index);
            self.note_words(now, index, &claims);
        }
        let slot = &mut self.nodes[index];
        if slot.seen.as_ref() != Some(&seen) {
            let delay = slot.unprepare_after_ms();
            if slot.seen.as_ref().is_none_or(|before| before.uid != seen.uid) {
                slot.notes.node_is_new();
            }
            slot.seen = Some(seen);
            (slot.settled_until, slot.news) = (None, true);
            let faster = slot.unprepare_after_ms() != delay;
            self.read_notes(index);
            self.touch(Item::Node(index));
            self.touch_waiting_for(index);
            if faster {
                self.touch_users(index);
            }
        }
    }

    /// No such node.
    pub(crate) fn miss_node(&mut self, name: &Text) {
        let Some(&index) = self.numbers.get(name) else { return };
        if self.nodes[index].seen.take().is_some() {
            (self.nodes[index].settled_until, self.nodes[index].news) = (None, true);
            self.touch(Item::Node(index));
            self.touch_waiting_for(index);
            self.touch_users(index);
        }
    }

    pub(crate) fn touch_waiting_for(&mut self, node: usize) {
        for pod in self.waiting_for_node.remove(&node).unwrap_or_default() {
            if self.pods.get(&pod).is_some_and(PodSlot::is_running) {
                self.prepare(&pod);
            }
            self.touch(Item::Pod(pod));
        }
    }

    /// All nodes there are.
    pub(crate) fn list_nodes(&mut self, now: Timestamp, nodes: Vec<SeenNode>) {
        let there: BTreeSet<Text> = nodes.iter().map(|node| node.name.clone()).collect();
        let gone: Vec<Text> = self.numbers.keys().filter(|name| !there.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.miss_node(name));
        nodes.into_iter().for_each(|node| self.hear_node(now, node));
    }

    pub(crate) fn look_at_node(&mut self, now: Timestamp, index: usize) -> Option<EffectKind> {
        self.nodes[index].news = false;
        self.forget_words(now, index);
        let slot = &self.nodes[index];
        if let Some(until) = slot.settled_until.filter(|until| *until > now) {
            self.agenda.later(until, Item::Node(index));
            return None;
        }
        let Some(seen) = &slot.seen else {
            return Some(EffectKind::Register { node: index, at: now });
        };
        let uid = seen.uid.clone();
        if !seen.ready {
            return Some(EffectKind::SetNodeReady { node: index, uid, at: now });
        }
        let answers = self.answers(seen, index);
        if let Some(save) = self.save(index) {
            return Some(save);
        }
        if let Some(unprepared) = answers {
            self.note_words(now, index, &unprepared);
            return Some(EffectKind::Report { node: index, uid, unprepared });
        }
        if self.options.leaves_taints {
            return None;
        }
        let seen = self.nodes[index].seen.as_ref()?;
        // There may be no controller to see that it is ready. One that exists is first, or finds the taint removed.
        let others = seen.taints_when_ready.clone()?;
        Some(EffectKind::RemoveNotReadyTaint { node: index, uid, version: seen.version.clone(), others })
    }

    /// The claims of which a node has to say that nothing is prepared, where its Node says something else. A node that unprepares in no time
    /// has nothing to say.
    fn answers(&self, seen: &SeenNode, index: usize) -> Option<BTreeSet<Uid>> {
        // Of what is not known nothing is said.
        let is_silent = !seen.reports && seen.unprepare_after_ms.is_none();
        if is_silent || !self.nodes[index].notes.is_known() {
            return None;
        }
        let unprepared: BTreeSet<Uid> =
            seen.awaiting.iter().filter(|claim| !self.prepared.has(index, claim)).cloned().collect();
        (!seen.reports || unprepared != seen.unprepared).then_some(unprepared)
    }

    /// News of a pod that is gone may be later than the answer to the answer. They prepare nothing.
    fn note_words(&mut self, now: Timestamp, index: usize, unprepared: &BTreeSet<Uid>) {
        let until = now.plus_millis(RECHECK_MS);
        let said = &mut self.nodes[index].said_unprepared;
        said.extend(unprepared.iter().map(|claim| (claim.clone(), until)));
        self.agenda.later(until, Item::Node(index));
    }

    fn forget_words(&mut self, now: Timestamp, index: usize) {
        let said = &mut self.nodes[index].said_unprepared;
        let before = said.len();
        said.retain(|_, until| *until > now);
        let next = said.values().min().copied();
        if said.len() < before {
            self.touch_waiting_for(index);
        }
        if let Some(next) = next {
            self.agenda.later(next, Item::Node(index));
        }
    }

    /// Whether a node has its Node. Without one nobody asks it about claims, and they are given back without its word.
    pub(crate) fn is_registered(&self, node: usize) -> bool {
        self.nodes[node].seen.is_some()
    }

    /// Whether a node must not prepare a claim: it is asked about it, or has not taken back what it said of it, or said it a short time ago. Of a claim
    /// that it has prepared for a pod it has said nothing.
    pub(crate) fn is_awaited(&self, node: usize, claim: &Uid) -> bool {
        let slot = &self.nodes[node];
        let is_listed = |seen: &SeenNode| seen.awaiting.contains(claim) || seen.unprepared.contains(claim);
        let is_asked = slot.seen.as_ref().is_some_and(is_listed) || slot.said_unprepared.contains_key(claim);
        is_asked && !self.prepared.has(node, claim)
    }

    pub(crate) fn node_written(&mut self, now: Timestamp, index: usize) {
        let slot = &mut self.nodes[index];
        slot.settled_until = (!slot.news).then(|| now.plus_millis(RECHECK_MS));
        self.saved(index);
    }

    /// Renews the lease if it is time.
    pub(crate) fn renew(&mut self, now: Timestamp, index: usize) -> Option<EffectKind> {
        if let Some(renewed) = self.nodes[index].renewed {
            let next = renewed.plus_millis(self.options.lease_interval_ms);
            if now < next {
                self.agenda.later(next, Item::Lease(index));
                return None;
            }
        }
        Some(EffectKind::RenewLease { node: index, at: now })
    }

    pub(crate) fn lease_renewed(&mut self, now: Timestamp, index: usize) {
        self.nodes[index].renewed = Some(now);
    }
}
