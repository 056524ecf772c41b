//! The queues of one level: one for each flow, served by start-time fair queuing.
//!
//! Each flow has a virtual time: how much it was served so far, in seats times milliseconds. The flow that is the least ahead goes next. A
//! flow that comes back after a pause begins where the others are, so that it can save nothing up.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// A request is charged this much for each seat when it starts; what it takes longer is charged when it ends.
const START_CHARGE: u64 = 1;
/// The largest charge of one request for each seat: a flow with one very long request is not punished for ever.
const CHARGE_MAX: u64 = 10_000;

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: RequestId,
    pub(crate) seats: u32,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    /// The seats that it was given, or the position of the others when it began.
    served: u64,
    executing: u32,
    waiting: VecDeque<Waiting>,
    /// Its place in the order of flows, while something waits.
    tag: u64,
}

/// All flows of a level.
#[derive(Clone, Debug)]
pub(crate) struct Flows<K> {
    flows: BTreeMap<K, Flow>,
    /// Flows in which something waits, the next first.
    ready: BTreeSet<(u64, K)>,
    /// Where the flow was that went last.
    virtual_now: u64,
    waiting: usize,
}

impl<K: Ord + Clone> Flows<K> {
    pub(crate) fn new() -> Self {
        Self { flows: BTreeMap::new(), ready: BTreeSet::new(), virtual_now: 0, waiting: 0 }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn waiting_of(&self, key: &K) -> usize {
        self.flows.get(key).map_or(0, |flow| flow.waiting.len())
    }

    /// Whether another flow fits. Flows that are idle are forgotten to make room: all they lose is what they were ahead.
    pub(crate) fn has_room_for(&mut self, key: &K, flows_max: usize) -> bool {
        if self.flows.contains_key(key) || self.flows.len() < flows_max {
            return true;
        }
        self.flows.retain(|_, flow| flow.executing > 0 || !flow.waiting.is_empty());
        self.flows.len() < flows_max
    }

    /// Puts a request at the end of its flow.
    pub(crate) fn push(&mut self, key: &K, waiting: Waiting) {
        let virtual_now = self.virtual_now;
        let flow = self.flows.entry(key.clone()).or_default();
        if flow.waiting.is_empty() {
            flow.tag = flow.served.max(virtual_now);
            self.ready.insert((flow.tag, key.clone()));
        }
        flow.waiting.push_back(waiting);
        self.waiting += 1;
    }

    /// The request that goes next.
    pub(crate) fn head(&self) -> Option<&Waiting> {
        let (_, key) = self.ready.first()?;
        self.flows.get(key)?.waiting.front()
    }

    /// Takes the request that goes next.
    pub(crate) fn pop(&mut self) -> Option<(K, Waiting)> {
        let (tag, key) = self.ready.pop_first()?;
        let flow = self.flows.get_mut(&key)?;
        let head = flow.waiting.pop_front()?;
        self.waiting -= 1;
        self.begin(&key, tag, head.seats);
        self.rank(&key);
        Some((key, head))
    }

    /// A request of a flow begins without having waited.
    pub(crate) fn start(&mut self, key: &K, seats: u32) {
        let tag = self.flows.get(key).map_or(0, |flow| flow.served).max(self.virtual_now);
        self.begin(key, tag, seats);
    }

    fn begin(&mut self, key: &K, tag: u64, seats: u32) {
        self.virtual_now = self.virtual_now.max(tag);
        if !self.flows.contains_key(key) {
            self.flows.insert(key.clone(), Flow::default());
        }
        if let Some(flow) = self.flows.get_mut(key) {
            flow.served = flow.served.max(tag).saturating_add(START_CHARGE * u64::from(seats));
            flow.executing += seats;
        }
    }

    /// A request of a flow has ended after `took_ms`.
    pub(crate) fn end(&mut self, key: &K, seats: u32, took_ms: u64) {
        let Some(flow) = self.flows.get_mut(key) else { return };
        let charge = took_ms.saturating_sub(START_CHARGE).min(CHARGE_MAX) * u64::from(seats);
        flow.served = flow.served.saturating_add(charge);
        flow.executing = flow.executing.saturating_sub(seats);
        if charge > 0 && !flow.waiting.is_empty() {
            self.ready.remove(&(flow.tag, key.clone()));
            self.rank(key);
        }
        self.forget_if_idle(key);
    }

    /// Takes out a request that waits.
    pub(crate) fn remove(&mut self, key: &K, id: RequestId) -> bool {
        let Some(flow) = self.flows.get_mut(key) else { return false };
        let Some(at) = flow.waiting.iter().position(|one| one.id == id) else { return false };
        flow.waiting.remove(at);
        self.waiting -= 1;
        if flow.waiting.is_empty() {
            self.ready.remove(&(flow.tag, key.clone()));
            self.forget_if_idle(key);
        }
        true
    }

    /// The newest request of the flow with the most of them, if that is more than `than`.
    pub(crate) fn newest_of_longest(&self, than: usize) -> Option<(K, RequestId)> {
        let (_, key) = self.ready.iter().max_by_key(|(_, key)| self.waiting_of(key))?;
        let flow = self.flows.get(key).filter(|flow| flow.waiting.len() > than)?;
        Some((key.clone(), flow.waiting.back()?.id))
    }

    fn rank(&mut self, key: &K) {
        let virtual_now = self.virtual_now;
        let Some(flow) = self.flows.get_mut(key).filter(|flow| !flow.waiting.is_empty()) else { return };
        flow.tag = flow.served.max(virtual_now);
        self.ready.insert((flow.tag, key.clone()));
    }

    fn forget_if_idle(&mut self, key: &K) {
        let idle = |flow: &Flow| flow.executing == 0 && flow.waiting.is_empty();
        if self.flows.get(key).is_some_and(|flow| idle(flow) && flow.served <= self.virtual_now) {
            self.flows.remove(key);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }
}
