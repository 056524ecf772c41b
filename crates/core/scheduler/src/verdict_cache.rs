//! A cache of verdicts on pods that fit nowhere, so that equal pods need not be tried: a workload that does not
//! fit has many pods that do not, and an event that wakes one of them wakes them all.
//!
//! A verdict holds until something happens that could help, of the kinds that the pod waits for. Taking
//! up room or devices helps no pod; a new neighbour may, and counts as happening.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use lazaret_model::{ClaimSpec, Text};

use crate::{
    Pod,
    causes::{Cause, Causes},
    needs::Needs,
    why::PendingReason,
};

/// Bound on the kinds of pods in the cache; the oldest is removed.
const KINDS_MAX: usize = 64;

/// The cached verdicts.
#[derive(Debug, Default)]
pub(crate) struct VerdictCache {
    /// How often something of each kind happened.
    happened: [u64; Cause::ALL.len()],
    found: VecDeque<CachedVerdict>,
}

#[derive(Debug)]
struct CachedVerdict {
    pod: Arc<Pod>,
    claims: Vec<Arc<ClaimSpec>>,
    why: Arc<PendingReason>,
    message: Text,
    happened: [u64; Cause::ALL.len()],
}

impl VerdictCache {
    /// Something happened that can help pods which wait for it.
    pub(crate) fn note(&mut self, cause: Cause) {
        self.happened[cause as usize] += 1;
    }

    /// How often something of each kind happened.
    pub(crate) fn happened(&self) -> [u64; Cause::ALL.len()] {
        self.happened
    }

    /// Whether something of these kinds has happened since then.
    pub(crate) fn has_happened(&self, causes: Causes, since: &[u64; Cause::ALL.len()]) -> bool {
        causes.iter().any(|cause| self.happened[cause as usize] != since[cause as usize])
    }

    /// Why a pod that is like this one fits nowhere, if that is still so. `by_labels`: whether some pod keeps others
    /// away by their labels.
    pub(crate) fn recall(
        &self,
        pod: &Pod,
        needs: &Needs,
        by_labels: bool,
    ) -> Option<(Arc<PendingReason>, Text)> {
        let by_labels = by_labels || !pod.spec.affinity.is_empty() || !pod.spec.spread.is_empty();
        let is_like = |finding: &&CachedVerdict| {
            finding.pod.spec == pod.spec
                && finding.pod.classic == pod.classic
                && (!by_labels || finding.pod.labels == pod.labels)
                && finding.pod.key.namespace == pod.key.namespace
                && finding.claims.len() == needs.claims.len()
                && finding.claims.iter().zip(&needs.claims).all(|(known, claim)| *known == claim.claim.spec)
        };
        if needs.allocations.iter().any(Option::is_some) {
            return None;
        }
        let finding = self.found.iter().find(is_like).filter(|finding| self.holds(finding))?;
        Some((finding.why.clone(), finding.message.clone()))
    }

    /// The pod fits nowhere.
    pub(crate) fn remember(
        &mut self,
        pod: &Arc<Pod>,
        needs: &Needs,
        why: &Arc<PendingReason>,
        message: &Text,
    ) {
        if needs.allocations.iter().any(Option::is_some) {
            return;
        }
        let happened = self.happened;
        let is_current = |finding: &CachedVerdict| {
            finding
                .why
                .causes()
                .iter()
                .all(|cause| finding.happened[cause as usize] == happened[cause as usize])
        };
        self.found.retain(is_current);
        if self.found.len() == KINDS_MAX {
            self.found.pop_front();
        }
        let claims = needs.claims.iter().map(|claim| claim.claim.spec.clone()).collect();
        let (why, message) = (why.clone(), message.clone());
        self.found.push_back(CachedVerdict { pod: pod.clone(), claims, why, message, happened });
    }

    fn holds(&self, finding: &CachedVerdict) -> bool {
        let same = |cause: Cause| finding.happened[cause as usize] == self.happened[cause as usize];
        finding.why.causes().iter().all(same)
    }
}
