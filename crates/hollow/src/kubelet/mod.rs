//! All hollow nodes of a process: they register, renew their leases, and run their pods.

mod claims;
mod nodes;
mod pods;
mod prepared;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lazaret_model::{ObjectKey, ResourceClaim, Text, Timestamp, Uid};
use lazaret_runtime::Outcome;

use self::{nodes::NodeSlot, pods::PodSlot, prepared::PreparedClaims};
use crate::{agenda::Agenda, effect::Effect, options::HollowOptions};

/// How long to wait until what was written is seen before looking again.
const RECHECK_MS: i64 = 30_000;

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// A node, by number.
    Node(usize),
    /// The lease of a node.
    Lease(usize),
    /// A pod.
    Pod(ObjectKey),
    /// A claim on a node that no pod uses any more.
    Unprepare(usize, Uid),
}

/// The kubelets. Hears of nodes, pods and claims; what is not on one of its nodes is not kept.
#[derive(Debug)]
pub struct Kubelet {
    options: Arc<HollowOptions>,
    leads: bool,
    leaves_taints: bool,
    agenda: Agenda<Item>,
    effects: VecDeque<(u64, Effect)>,
    nodes: Vec<NodeSlot>,
    numbers: BTreeMap<Text, usize>,
    pods: BTreeMap<ObjectKey, PodSlot>,
    claims: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
    /// From a claim to the pods that cannot start because of it.
    waiting: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    prepared: PreparedClaims,
}

impl Kubelet {
    /// The nodes of a fleet, none of which has been seen yet.
    #[must_use]
    pub fn new(options: Arc<HollowOptions>) -> Self {
        let numbers = (0..options.nodes).map(|index| (options.node_name(index).into(), index)).collect();
        Self {
            leads: false,
            leaves_taints: false,
            agenda: Agenda::new(options.in_flight_max).with_routine(|item| matches!(item, Item::Lease(_))),
            effects: VecDeque::new(),
            nodes: (0..options.nodes).map(|_| NodeSlot::default()).collect(),
            numbers,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            waiting: BTreeMap::new(),
            prepared: PreparedClaims::default(),
            options,
        }
    }

    /// The nodes leave their taints to a controller, as nodes must that have no more than their own credentials.
    #[must_use]
    pub fn leaving_taints(mut self) -> Self {
        self.leaves_taints = true;
        self
    }

    /// From now on effects are wanted, or none are.
    pub fn lead(&mut self, now: Timestamp, leads: bool) {
        self.leads = leads;
        self.agenda.clear();
        self.effects.clear();
        self.pods.values_mut().for_each(PodSlot::forget_work);
        self.nodes.iter_mut().for_each(NodeSlot::forget_work);
        if !leads {
            return;
        }
        let count = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX).max(1);
        for (index, number) in (0..self.nodes.len()).zip(0_i64..) {
            self.agenda.touch(Item::Node(index));
            // Spread over the interval, so that renewals come as a trickle.
            let offset = self.options.lease_interval_ms.saturating_mul(number) / count;
            self.agenda.later(now.plus_millis(offset), Item::Lease(index));
        }
        let pods: Vec<ObjectKey> = self.pods.keys().cloned().collect();
        for pod in pods {
            if self.pods.get(&pod).is_some_and(PodSlot::is_running) {
                self.prepare(&pod);
            }
            self.agenda.touch(Item::Pod(pod));
        }
        self.touch_unused();
    }

    /// Decides what is to be done at `now`.
    pub fn think(&mut self, now: Timestamp) {
        if !self.leads {
            return;
        }
        self.agenda.wake(now);
        while let Some(item) = self.agenda.next() {
            if self.agenda.is_paused(&item, now) {
                continue;
            }
            let effect = match &item {
                Item::Node(index) => self.look_at_node(now, *index),
                Item::Lease(index) => self.renew(now, *index),
                Item::Pod(key) => self.look_at_pod(now, key),
                Item::Unprepare(node, claim) => {
                    self.look_at_unused(now, *node, claim);
                    None
                }
            };
            if let Some(effect) = effect {
                let id = self.agenda.launch(item);
                self.effects.push_back((id, effect));
            }
        }
    }

    /// The outcome of an effect.
    pub fn acknowledge(&mut self, now: Timestamp, id: u64, outcome: Outcome) {
        let done = match outcome {
            Outcome::Done => true,
            // It will be heard of.
            Outcome::Gone => false,
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                self.agenda.land(now, id, true);
                return;
            }
        };
        match self.agenda.land(now, id, false) {
            Some(Item::Node(index)) => self.node_written(now, index),
            Some(Item::Lease(index)) => self.lease_renewed(now, index),
            Some(Item::Pod(key)) => self.pod_written(now, &key, done),
            Some(Item::Unprepare(..)) | None => {}
        }
    }

    /// The next thing to be done, and the number to acknowledge it by.
    pub fn poll(&mut self) -> Option<(u64, Effect)> {
        self.effects.pop_front()
    }

    /// The node of an effect in flight.
    #[must_use]
    pub fn node_of(&self, id: u64) -> Option<String> {
        let index = match self.agenda.in_flight(id)? {
            Item::Node(index) | Item::Lease(index) | Item::Unprepare(index, _) => *index,
            Item::Pod(key) => self.pods.get(key)?.node,
        };
        Some(self.options.node_name(index))
    }

    /// When it wants to think again if nothing happens before.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.agenda.next_wake().filter(|_| self.leads)
    }

    /// Whether a node is one of its own.
    #[must_use]
    pub fn has_node(&self, name: &Text) -> bool {
        self.numbers.contains_key(name)
    }

    /// How many pods are on its nodes.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    fn touch(&mut self, item: Item) {
        if self.leads {
            self.agenda.touch(item);
        }
    }
}
