//! Turns: pods that had to give up claims try one after the other, while pods that need the same drivers start nothing new.
//!
//! Two pods that each hold what the other needs would otherwise give up and take again for ever. In its turn a pod finds all that
//! is not in use by pods that run, so a pod that can be placed is placed in its turn. Turns are taken in the order in which pods gave up,
//! end after a fixed time, and become rarer for a pod that could not use them: nobody waits for ever, and a pod that can never be placed
//! takes a share of the time that gets smaller.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    machine::{Item, Negotiator},
    slot::Turn,
};
use crate::{model::Pod, queue::WakeReason};

/// A turn is doubled at most this often: 16 times.
const TURN_DOUBLINGS_MAX: u32 = 4;
/// The time until the next turn of a pod is doubled at most this often: 64 times.
const PAUSE_DOUBLINGS_MAX: u32 = 6;

impl Negotiator {
    /// The pod whose turn it is, if it is another one that needs the same drivers.
    pub(super) fn turn_of_other(&self, pod: &Pod) -> Option<ObjectKey> {
        let turn = self.turn.as_ref().filter(|turn| turn.uid != pod.uid)?;
        let owner = self.objects.pods.get(&turn.pod)?;
        (!self.drivers_of(owner).is_disjoint(&self.drivers_of(pod))).then(|| turn.pod.clone())
    }

    pub(super) fn has_turn(&self, uid: &Uid) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.uid == *uid)
    }

    /// The drivers of a pod's claims; a class that does not exist stands for a driver of its own.
    fn drivers_of(&self, pod: &Pod) -> BTreeSet<Text> {
        let claims = pod.claim_keys();
        let claims = claims.iter().filter_map(|key| self.objects.claims.get(key));
        claims
            .map(|claim| {
                let class = self.objects.classes.get(&claim.spec.class_name);
                if claim.status.driver_name.is_empty() {
                    class.map_or(&claim.spec.class_name, |class| &class.driver_name).clone()
                } else {
                    claim.status.driver_name.clone()
                }
            })
            .collect()
    }

    /// It gave up a claim because it waited for others.
    pub(super) fn queue_for_turn(&mut self, now: Timestamp, pod: &ObjectKey, uid: &Uid) {
        let may = self.pods.get(pod).is_some_and(|slot| slot.turn_after.is_none_or(|after| after <= now));
        if may && !self.has_turn(uid) && !self.turn_queue.iter().any(|(_, queued)| queued == uid) {
            self.turn_queue.push_back((pod.clone(), uid.clone()));
            self.queue.push(Item::Turn);
        }
    }

    pub(super) fn look_at_turn(&mut self, now: Timestamp) {
        if let Some(turn) = &self.turn {
            if now < turn.until {
                let at = turn.until;
                return self.queue.later(at, WakeReason::Turn, Item::Turn);
            }
            let (pod, uid) = (turn.pod.clone(), turn.uid.clone());
            self.end_turn_of(now, &pod, &uid);
        }
        while let Some((pod, uid)) = self.turn_queue.pop_front() {
            let Some(slot) = self.pods.get_mut(&pod).filter(|slot| slot.uid == uid) else { continue };
            let doubled = self.options.turn_ms.saturating_mul(1 << slot.turns.min(TURN_DOUBLINGS_MAX));
            let until = now.plus_millis(doubled);
            slot.turns = slot.turns.saturating_add(1);
            slot.setback = Default::default();
            self.turn = Some(Turn { pod, uid, until });
            self.counters.turns += 1;
            self.queue.later(until, WakeReason::Turn, Item::Turn);
            // Those that hold something which they cannot use yet give it up.
            let pods: Vec<ObjectKey> = self.pods.keys().cloned().collect();
            pods.into_iter().for_each(|pod| self.queue.push(Item::Pod(pod)));
            return;
        }
    }

    /// If it is its turn, that is over, and those that waited for the end go on.
    pub(super) fn end_turn_of(&mut self, now: Timestamp, pod: &ObjectKey, uid: &Uid) {
        if !self.has_turn(uid) {
            return;
        }
        self.turn = None;
        if let Some(slot) = self.pods.get_mut(pod).filter(|slot| slot.uid == *uid) {
            let pause = self.options.turn_ms.saturating_mul(1 << slot.turns.min(PAUSE_DOUBLINGS_MAX));
            slot.turn_after = Some(now.plus_millis(pause));
            self.queue.push(Item::Pod(pod.clone()));
        }
        for pod in core::mem::take(&mut self.paused) {
            self.queue.push(Item::Pod(pod));
        }
        self.queue.push(Item::Turn);
    }
}
