//! Pods with classic claims: drivers decide whether their devices can be had on a node, so the scheduler names the nodes that everything else
//! permits, and binds the pod when its classic claims are allocated and reserved for it.
//!
//! The [`Negotiator`](lazaret_classic::Negotiator) writes to the claims. This module passes pods, nodes and candidates to it, and places a pod
//! on the node that came out of the negotiation, with its structured claims.

use alloc::{sync::Arc, vec::Vec};

use lazaret_classic::{NegotiationEffectKind, NegotiationInput, News, Place};
use lazaret_invariant::invariant;
use lazaret_machine::{EffectId, Machine as _, Outcome, Turn};
use lazaret_model::{ObjectKey, Text};

use crate::{
    Pod,
    causes::{Cause, Causes},
    effect::EffectKind,
    filter::Filter,
    flight::Phase,
    needs::Needs,
    nodes::NodeState,
    outbox::Purpose,
    place::ranked,
    pod_affinity::{AffinityCounts, PodLocations},
    score,
    search::Search,
    state::Scheduler,
    why::{PendingReason, Verdict},
};

/// Candidates of a pod are found anew after this time, for others take up room meanwhile.
const CANDIDATES_MS: i64 = 3_000;
/// Candidates on which devices for structured claims were found; each takes a search.
const CANDIDATES_WITH_DEVICES_MAX: usize = 32;

impl Scheduler {
    /// News of claims and classes. Pods and nodes have inputs of their own.
    pub(crate) fn classic_is(&mut self, news: News) {
        match news {
            News::Claim(_) | News::ClaimGone(..) | News::Class(_) | News::ClassGone(_) => {
                self.negotiate(NegotiationInput::News(news));
            }
            News::Pod(_)
            | News::PodGone(..)
            | News::Node(_)
            | News::NodeGone(_)
            | News::Report(_)
            | News::ReportGone(_) => {}
        }
    }

    /// Whether a pod waits for classic claims.
    pub(crate) fn negotiates(&self, pod: &Pod) -> bool {
        self.options.classic && !pod.classic.is_empty()
    }

    pub(crate) fn negotiate(&mut self, input: NegotiationInput) {
        self.classic.negotiator.handle(self.now, &(), input);
    }

    /// Tells the negotiator of a pod that this scheduler places.
    pub(crate) fn notify_negotiator(&mut self, pod: &Pod) {
        if !self.negotiates(pod) || !pod.spec.gates.is_empty() || !self.is_ours(pod) {
            return;
        }
        let known = lazaret_classic::Pod {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            claims: pod.classic.clone(),
            containers: Vec::new(),
            node: pod.node.clone(),
            ended: pod.phase.is_finished(),
            deleting: pod.deleting,
        };
        self.negotiate(NegotiationInput::News(News::Pod(Arc::new(known))));
    }

    /// When the negotiation goes on if nothing happens before.
    pub(crate) fn negotiation_wake(&self) -> Option<lazaret_model::Timestamp> {
        self.classic.negotiator.next_wake().map(|wake| wake.at)
    }

    /// Carries out what the negotiator wants: writes go out, pods are placed.
    pub(crate) fn carry_negotiation(&mut self) {
        if self.negotiation_wake().is_some_and(|at| at <= self.now) {
            self.negotiate(Turn::Tick.into());
        }
        while let Some(effect) = self.classic.negotiator.poll_effect() {
            match effect.kind {
                NegotiationEffectKind::Change(change) => {
                    self.outbox.launch(Purpose::Classic(effect.id), EffectKind::ChangeClassicClaim(change));
                }
                NegotiationEffectKind::Place(place) => self.place(effect.id, &place),
            }
        }
    }

    /// A write to a classic claim, or a placement, came to this.
    pub(crate) fn negotiated(&mut self, effect: EffectId, outcome: Outcome) {
        self.negotiate(Turn::Acknowledged(effect, outcome.into()).into());
    }

    /// A pod is bound, or is not going to be.
    pub(crate) fn classic_placed(&mut self, ix: u32, outcome: Outcome) {
        if let Some(effect) = self.classic.placing.remove(&ix) {
            self.negotiated(effect, outcome);
        }
    }

    pub(crate) fn classic_leads(&mut self, leads: bool) {
        if !leads {
            self.classic.placing.clear();
        }
        self.negotiate(Turn::leads(leads).into());
    }

    /// Names the nodes that everything but the classic claims permits. The negotiator goes on from there.
    pub(crate) fn decide_classic(&mut self, ix: u32, pod: &Arc<Pod>, needs: &Needs) -> Result<(), Verdict> {
        let found = self.candidates(ix, pod, needs);
        let nodes = found.as_ref().ok().cloned();
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        self.negotiate(NegotiationInput::Candidates { pod: key, uid, nodes });
        found?;
        let is_first = self.queue.postponed(ix) == 0;
        self.queue.postpone(self.now, ix, Causes::NONE.with(Cause::Nodes), CANDIDATES_MS);
        // A driver answers within the first pause, as a rule.
        if let Some(why) = self.classic.negotiator.explain(&pod.key).filter(|_| !is_first) {
            let why = PendingReason::of(Verdict::Classic(why));
            let message = why.message().into();
            self.report(ix, Arc::new(why), &message, None);
        }
        Ok(())
    }

    /// The nodes that everything but the classic claims permits, the best first.
    fn candidates(&mut self, ix: u32, pod: &Pod, needs: &Needs) -> Result<Arc<[Text]>, Verdict> {
        let around = PodLocations { nodes: &self.nodes, namespaces: &self.namespaces, without: &[] };
        let (pod_affinity, usable) = (AffinityCounts::of(pod, around), needs.usable());
        let filter = Filter {
            pod,
            pod_ix: ix,
            delegated: &self.delegated,
            pod_affinity: &pod_affinity,
            usable: &usable,
            extra: needs.extra(),
        };
        let mut search = Search::new(&self.nodes, self.start, lazaret_classic::NODES_MAX, false, &filter);
        let batch = search.next_batch(&filter);
        let states: Vec<&NodeState> = batch.iter().filter_map(|&node| self.nodes.get(node)).collect();
        let scores = score::scores(pod, around, &states, self.options.packing);
        let mut nodes: Vec<Text> =
            ranked(&scores, &states).into_iter().map(|state| state.name.clone()).collect();
        if !needs.open().is_empty() || !needs.extended.is_empty() {
            let mut with_devices = Vec::new();
            for name in nodes {
                let Some(node) = invariant!(self.nodes.find(&name), "a node that was ranked is known") else {
                    continue;
                };
                if self.find_place_on(ix, pod, needs, node).is_ok() {
                    with_devices.push(name);
                }
                if with_devices.len() >= CANDIDATES_WITH_DEVICES_MAX {
                    break;
                }
            }
            nodes = with_devices;
        }
        if nodes.is_empty() {
            // Says why, and finds a node beyond those that were looked at.
            return self.find_place(ix, pod, needs).map(|placement| [placement.node].into());
        }
        Ok(nodes.into())
    }

    /// Places a pod on the node that came out of the negotiation.
    fn place(&mut self, effect: EffectId, place: &Place) {
        let Some((ix, pod)) = self.pod_to_place(&place.pod, &place.uid) else {
            return self.negotiated(effect, Outcome::Gone);
        };
        if let Some(flight) = self.flights.get(&ix) {
            let is_bound = flight.phase == Phase::Bound;
            return if is_bound {
                self.negotiated(effect, Outcome::Done);
            } else {
                self.classic.placing.insert(ix, effect);
            };
        }
        if pod.is_placed() {
            return self.negotiated(effect, Outcome::Done);
        }
        if !self.queue.take(self.now, ix) {
            return self.negotiated(effect, Outcome::Conflict);
        }
        self.decisions += 1;
        self.allocator.allow(self.turn_units(ix));
        let found = match (self.needs(ix, &pod), self.nodes.find(&place.node)) {
            (Ok(needs), Some(node)) => self.find_place_on(ix, &pod, &needs, node).ok(),
            (Ok(_), None) | (Err(_), _) => None,
        };
        let Some(placement) = found else {
            self.negotiated(effect, Outcome::Conflict);
            // It is taken out of the queue: its candidates are found anew, or a condition says why there are none.
            return self.decide(ix);
        };
        self.classic.placing.insert(ix, effect);
        let held = self.hold(ix, &pod, placement);
        self.happened(Cause::Neighbours);
        self.send(ix, &pod, held);
    }

    fn pod_to_place(&self, key: &ObjectKey, uid: &Text) -> Option<(u32, Arc<Pod>)> {
        let ix = *self.pod_keys.get(key)?;
        let pod = &self.pods.get(ix)?.pod;
        (pod.uid == *uid).then(|| (ix, pod.clone()))
    }
}
