//! From what was found about a pod to its new plan.

use alloc::{boxed::Box, sync::Arc};

use lazaret_fleet::PodIx;
use lazaret_invariant::invariant;
use lazaret_model::{Pod, Timestamp};

use crate::{
    Eviction,
    distinct::for_each_distinct,
    effect::{EVENT_REASON, EffectKind, HELD_REASON, PodEvent},
    pods::{Permit, Phase},
    reason::Reason,
};

impl Eviction {
    /// Puts what was found in the place of what was known.
    pub(crate) fn adopt(&mut self, now: Timestamp, at: PodIx, pod: &Arc<Pod>) {
        let idle = self.found.is_empty() && self.found_would.is_empty();
        if idle && self.pods.get(at).is_none() {
            return;
        }
        let slot = self.pods.entry(at, pod);
        if *slot.would != self.found_would[..] {
            let new: Box<[u32]> = self.found_would[..].into();
            new.iter().for_each(|rule| self.rules.add_pod(*rule, &pod.key.namespace));
            let old = core::mem::replace(&mut slot.would, new);
            old.iter().for_each(|rule| self.rules.remove_pod(*rule, &pod.key.namespace));
        }
        if *slot.reasons != self.found[..] {
            // Nothing has room of its own only if it is asked for by that name.
            let new =
                if self.found.is_empty() { Arc::default() } else { self.found.drain(..).collect::<Arc<_>>() };
            let cancelled = new.is_empty() && !pod.phase.is_finished();
            if self.replan(now, at, new) && cancelled {
                self.say_spared(pod);
            }
        } else if self.groups.have(at) {
            self.regroup(now, at);
        }
        self.drop_if_blank(at);
    }

    /// Gives a pod new reasons. Returns whether it was waiting to be evicted and can be said to be spared if the new
    /// ones are none: an eviction that somebody has taken may still happen.
    fn replan(&mut self, now: Timestamp, at: PodIx, reasons: Arc<[Reason]>) -> bool {
        self.unschedule(at, now);
        self.retract(now, at);
        let blocked = self.unblock(at);
        self.link(at, &reasons);
        let spared = reasons.is_empty();
        let old = self.pods.replace_reasons(at, reasons);
        self.unlink(now, at, &old);
        self.regroup(now, at);
        let Some(slot) = invariant!(self.pods.get_mut(at), "a pod that is planned has a slot") else {
            return false;
        };
        if spared {
            slot.failures = 0;
            slot.not_before = None;
            (slot.permit, slot.asked_since) = (Permit::Always, None);
        }
        let waiting = slot.phase == Phase::Waiting;
        if blocked.is_some() && !spared {
            // The block may not apply to the new reasons.
            slot.not_before = None;
            self.set_blocked(at, blocked);
        }
        self.hold(now, at);
        self.schedule(at, now);
        waiting && !old.is_empty()
    }

    /// Puts the brake on a pod that is back where others of its owner had to leave.
    fn hold(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = invariant!(self.pods.get_mut(at), "a pod that is planned has a slot") else {
            return;
        };
        let before = slot.held_until.take();
        let Some(owner) = &slot.pod.owner else { return };
        let holds = slot
            .reasons
            .iter()
            .filter_map(|reason| Some((self.brake.hold(&self.options, &owner.uid, reason)?, reason)));
        let Some((hold, reason)) =
            holds.max_by_key(|(hold, _)| hold.until).filter(|(hold, _)| hold.until > now)
        else {
            return;
        };
        slot.held_until = Some(hold.until);
        if before == slot.held_until || self.leader_since.is_none() {
            return;
        }
        let message = alloc::format!(
            "Eviction is held until {} s from now: pods of {} {} were evicted from {} {} time(s) for this taint and placed there again. {reason}",
            (hold.until.as_millis() - now.as_millis()).div_euclid(1_000) + 1,
            owner.kind,
            owner.name,
            reason.device(),
            hold.times,
        );
        let event = PodEvent {
            pod: slot.pod.key.clone(),
            uid: slot.pod.uid.clone(),
            reason: HELD_REASON,
            message: message.into(),
        };
        self.flights.announce(EffectKind::Event(event), self.options.events_queued_max);
    }

    /// The pod has no reasons any more, or none that matter.
    pub(crate) fn unplan(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = self.pods.get_mut(at) else { return };
        if !slot.would.is_empty() {
            for rule in core::mem::take(&mut slot.would) {
                self.rules.remove_pod(rule, &slot.pod.key.namespace);
            }
        }
        if slot.reasons.is_empty() {
            // Then it waits for nothing, and nothing that could be withdrawn is in flight.
            slot.failures = 0;
            slot.not_before = None;
        } else {
            self.replan(now, at, Arc::default());
        }
    }

    fn link(&mut self, at: PodIx, reasons: &[Reason]) {
        let Some(slot) = invariant!(self.pods.get(at), "a pod that is planned has a slot") else { return };
        for_each_distinct(causes_of(reasons), |cause| {
            if let Some(rule) = self.causes.add_pod(cause) {
                self.rules.add_pod(rule, &slot.pod.key.namespace);
            }
        });
    }

    fn unlink(&mut self, now: Timestamp, at: PodIx, reasons: &[Reason]) {
        let Some(slot) = invariant!(self.pods.get(at), "a pod that is planned has a slot") else { return };
        for_each_distinct(causes_of(reasons), |cause| {
            if let Some(rule) = self.causes.remove_pod(cause, &mut self.paces, now) {
                self.rules.remove_pod(rule, &slot.pod.key.namespace);
            }
        });
    }

    /// Tells people that a pod need not leave after all, if it is ours to tell.
    pub(crate) fn say_spared(&mut self, pod: &Pod) {
        if self.leader_since.is_some() {
            let message = self.cancelling.clone();
            let event =
                PodEvent { pod: pod.key.clone(), uid: pod.uid.clone(), reason: EVENT_REASON, message };
            self.flights.announce(EffectKind::Event(event), self.options.events_queued_max);
        }
    }
}

fn causes_of(reasons: &[Reason]) -> impl Iterator<Item = u32> + Clone {
    reasons.iter().map(|reason| reason.cause_ix)
}
