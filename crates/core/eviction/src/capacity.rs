//! Whether there is room for the replacements of pods that are to leave: asked of the allocator that schedulers go by, for claims as they are,
//! on nodes that the pods may run on, under the taints and allocations of now.
//!
//! Room that was found is promised: the next question finds it taken, until the replacement is placed or is not to be expected any more. Pods
//! that wait to be placed take theirs before.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::{cmp::Reverse, fmt::Write as _};

use lazaret_allocator::{
    Allocator, Features, Found, NodeGroup, NodeSearch, Options, Overlay, TimedTolerations,
};
use lazaret_fleet::{ClaimIx, Fleet, Input, PodIx, Snapshot};
use lazaret_model::{
    Allocation, ClaimSource, DeviceId, DeviceResult, Node, ObjectKey, Pod, ResourceClaim, Text, Timestamp,
    Uid,
};

use crate::effect::{CapacityQuestion, LeavingPod};

/// A promise to a pod that is not seen to leave lasts this long.
const UNUSED_MS_MAX: i64 = 30_000;
/// The replacement of a pod that is gone is expected for this long.
const REPLACED_MS_MAX: i64 = 60_000;
/// How often at most the room for pending pods is computed.
const PENDING_EVERY_MS: i64 = 1_000;
/// Pending pods that room is computed for, in the order of scheduling. There are more only where there is no room anyway.
const PENDING_MAX: usize = 64;
/// A search gives up after as many steps for each node.
const STEPS_MAX: u64 = 20_000;
/// The work of a question, in units of which one is what a unit of CEL's cost takes: some tens of milliseconds. Results are kept
/// for when it is asked again.
pub const QUESTION_UNITS: u64 = 4_000_000;
/// The work of finding out where pending pods will go.
const PENDING_UNITS: u64 = 2_000_000;
/// Of which one pod gets no more than this part.
const PENDING_PARTS: u64 = 8;
/// Reasons why nodes have no room that a message names.
const REASONS_SAID_MAX: usize = 3;
/// Characters of each reason.
const REASON_CHARS_MAX: usize = 200;

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapacityAnswer {
    /// There is room for all.
    Room(Vec<Promised>),
    /// There is none, in words for people.
    NoRoom(Text),
    /// Not all of these pods are there.
    Gone,
}

/// Room for the replacement of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promised {
    /// The pod that leaves.
    pub pod: ObjectKey,
    /// Its incarnation.
    pub uid: Uid,
    /// Where its replacement could run.
    pub node: Text,
    /// The devices that it could have.
    pub devices: Vec<DeviceId>,
}

/// Answers questions, and remembers what it promised.
#[derive(Debug)]
pub struct Capacity {
    allocator: Allocator,
    promises: BTreeMap<Uid, Promise>,
    /// Pods of the owners of promises that were there before, or are known to be replacements.
    known: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Devices that pending pods will take, and when that was computed.
    pending: Option<(Timestamp, Vec<(Uid, Allocation)>)>,
    shares: u64,
}

#[derive(Debug)]
struct Promise {
    key: ObjectKey,
    owner: Option<Uid>,
    /// Devices that each of its claims could be allocated, by the claim's UID.
    claims: Vec<(Uid, Allocation)>,
    made: Timestamp,
    gone_since: Option<Timestamp>,
}

/// A pod that is to leave, with its claims.
struct Leaving<'a> {
    asked: &'a LeavingPod,
    pod: Arc<Pod>,
    claims: Vec<Arc<ResourceClaim>>,
}

impl Capacity {
    /// Nothing is promised yet.
    #[must_use]
    pub fn new(features: Features) -> Self {
        Self {
            allocator: Allocator::new(features),
            promises: BTreeMap::new(),
            known: BTreeMap::new(),
            pending: None,
            shares: 0,
        }
    }

    /// Whether there is room for the replacements of these pods, all of them. If there is, it is promised to them. The fleet is as before
    /// afterwards.
    pub fn ask(&mut self, now: Timestamp, fleet: &mut Fleet, question: &CapacityQuestion) -> CapacityAnswer {
        for leaving in &question.pods {
            self.promises.remove(&leaving.uid);
        }
        self.forget(now, fleet);
        // It left while the question was asked.
        let Some(leaving) = find(fleet, question) else { return CapacityAnswer::Gone };
        let mut taken = self.taken(now, fleet);
        for LeavingPod { uid, devices, .. } in leaving.iter().map(|one| one.asked) {
            // Its own devices are not elsewhere, whatever its claims tolerate.
            taken.insert(&format!("left by {uid}").into(), &held(devices));
        }
        let snapshot = snapshot_without(fleet, &leaving);
        self.allocator.allow(QUESTION_UNITS);
        let mut promised = Vec::with_capacity(leaving.len());
        let mut promises = Vec::with_capacity(leaving.len());
        for one in &leaving {
            match self.place(&snapshot, &taken, &one.pod, &one.claims) {
                Ok((node, claims)) => {
                    let devices = claims.iter().flat_map(|(_, given)| &given.results);
                    promised.push(Promised {
                        pod: one.pod.key.clone(),
                        uid: one.pod.uid.clone(),
                        node,
                        devices: devices.map(|result| result.device.clone()).collect(),
                    });
                    claims.iter().for_each(|(claim, given)| taken.insert(claim, given));
                    promises.push((&one.pod, claims));
                }
                Err(why) => {
                    let pod = &one.pod.key;
                    return CapacityAnswer::NoRoom(
                        format!("no room for the replacement of pod {pod}: {why}").into(),
                    );
                }
            }
        }
        for (pod, claims) in promises {
            self.promise(now, fleet, pod, claims);
        }
        CapacityAnswer::Room(promised)
    }

    /// The units of work that went into answers.
    #[must_use]
    pub fn work_units(&self) -> u64 {
        self.allocator.spent()
    }

    /// How many promises are open.
    #[must_use]
    pub fn promised(&self) -> usize {
        self.promises.len()
    }

    fn promise(&mut self, now: Timestamp, fleet: &Fleet, pod: &Pod, claims: Vec<(Uid, Allocation)>) {
        let owner = pod.owner.as_ref().map(|owner| owner.uid.clone());
        if let Some(owner) = &owner
            && !self.known.contains_key(owner)
        {
            let theirs = fleet.pods().map(|(_, pod)| pod).filter(|pod| is_of(pod, owner));
            self.known.insert(owner.clone(), theirs.map(|pod| pod.uid.clone()).collect());
        }
        let promise = Promise { key: pod.key.clone(), owner, claims, made: now, gone_since: None };
        self.promises.insert(pod.uid.clone(), promise);
    }

    /// Promises that were kept, and those that nobody makes use of, are over.
    fn forget(&mut self, now: Timestamp, fleet: &Fleet) {
        self.forget_replaced(fleet);
        self.promises.retain(|uid, promise| {
            let pod = fleet.pod_ix(&promise.key).and_then(|at| fleet.pod(at)).filter(|pod| pod.uid == *uid);
            match pod {
                Some(pod) if pod.deleting_since.is_none() && !pod.phase.is_finished() => {
                    promise.made <= now && now < promise.made.plus_millis(UNUSED_MS_MAX)
                }
                Some(_) => true,
                None => {
                    let since = *promise.gone_since.get_or_insert(now);
                    since <= now && now < since.plus_millis(REPLACED_MS_MAX)
                }
            }
        });
        let owners: BTreeSet<&Uid> =
            self.promises.values().filter_map(|promise| promise.owner.as_ref()).collect();
        self.known.retain(|owner, _| owners.contains(owner));
    }

    /// For each new pod of an owner that has a node, one promise to a pod of that owner is kept: the oldest.
    fn forget_replaced(&mut self, fleet: &Fleet) {
        if self.known.is_empty() {
            return;
        }
        for (_, pod) in fleet.pods() {
            let Some(owner) = pod.owner.as_ref().map(|owner| &owner.uid) else { continue };
            if pod.node.is_none() {
                continue;
            }
            let Some(known) = self.known.get_mut(owner) else { continue };
            if !known.insert(pod.uid.clone()) {
                continue;
            }
            let theirs = self.promises.iter().filter(|(_, promise)| promise.owner.as_ref() == Some(owner));
            let oldest = theirs.min_by_key(|(uid, promise)| (promise.made, *uid)).map(|(uid, _)| uid.clone());
            if let Some(oldest) = oldest {
                self.promises.remove(&oldest);
            }
        }
    }

    /// Devices that are promised, and those that pending pods will take.
    fn taken(&mut self, now: Timestamp, fleet: &mut Fleet) -> Overlay {
        let mut taken = Overlay::new();
        for (claim, given) in self.promises.values().flat_map(|promise| &promise.claims) {
            taken.insert(claim, given);
        }
        let is_recent =
            |(when, _): &(Timestamp, Vec<_>)| *when <= now && now < when.plus_millis(PENDING_EVERY_MS);
        if !self.pending.as_ref().is_some_and(is_recent) {
            let found = self.place_pending(fleet, &taken);
            self.pending = Some((now, found));
        }
        for (claim, given) in self.pending.iter().flat_map(|(_, claims)| claims) {
            taken.insert(claim, given);
        }
        taken
    }

    /// Where pods that have no node yet will go. Those whose owners were promised room are counted by that.
    fn place_pending(&mut self, fleet: &mut Fleet, taken: &Overlay) -> Vec<(Uid, Allocation)> {
        let is_promised =
            |pod: &Pod| pod.owner.as_ref().is_some_and(|owner| self.known.contains_key(&owner.uid));
        let waits = |pod: &Pod| {
            pod.node.is_none()
                && pod.deleting_since.is_none()
                && !pod.phase.is_finished()
                && !pod.claims.is_empty()
        };
        let mut pods: Vec<Arc<Pod>> =
            fleet.pods().map(|(_, pod)| pod).filter(|pod| waits(pod) && !is_promised(pod)).cloned().collect();
        if pods.is_empty() {
            return Vec::new();
        }
        pods.sort_by(|one, other| order(one).cmp(&order(other)));
        in_turns(&mut pods);
        let (snapshot, mut taken, mut found) = (fleet.snapshot(), taken.clone(), Vec::new());
        let begin = self.allocator.spent();
        for pod in pods.iter().take(PENDING_MAX) {
            let left = PENDING_UNITS.saturating_sub(self.allocator.spent() - begin);
            // Pods that are hard to place are thought of again; until then nothing is kept for them.
            self.allocator.allow(left.min(PENDING_UNITS / PENDING_PARTS));
            let claims: Vec<Arc<ResourceClaim>> =
                named_claims(fleet, pod).filter(|claim| claim.allocation.is_none()).collect();
            if let Ok((_, claims)) = self.place(&snapshot, &taken, pod, &claims) {
                claims.iter().for_each(|(claim, given)| taken.insert(claim, given));
                found.extend(claims);
            }
        }
        found
    }

    /// Where a pod with these claims could run and what they could be given. Claims that are taken care of already need nothing.
    fn place(
        &mut self,
        snapshot: &Arc<Snapshot>,
        taken: &Overlay,
        pod: &Pod,
        claims: &[Arc<ResourceClaim>],
    ) -> Result<(Text, Vec<(Uid, Allocation)>), String> {
        let claims: Vec<Arc<ResourceClaim>> =
            claims.iter().filter(|claim| !taken.contains(&claim.uid)).cloned().collect();
        let nodes: Vec<Arc<Node>> = snapshot.nodes().filter(|node| pod.may_run_on(node)).cloned().collect();
        let excluded = snapshot.nodes().count() - nodes.len();
        let options = Options {
            budget_steps: STEPS_MAX,
            // A device that it would have to leave again is no room.
            timed_tolerations: TimedTolerations::Ignored,
            ..Options::default()
        };
        let search =
            NodeSearch { snapshot, nodes: &nodes, claims: &claims, in_flight: taken, options: &options };
        let shares = &mut self.shares;
        let mut share_id = || {
            *shares += 1;
            Text::from(format!("00000000-0000-4000-8000-{shares:012x}"))
        };
        match self.allocator.find_node(&search, &mut share_id) {
            Found::Node { index, allocations } => {
                let uids = claims.iter().map(|claim| claim.uid.clone());
                Ok((nodes[index].name.clone(), uids.zip(allocations).collect()))
            }
            Found::Nowhere(groups) => Err(words(&groups, excluded)),
            Found::Failed(error) => Err(cut(&format!("{error}"))),
            Found::Unfinished { tried, .. } => Err(format!(
                "it is not known yet, for the budget of a question was spent after {tried} of {} nodes; it is asked again",
                nodes.len()
            )),
        }
    }
}

/// The pods of each namespace in turn, in their order: one tenant's pods do not keep the others from being looked at.
fn in_turns(pods: &mut Vec<Arc<Pod>>) {
    let mut seen: BTreeMap<Text, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, Arc<Pod>)> = Vec::with_capacity(pods.len());
    for pod in pods.drain(..) {
        let rank = seen.entry(pod.key.namespace.clone()).or_insert(0);
        ranked.push((*rank, pod));
        *rank += 1;
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    pods.extend(ranked.into_iter().map(|(_, pod)| pod));
}

/// Pods that are placed first come first.
fn order(pod: &Pod) -> (Reverse<i32>, Option<Timestamp>, &ObjectKey) {
    (Reverse(pod.priority), pod.created, &pod.key)
}

fn is_of(pod: &Pod, owner: &Uid) -> bool {
    pod.owner.as_ref().is_some_and(|known| known.uid == *owner)
}

/// The pods of a question with their claims as if they had nothing; `None` when one is not there.
fn find<'a>(fleet: &Fleet, question: &'a CapacityQuestion) -> Option<Vec<Leaving<'a>>> {
    let of = |asked: &'a LeavingPod| {
        let at = fleet.pod_ix(&asked.pod)?;
        let pod = fleet.pod(at).filter(|pod| pod.uid == asked.uid)?.clone();
        let claims = fleet.claims_of_pod(at).filter_map(|claim| fleet.claim(claim));
        Some(Leaving { asked, pod, claims: claims.map(bare).collect() })
    };
    question.pods.iter().map(of).collect()
}

/// The claim as it is before anything is allocated.
fn bare(claim: &Arc<ResourceClaim>) -> Arc<ResourceClaim> {
    Arc::new(ResourceClaim {
        allocation: None,
        reserved_for: Vec::new(),
        last_published: Vec::new(),
        ..ResourceClaim::clone(claim)
    })
}

/// The claims that a pod names and that are there.
fn named_claims(fleet: &Fleet, pod: &Pod) -> impl Iterator<Item = Arc<ResourceClaim>> {
    let names = pod.claims.iter().filter_map(|entry| match &entry.source {
        ClaimSource::Claim(name) => Some(name.clone()),
        ClaimSource::Template { resolved, .. } => resolved.clone().flatten(),
        ClaimSource::Unknown => None,
    });
    let key = |name: Text| ObjectKey { namespace: pod.key.namespace.clone(), name };
    names.filter_map(move |name| Some(fleet.claim(fleet.claim_ix(&key(name))?)?.clone()))
}

/// These devices, none of which anybody else can be given.
fn held(devices: &[DeviceId]) -> Allocation {
    let result = |device: &DeviceId| DeviceResult {
        request: Text::default(),
        device: device.clone(),
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    Allocation { results: devices.iter().map(result).collect(), ..Allocation::default() }
}

/// The devices as they are once these pods are gone: what nobody else uses of theirs is free.
fn snapshot_without(fleet: &mut Fleet, leaving: &[Leaving<'_>]) -> Arc<Snapshot> {
    let pods: BTreeSet<PodIx> = leaving.iter().filter_map(|one| fleet.pod_ix(&one.pod.key)).collect();
    let mut released: BTreeMap<ClaimIx, Arc<ResourceClaim>> = BTreeMap::new();
    for claim in pods.iter().flat_map(|pod| fleet.claims_of_pod(*pod)) {
        let goes = |at: PodIx| pods.contains(&at) || fleet.pod(at).is_none_or(|pod| pod.phase.is_finished());
        if fleet.pods_of_claim(claim).all(goes)
            && let Some(held) = fleet.claim(claim)
        {
            released.insert(claim, held.clone());
        }
    }
    released.values().for_each(|claim| fleet.apply(Input::Claim(bare(claim))));
    let snapshot = fleet.snapshot();
    released.into_values().for_each(|claim| fleet.apply(Input::Claim(claim)));
    snapshot
}

/// Why no node has room, most of them first.
fn words(groups: &[NodeGroup], excluded: usize) -> String {
    let mut text = String::new();
    for group in groups.iter().take(REASONS_SAID_MAX) {
        let separator = if text.is_empty() { "" } else { "; " };
        let nodes = if group.nodes == 1 { "node" } else { "nodes" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{} {nodes}: {}", group.nodes, cut(&group.reason));
    }
    if excluded > 0 {
        let separator = if text.is_empty() { "" } else { "; " };
        let nodes = if excluded == 1 { "node is" } else { "nodes are" };
        let _ = write!(text, "{separator}{excluded} {nodes} tainted or not selected");
    }
    if text.is_empty() { String::from("there is no node") } else { text }
}

fn cut(reason: &str) -> String {
    let mut rest = reason.trim_end_matches('.').chars();
    let mut text: String = rest.by_ref().take(REASON_CHARS_MAX).collect();
    if rest.next().is_some() {
        text.push('…');
    }
    text
}
