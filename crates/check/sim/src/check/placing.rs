//! The scheduler: no device is given with a taint that is not tolerated, no pod is bound without its claims, nothing is taken from a pod that is bound,
//! and at rest no pod waits that could be placed. Nothing of the scheduler is used to find that out.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_model::{
    Allocation, AllocationMode, Consumer, DeviceId, DeviceResult, DeviceSelector, ObjectKey, Pod,
    ResourceClaim, Taint, Text, Timestamp, Toleration, Uid, tolerates,
};
use lazaret_scheduler::{Bind, ReleaseClaim, ReserveClaim};

use crate::{
    actors::{
        claims::{request_of, share_of},
        workloads::is_of_group,
    },
    api::{Kind, claim_name},
    palette, reference,
    view::{Seen, Use},
    world::World,
};

/// Decisions of agents, by number and life of the agent: they are written later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    /// By pod with an extended resource: devices that it could not have when its claim was asked for.
    blocked: BTreeMap<(usize, u64, Uid), BTreeSet<DeviceId>>,
    /// By claim: the devices of the last allocation that was sent. One of which nothing became known is a claim's own when its pod is decided on anew.
    given: BTreeMap<(usize, u64, Uid), Vec<DeviceId>>,
    /// Claims whose devices a person took back, whoever was about to use them.
    taken: BTreeSet<Uid>,
    /// Claims that a person removed, and how many writes of claims there were then.
    removed: BTreeMap<ObjectKey, usize>,
    /// By pod: the writes of claims that its scheduler had heard of when it last sent a binding.
    sent: BTreeMap<Uid, usize>,
    /// By scheduler: the pod for which it last had others leave, if it waited.
    pub(super) preemptors: BTreeMap<usize, Option<Uid>>,
}

/// A device that a pod wants.
#[derive(PartialEq)]
struct Wanted {
    class: Text,
    tolerations: Vec<Toleration>,
}

/// The needs of a pod that waits.
#[derive(PartialEq)]
struct Needs {
    devices: Vec<Wanted>,
    /// The node where a claim that others use has its devices.
    only: Option<Text>,
    cpu_milli: i64,
}

impl World {
    /// A claim for an extended resource is asked for. Its devices were chosen before that, and are written after.
    pub(crate) fn note_blocked(&mut self, number: usize, pod: &Uid, is_new: bool) {
        let key = (number, self.schedulers.agents[number].life, pod.clone());
        if !is_new {
            self.checker.decided.blocked.remove(&key);
            return;
        }
        let seen = self.seen(number);
        let all = (0..self.api.catalog.devices()).filter_map(|device| u32::try_from(device).ok());
        let blocked: BTreeSet<DeviceId> =
            all.map(|device| self.api.catalog.id(device)).filter(|id| is_blocked(seen, id, &[])).collect();
        self.checker.decided.blocked.insert(key, blocked);
    }

    /// A scheduler gives devices away: by what it had been told when it decided, the claim tolerates their taints.
    pub(crate) fn check_given(&mut self, number: usize, reserve: &ReserveClaim, is_new: bool) {
        let Some(allocation) = &reserve.allocation else { return };
        let life = self.schedulers.agents[number].life;
        let owner = self.extended_owner(&reserve.claim, &reserve.uid);
        let blocked = owner.and_then(|pod| self.checker.decided.blocked.get(&(number, life, pod)));
        let seen = self.seen(number);
        let devices: Vec<DeviceId> = allocation.results.iter().map(|result| result.device.clone()).collect();
        let key = (number, life, reserve.uid.clone());
        let is_new = is_new && self.checker.decided.given.get(&key) != Some(&devices);
        let wrong = allocation.results.iter().find(|result| match blocked {
            Some(blocked) => blocked.contains(&result.device),
            None => is_new && is_blocked(seen, &result.device, &result.tolerations),
        });
        let is_known = blocked.is_some();
        if let Some(detail) = wrong.map(|result| format!("{} gets {}", reserve.claim, result.device)) {
            self.violate("no device is given with a taint that is not tolerated", detail);
        }
        if is_new && !is_known {
            self.check_open(number, allocation);
            self.check_asked_about(number, allocation);
        }
        self.checker.decided.given.insert(key, devices);
    }

    /// The pod for whose extended resource a claim was made.
    fn extended_owner(&self, claim: &ObjectKey, uid: &Uid) -> Option<Uid> {
        let claim = self.api.claims.get(claim)?.object;
        let is_it = claim.uid == *uid && claim.extended_resource;
        claim.owner.as_ref().filter(|_| is_it).map(|owner| owner.uid.clone())
    }

    pub(crate) fn note_taken(&mut self, claim: Uid) {
        self.checker.decided.taken.insert(claim);
    }

    pub(crate) fn note_removed(&mut self, claim: ObjectKey) {
        self.checker.decided.removed.insert(claim, self.api.claims.log().len());
    }

    /// A scheduler sends a binding: how many writes of claims it has heard of.
    pub(crate) fn note_sent(&mut self, number: usize, bind: &Bind) {
        let heard = self.clients[number].view.position(Kind::Claim);
        self.checker.decided.sent.insert(bind.uid.clone(), heard);
    }

    /// A pod is bound: it has all its claims, and can use them there. A person may take them from it at the last moment.
    pub(crate) fn check_bound(&mut self, bind: &Bind) {
        let Some(pod) = self.api.pods.get(&bind.pod).map(|stored| stored.object.clone()) else { return };
        let Decided { removed, sent, .. } = &self.checker.decided;
        let sent = sent.get(&pod.uid);
        let named = pod.claims.iter().filter_map(|entry| claim_name(&entry.source));
        let lacking = named.chain(&pod.extended_claim).find(|name| {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: (*name).clone() };
            let claim = self.api.claims.get(&key).map(|stored| stored.object);
            let is_taken = |claim: &ResourceClaim| self.checker.decided.taken.contains(&claim.uid);
            let is_removed = || removed.get(&key).is_some_and(|at| sent.is_some_and(|heard| at > heard));
            !claim.is_some_and(|claim| is_usable(claim, &pod, &bind.node) || is_taken(claim)) && !is_removed()
        });
        if let Some(detail) = lacking.map(|name| format!("{} is bound without {name}", bind.pod)) {
            self.violate("a pod is bound with its claims", detail);
        }
    }

    /// The scheduler takes a claim from a pod, or its devices from all who use it.
    pub(crate) fn check_released(&mut self, claim: &ResourceClaim, release: &ReleaseClaim) {
        let is_dropped =
            |user: &&Consumer| release.deallocate || release.consumer.as_ref() == Some(&user.uid);
        let users = claim.reserved_for.iter().filter(is_dropped);
        let pods: Vec<&Pod> = self.api.pods.iter().map(|stored| &**stored.object).collect();
        let mut bound = users.filter_map(|user| {
            let is_user = |pod: &&&Pod| match user.resource.as_str() {
                "pods" => pod.uid == user.uid,
                _ => is_of_group(claim, pod) && names(pod, &claim.key),
            };
            pods.iter().find(|pod| is_user(pod) && pod.node.is_some() && !pod.phase.is_finished())
        });
        if let Some(detail) = bound.next().map(|pod| format!("{} is taken from {}", claim.key, pod.key)) {
            self.violate("nothing is taken from a pod that may run", detail);
        }
    }

    /// Nothing is in flight, and no pod waits that could be placed.
    pub(crate) fn check_placement_at_rest(&mut self) {
        let leader = self.schedulers.agents.iter().position(|agent| agent.leads());
        let Some(leader) = leader else { return self.violate("a scheduler leads", String::new()) };
        let sizes = self.schedulers.agents[leader].core.sizes();
        if sizes.in_flight + sizes.claims_in_flight + sizes.active + sizes.backing_off > 0 {
            self.violate("nothing is left in flight", format!("{sizes:?}"));
        }
        let now = self.controllers[leader].clock(self.now);
        let seen = self.seen(leader);
        let is_gated = |pod: &Pod| self.api.pod_metadata(&pod.uid).is_some_and(|metadata| metadata.is_gated);
        let waits = |pod: &Pod| {
            pod.node.is_none() && pod.deleting_since.is_none() && !pod.phase.is_finished() && !is_gated(pod)
        };
        let keeper = seen.pods().find(|pod| waits(pod) && self.keeps_devices(seen, pod));
        let keeper = keeper.map(|pod| pod.key.clone());
        if let Some(pod) = keeper {
            let why = self.schedulers.agents[leader].core.why(&pod).map(|why| why.message());
            let detail = format!("{pod}: {why:?}");
            return self.violate("a pod that waits keeps no devices", detail);
        }
        let (free, open) = (self.free_devices(seen), self.open_nodes());
        // Pods that want the same are looked at once.
        let mut nowhere: Vec<Needs> = Vec::new();
        let found = seen.pods().filter(|pod| waits(pod)).find_map(|pod| {
            let needs = self.needs(seen, pod.pod, now).filter(|needs| !nowhere.contains(needs))?;
            let node = open.iter().find(|(node, cpu_left)| {
                needs.only.as_ref().is_none_or(|only| only == *node)
                    && needs.cpu_milli <= **cpu_left
                    && free.get(*node).is_some_and(|devices| has_room(seen, devices, &needs.devices, now))
            });
            let Some((node, _)) = node else {
                nowhere.push(needs);
                return None;
            };
            let why = self.schedulers.agents[leader].core.why(&pod.key).map(|why| why.message());
            Some(format!("{} could go to {node}: {why:?}", pod.key))
        });
        if let Some(detail) = found {
            self.violate("no pod waits that could be placed", detail);
        }
    }

    /// Whether the one claim of a pod, which was made for it, ties it to a node and keeps it from another. Devices of another claim may be what such a pod
    /// waits for; and one that waits for room on the only Node there is has its devices where it will need them.
    fn keeps_devices(&self, seen: Seen<'_>, pod: &Pod) -> bool {
        let [entry] = &pod.claims[..] else { return false };
        let Some(name) = claim_name(&entry.source) else { return false };
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        let Some(claim) = self.api.claims.get(&key).map(|stored| stored.object) else { return false };
        let is_kept_from = |node: &Text| self.api.nodes.iter().any(|other| other.object.name != *node);
        claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid)
            && request_of(claim).is_some_and(|request| seen.class(&request.class).is_some())
            && claim.allocation.as_deref().is_some_and(|given| given.only_node().is_some_and(is_kept_from))
    }

    /// The needs of a pod. `None`: it lacks a claim, one of its claims wants a share, or one that others use is of no use to it.
    fn needs(&self, seen: Seen<'_>, pod: &Pod, now: Timestamp) -> Option<Needs> {
        let (mut wanted, mut only): (Vec<Wanted>, Option<Text>) = (Vec::new(), None);
        let claim_of = |name: &Text| {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            self.api.claims.get(&key).map(|stored| stored.object)
        };
        for entry in &pod.claims {
            let claim = claim_of(claim_name(&entry.source)?)?;
            if claim.deleting || share_of(claim).is_some() {
                return None;
            }
            // Devices that no pod uses can be given back.
            if let Some(given) = claim.allocation.as_deref().filter(|_| !claim.reserved_for.is_empty()) {
                let is_bad = |result: &DeviceResult| {
                    let (id, tolerations) = (&result.device, &result.tolerations);
                    is_blocked(seen, id, tolerations) || is_left_soon(seen, id, tolerations, now)
                };
                let node = given.only_node()?;
                if given.results.iter().any(is_bad) || only.as_ref().is_some_and(|only| only != node) {
                    return None;
                }
                only = Some(node.clone());
                continue;
            }
            let request = request_of(claim)?;
            let count = if request.mode == AllocationMode::Exact(2) { 2 } else { 1 };
            for _ in 0..count {
                wanted
                    .push(Wanted { class: request.class.clone(), tolerations: request.tolerations.clone() });
            }
        }
        let number = self.api.pods.number(&pod.key)?;
        if self.workloads.shape(number).is_some_and(|shape| shape.extended) {
            if pod.extended_claim.as_ref().and_then(claim_of).is_some() {
                return None;
            }
            wanted.push(Wanted { class: palette::word(palette::CLASSES[0]), tolerations: Vec::new() });
        }
        Some(Needs { devices: wanted, only, cpu_milli: self.config.cpu_milli(&pod.uid) })
    }

    /// By node: devices that nobody has, about which no node is asked, and that can be given out.
    fn free_devices(&self, seen: Seen<'_>) -> BTreeMap<Text, Vec<DeviceId>> {
        let mut free: BTreeMap<Text, Vec<DeviceId>> =
            (0..self.config.nodes).map(|number| (palette::node(number), Vec::new())).collect();
        // Pods may use the devices of a claim that was deallocated by hand.
        let asked = self.reports.by_node.values().flat_map(|report| &report.awaiting);
        let asked: BTreeSet<&DeviceId> = asked.flat_map(|one| &one.devices).collect();
        for number in (0..self.api.catalog.devices()).filter_map(|number| u32::try_from(number).ok()) {
            let id = self.api.catalog.id(number);
            let device = seen.device(&id);
            if seen.is_allocatable(device)
                && !asked.contains(&id)
                && seen.used(device) == Use::default()
                && let Some(of_node) = free.get_mut(&id.pool)
            {
                of_node.push(id);
            }
        }
        free
    }
}

/// Whether these devices of a node do for all that is wanted.
fn has_room(seen: Seen<'_>, free: &[DeviceId], wanted: &[Wanted], now: Timestamp) -> bool {
    let mut taken = BTreeSet::new();
    wanted.iter().all(|one| {
        let class = DeviceSelector { class: Some(one.class.clone()), ..DeviceSelector::default() };
        let found = free.iter().find(|id| {
            !taken.contains(id)
                && reference::selects(seen, Some(&class), seen.device(id))
                && !is_blocked(seen, id, &one.tolerations)
                && !is_left_soon(seen, id, &one.tolerations, now)
        });
        found.is_some_and(|id| taken.insert(id))
    })
}

/// Whether a device has a taint that keeps it from a claim with these tolerations.
fn is_blocked(seen: Seen<'_>, id: &DeviceId, tolerations: &[Toleration]) -> bool {
    let is_tolerated = |taint: &Taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
    let taints = reference::taints(seen, seen.device(id));
    taints.iter().any(|found| found.taint.effect.blocks_allocation() && !is_tolerated(found.taint))
}

/// Whether a pod with these tolerations would have to leave a device as soon as it has it.
fn is_left_soon(seen: Seen<'_>, id: &DeviceId, tolerations: &[Toleration], now: Timestamp) -> bool {
    let is_over = |taint: &Taint| reference::deadline(taint, None, tolerations).is_some_and(|end| end <= now);
    let taints = reference::taints(seen, seen.device(id));
    taints.iter().any(|found| found.taint.effect.evicts() && is_over(found.taint))
}

fn names(pod: &Pod, claim: &ObjectKey) -> bool {
    let named = pod.claims.iter().filter_map(|entry| claim_name(&entry.source));
    pod.key.namespace == claim.namespace && named.into_iter().any(|name| *name == claim.name)
}

fn is_usable(claim: &ResourceClaim, pod: &Pod, node: &Text) -> bool {
    let is_users = claim.reserved_for.iter().any(|user| match user.resource.as_str() {
        "pods" => user.uid == pod.uid,
        _ => is_of_group(claim, pod),
    });
    let is_here = |given: &Allocation| given.only_node().is_none_or(|only| only == node);
    is_users && claim.allocation.as_deref().is_some_and(is_here)
}
