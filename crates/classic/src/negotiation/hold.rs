//! Claims that are allocated for a pod which cannot use them: one at a time is given up.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Timestamp};

use super::{
    effect::Waiting,
    machine::{Item, Negotiator},
};
use crate::{
    model::{AllocationMode, ClaimUse, Phase, Pod, ResourceClaim},
    queue::WakeReason,
    write::Ready,
};

/// Patience with a driver that is working is doubled at most this often: 64 times.
const PATIENCE_DOUBLINGS_MAX: u32 = 6;

impl Negotiator {
    pub(super) fn hold(&mut self, now: Timestamp, pod: &Pod, waiting: &Waiting) {
        if matches!(waiting, Waiting::Deallocation(_)) {
            return;
        }
        let held = self.held(pod);
        let turn_until = self.turn.as_ref().filter(|turn| turn.uid == pod.uid).map(|turn| turn.until);
        let options = self.options.clone();
        let Some(slot) = self.slot_mut(pod) else { return };
        if held.is_empty() {
            slot.holding_since = None;
            return;
        }
        if let Waiting::NoNode(causes) = waiting {
            let in_the_way: Vec<_> =
                held.iter().filter(|claim| causes.contains(&claim.key)).cloned().collect();
            if !in_the_way.is_empty() {
                if now < slot.setback.until {
                    let at = slot.setback.until;
                    return self.queue.later(at, WakeReason::Retry, Item::Pod(pod.key.clone()));
                }
                self.deallocate(now, pod, &in_the_way);
                return;
            }
        }
        let since = *slot.holding_since.get_or_insert(now);
        let patience_ms = match waiting {
            Waiting::Turn(_) => 0,
            Waiting::Drivers(_) | Waiting::Immediate(_) => {
                options.driver_patience_ms.saturating_mul(1 << slot.given_up.min(PATIENCE_DOUBLINGS_MAX))
            }
            Waiting::New
            | Waiting::Missing(_)
            | Waiting::Foreign(_)
            | Waiting::Deleting(_)
            | Waiting::Deallocation(_)
            | Waiting::Candidates
            | Waiting::NoNode(_)
            | Waiting::OtherPod(_)
            | Waiting::Backoff
            | Waiting::Full(_)
            | Waiting::Write(_)
            | Waiting::Binding => options.patience_ms,
        };
        let until = turn_until.unwrap_or_else(|| since.plus_millis(patience_ms));
        if now < until {
            return self.queue.later(until, WakeReason::Patience, Item::Pod(pod.key.clone()));
        }
        if self.deallocate(now, pod, &held) {
            self.counters.given_up += 1;
            self.queue_for_turn(now, &pod.key, &pod.uid);
        }
    }

    /// Claims of a pod that are allocated for nobody yet, and about which no other pod negotiates. Those that are allocated
    /// immediately stay: their driver decides.
    fn held(&self, pod: &Pod) -> Vec<Arc<ResourceClaim>> {
        let usable = |key: &ObjectKey| {
            let claim: &Arc<ResourceClaim> = self.objects.claims.get(key)?;
            let foreign = |entry: &crate::model::PodClaim| {
                entry.claim_name(pod).as_ref() == Some(&claim.key.name)
                    && entry.may_use(pod, claim) == ClaimUse::Foreign
            };
            let other = self.negotiator_of(key).is_some_and(|(other, _)| *other != pod.key);
            let held = claim.spec.mode == AllocationMode::Delayed
                && claim.status.phase == Phase::Allocated
                && claim.status.reserved_for.is_empty()
                && !claim.deleting
                && !other
                && !pod.claims.iter().any(foreign);
            held.then(|| claim.clone())
        };
        pod.claim_keys().iter().filter_map(usable).collect()
    }

    /// Requests that one of these claims is deallocated, another one each time. Returns whether it was.
    fn deallocate(&mut self, now: Timestamp, pod: &Pod, claims: &[Arc<ResourceClaim>]) -> bool {
        let retry = self.options.retry.clone();
        let Some(slot) = self.slot_mut(pod) else { return false };
        let turn = usize::try_from(slot.given_up).unwrap_or(0);
        let claim = &claims[turn % claims.len()];
        match self.claim_slot(claim).writer.ready(now, &claim.version) {
            Ready::Now => {}
            Ready::InFlight => return false,
            Ready::At(at, why) => {
                self.queue.later(at, why, Item::Pod(pod.key.clone()));
                return false;
            }
        }
        self.claim_slot(claim).negotiator = None;
        self.change(claim, |status| status.phase = Phase::Reallocate);
        self.counters.deallocations += 1;
        if let Some(slot) = self.slot_mut(pod) {
            slot.given_up = slot.given_up.saturating_add(1);
            slot.setback.fail(now, &retry);
        }
        true
    }
}
