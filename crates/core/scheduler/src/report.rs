//! Reports why a pod waits, where people look, but not more often than they can read.

use alloc::{boxed::Box, sync::Arc};

use lazaret_invariant::invariant;
use lazaret_model::Text;

use crate::{
    Unscheduled,
    condition_write::ConditionWrite,
    effect::{EffectId, EffectKind, EventKind, Outcome, SetPodCondition},
    outbox::Purpose,
    state::{PodEntry, Scheduler, TimerKey},
    why::PendingReason,
};

// DEVIATION(scheduling-words): Kubernetes says it after every attempt, and of devices only that they cannot be had.
/// A new condition of one pod is written at most this often: counts of nodes change all the time.
const PAUSE_MS: i64 = 5_000;

impl Scheduler {
    /// Remembers why a pod was not placed, and says so, unless it was said already. `nominated`: see
    /// [`SetPodCondition::nominated`].
    pub(crate) fn report(
        &mut self,
        ix: u32,
        why: Arc<PendingReason>,
        message: &Text,
        nominated: Option<Text>,
    ) {
        let Some(entry) = invariant!(self.pods.get_mut(ix), "the number of a pod leads to it") else {
            return;
        };
        let reason = why.reason();
        entry.why = Some(why);
        let reported = entry.reported.as_ref().or(entry.pod.unscheduled.as_ref());
        let is_reported =
            reported.is_some_and(|reported| reported.message == *message && reported.reason == *reason);
        if nominated.is_none() {
            if is_reported {
                return;
            }
            let at = entry.reported_at.plus_millis(PAUSE_MS);
            if self.now < at {
                return self.set_timer(at, TimerKey::Report(ix));
            }
        }
        entry.reported = Some(Unscheduled { reason: reason.into(), message: message.clone() });
        entry.reported_at = self.now;
        let pod = entry.pod.clone();
        self.post_event(&pod, EventKind::FailedScheduling, message);
        let (key, uid, message) = (pod.key.clone(), pod.uid.clone(), message.clone());
        self.write_condition(ix, SetPodCondition { pod: key, uid, reason, message, at: self.now, nominated });
    }

    /// Writes it, or writes it after the write in flight: of two writes in flight the first could come last, and room would be kept
    /// on a node for a pod that is nominated for another.
    fn write_condition(&mut self, ix: u32, mut condition: SetPodCondition) {
        let Some(entry) = invariant!(self.pods.get_mut(ix), "the number of a pod leads to it") else {
            return;
        };
        match entry.condition_write.take() {
            Some(mut condition_write) if condition_write.effect.is_some() => {
                let before = condition_write.next.take().and_then(|next| next.nominated);
                condition.nominated = condition.nominated.or(before);
                condition_write.next = Some(condition);
                entry.condition_write = Some(condition_write);
                return;
            }
            Some(failed) => condition.nominated = condition.nominated.or(failed.sent.nominated),
            None => {}
        }
        let effect = self.outbox.launch(Purpose::Say(ix), EffectKind::SetPodCondition(condition.clone()));
        entry.condition_write =
            Some(Box::new(ConditionWrite { effect: Some(effect), sent: condition, next: None }));
    }

    /// The node that is being written into the status of a pod as the one on which room is kept for it.
    pub(crate) fn nominated_in_write(&self, ix: u32) -> Option<Text> {
        let condition_write = self.pods.get(ix)?.condition_write.as_ref()?;
        condition_write
            .next
            .as_ref()
            .and_then(|next| next.nominated.clone())
            .or_else(|| condition_write.sent.nominated.clone())
    }

    /// The outcome of a write of the status. A nominated node is written again until that succeeds.
    pub(crate) fn condition_written(&mut self, ix: u32, effect: EffectId, outcome: Outcome) {
        let Some(entry) = self.pods.get_mut(ix) else { return };
        let Some(condition_write) =
            entry.condition_write.take_if(|condition_write| condition_write.effect == Some(effect))
        else {
            return;
        };
        let ConditionWrite { sent, next, .. } = *condition_write;
        let failed = !matches!(outcome, Outcome::Done | Outcome::Gone);
        match next {
            Some(mut next) => {
                let unheard = sent.nominated.filter(|_| failed);
                next.nominated = next.nominated.or(unheard);
                self.write_condition(ix, next);
            }
            None if failed && sent.nominated.is_some() => {
                entry.condition_write = Some(Box::new(ConditionWrite { effect: None, sent, next: None }));
                self.set_timer(self.now.plus_millis(PAUSE_MS), TimerKey::Report(ix));
            }
            None => {}
        }
    }

    /// Says what there was no time for, if the pod still waits.
    pub(crate) fn report_again(&mut self, ix: u32) {
        let failed = |entry: &mut PodEntry| {
            entry.condition_write.take_if(|condition_write| condition_write.effect.is_none())
        };
        if let Some(failed) = self.pods.get_mut(ix).and_then(failed).filter(|_| self.leads) {
            return self.write_condition(ix, failed.sent);
        }
        let waits = self.leads && !self.flights.contains_key(&ix) && self.queue.place(ix).is_some();
        let Some(why) = self.pods.get(ix).and_then(|entry| entry.why.clone()).filter(|_| waits) else {
            return;
        };
        let message = why.message().into();
        self.report(ix, why, &message, None);
    }
}
