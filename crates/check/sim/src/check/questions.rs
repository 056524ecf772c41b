//! The questions to nodes about claims that a person removed, or whose allocation a person removed: they are asked, they stand until the node has
//! answered, and what they are about is given to nobody.

use std::collections::BTreeMap;

use lazaret_claims::AskNode;
use lazaret_model::{Allocation, ObjectKey, ResourceClaim, Text, Uid};

use crate::{api::Kind, world::World};

/// By claim that a person took devices from.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenByHand(BTreeMap<Uid, Taken>);

/// Devices that a person took from a claim.
#[derive(Clone, Debug)]
struct Taken {
    /// The place in the log of claims from which on it is without them.
    place: usize,
    /// Where its pods have them prepared, and the claim controller that knew it.
    known: Vec<Known>,
}

/// A claim controller knew that a pod runs with a claim.
#[derive(Clone, Debug)]
struct Known {
    node: Text,
    /// The number and the life of the controller.
    controller: (usize, u64),
}

impl World {
    /// A person is about to take the devices from a claim.
    pub(crate) fn note_taken_by_hand(&mut self, claim: &ResourceClaim) {
        // Of a claim that has none, those count that were taken from it before.
        if claim.allocation.is_none() {
            return;
        }
        let leader = self.claims.agents.iter().position(|agent| agent.leads());
        let Some(number) = leader else { return };
        let agent = &self.claims.agents[number];
        let Some(progress) = &agent.progress else { return };
        let last = self.api.claims.number(&claim.key).map(|claim| self.api.claims.live()[claim as usize]);
        if last.is_none_or(|last| (last as usize) > progress.heard[Kind::Claim as usize]) {
            return;
        }
        let mut known = Vec::new();
        for user in claim.reserved_for.iter().filter(|user| user.resource == "pods") {
            let key = ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
            let pod = self.api.pods.number(&key).and_then(|pod| progress.pods.get(pod as usize));
            let pod = pod.and_then(|place| self.api.pods.written(*place)).map(|stored| stored.object);
            let runs = pod.filter(|pod| pod.uid == user.uid && !pod.phase.is_finished());
            let node = runs.and_then(|pod| pod.node.clone());
            let node = node.filter(|node| self.node_reports(node) && self.has_prepared(node, &claim.uid));
            known.extend(node.map(|node| Known { node, controller: (number, agent.life) }));
        }
        let place = self.api.claims.log().len();
        self.checker.taken_by_hand.0.insert(claim.uid.clone(), Taken { place, known });
    }

    /// The claim controller asks a node about other claims than before. A claim that is not asked about any more is not prepared there, or has its devices.
    pub(crate) fn check_questions(&mut self, ask: &AskNode) {
        let Some(report) = self.reports.by_node.get(&ask.node) else { return };
        let is_kept = |uid: &Uid| ask.awaiting.iter().any(|one| one.uid == *uid);
        let withdrawn = report.awaiting.iter().filter(|one| !is_kept(&one.uid) && one.released.is_none());
        let early = withdrawn.into_iter().find(|one| {
            self.is_free(&one.claim, &one.uid)
                && !self.was_given_anew(&one.claim, &one.uid)
                && self.has_prepared(&ask.node, &one.uid)
                && !report.out_of_service
                && !self.answered_for.of_nodes(&one.uid)
        });
        if let Some(detail) = early.map(|one| format!("{} about {}", ask.node, one.claim)) {
            self.violate("a node is asked until it has answered", detail);
        }
    }

    /// Whether a claim is gone, or has no devices.
    fn is_free(&self, key: &ObjectKey, uid: &Uid) -> bool {
        let claim = self.api.claims.get(key).map(|stored| stored.object).filter(|claim| claim.uid == *uid);
        claim.is_none_or(|claim| claim.allocation.is_none())
    }

    /// Whether a claim got devices after it had lost those that it had. Nothing keeps the former ones then.
    fn was_given_anew(&self, key: &ObjectKey, uid: &Uid) -> bool {
        let number = self.api.claims.number(key);
        let writes = self.api.claims.log().iter().filter(|logged| Some(logged.number) == number);
        let of_claim = writes.filter_map(|logged| logged.object.as_ref()).filter(|claim| claim.uid == *uid);
        let mut given: Vec<bool> = of_claim.map(|claim| claim.allocation.is_some()).collect();
        given.dedup();
        given.into_iter().filter(|is_given| *is_given).count() > 1
    }

    /// A scheduler gives devices away, by what it has heard: none that a node is asked about.
    pub(super) fn check_asked_about(&mut self, number: usize, allocation: &Allocation) {
        let Some(progress) = &self.schedulers.agents[number].progress else { return };
        let whole = allocation.results.iter().filter(|result| result.share_id.is_none());
        let asked = whole.into_iter().find_map(|result| {
            let one = progress.nodes.asked_about(&result.device)?;
            Some(format!("{}, about which a node is asked for {}", result.device, one.claim))
        });
        if let Some(detail) = asked {
            self.violate("nothing is given that a node is asked about", detail);
        }
    }

    /// Where a pod still has the devices that a person took from its claim, its node is asked. Nothing keeps them when the claim got others since.
    pub(crate) fn check_questions_at_rest(&mut self) {
        let lives: Vec<u64> = self.claims.agents.iter().map(|agent| agent.life).collect();
        let is_asked = |node: &Text, claim: &Uid| {
            let report = self.reports.by_node.get(node);
            report.is_some_and(|report| report.awaiting.iter().any(|one| one.uid == *claim))
        };
        let got_others = |uid: &Uid, since: usize| {
            let mut written =
                self.api.claims.log()[since..].iter().filter_map(|logged| logged.object.as_ref());
            written.any(|claim| claim.uid == *uid && claim.allocation.is_some())
        };
        let forgotten = self.checker.taken_by_hand.0.iter().find_map(|(claim, taken)| {
            let one = taken.known.iter().find(|one| {
                lives[one.controller.0] == one.controller.1
                    && self.claims.agents[one.controller.0].leads()
                    && self.has_prepared(&one.node, claim)
                    && !self.answered_for.of_nodes(claim)
                    && !is_asked(&one.node, claim)
                    && !got_others(claim, taken.place)
            })?;
            Some(format!("{} about {claim}", one.node))
        });
        if let Some(detail) = forgotten {
            self.violate("a node is asked about what was taken from its pods", detail);
        }
    }
}
