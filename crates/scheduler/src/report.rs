//! Saying why a pod waits, where people look, but not more often than they can read.

use alloc::sync::Arc;

use lazaret_model::Text;

use crate::{
    Unscheduled,
    effect::{EffectKind, EventKind, SetPodCondition},
    machine::{Alarm, Scheduler},
    outbox::Purpose,
    why::Why,
};

// DEVIATION(scheduling-words): Kubernetes says it after every attempt, and of devices only that they cannot be had.
/// Of one pod something new is said at most this often: counts of nodes change all the time.
const PAUSE_MS: i64 = 5_000;

impl Scheduler {
    /// Remembers why a pod was not placed, and says so, unless it was said already. `nominated`: see
    /// [`SetPodCondition::nominated`].
    pub(crate) fn report(&mut self, ix: u32, why: Arc<Why>, message: &Text, nominated: Option<Text>) {
        let Some(entry) = self.pods.get_mut(ix) else { return };
        let reason = why.reason();
        entry.why = Some(why);
        let told = entry.told.as_ref().or(entry.pod.unscheduled.as_ref());
        let is_told = told.is_some_and(|told| told.message == *message && told.reason == *reason);
        if nominated.is_none() {
            if is_told {
                return;
            }
            let at = entry.told_at.plus_millis(PAUSE_MS);
            if self.now < at {
                return self.set_alarm(at, Alarm::Report(ix));
            }
        }
        entry.told = Some(Unscheduled { reason: reason.into(), message: message.clone() });
        entry.told_at = self.now;
        let pod = entry.pod.clone();
        self.tell(&pod, EventKind::FailedScheduling, message);
        let (key, uid, message) = (pod.key.clone(), pod.uid.clone(), message.clone());
        let condition = SetPodCondition { pod: key, uid, reason, message, at: self.now, nominated };
        self.outbox.push(EffectKind::SetPodCondition(condition), Purpose::Aside);
    }

    /// Says what there was no time for, if the pod still waits.
    pub(crate) fn report_again(&mut self, ix: u32) {
        let waits = self.leads && !self.flights.contains_key(&ix) && self.queue.place(ix).is_some();
        let Some(why) = self.pods.get(ix).and_then(|entry| entry.why.clone()).filter(|_| waits) else {
            return;
        };
        let message = why.message().into();
        self.report(ix, why, &message, None);
    }
}
