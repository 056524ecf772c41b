//! Pods that take room of their node, some more important than others: the scheduler makes pods leave for these.

use std::sync::Arc;

use lazaret_machine::Outcome;
use lazaret_model::{AllocationMode, RequestKind, ResourceClaim, Text, Uid};
use lazaret_scheduler::{Amounts, Evict, PodSpec, SetPodCondition};

use crate::{actors::claims::share_of, coverage::Mark, scenario::Config, world::World};

/// Requests of pods, in thousandths of a CPU.
const CPU_MILLI: [i64; 3] = [50, 200, 500];
/// A node has as much for each pod of the start that would be its share: about what pods request.
const CPU_MILLI_PER_POD: i64 = 250;
/// The priorities of pods.
const PRIORITIES: [i32; 3] = [0, 0, 5];
/// In worlds whose number is this, pods have priorities, and the scheduler makes pods leave for others.
const WITH_PREEMPTION: u32 = 2;

/// One in this many claims is for two devices.
const LARGE_ONE_IN: usize = 4;

/// The specs of pods that take room, by request and priority.
#[derive(Debug, Default)]
pub(super) struct Specs(Vec<Arc<PodSpec>>);

/// By a pod's UID, so that worlds draw nothing for it.
fn drawn(uid: &Uid, purpose: u32) -> usize {
    let mixed = uid.bytes().fold(purpose, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (mixed >> 16) as usize
}

impl Config {
    /// Whether pods may be made to leave for others.
    pub(crate) fn has_preemption(&self) -> bool {
        self.crowded == WITH_PREEMPTION
    }

    /// The CPU of a node.
    pub(crate) fn node_cpu_milli(&self) -> i64 {
        match self.crowded {
            0 => 0,
            _ => CPU_MILLI_PER_POD * i64::from(self.pods / self.nodes.max(1) + 1),
        }
    }

    /// The CPU that a pod requests.
    pub(crate) fn cpu_milli(&self, uid: &Uid) -> i64 {
        if self.crowded == 0 { 0 } else { CPU_MILLI[drawn(uid, 1) % CPU_MILLI.len()] }
    }

    /// The priority of a pod.
    pub(crate) fn priority(&self, uid: &Uid) -> i32 {
        if self.has_preemption() { PRIORITIES[drawn(uid, 2) % PRIORITIES.len()] } else { 0 }
    }
}

impl Config {
    /// In worlds like these, some claims are for two devices.
    pub(super) fn enlarge(&self, claim: &mut ResourceClaim) {
        let is_large =
            (self.binding != 0 || self.crowded != 0) && drawn(&claim.uid, 3).is_multiple_of(LARGE_ONE_IN);
        if !is_large || share_of(claim).is_some() {
            return;
        }
        for request in &mut Arc::make_mut(&mut claim.spec).requests {
            if let RequestKind::Exactly(request) = &mut request.kind {
                request.mode = AllocationMode::Exact(2);
            }
        }
    }
}

impl Specs {
    /// From these specs: without and with an extended resource.
    pub(super) fn new(config: &Config, of: [&PodSpec; 2]) -> Self {
        if config.crowded == 0 {
            return Self::default();
        }
        let all = of.into_iter().flat_map(|spec| {
            CPU_MILLI.into_iter().flat_map(move |cpu_milli| {
                PRIORITIES.into_iter().map(move |priority| {
                    let requests = Amounts { cpu_milli, ..spec.requests.clone() };
                    Arc::new(PodSpec { requests, priority, ..spec.clone() })
                })
            })
        });
        Self(all.collect())
    }

    /// The spec of a pod, where pods take room.
    pub(super) fn of(&self, config: &Config, uid: &Uid, is_extended: bool) -> Option<&Arc<PodSpec>> {
        if self.0.is_empty() {
            return None;
        }
        let priority = if config.has_preemption() { drawn(uid, 2) % PRIORITIES.len() } else { 0 };
        let of_kind = drawn(uid, 1) % CPU_MILLI.len() * PRIORITIES.len() + priority;
        self.0.get(usize::from(is_extended) * CPU_MILLI.len() * PRIORITIES.len() + of_kind)
    }
}

impl World {
    /// The server deletes a pod that has to leave for another.
    pub(crate) fn preempt(&mut self, evict: &Evict) -> Outcome {
        self.coverage.hit(Mark::Preempted);
        match self.api.delete_pod(self.now, &evict.victim, Some(&evict.uid)) {
            Ok(_) => Outcome::Done,
            Err(_) => Outcome::Gone,
        }
    }

    /// The node for which pods were made to leave is in the status of a pod: its scheduler hears of it, and so does the next one.
    pub(super) fn nominate(&mut self, set: &SetPodCondition) {
        let Some(node) = &set.nominated else { return };
        let node: Option<Text> = (!node.is_empty()).then(|| node.clone());
        self.placing.nominated.entry(set.uid.clone()).or_default().push((self.api.pods.log().len(), node));
        self.api.edit_pod(&set.pod, &set.uid, |_| {});
    }
}
