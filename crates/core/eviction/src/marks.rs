//! The record of an eviction on a pod: the rules that it was for. A field of the pod, not the text of a condition.

use alloc::vec::Vec;

use lazaret_model::{Condition, ConditionStatus, EvictionMark, Pod, Text, Timestamp, Uid};

use crate::reason::{DELETION_BY_TAINT, DISRUPTION_TARGET, EVICTION_BY_API, Reason, Source};

/// The rules that a pod is marked as evicted for (name and UID), and when. Empty for a pod that was not marked by an eviction of this
/// project: whoever may write a pod may write its annotations, but the condition takes the right to write its status.
pub fn marks_of(pod: &Pod) -> impl Iterator<Item = Mark<'_>> {
    let evicted = |condition: &Condition| {
        condition.kind == DISRUPTION_TARGET
            && condition.status == ConditionStatus::True
            // The eviction API writes its own words over ours.
            && (condition.reason == DELETION_BY_TAINT || condition.reason == EVICTION_BY_API)
    };
    let mark = pod.evicted_by.as_deref().filter(|_| pod.conditions.iter().any(evicted));
    mark.into_iter().flat_map(|mark| mark.rules.iter().map(|(rule, uid)| Mark { rule, uid, at: mark.at }))
}

/// The mark of an eviction that was decided at an instant for these reasons, all of them due. Each rule once.
pub(crate) fn mark_of(due: &[Reason], at: Timestamp) -> EvictionMark {
    let mut rules: Vec<(Text, Uid)> = Vec::new();
    for reason in due {
        if let Source::Rule { name, uid } = &reason.cause.source
            && rules.len() < EvictionMark::RULES_MAX
            && !rules.iter().any(|(_, known)| known == uid)
        {
            rules.push((name.clone(), uid.clone()));
        }
    }
    EvictionMark { at, rules }
}

/// A rule that a pod is marked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// The rule's name.
    pub rule: &'a Text,
    /// The rule's incarnation.
    pub uid: &'a Uid,
    /// When the eviction was decided.
    pub at: Timestamp,
}
