//! Which nodes are asked about which claims, and when a wait is over.

use alloc::{collections::BTreeSet, format, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{Awaited, Consumer, ObjectKey, ResourceClaim, Text, Timestamp, Uid};

use crate::{
    Claims, SeenClaim,
    asking::{REMOVED_MAX, Wait, Waiting},
    effect::{AWAITING_REASON, AskNode, ClaimEvent, EffectKind, Outcome, RELEASED_REASON, WakeReason},
    flights::Flight,
    queue::Item,
    standing::{Inquiry, is_done},
    tables::Setback,
};

impl Claims {
    /// Asks whether a node reports of which nothing is heard, because of a pod or claim that is gone.
    pub(crate) fn confirm_node(&mut self, now: Timestamp, item: Item, node: Text, gone: Uid) {
        if self.flights.len() >= self.options.in_flight_max {
            self.queue.push_front(item);
            return;
        }
        let asked = (node.clone(), gone.clone());
        match self.asking.silent.inquire(&asked, now) {
            Inquiry::Ask => {
                self.flights
                    .launch(Flight::Silence { node: node.clone(), gone }, EffectKind::ConfirmNode(node));
            }
            // A pod may have had several claims there.
            Inquiry::Wait => {}
            Inquiry::AskAt(at) => return self.later(at, WakeReason::Retry, item),
        }
        self.asking.looked_for.entry(asked).or_default().insert(item);
    }

    /// A node that reports will be heard of, and is asked then.
    pub(crate) fn confirmed_node(&mut self, now: Timestamp, asked: (Text, Uid), outcome: Outcome) {
        match outcome {
            Outcome::Gone => self.asking.silent.is_gone(&asked),
            Outcome::Done
            | Outcome::Conflict
            | Outcome::Refused
            | Outcome::Held
            | Outcome::RetryLater
            | Outcome::Unknown => {
                let options = &self.options;
                self.asking.silent.failed(&asked, now, |failures| options.retry_ms(failures));
            }
        }
        let waiting = self.asking.looked_for.remove(&asked).unwrap_or_default();
        waiting.into_iter().for_each(|item| self.touch(item));
    }

    /// Takes note of where a claim was used by pods that vanished, as long as it names them, and of which of these nodes are waited for. A claim that lost its
    /// allocation names none, and is waited for until it is allocated anew.
    pub(crate) fn await_nodes(
        &mut self,
        now: Timestamp,
        seen: &SeenClaim,
        lost: &BTreeSet<Text>,
        awaited: &BTreeSet<Text>,
    ) {
        let uid = &seen.claim.uid;
        let is_kept = |wait: &Wait| matches!(wait.claim, Waiting::Kept);
        if self.asking.waits.get(uid).is_some_and(|wait| !is_kept(wait)) {
            if seen.claim.allocation.is_none() {
                return;
            }
            let nodes = self.asking.drop_wait(uid);
            nodes.into_iter().for_each(|node| self.touch(Item::Node(node)));
        }
        if lost.is_empty() {
            let nodes = self.asking.drop_wait(uid);
            nodes.into_iter().for_each(|node| self.touch(Item::Node(node)));
            return;
        }
        let mut touched = lost.clone();
        let awaited_now = Self::awaited(&seen.claim, Some(now));
        if let Some(wait) = self.asking.waits.get_mut(uid) {
            if wait.awaited.devices == awaited_now.devices {
                touched = wait.nodes.symmetric_difference(lost).cloned().collect();
            } else {
                touched.extend(wait.nodes.iter().cloned());
                wait.awaited = awaited_now;
            }
            wait.nodes.clone_from(lost);
        } else {
            let wait = Wait {
                awaited: awaited_now,
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
                Some((node, why)) => {
                    (RELEASED_REASON, format!("{}; released by force: {why}", wait.awaited.words(node)))
                }
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

    pub(crate) fn awaited(claim: &ResourceClaim, since: Option<Timestamp>) -> Awaited {
        Awaited {
            claim: claim.key.clone(),
            uid: claim.uid.clone(),
            devices: claim.allocation.iter().flat_map(|given| given.held_devices()).cloned().collect(),
            since: since.map(Timestamp::truncated_to_secs),
            released: None,
        }
    }

    pub(crate) fn look_at_node(&mut self, now: Timestamp, name: &Text) {
        self.settle_removed(now, name);
        let Some(slot) = self.asking.nodes.get(name) else { return };
        if slot.in_flight.is_some() {
            return;
        }
        if let Some(at) = slot.setback.hold(now) {
            self.later(at, WakeReason::Retry, Item::Node(name.clone()));
            return;
        }
        let wanted = self.asking.wanted(name);
        let Some(slot) = invariant!(self.asking.nodes.get_mut(name), "a node that is looked at is known")
        else {
            return;
        };
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
    fn settle_removed(&mut self, now: Timestamp, node: &Text) {
        // A list that this controller has replaced says nothing new.
        let report = self.asking.report(node).filter(|_| !self.asking.is_outdated(node));
        let listed: Vec<Awaited> = report.map(|report| report.awaiting.clone()).unwrap_or_default();
        for one in listed {
            let is_known = self.asking.waits.contains_key(&one.uid);
            if is_known || !self.asking.may_have_prepared(node, &one.uid, &one.uid) {
                continue;
            }
            let claim = self.tables.claims.get(&one.claim).map(|slot| &slot.seen);
            let there = claim.filter(|seen| seen.claim.uid == one.uid && seen.claim.allocation.is_some());
            let (claim, announced) = match there {
                // The controller before this one has asked. Whether its users are gone is being found out.
                Some(seen) if self.is_undecided(now, seen) => (Waiting::Kept, seen.awaiting.is_some()),
                Some(_) => continue,
                None if self.asking.removed < REMOVED_MAX => {
                    self.asking.removed += 1;
                    (Waiting::Unseen, true)
                }
                None => continue,
            };
            let (uid, key, nodes) = (one.uid.clone(), one.claim.clone(), [node.clone()].into());
            self.asking.waits.insert(uid, Wait { awaited: one, nodes, claim, announced });
            self.touch(Item::Claim(key));
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
                wait.nodes.contains(node) && (ended || !self.asking.may_have_prepared(node, uid, uid))
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in over {
            let Some(wait) = invariant!(self.asking.waits.get_mut(&uid), "a wait that was found is there")
            else {
                continue;
            };
            wait.nodes.remove(node);
            if wait.nodes.is_empty() {
                self.asking.drop_wait(&uid);
            }
        }
        if self.asking.word_of(node).is_none() {
            let removed = |wait: &&Wait| !matches!(wait.claim, Waiting::Kept) && wait.nodes.contains(node);
            let removed: Vec<Uid> =
                self.asking.waits.values().filter(removed).map(|wait| wait.awaited.uid.clone()).collect();
            for claim in removed {
                self.confirm_node(now, Item::Node(node.clone()), node.clone(), claim);
            }
        }
    }

    fn has_ended(&self, claim: &ResourceClaim, user: &Consumer) -> bool {
        let key = ObjectKey { namespace: claim.key.namespace.clone(), name: user.name.clone() };
        let pod = self.tables.pods.get(&key).map(|slot| &slot.pod).filter(|pod| pod.uid == user.uid);
        pod.map_or_else(|| self.asking.ended.contains(&user.uid), |pod| is_done(pod))
    }

    /// The outcome of a question to a node.
    pub(crate) fn asked(&mut self, now: Timestamp, node: &Text, uid: &Uid, outcome: Outcome) {
        let options = self.options.clone();
        let slot = self.asking.nodes.get_mut(node).filter(|slot| slot.report.uid == *uid);
        let Some(slot) = slot else { return };
        let meant_for = slot.in_flight.take();
        let newer = meant_for.as_ref().is_none_or(|version| *version != slot.report.version);
        if outcome == Outcome::Done {
            slot.outdated = meant_for;
        }
        match outcome {
            Outcome::Done | Outcome::Gone | Outcome::Conflict => {
                slot.setback = Setback::default();
                // The next news of the node say how it is now; they may have come already.
                if !newer {
                    slot.setback.wait_for_news(now, &options);
                }
            }
            Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                slot.setback.fail(now, &options);
            }
        }
        self.touch(Item::Node(node.clone()));
    }
}
