//! A scheduler: simple, but right. It sees the world through a fleet of its own, remembers what it gave away until
//! it sees it, writes on the condition that the claim is as it saw it, and then binds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashSet;
use lazaret_fleet::Changes;
use lazaret_model::{
    ClaimSource, DeviceId, ObjectKey, Pod, PoolId, ResourceClaim, Text, Timestamp, Toleration, Uid, tolerates,
};
use rustc_hash::FxBuildHasher;

use crate::{
    actors::{
        claims::{request_of, share_of},
        workloads::{allocation, driver_of, is_of_group, node_of, reserve},
    },
    api::{Kind, wall},
    coverage::Mark,
    mutant::Mutant,
    palette,
    world::{SCHEDULER, Step, World},
};

/// It looks at its queue within this time after an event.
const REACTION_MS_MAX: u32 = 150;
/// Pods that it tries at a time; the rest waits for the next look.
const TRIES_MAX: usize = 2;
/// Nodes that it tries for a pod.
const NODES_MAX: u32 = 3;
/// A device with a NoExecute taint that is borne for less is not worth it: the pod would leave at once.
const WORTHWHILE_S: i64 = 20;

/// Its queue and its allocations in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scheduler {
    /// Numbers of the keys of pods.
    pending: BTreeSet<u32>,
    /// The next look starts here, behind the last pod that it tried.
    next: u32,
    under_way: BTreeSet<u32>,
    /// Pods it bound: its watch may not have told yet.
    bound: HashSet<Uid, FxBuildHasher>,
    /// Devices given away to a claim, with the version of the claim that says so, once known.
    assumed: BTreeMap<DeviceId, BTreeMap<ObjectKey, Given>>,
    refusals: Refusals,
    awake: bool,
    turn: u32,
}

/// Something given away.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// The version of the claim that says so, once known.
    version: Option<u64>,
    /// How much of the device; `None`: all.
    share: Option<i64>,
}

/// Pools that had nothing for a claim, by number: what such a claim asks for, by the address of its spec, which all that
/// ask for the same share and the world keeps. A refusal stands until something changes in the pool or something
/// that was given away is not after all: time alone only makes taints harder to bear.
#[derive(Clone, Debug, Default)]
struct Refusals(Vec<Vec<usize>>);

/// The place of a pool's refusals: that of the fabric comes first, and then those of the nodes.
fn place_of(pool: &Text) -> usize {
    palette::node_number(pool).map_or(0, |node| node as usize + 1)
}

impl Refusals {
    fn has(&self, pool: usize, claim: &ResourceClaim) -> bool {
        self.0.get(pool).is_some_and(|specs| specs.contains(&address(claim)))
    }

    fn add(&mut self, pool: usize, claim: &ResourceClaim) {
        if pool >= self.0.len() {
            self.0.resize(pool + 1, Vec::new());
        }
        self.0[pool].push(address(claim));
    }

    fn forget(&mut self, pool: &Text) {
        if let Some(specs) = self.0.get_mut(place_of(pool)) {
            specs.clear();
        }
    }
}

fn address(claim: &ResourceClaim) -> usize {
    Arc::as_ptr(&claim.spec).addr()
}

impl Scheduler {
    /// The fleet is not what it was.
    pub(crate) fn noticed(&mut self, changes: &Changes) {
        for pool in &changes.pools {
            self.refusals.forget(&pool.pool);
        }
    }

    /// The allocations of a device that are not seen yet.
    fn assumed_of(&self, device: &DeviceId) -> impl Iterator<Item = &Given> {
        self.assumed.get(device).into_iter().flat_map(BTreeMap::values)
    }

    /// The current state of the pod whose key has this number; `None`: it is gone.
    pub(crate) fn heard(&mut self, number: u32, pod: Option<&Pod>) {
        let waits =
            |pod: &Pod| pod.node.is_none() && pod.deleting_since.is_none() && !pod.phase.is_finished();
        if pod.is_some_and(waits) {
            self.pending.insert(number);
        } else {
            self.pending.remove(&number);
        }
    }

    /// All pods there are.
    pub(crate) fn listed<'a>(&mut self, pods: impl Iterator<Item = (u32, &'a Pod)>) {
        self.pending.clear();
        pods.for_each(|(number, pod)| self.heard(number, Some(pod)));
    }
}

/// A pod with the claims that are to be written for it.
#[derive(Debug)]
pub(crate) struct Placement {
    pod: ObjectKey,
    /// The number of its key.
    number: u32,
    uid: Uid,
    node: Text,
    claims: Vec<(u64, ResourceClaim)>,
    /// Devices that are given away by this, to which claim, and how much of each.
    devices: Vec<(DeviceId, ObjectKey, Option<i64>)>,
}

impl World {
    pub(crate) fn wake_scheduler(&mut self) {
        if !self.scheduler.pending.is_empty() && !core::mem::replace(&mut self.scheduler.awake, true) {
            self.push_soon(REACTION_MS_MAX, Step::Schedule);
        }
    }

    pub(crate) fn schedule(&mut self) {
        self.scheduler.awake = false;
        self.release_assumed();
        let Scheduler { pending, next, .. } = &self.scheduler;
        let tries: Vec<u32> =
            pending.range(next..).chain(pending.range(..next)).take(TRIES_MAX).copied().collect();
        for number in tries {
            self.scheduler.next = number + 1;
            if self.scheduler.under_way.contains(&number) {
                continue;
            }
            match self.place(number) {
                Some(placement) => {
                    self.scheduler.under_way.insert(number);
                    for (device, claim, share) in &placement.devices {
                        let given = Given { version: None, share: *share };
                        let assumed = self.scheduler.assumed.entry(device.clone()).or_default();
                        assumed.insert(claim.clone(), given);
                    }
                    self.push_soon(self.config.latency_ms, Step::Reserve(Box::new(placement)));
                }
                None => self.coverage.hit(Mark::Unschedulable),
            }
        }
    }

    /// Drops allocations that are seen by now, or were never written.
    fn release_assumed(&mut self) {
        let position = self.clients[SCHEDULER].view.position(Kind::Claim);
        let seen =
            position.checked_sub(1).and_then(|last| self.api.claims.log().get(last)).map_or(0, |l| l.version);
        let Scheduler { assumed, refusals, .. } = &mut self.scheduler;
        assumed.retain(|device, of_device| {
            let before = of_device.len();
            of_device.retain(|_, given| given.version.is_none_or(|version| version > seen));
            if of_device.len() < before {
                refusals.forget(&device.pool);
            }
            !of_device.is_empty()
        });
    }

    /// A node and devices for a pod, if all its claims are there.
    fn place(&mut self, number: u32) -> Option<Placement> {
        let seen = self.seen(SCHEDULER);
        let pod = seen.pod_at(number)?;
        if self.scheduler.bound.contains(&pod.uid) || !knows_its_claims(&pod) {
            return None;
        }
        let mut claims = Vec::new();
        for found in seen.claims_of(pod) {
            let found = found?;
            claims.push((found.version, Arc::clone(found.claim)));
        }
        let pod = Arc::clone(pod.pod);
        let extended = self.shape_of(number).is_some_and(|shape| shape.extended);
        if extended && pod.extended_claim.is_none() {
            return None;
        }
        let fixed = claims.iter().find_map(|(_, claim)| node_of(claim.allocation.as_ref()?));
        self.scheduler.turn = self.scheduler.turn.wrapping_add(1);
        if let Some(node) = fixed.and_then(palette::node_number) {
            return self.place_on(number, &pod, node, &claims);
        }
        let (turn, nodes) = (self.scheduler.turn, self.config.nodes);
        (0..nodes.min(NODES_MAX))
            .find_map(|step| self.place_on(number, &pod, turn.wrapping_add(step) % nodes, &claims))
    }

    fn place_on(
        &mut self,
        number: u32,
        pod: &Pod,
        node: u32,
        claims: &[(u64, Arc<ResourceClaim>)],
    ) -> Option<Placement> {
        let pool_of = |claim: &ResourceClaim| if share_of(claim).is_some() { 0 } else { node as usize + 1 };
        let refused = |claim: &ResourceClaim| {
            claim.allocation.is_none() && self.scheduler.refusals.has(pool_of(claim), claim)
        };
        if claims.iter().any(|(_, claim)| refused(claim)) {
            return None;
        }
        let node = palette::node(node);
        let now = wall(self.now);
        let mut placement = Placement {
            pod: pod.key.clone(),
            number,
            uid: pod.uid.clone(),
            node,
            claims: Vec::new(),
            devices: Vec::new(),
        };
        let careless = self.mutant == Some(Mutant::NoBrake);
        for (version, claim) in claims {
            let foreign = claim.owner.as_ref().is_some_and(|owner| owner.uid != pod.uid);
            if claim.deleting || (foreign && !is_of_group(claim, pod)) {
                return None;
            }
            let given = match &claim.allocation {
                Some(allocation) => {
                    for result in &allocation.results {
                        let taints = self.clients[SCHEDULER].fleet.effective_taints(&result.device);
                        let bearable = |taint: &lazaret_model::Taint| {
                            !taint.effect.evicts() || careless || bears(taint, &result.tolerations, now)
                        };
                        if !taints.map(|t| t.taint).all(bearable) {
                            return None;
                        }
                    }
                    if node_of(allocation).is_some_and(|node| *node != placement.node) {
                        return None;
                    }
                    Arc::clone(allocation)
                }
                None => {
                    let pool = pool_for(claim, &placement.node);
                    let Some(device) = self.choose(claim, &pool, &placement, now) else {
                        // The devices that the pod's other claims take of the pool are taken for this pod alone.
                        let same =
                            |device: &DeviceId| device.pool == pool && device.driver == driver_of(claim);
                        if !placement.devices.iter().any(|(device, _, _)| same(device)) {
                            self.scheduler.refusals.add(pool_of(claim), claim);
                        }
                        return None;
                    };
                    let given = Arc::new(allocation(claim, device.clone()));
                    placement.devices.push((device, claim.key.clone(), share_of(claim)));
                    given
                }
            };
            let mut claim = ResourceClaim { allocation: Some(given), ..ResourceClaim::clone(claim) };
            reserve(&mut claim, pod);
            placement.claims.push((*version, claim));
        }
        Some(placement)
    }

    /// The first device of a pool that is free or has enough left, and whose taints the claim bears.
    fn choose(
        &mut self,
        claim: &ResourceClaim,
        pool: &Text,
        placement: &Placement,
        now: Timestamp,
    ) -> Option<DeviceId> {
        let share = share_of(claim);
        let snapshot = self.clients[SCHEDULER].fleet.snapshot();
        let pool = PoolId { driver: palette::word(driver_of(claim)), pool: pool.clone() };
        let pool = snapshot.pool(&pool)?;
        let newest = pool.newest().filter(|generation| generation.is_complete())?.number;
        let tolerations = &request_of(claim)?.tolerations;
        let careless = self.mutant == Some(Mutant::NoBrake);
        for slice in pool.slices_of(newest) {
            // Devices in use, and those whose taints it does not bear.
            let mut out = slice.in_use_bits();
            for at in 0..slice.len() {
                if out >> at & 1 == 1 {
                    continue;
                }
                let device = slice.device(snapshot.names(), at);
                let tainted = device.taints().map(|effective| effective.taint).any(|taint| {
                    taint.effect.blocks_allocation()
                        && (!tolerations.iter().any(|toleration| tolerates(toleration, taint))
                            || (taint.effect.evicts() && !careless && !bears(taint, tolerations, now)))
                });
                if tainted {
                    out |= slice.tainted_like(at);
                    continue;
                }
                let consumed = device.consumed_capacity().iter().filter_map(|(_, amount)| amount.as_i64());
                let left = palette::BANDWIDTH_MAX - consumed.sum::<i64>();
                if share.is_some_and(|share| share > left) {
                    continue;
                }
                let id = device.id();
                if self.has_left(&id, left, placement, share) {
                    return Some(id);
                }
            }
        }
        None
    }

    /// Whether so much is left of a device, of which claims leave so much, by what was given away a moment ago and by
    /// what this very placement takes.
    fn has_left(&self, id: &DeviceId, left: i64, placement: &Placement, share: Option<i64>) -> bool {
        let forgetful = self.mutant == Some(Mutant::DoubleAllocation);
        let assumed = self.scheduler.assumed_of(id).filter(|_| !forgetful).map(|given| given.share);
        let here = placement.devices.iter().filter(|(other, _, _)| other == id).map(|(_, _, share)| *share);
        let mut given = assumed.chain(here);
        let Some(share) = share else { return given.next().is_none() };
        given.flatten().sum::<i64>() + share <= left
    }

    /// Writes the claims; one that changed meanwhile stops it.
    pub(crate) fn reserve(&mut self, mut placement: Box<Placement>) {
        for (version, claim) in core::mem::take(&mut placement.claims) {
            let result = claim.allocation.as_ref().and_then(|a| a.results.first());
            let (device, key) = (result.map(|result| result.device.clone()), claim.key.clone());
            if result.is_some_and(|result| result.share_id.is_some()) {
                self.coverage.hit(Mark::Shared);
            }
            match self.api.allocate(version, claim) {
                Ok(version) => {
                    let assumed = device.and_then(|device| self.scheduler.assumed.get_mut(&device));
                    if let Some(assumed) = assumed.and_then(|of_device| of_device.get_mut(&key)) {
                        assumed.version = Some(version);
                    }
                }
                Err(_) => {
                    self.coverage.hit(Mark::Conflict);
                    self.give_up(&placement);
                    return;
                }
            }
        }
        self.push_soon(self.config.latency_ms, Step::Bind(placement));
    }

    fn give_up(&mut self, placement: &Placement) {
        for (device, claim, _) in &placement.devices {
            if let Some(of_device) = self.scheduler.assumed.get_mut(device)
                && of_device.get(claim).is_some_and(|given| given.version.is_none())
            {
                of_device.remove(claim);
                self.scheduler.refusals.forget(&device.pool);
            }
        }
        self.scheduler.under_way.remove(&placement.number);
        self.wake_scheduler();
    }

    pub(crate) fn bind(&mut self, placement: &Placement) {
        let node = placement.node.clone();
        let bound = self.api.edit_pod(&placement.pod, &placement.uid, |pod| {
            if pod.node.is_none() && pod.deleting_since.is_none() {
                pod.node = Some(node);
            }
        });
        self.scheduler.bound.insert(placement.uid.clone());
        if bound {
            self.coverage.hit(Mark::Scheduled);
        }
        self.scheduler.under_way.remove(&placement.number);
        self.wake_scheduler();
    }
}

/// The pool of a node, or of all of them, that has what a claim asks for.
fn pool_for(claim: &ResourceClaim, node: &Text) -> Text {
    if share_of(claim).is_some() { palette::word(palette::FABRIC) } else { node.clone() }
}

/// Whether all claims of a pod have names by now.
fn knows_its_claims(pod: &Pod) -> bool {
    pod.claims.iter().all(|entry| match &entry.source {
        ClaimSource::Claim(_) => true,
        ClaimSource::Template { resolved, .. } => resolved.is_some(),
        ClaimSource::Unknown => false,
    })
}

/// Whether a NoExecute taint is borne long enough to be worth a start.
fn bears(taint: &lazaret_model::Taint, tolerations: &[Toleration], now: Timestamp) -> bool {
    match crate::reference::deadline(taint, tolerations) {
        None => true,
        Some(deadline) => deadline >= now.plus_secs(WORTHWHILE_S),
    }
}
