//! Inputs about nodes, pods, claims and devices, and the pods that they wake.

use alloc::{format, string::ToString, sync::Arc, vec::Vec};

use lazaret_classic::{NegotiationInput, News};
use lazaret_fleet as fleet;
use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, PodGroup, Text, Timestamp};

use crate::{
    Claim, Labels, Node, Pod,
    causes::Cause,
    claim_writes::CERTAIN_MS,
    claims,
    effect::{Outcome, WakeReason},
    extended,
    flight::Phase,
    state::{PodEntry, Scheduler, TimerKey},
};

impl Scheduler {
    // === Nodes ===

    pub(crate) fn node_is(&mut self, node: &Arc<Node>) {
        self.nodes_report |= node.reports;
        let known = self.nodes.find(&node.facts.name).and_then(|ix| self.nodes.get(ix)?.node.clone());
        let Some(old) = known else {
            self.nodes.set(node);
            self.fleet.apply(fleet::Input::Node(node.facts.clone()));
            self.negotiate(NegotiationInput::News(News::Node(node.facts.clone())));
            self.hold_awaited(&node.facts.name, &[], &node.awaiting);
            return Cause::ALL.into_iter().for_each(|cause| self.happened(cause));
        };
        if old == *node {
            return;
        }
        // The allocator recognises nodes by the address of their facts.
        let node = &Arc::new(Node {
            facts: if old.facts == node.facts { old.facts.clone() } else { node.facts.clone() },
            ..Node::clone(node)
        });
        self.nodes.set(node);
        self.fleet.apply(fleet::Input::Node(node.facts.clone()));
        self.hold_awaited(&node.facts.name, &old.awaiting, &node.awaiting);
        if old.allocatable != node.allocatable || old.pods_max != node.pods_max {
            self.happened(Cause::Room);
        }
        if !Arc::ptr_eq(&old.facts, &node.facts) {
            self.negotiate(NegotiationInput::News(News::Node(node.facts.clone())));
            [Cause::Nodes, Cause::Neighbours, Cause::Devices, Cause::Claims]
                .into_iter()
                .for_each(|cause| self.happened(cause));
        } else if old.taints != node.taints || old.unschedulable != node.unschedulable {
            // Spreading may leave tainted nodes out of account.
            [Cause::Nodes, Cause::Neighbours].into_iter().for_each(|cause| self.happened(cause));
        }
    }

    pub(crate) fn node_gone(&mut self, name: &Text) {
        let known = self.nodes.find(name).and_then(|ix| self.nodes.get(ix)?.node.clone());
        known.into_iter().for_each(|node| self.hold_awaited(name, &node.awaiting, &[]));
        self.roll_back_to(name);
        if self.nodes.remove(name) {
            self.fleet.apply(fleet::Input::NodeGone(name.clone()));
            self.negotiate(NegotiationInput::News(News::NodeGone(name.clone())));
            // Without it, pods may be spread evenly that were not.
            self.happened(Cause::Neighbours);
        }
    }

    /// Pods on their way to a node that is gone: a pod that is bound to it only waits to be collected.
    fn roll_back_to(&mut self, node: &Text) {
        let state = self.nodes.find(node).and_then(|ix| self.nodes.get(ix));
        let pods: Vec<u32> = state.into_iter().flat_map(|state| &state.pods).map(|(pod, _)| *pod).collect();
        let message = format!("node {:?} is gone", node.as_str());
        pods.into_iter().for_each(|pod| self.withdraw(pod, &message));
    }

    /// The decision on a pod that is being bound does not hold any more.
    fn withdraw(&mut self, pod: u32, message: &str) {
        let Some(flight) = self.flights.get_mut(&pod) else { return };
        match flight.phase {
            Phase::Bound => {}
            // Only a binding that was not taken yet can be withdrawn.
            Phase::Binding if !flight.awaits.is_some_and(|id| self.outbox.is_waiting(id)) => {
                flight.obsolete = Some(message.to_string());
            }
            Phase::Making
            | Phase::Reserving
            | Phase::Preparing { .. }
            | Phase::Naming
            | Phase::Stating
            | Phase::Binding
            | Phase::Pausing { .. } => {
                flight.awaits.take().and_then(|id| self.outbox.withdraw(id));
                self.roll_back_when_certain(pod, message.to_string());
            }
        }
    }

    // === Pods ===

    pub(crate) fn pod_is(&mut self, pod: Arc<Pod>) {
        let ix = match self.pod_keys.get(&pod.key).copied() {
            Some(ix) => match self.pods.get(ix).map(|entry| entry.pod.clone()) {
                Some(old) if old == pod => return,
                Some(old) if old.uid == pod.uid => {
                    self.claim_cache.unindex_pod(ix, &old);
                    self.claim_cache.index_pod(ix, &pod);
                    if let Some(entry) = self.pods.get_mut(ix) {
                        entry.pod = pod.clone();
                    }
                    self.pod_changed(ix, &old, &pod);
                    return self.notify_negotiator(&pod);
                }
                Some(_) | None => {
                    self.pod_gone(&pod.key);
                    self.add_pod(&pod)
                }
            },
            None => self.add_pod(&pod),
        };
        self.pod_changed(ix, &Pod::default(), &pod);
        self.notify_negotiator(&pod);
    }

    fn add_pod(&mut self, pod: &Arc<Pod>) -> u32 {
        let ix = self.pods.insert(PodEntry {
            pod: pod.clone(),
            on: None,
            nominated: None,
            why: None,
            uncertain_until: Timestamp::from_millis(i64::MIN),
            reported: None,
            reported_at: Timestamp::from_millis(i64::MIN),
            condition_write: None,
        });
        self.pod_keys.insert(pod.key.clone(), ix);
        self.claim_cache.index_pod(ix, pod);
        if let Some(group) = claims::gang_to_wake(&self.claim_cache, pod) {
            self.wake_members(&group);
        }
        ix
    }

    fn pod_changed(&mut self, ix: u32, old: &Pod, pod: &Arc<Pod>) {
        if pod.deleting {
            self.evicting.remove(&ix);
        }
        if pod.is_placed() {
            return self.pod_placed(ix, old, pod);
        }
        if pod.phase.is_finished() || pod.deleting || !self.is_ours(pod) {
            return self.pod_left(ix);
        }
        self.renominate(ix, pod);
        if self.flights.contains_key(&ix) {
            return;
        }
        let gated = !pod.spec.gates.is_empty();
        if self.queue.place(ix).is_none() {
            self.queue.enter(self.now, ix, &pod.key.namespace, pod.spec.priority, gated);
        } else if gated {
            self.queue.gate(ix);
        } else if old.claims != pod.claims
            || old.classic != pod.classic
            || old.labels != pod.labels
            || old.spec != pod.spec
        {
            self.queue.wake(self.now, ix);
        }
    }

    fn pod_placed(&mut self, ix: u32, old: &Pod, pod: &Arc<Pod>) {
        let Some(name) = invariant!(&pod.node, "a placed pod names its node") else { return };
        self.unfinished.end(ix);
        self.flights.remove(&ix);
        self.classic_placed(ix, Outcome::Done);
        self.queue.leave(ix);
        self.set_nominated(ix, None);
        let on = self.pods.get(ix).and_then(|entry| entry.on);
        match on.filter(|on| self.nodes.get(*on).is_some_and(|state| state.name == *name)) {
            Some(on) => {
                self.nodes.replace(on, ix, pod);
                if old.spec.requests != pod.spec.requests || old.extra != pod.extra {
                    self.happened(Cause::Room);
                }
                // Spreading leaves pods that are leaving out of account.
                if old.labels == pod.labels && old.node == pod.node && old.deleting == pod.deleting {
                    return;
                }
            }
            None => {
                self.remove_pod_from_node(ix);
                let on = self.nodes.place(name, ix, pod);
                self.set_on(ix, Some(on));
            }
        }
        self.happened(Cause::Neighbours);
    }

    /// It takes up no room any more and is not to be placed.
    fn pod_left(&mut self, ix: u32) {
        self.unfinished.end(ix);
        self.abandon(ix);
        self.queue.leave(ix);
        self.set_nominated(ix, None);
        self.remove_pod_from_node(ix);
    }

    pub(crate) fn pod_gone(&mut self, key: &ObjectKey) {
        let Some(ix) = self.pod_keys.remove(key) else { return };
        self.pod_left(ix);
        self.evicting.remove(&ix);
        if let Some(entry) = self.pods.remove(ix) {
            self.claim_cache.unindex_pod(ix, &entry.pod);
            if self.negotiates(&entry.pod) {
                let gone = News::PodGone(key.clone(), entry.pod.uid.clone());
                self.negotiate(NegotiationInput::News(gone));
            }
        }
    }

    /// Gives back the room that a pod takes up on a node.
    pub(crate) fn remove_pod_from_node(&mut self, ix: u32) {
        let Some(on) = self.pods.get_mut(ix).and_then(|entry| entry.on.take()) else { return };
        // It may have left for them; where that does not help, no room is kept for them any more.
        self.wake_nominated(on);
        self.nodes.remove_pod_from_node(on, ix);
        self.happened(Cause::Room);
        self.happened(Cause::Neighbours);
        // As long as it existed the devices of its group's claims were not released.
        if let Some(group) = self.pods.get(ix).and_then(|entry| claims::group_key(&entry.pod)) {
            self.wake_members(&group);
        }
    }

    pub(crate) fn set_on(&mut self, ix: u32, on: Option<u32>) {
        if let Some(entry) = self.pods.get_mut(ix) {
            entry.on = on;
        }
    }

    pub(crate) fn is_ours(&self, pod: &Pod) -> bool {
        self.options.names.contains(&pod.spec.scheduler)
    }

    /// Keeps room for a pod as its status says, unless something else is being written into it.
    fn renominate(&mut self, ix: u32, pod: &Arc<Pod>) {
        if self.nominated_in_write(ix).is_some() {
            return;
        }
        let now_on = self.pods.get(ix).and_then(|entry| entry.nominated);
        let same =
            now_on.and_then(|on| self.nodes.get(on)).map(|state| &state.name) == pod.nominated.as_ref();
        if !same {
            self.set_nominated(ix, pod.nominated.as_ref());
            // The next attempt finds out whether others still have to be evicted for it.
            self.queue.wake(self.now, ix);
        }
    }

    /// Keeps room for a pod on a node, or nowhere.
    pub(crate) fn set_nominated(&mut self, ix: u32, node: Option<&Text>) {
        if let Some(on) = self.pods.get_mut(ix).and_then(|entry| entry.nominated.take()) {
            self.nodes.withdraw(on, ix);
            self.happened(Cause::Room);
        }
        if let Some(name) = node.filter(|name| !name.is_empty())
            && let Some(entry) = self.pods.get_mut(ix)
        {
            let on = self.nodes.nominate(name, ix, &entry.pod);
            entry.nominated = Some(on);
        }
    }

    /// Whether a pod may be bound without being seen to be.
    pub(crate) fn may_be_bound(&self, ix: u32) -> bool {
        self.pods.get(ix).is_some_and(|entry| self.now < entry.uncertain_until)
    }

    /// Whether a pod has to wait until it is known whether it was bound. It is tried again then; the watch shows one that was bound.
    pub(crate) fn waits_for_binding(&mut self, ix: u32) -> bool {
        let until = self.pods.get(ix).map(|entry| entry.uncertain_until).filter(|until| self.now < *until);
        if let Some(until) = until.filter(|until| *until < Timestamp::NEVER) {
            self.set_timer(until, TimerKey::Retry(ix));
        }
        until.is_some()
    }

    /// A pod was bound, and the watch has not shown it yet. The pod may run. If it is gone before the watch shows it, the claim controller asks its
    /// node and removes it from its claims.
    pub(crate) fn set_bound(&mut self, ix: u32) {
        if let Some(entry) = self.pods.get_mut(ix) {
            entry.uncertain_until = Timestamp::NEVER;
        }
    }

    /// It is not known whether a pod was bound.
    pub(crate) fn set_uncertain(&mut self, ix: u32) {
        if let Some(entry) = self.pods.get_mut(ix) {
            entry.uncertain_until = self.now.plus_millis(CERTAIN_MS);
        }
    }

    // === Claims and devices ===

    pub(crate) fn claim_is(&mut self, claim: &Arc<Claim>) {
        let key = &claim.claim.key;
        let known = self.claim_cache.get(key);
        if known.is_some_and(|old| old.claim.uid == claim.claim.uid && old.version >= claim.version) {
            return;
        }
        let old = self.claim_cache.set(claim);
        if old.is_none() {
            self.claim_made = self.now;
        }
        self.fleet.apply(fleet::Input::Claim(claim.claim.clone()));
        self.fleet.take_changes();
        let freed = old.as_ref().is_some_and(|old| {
            old.claim.allocation.is_some()
                && (claim.claim.allocation.is_none() || old.claim.uid != claim.claim.uid)
        });
        if let Some(old) = old.as_ref().filter(|_| freed) {
            self.keep_of_group(old);
            self.happened(Cause::Devices);
        }
        if let Some(old) = old.as_ref().filter(|old| old.claim.uid != claim.claim.uid) {
            self.roll_back_users(key, made_for_pod(old).as_ref(), "the claim is gone");
        } else if old.as_ref().is_some_and(|old| has_lost_devices(old, claim)) {
            let why = "the claim was given back by somebody else";
            self.roll_back_users(key, made_for_pod(claim).as_ref(), why);
        }
        self.claim_seen(key);
        if old.is_none_or(|old| old.claim != claim.claim || old.devices != claim.devices) {
            self.wake_users(key, None);
        }
    }

    /// Pods that are being bound chose their node by devices that the claim has not got any more.
    fn roll_back_users(&mut self, key: &ObjectKey, owner: Option<&ObjectKey>, why: &str) {
        let message = format!("resourceclaim {:?}: {why}", key.name.as_str());
        for pod in self.users_of(key, owner) {
            if self.flights.get(&pod).is_some_and(|flight| flight.claims.contains(key)) {
                self.withdraw(pod, &message);
            }
        }
    }

    pub(crate) fn claim_gone(&mut self, key: &ObjectKey) {
        let Some(old) = self.claim_cache.remove(key) else { return };
        self.keep_from_others(&old);
        self.fleet.apply(fleet::Input::ClaimGone(key.clone()));
        self.fleet.take_changes();
        if old.claim.allocation.is_some() {
            self.happened(Cause::Devices);
        }
        self.claim_seen(key);
        // One that was made for a pod stands in its way until it is gone.
        let owner = made_for_pod(&old);
        self.roll_back_users(key, owner.as_ref(), "the claim is gone");
        self.wake_users(key, owner.as_ref());
    }

    pub(crate) fn wake_users(&mut self, key: &ObjectKey, owner: Option<&ObjectKey>) {
        self.users_of(key, owner).into_iter().for_each(|pod| self.wake(pod));
    }

    /// The pods that name a claim, and the one that it was made for, which may not name it yet.
    pub(crate) fn users_of(&self, key: &ObjectKey, owner: Option<&ObjectKey>) -> Vec<u32> {
        let mut users: Vec<u32> = self.claim_cache.users(key).to_vec();
        users.extend(owner.and_then(|owner| self.pod_keys.get(owner)));
        users
    }

    // === Groups ===

    pub(crate) fn group_is(&mut self, group: Arc<PodGroup>) {
        let key = group.key.clone();
        if self.claim_cache.set_group(group) {
            self.wake_members(&key);
        }
    }

    /// A new pod may be the last that a gang waited for.
    fn wake_members(&mut self, group: &ObjectKey) {
        for pod in self.claim_cache.members(group).to_vec() {
            self.wake(pod);
        }
    }

    fn wake(&mut self, pod: u32) {
        let gated = self.pods.get(pod).is_some_and(|entry| !entry.pod.spec.gates.is_empty());
        if !gated && !self.rehearsing {
            self.queue.wake(self.now, pod);
        }
    }

    pub(crate) fn devices_are(&mut self, input: fleet::Input) {
        match input.kind() {
            fleet::Kind::Slice | fleet::Kind::Rule | fleet::Kind::Patch | fleet::Kind::Class => {}
            fleet::Kind::Claim | fleet::Kind::Pod | fleet::Kind::Node => return,
        }
        let revision = self.fleet.revision();
        let is_class = input.kind() == fleet::Kind::Class;
        let takes_otherwise = self.options.node_allocatable && self.shares_are(&input);
        self.fleet.apply(input);
        self.fleet.take_changes();
        if self.fleet.revision() == revision && !takes_otherwise {
            return;
        }
        if is_class && self.options.extended_resources {
            self.delegated = extended::delegated(&self.fleet.snapshot());
        }
        self.happened(Cause::Devices);
        self.happened(Cause::Room);
    }

    /// Takes note of what devices take of their nodes; whether that changed.
    fn shares_are(&mut self, input: &fleet::Input) -> bool {
        if let fleet::Input::Slice(slice) = input {
            return self.shares.set(slice);
        }
        matches!(input, fleet::Input::SliceGone(name) if self.shares.remove(name))
    }

    pub(crate) fn namespace_is(&mut self, name: Text, labels: Arc<Labels>) {
        if self.namespaces.get(&name) != Some(&labels) {
            self.namespaces.insert(name, labels);
            self.happened(Cause::Neighbours);
        }
    }

    pub(crate) fn namespace_gone(&mut self, name: &Text) {
        if self.namespaces.remove(name).is_some() {
            self.happened(Cause::Neighbours);
        }
    }

    /// A pod could not be evicted: pods that are nominated for its room are tried again.
    pub(crate) fn eviction_failed(&mut self, victim: u32) {
        self.evicting.remove(&victim);
        let on = self.pods.get(victim).and_then(|entry| entry.on);
        let waiting = self.nominated_on(on);
        waiting.into_iter().for_each(|pod| self.queue.retry(self.now, pod));
    }

    /// Pods for which room is kept on a node.
    fn nominated_on(&self, on: Option<u32>) -> Vec<u32> {
        let node = on.and_then(|on| self.nodes.get(on));
        node.iter().flat_map(|state| state.nominated.iter().map(|(pod, _)| *pod)).collect()
    }

    fn wake_nominated(&mut self, on: u32) {
        if !self.rehearsing {
            self.nominated_on(Some(on)).into_iter().for_each(|pod| self.queue.wake(self.now, pod));
        }
    }

    /// Something happened that can help all pods which wait for it.
    pub(crate) fn happened(&mut self, cause: Cause) {
        if !self.rehearsing {
            self.verdict_cache.note(cause);
            self.queue.wake_all(self.now, cause);
        }
    }

    // === Time ===

    /// Looks at whatever has come due. A timer whose reason is gone does nothing.
    pub(crate) fn fire_timers(&mut self) {
        self.queue.advance(self.now);
        while let Some((at, _)) = self.timers.first()
            && *at <= self.now
        {
            match self.timers.pop_first() {
                Some((_, TimerKey::Claim(key))) => self.claim_due(&key),
                Some((_, TimerKey::Pod(ix))) => self.proceed(ix),
                Some((_, TimerKey::Report(ix))) => self.report_again(ix),
                Some((_, TimerKey::Hold(node, claim))) => self.release_unlisted_hold(node, claim),
                Some((_, TimerKey::Retry(ix))) => self.wake(ix),
                None => {}
            }
        }
    }

    pub(crate) fn why_wake(&self, timer: &TimerKey) -> WakeReason {
        match timer {
            TimerKey::Claim(_) | TimerKey::Hold(..) | TimerKey::Retry(_) => WakeReason::Retry,
            TimerKey::Report(_) => WakeReason::Report,
            TimerKey::Pod(ix) => match self.flights.get(ix).map(|flight| &flight.phase) {
                Some(Phase::Preparing { .. }) => WakeReason::BindingTimeout,
                Some(
                    Phase::Making
                    | Phase::Reserving
                    | Phase::Naming
                    | Phase::Stating
                    | Phase::Binding
                    | Phase::Pausing { .. }
                    | Phase::Bound,
                )
                | None => WakeReason::Retry,
            },
        }
    }
}

/// The pod that a claim was made for, for its extended resources.
pub(crate) fn made_for_pod(claim: &Claim) -> Option<ObjectKey> {
    let owner = claim.claim.owner.as_ref().filter(|_| claim.claim.extended_resource)?;
    Some(ObjectKey { namespace: claim.claim.key.namespace.clone(), name: owner.name.clone() })
}

/// Whether devices that a claim had are not its devices any more.
fn has_lost_devices(old: &Claim, new: &Claim) -> bool {
    let Some(had) = old.claim.allocation.as_ref().filter(|_| old.claim.uid == new.claim.uid) else {
        return false;
    };
    new.claim.allocation.as_ref().is_none_or(|has| has.results != had.results)
}
