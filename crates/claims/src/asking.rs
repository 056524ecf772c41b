//! Claims whose pods vanished before they ended: their nodes are asked whether the devices are unprepared.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{
    AWAITED_BYTES_PER_NODE_MAX, AWAITED_PER_NODE_MAX, Awaited, NodeReport, Outcome, ResourceClaim, Text,
    Timestamp, Uid,
};

use crate::{
    Claims, SeenClaim,
    effect::{AWAITING_REASON, AskNode, ClaimEvent, EffectKind, RELEASED_REASON, WakeReason},
    flights::Flight,
    holder::{Holder, HolderKind},
    queue::Item,
    standing::is_done,
    tables::Setback,
};

/// Pods that vanished whose nodes are remembered. The node of a forgotten one is found by what its claim was given, where that is local.
const LOST_MAX: usize = 16_384;
/// Claims removed by hand that are waited for. Nobody removes more by hand within the time that nodes take to answer.
const REMOVED_MAX: usize = 4_096;

/// Who is asked, and about what.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Nodes that say what is prepared on them.
    pub(crate) nodes: BTreeMap<Text, NodeSlot>,
    /// By the UID of the claim.
    pub(crate) waits: BTreeMap<Uid, Wait>,
    /// Where pods were that vanished before they ended.
    lost_on: BTreeMap<Uid, Text>,
    lost: VecDeque<Uid>,
    removed: usize,
}

/// A node.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    report: Arc<NodeReport>,
    /// The version that a write under way is meant for.
    in_flight: Option<Text>,
    setback: Setback,
}

/// A claim that may be prepared on nodes although its users are gone.
#[derive(Debug)]
pub(crate) struct Wait {
    awaited: Awaited,
    /// Where it was used by pods that vanished.
    nodes: BTreeSet<Text>,
    claim: Waiting,
    announced: bool,
}

/// What became of the claim.
#[derive(Debug)]
enum Waiting {
    /// It is there, and keeps what it was given.
    Kept,
    /// It is gone, or what it was given was taken back by somebody else; as it was last seen.
    Removed(Arc<ResourceClaim>),
    /// It was gone before anything was heard of it.
    Unseen,
}

impl Asking {
    /// Nothing is under way any more.
    pub(crate) fn forget_work(&mut self) {
        for slot in self.nodes.values_mut() {
            (slot.in_flight, slot.setback) = Default::default();
        }
    }

    fn note_lost(&mut self, uid: Uid, node: Text) {
        if self.lost_on.insert(uid.clone(), node).is_some() {
            return;
        }
        self.lost.push_back(uid);
        if self.lost.len() > LOST_MAX
            && let Some(oldest) = self.lost.pop_front()
        {
            self.lost_on.remove(&oldest);
        }
    }

    fn report(&self, node: &Text) -> Option<&NodeReport> {
        self.nodes.get(node).map(|slot| &*slot.report)
    }

    fn may_have_prepared(&self, node: &Text, claim: &Uid) -> bool {
        self.report(node).is_some_and(|report| report.may_have_prepared(claim))
    }

    fn released_by<'a>(&'a self, nodes: &'a BTreeSet<Text>, claim: &Uid) -> Option<(&'a Text, &'a Text)> {
        nodes.iter().find_map(|node| {
            let entry = self.report(node)?.awaiting.iter().find(|one| one.uid == *claim)?;
            entry.released.as_ref().map(|reason| (node, reason))
        })
    }

    fn drop_wait(&mut self, claim: &Uid) -> BTreeSet<Text> {
        let Some(wait) = self.waits.remove(claim) else { return BTreeSet::new() };
        if !matches!(wait.claim, Waiting::Kept) {
            self.removed = self.removed.saturating_sub(1);
        }
        wait.nodes
    }

    /// What a node is to be asked: what it is asked already comes first, so that answers are not lost.
    fn wanted(&self, node: &Text) -> Vec<Awaited> {
        let asked = self.report(node).map_or(&[][..], |report| &report.awaiting);
        let waits = |uid: &Uid| self.waits.get(uid).filter(|wait| wait.nodes.contains(node));
        let old = asked.iter().filter(|one| waits(&one.uid).is_some());
        let new = self
            .waits
            .values()
            .filter(|wait| wait.nodes.contains(node) && asked.iter().all(|one| one.uid != wait.awaited.uid));
        let mut bytes = 0;
        let mut wanted = Vec::new();
        for one in old.chain(new.map(|wait| &wait.awaited)).take(AWAITED_PER_NODE_MAX) {
            bytes += one.bytes();
            if bytes > AWAITED_BYTES_PER_NODE_MAX && !wanted.is_empty() {
                break;
            }
            wanted.push(one.clone());
        }
        wanted
    }
}

// === What is heard ===
impl Claims {
    pub(crate) fn see_node(&mut self, report: Arc<NodeReport>) {
        if !report.reports {
            return self.miss_node(&report.name);
        }
        let name = report.name.clone();
        match self.asking.nodes.get_mut(&name) {
            Some(slot) => {
                if slot.report.version != report.version {
                    slot.setback.hear_news();
                }
                slot.report = report;
            }
            None => {
                let (in_flight, setback) = Default::default();
                self.asking.nodes.insert(name.clone(), NodeSlot { report, in_flight, setback });
            }
        }
        self.touch_waiting_for(&name);
    }

    pub(crate) fn miss_node(&mut self, name: &Text) {
        if self.asking.nodes.remove(name).is_some() {
            self.touch_waiting_for(name);
        }
    }

    fn touch_waiting_for(&mut self, node: &Text) {
        let of_node = self.asking.waits.values().filter(|wait| wait.nodes.contains(node));
        let claims: Vec<Item> = of_node.map(|wait| Item::Claim(wait.awaited.claim.clone())).collect();
        claims.into_iter().for_each(|claim| self.touch(claim));
        self.touch(Item::Node(node.clone()));
    }

    /// A pod is gone: whether it had ended decides whether its node is asked.
    pub(crate) fn note_how_it_ended(&mut self, key: &lazaret_model::ObjectKey) {
        if self.asking.nodes.is_empty() {
            return;
        }
        let Some(pod) = self.tables.pods.get(key).map(|slot| slot.pod.clone()) else { return };
        match &pod.node {
            Some(node) if !is_done(&pod) => self.asking.note_lost(pod.uid.clone(), node.clone()),
            Some(_) | None => drop(self.hearsay.ended.insert(pod.uid.clone())),
        }
    }

    /// A claim is gone, or has lost what it was given. If its devices may be prepared, that was not the work of this controller.
    pub(crate) fn claim_let_go(&mut self, seen: &SeenClaim) {
        let claim = &seen.claim;
        let nodes = self.nodes_in_use(seen);
        let before = self.asking.drop_wait(&claim.uid);
        if !nodes.is_empty() && self.asking.removed < REMOVED_MAX {
            self.asking.removed += 1;
            let awaited = self.awaited(claim, None);
            let claim = Waiting::Removed(claim.clone());
            let wait = Wait { awaited, nodes: nodes.clone(), claim, announced: true };
            self.asking.waits.insert(seen.claim.uid.clone(), wait);
        }
        before.union(&nodes).for_each(|node| self.touch(Item::Node(node.clone())));
    }

    /// The nodes where somebody may still use what a claim was given.
    fn nodes_in_use(&self, seen: &SeenClaim) -> BTreeSet<Text> {
        if self.asking.nodes.is_empty() {
            return BTreeSet::new();
        }
        let node_of = |consumer: &lazaret_model::Consumer| {
            let kind = HolderKind::of(consumer)?;
            let holder = Holder { kind, key: seen.beside(&consumer.name), uid: consumer.uid.clone() };
            let pod = self.tables.pods.get(&holder.key).map(|slot| &slot.pod);
            match pod.filter(|pod| pod.uid == holder.uid) {
                Some(pod) if is_done(pod) => None,
                Some(pod) => pod.node.as_ref(),
                None => self.lost_on(&seen.claim, &holder.uid),
            }
        };
        let nodes = seen.claim.reserved_for.iter().filter_map(node_of);
        nodes.filter(|node| self.asking.may_have_prepared(node, &seen.claim.uid)).cloned().collect()
    }
}

// === What is decided ===
impl Claims {
    /// The node that has not said how a user of a claim ended; whether it has to be waited for is another question.
    pub(crate) fn lost_on<'a>(&'a self, claim: &'a ResourceClaim, user: &Uid) -> Option<&'a Text> {
        if self.asking.nodes.is_empty() || self.hearsay.ended.contains(user) {
            return None;
        }
        let allocation = claim.allocation.as_ref().filter(|given| given.held_devices().next().is_some())?;
        let node = self.asking.lost_on.get(user).or_else(|| allocation.only_node())?;
        self.asking.nodes.contains_key(node).then_some(node)
    }

    /// Whether a node has to unprepare a claim before it is given back.
    pub(crate) fn is_awaited(&self, node: &Text, claim: &Uid) -> bool {
        self.asking.may_have_prepared(node, claim)
    }

    /// Takes note of where a claim was used by pods that vanished, as long as it names them, and of which of these nodes are waited for.
    pub(crate) fn await_nodes(
        &mut self,
        now: Timestamp,
        seen: &SeenClaim,
        lost: &BTreeSet<Text>,
        awaited: &BTreeSet<Text>,
    ) {
        let uid = &seen.claim.uid;
        if lost.is_empty() {
            let nodes = self.asking.drop_wait(uid);
            nodes.into_iter().for_each(|node| self.touch(Item::Node(node)));
            return;
        }
        let mut touched = lost.clone();
        if let Some(wait) = self.asking.waits.get_mut(uid) {
            touched = wait.nodes.symmetric_difference(lost).cloned().collect();
            wait.nodes.clone_from(lost);
        } else {
            let wait = Wait {
                awaited: self.awaited(&seen.claim, Some(now)),
                nodes: lost.clone(),
                claim: Waiting::Kept,
                announced: seen.awaiting.is_some(),
            };
            self.asking.waits.insert(uid.clone(), wait);
        }
        self.tell_of_wait(seen, lost, awaited);
        touched.into_iter().for_each(|node| self.touch(Item::Node(node)));
    }

    /// One event when the wait begins, one when a person ends it.
    fn tell_of_wait(&mut self, seen: &SeenClaim, lost: &BTreeSet<Text>, awaited: &BTreeSet<Text>) {
        let uid = &seen.claim.uid;
        let Some(wait) = self.asking.waits.get(uid).filter(|wait| wait.announced == awaited.is_empty())
        else {
            return;
        };
        let (reason, message) = match awaited.first() {
            Some(node) => (AWAITING_REASON, wait.awaited.words(node)),
            None => match self.asking.released_by(lost, uid) {
                Some((node, why)) => (
                    RELEASED_REASON,
                    alloc::format!("{}; released by force: {why}", wait.awaited.words(node)),
                ),
                None => return,
            },
        };
        let claim = wait.awaited.claim.clone();
        if let Some(wait) = self.asking.waits.get_mut(uid) {
            wait.announced = !awaited.is_empty();
        }
        let event = ClaimEvent { claim, uid: uid.clone(), reason, message: message.into() };
        self.flights.announce(EffectKind::ClaimEvent(event), self.options.events_queued_max);
    }

    fn awaited(&self, claim: &ResourceClaim, since: Option<Timestamp>) -> Awaited {
        Awaited {
            claim: claim.key.clone(),
            uid: claim.uid.clone(),
            devices: claim.allocation.iter().flat_map(|given| given.held_devices()).cloned().collect(),
            since: since.map(Timestamp::truncated_to_secs),
            released: None,
        }
    }

    pub(crate) fn look_at_node(&mut self, now: Timestamp, name: &Text) {
        self.settle_removed(name);
        let Some(slot) = self.asking.nodes.get(name) else { return };
        if slot.in_flight.is_some() {
            return;
        }
        if let Some(at) = slot.setback.hold(now) {
            self.later(at, WakeReason::Retry, Item::Node(name.clone()));
            return;
        }
        let wanted = self.asking.wanted(name);
        let Some(slot) = self.asking.nodes.get_mut(name) else { return };
        if wanted == slot.report.awaiting {
            return;
        }
        let (uid, version) = (slot.report.uid.clone(), slot.report.version.clone());
        slot.in_flight = Some(version.clone());
        let flight = Flight::Node { node: name.clone(), uid: uid.clone() };
        let ask = AskNode { node: name.clone(), uid, version, awaiting: wanted };
        self.flights.launch(flight, EffectKind::AskNode(ask));
    }

    /// Claims that are gone are waited for as long as the node has not answered, however long ago it was asked and by whom.
    fn settle_removed(&mut self, node: &Text) {
        let listed: Vec<Awaited> =
            self.asking.report(node).map(|report| report.awaiting.clone()).unwrap_or_default();
        for one in listed {
            let there = self.tables.claims.get(&one.claim).is_some_and(|slot| slot.seen.claim.uid == one.uid);
            let known = self.asking.waits.contains_key(&one.uid);
            if !there && !known && self.is_awaited(node, &one.uid) && self.asking.removed < REMOVED_MAX {
                self.asking.removed += 1;
                let (uid, nodes) = (one.uid.clone(), [node.clone()].into());
                let wait = Wait { awaited: one, nodes, claim: Waiting::Unseen, announced: true };
                self.asking.waits.insert(uid, wait);
            }
        }
        let over: Vec<Uid> = self
            .asking
            .waits
            .iter()
            .filter(|(uid, wait)| {
                let ended = match &wait.claim {
                    Waiting::Kept => return false,
                    Waiting::Removed(claim) => {
                        claim.reserved_for.iter().all(|user| self.has_ended(claim, user))
                    }
                    Waiting::Unseen => false,
                };
                wait.nodes.contains(node) && (ended || !self.is_awaited(node, uid))
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in over {
            let Some(wait) = self.asking.waits.get_mut(&uid) else { continue };
            wait.nodes.remove(node);
            if wait.nodes.is_empty() {
                self.asking.drop_wait(&uid);
            }
        }
    }

    fn has_ended(&self, claim: &ResourceClaim, user: &lazaret_model::Consumer) -> bool {
        let key =
            lazaret_model::ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
        let pod = self.tables.pods.get(&key).map(|slot| &slot.pod).filter(|pod| pod.uid == user.uid);
        pod.map_or_else(|| self.hearsay.ended.contains(&user.uid), |pod| is_done(pod))
    }

    /// What became of a question.
    pub(crate) fn asked(&mut self, now: Timestamp, node: &Text, uid: &Uid, outcome: Outcome) {
        let options = self.options.clone();
        let slot = self.asking.nodes.get_mut(node).filter(|slot| slot.report.uid == *uid);
        let Some(slot) = slot else { return };
        let meant_for = slot.in_flight.take();
        let newer = meant_for.is_none_or(|version| version != slot.report.version);
        match outcome {
            // The next news of the node say how it is now; they may have come already.
            Outcome::Done | Outcome::Gone | Outcome::Conflict if newer => slot.setback = Setback::default(),
            Outcome::Done | Outcome::Gone | Outcome::Conflict => slot.setback.wait_for_news(now, &options),
            Outcome::RetryLater | Outcome::Unknown => slot.setback.fail(now, &options),
        }
        self.touch(Item::Node(node.clone()));
    }
}
