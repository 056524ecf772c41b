//! The state of the scheduler.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashMap;
use lazaret_allocator::{Allocator, Overlay};
use lazaret_fleet::{Fleet, Snapshot};
use lazaret_model::{Allocation, ObjectKey, Slab, Text, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    Budget, Labels, Options, Pod, Unscheduled,
    budget::UnfinishedAttempts,
    claim_writes::ClaimWrites,
    claims::ClaimCache,
    condition_write::ConditionWrite,
    extended::ClassesByResource,
    flight::Flight,
    negotiation::Negotiation,
    nodes::Nodes,
    outbox::Outbox,
    queue::{Queue, QueueDelays},
    shares::Shares,
    verdict_cache::VerdictCache,
    why::PendingReason,
};

/// Places the pods of one cluster.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) options: Options,
    pub(crate) leads: bool,
    /// The latest `now` that came in.
    pub(crate) now: Timestamp,
    pub(crate) fleet: Fleet,
    pub(crate) allocator: Allocator,
    /// Allocations that were decided and are not in the fleet.
    pub(crate) overlay: Overlay,
    /// The snapshot that free devices of nodes were last counted in.
    pub(crate) counted: Arc<Snapshot>,
    /// Resources that a class can stand in for, each with the class.
    pub(crate) delegated: ClassesByResource,
    /// Devices that take of the resources of their own node.
    pub(crate) shares: Shares,
    pub(crate) nodes: Nodes,
    /// A node has said that it tells what is prepared on it.
    pub(crate) nodes_report: bool,
    /// By node and claim.
    pub(crate) unlisted: BTreeMap<(Text, Uid), UnlistedHold>,
    /// Where the next search begins.
    pub(crate) start: usize,
    pub(crate) pods: Slab<PodEntry>,
    pub(crate) pod_keys: HashMap<ObjectKey, u32, FxBuildHasher>,
    pub(crate) namespaces: BTreeMap<Text, Arc<Labels>>,
    pub(crate) budgets: BTreeMap<ObjectKey, Arc<Budget>>,
    pub(crate) claim_cache: ClaimCache,
    /// When a claim was last made, or a pod with claims last found to have all of them.
    pub(crate) claim_made: Timestamp,
    pub(crate) queue: Queue,
    pub(crate) verdict_cache: VerdictCache,
    /// Attempts that are not over.
    pub(crate) unfinished: UnfinishedAttempts,
    /// The units of work since effects were last asked for in vain.
    pub(crate) work: u64,
    /// How far into the nodes the next search for pods that could leave begins, after one that was not finished.
    pub(crate) preempt_from: usize,
    pub(crate) flights: BTreeMap<u32, Flight>,
    pub(crate) claim_writes: ClaimWrites,
    /// The negotiation about classic claims.
    pub(crate) classic: Negotiation,
    pub(crate) timers: BTreeSet<(Timestamp, TimerKey)>,
    pub(crate) outbox: Outbox,
    /// Pods with an eviction in flight, or that are not yet seen to terminate.
    pub(crate) evicting: BTreeSet<u32>,
    /// How many decisions were made.
    pub(crate) decisions: u64,
    /// Pods are placed tentatively: that wakes no pod.
    pub(crate) rehearsing: bool,
}

/// A pod, and where it is.
#[derive(Debug)]
pub(crate) struct PodEntry {
    pub(crate) pod: Arc<Pod>,
    /// The node whose room it takes up: it is bound there, or is being bound.
    pub(crate) on: Option<u32>,
    /// The node on which room is kept for it.
    pub(crate) nominated: Option<u32>,
    /// Why it was not placed when last tried.
    pub(crate) why: Option<Arc<PendingReason>>,
    /// Until then it is unknown whether it was bound: its claims must not be released.
    pub(crate) uncertain_until: Timestamp,
    /// The last `PodScheduled` condition written to its status.
    pub(crate) reported: Option<Unscheduled>,
    /// When that was.
    pub(crate) reported_at: Timestamp,
    /// The condition in flight, and the next one.
    pub(crate) condition_write: Option<Box<ConditionWrite>>,
}

/// The devices of a claim that is gone, until the claim controller lists them.
#[derive(Clone, Debug)]
pub(crate) struct UnlistedHold {
    pub(crate) until: Timestamp,
    pub(crate) allocation: Arc<Allocation>,
}

/// The object to look at when its time has come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// A claim that could not be written.
    Claim(ObjectKey),
    /// A pod that is being bound.
    Pod(u32),
    /// A pod of which something new is to be said.
    Report(u32),
    /// Devices held back for a claim that was removed while it was prepared on a node.
    Hold(Text, Uid),
    /// A pod whose claims may be taken from it from now on.
    Retry(u32),
}

/// How much there is of what. For gauges, and for tests of forgetting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods, placed or not.
    pub pods: usize,
    /// Pods that can be tried now.
    pub active: usize,
    /// Pods that wait for a pause to end.
    pub backing_off: usize,
    /// Pods that wait for something to happen.
    pub parked: usize,
    /// Pods that wait to be changed.
    pub gated: usize,
    /// Pods that are being bound.
    pub in_flight: usize,
    /// Claims that are being written, or were and are not seen yet.
    pub claims_in_flight: usize,
    /// Effects that wait to be acknowledged.
    pub effects_pending: usize,
}

impl Scheduler {
    /// A scheduler that knows nothing yet and does not lead.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut fleet = Fleet::with_gates(options.features.fleet_gates());
        Self {
            leads: false,
            now: Timestamp::from_millis(i64::MIN),
            counted: fleet.snapshot(),
            fleet,
            allocator: Allocator::new(options.features),
            overlay: Overlay::new(),
            delegated: ClassesByResource::default(),
            shares: Shares::default(),
            nodes: Nodes::default(),
            nodes_report: false,
            unlisted: BTreeMap::new(),
            start: 0,
            pods: Slab::default(),
            pod_keys: HashMap::default(),
            namespaces: BTreeMap::new(),
            budgets: BTreeMap::new(),
            claim_cache: ClaimCache::default(),
            queue: Queue::new(QueueDelays {
                backoff_ms: options.backoff_ms,
                backoff_ms_max: options.backoff_ms_max,
                flush_ms: options.flush_ms,
                turn_units: options.turn_units,
            }),
            verdict_cache: VerdictCache::default(),
            unfinished: UnfinishedAttempts::default(),
            work: 0,
            preempt_from: 0,
            flights: BTreeMap::new(),
            claim_writes: ClaimWrites::default(),
            classic: Negotiation::default(),
            timers: BTreeSet::new(),
            outbox: Outbox::default(),
            evicting: BTreeSet::new(),
            claim_made: Timestamp::from_millis(i64::MIN),
            decisions: 0,
            rehearsing: false,
            options,
        }
    }

    /// Whether effects are wanted.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leads
    }

    /// Why a pod was not placed when it was last tried; `None` when it was not tried, or was placed.
    #[must_use]
    pub fn why(&self, pod: &ObjectKey) -> Option<&Arc<PendingReason>> {
        self.pods.get(*self.pod_keys.get(pod)?)?.why.as_ref()
    }

    /// The node whose room a pod takes up: it is bound there, or is being bound.
    #[must_use]
    pub fn node_of(&self, pod: &ObjectKey) -> Option<&Text> {
        let on = self.pods.get(*self.pod_keys.get(pod)?)?.on?;
        self.nodes.get(on).map(|state| &state.name)
    }

    /// The fleet as it is known here.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The units of work that went into decisions since the beginning.
    #[must_use]
    pub fn work_units(&self) -> u64 {
        self.allocator.spent()
    }

    /// How many decisions were made since the beginning.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// How much there is of what.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let [active, backing_off, parked, gated] = self.queue.lengths();
        Sizes {
            nodes: self.nodes.order().len(),
            pods: self.pods.len(),
            active,
            backing_off,
            parked,
            gated,
            in_flight: self.flights.len(),
            claims_in_flight: self.claim_writes.len(),
            effects_pending: self.outbox.len(),
        }
    }

    pub(crate) fn set_timer(&mut self, at: Timestamp, timer: TimerKey) {
        self.timers.insert((at, timer));
    }
}
