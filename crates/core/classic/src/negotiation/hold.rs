//! Claims that are allocated for a pod which cannot use them: they are given up, one at a time.

use alloc::{sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_machine::Backoff;
use lazaret_model::{ObjectKey, Timestamp};

use super::{effect::Waiting, machine::Negotiator};
use crate::{
    model::{AllocationMode, ClaimUse, Phase, Pod, ResourceClaim},
    queue::WakeReason,
    write::Ready,
};

/// Patience with a driver that is working is doubled at most this often: 16 times.
const PATIENCE_DOUBLINGS_MAX: u32 = 4;
/// How long a pod asks for nothing after it gave up what it held.
const PAUSE: Backoff = Backoff::new(1_000, 300_000);

impl Negotiator {
    pub(super) fn hold(&mut self, now: Timestamp, pod: &Pod, waiting: &Waiting) {
        if matches!(waiting, Waiting::Deallocation(_)) {
            return;
        }
        let held = self.held(pod);
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        if held.is_empty() {
            slot.holding_since = None;
            return;
        }
        let since = *slot.holding_since.get_or_insert(now);
        let in_the_way: Vec<_> = match waiting {
            Waiting::NoNode(causes) => held.iter().filter(|claim| causes.contains(&claim.key)).collect(),
            Waiting::New
            | Waiting::Missing(_)
            | Waiting::Foreign(_)
            | Waiting::Deleting(_)
            | Waiting::Deallocation(_)
            | Waiting::Immediate(_)
            | Waiting::Candidates
            | Waiting::OtherPod(_)
            | Waiting::Drivers(_)
            | Waiting::Backoff
            | Waiting::Full(_)
            | Waiting::Write(_)
            | Waiting::Binding => Vec::new(),
        };
        let patience_ms = match waiting {
            Waiting::Drivers(_) | Waiting::Immediate(_) => {
                self.options.driver_patience_ms.saturating_mul(1 << slot.given_up.min(PATIENCE_DOUBLINGS_MAX))
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
            | Waiting::Binding => self.options.patience_ms,
        };
        if let Some(first) = in_the_way.first() {
            return self.deallocate(now, pod, first);
        }
        // A pod that pauses has begun to give up what it holds, and goes on.
        let until = if slot.paused_until.is_some_and(|until| now < until) {
            now
        } else {
            since.plus_millis(patience_ms)
        };
        if now < until {
            return self.queue.later(until, WakeReason::Patience, pod.key.clone());
        }
        self.deallocate(now, pod, &held[0]);
    }

    /// Claims of a pod that are allocated and have no user, and that are for this pod to give up: it negotiated about them, or no pod did and it is
    /// the first of those that wait. Claims that are allocated immediately stay: their driver decides.
    fn held(&self, pod: &Pod) -> Vec<Arc<ResourceClaim>> {
        let usable = |key: &ObjectKey| {
            let claim: &Arc<ResourceClaim> = self.objects.claims.get(key)?;
            let foreign = |entry: &crate::model::PodClaim| {
                entry.claim_name(pod).as_ref() == Some(&claim.key.name)
                    && entry.may_use(pod, claim) == ClaimUse::Foreign
            };
            let users = || self.objects.users_of(key).into_iter();
            let owner = match self.negotiator_of(key) {
                Some((negotiator, _)) => Some(negotiator.clone()),
                None => users().find(|user| self.pods.contains_key(user)),
            };
            let held = claim.spec.mode == AllocationMode::Delayed
                && claim.status.phase == Phase::Allocated
                && claim.status.reserved_for.is_empty()
                && !claim.deleting
                && owner.as_ref() == Some(&pod.key)
                && !pod.claims.iter().any(foreign);
            held.then(|| claim.clone())
        };
        pod.claim_keys().iter().filter_map(usable).collect()
    }

    /// Requests that a claim is deallocated, and has the pod pause.
    fn deallocate(&mut self, now: Timestamp, pod: &Pod, claim: &Arc<ResourceClaim>) {
        match self.claim_slot(claim).writer.ready(now, &claim.version) {
            Ready::Now => {}
            Ready::InFlight => return,
            Ready::At(at, why) => return self.queue.later(at, why, pod.key.clone()),
        }
        self.claim_slot(claim).negotiator = None;
        self.change(claim, |status| status.phase = Phase::Reallocate);
        self.counters.deallocations += 1;
        let Some(slot) = invariant!(self.pods.get_mut(&pod.key), "a pod that is looked at has a slot") else {
            return;
        };
        if slot.paused_until.is_some_and(|until| now < until) {
            return;
        }
        slot.given_up = slot.given_up.saturating_add(1);
        let held_ms = slot.holding_since.map_or(0, |since| now.millis_since(since));
        let pause_ms = PAUSE.after(slot.given_up).max(held_ms);
        let until = now.plus_millis(pause_ms.saturating_add(jitter_ms(pod, slot.given_up, pause_ms)));
        slot.paused_until = Some(until);
        self.counters.given_up += 1;
        self.queue.later(until, WakeReason::Retry, pod.key.clone());
    }
}

/// From nothing to as long as the pause, another one for each pod and each time.
fn jitter_ms(pod: &Pod, time: u32, pause_ms: i64) -> i64 {
    // FNV-1a.
    let bytes = pod.uid.bytes().chain(time.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let thousandth = i64::try_from((hash >> 17) % 1_000).unwrap_or(0);
    pause_ms / 1_000 * thousandth
}
