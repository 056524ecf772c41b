//! Which rules an eviction is counted for.

use alloc::vec::Vec;

use lazaret_model::{Pod, Text, Timestamp, Uid};

use crate::{
    marks::marks_of,
    reason::{Reason, Source, due_of},
};

/// The rules that made a pod leave, or may have.
#[derive(Clone, Debug)]
pub(crate) struct Blame {
    /// Name and incarnation, in order, each once.
    pub(crate) rules: Vec<(Text, Uid)>,
    /// When the last of the decisions was made.
    pub(crate) decided: Timestamp,
    /// The attempts were for different rules.
    pub(crate) is_mixed: bool,
}

impl Blame {
    /// The rules among these reasons that were due when the decision was made.
    pub(crate) fn of(reasons: &[Reason], decided: Timestamp) -> Self {
        let rules = due_of(reasons, decided).iter().filter_map(|reason| match &reason.cause.source {
            Source::Rule { name, uid } => Some((name.clone(), uid.clone())),
            Source::Device { .. } | Source::TaintSlice { .. } | Source::Patch { .. } => None,
        });
        Self { rules: in_order(rules.collect()), decided, is_mixed: false }
    }

    /// The rules that a pod is marked with: of several attempts the one that took hold, whichever it was.
    pub(crate) fn of_marks(pod: &Pod, decided: Timestamp) -> Self {
        let rules = marks_of(pod).map(|mark| (mark.rule.clone(), mark.uid.clone()));
        Self { rules: in_order(rules.collect()), decided, is_mixed: false }
    }

    /// One more attempt that may have been why.
    pub(crate) fn or(mut self, other: Option<Self>) -> Self {
        if let Some(other) = other {
            self.is_mixed |= other.is_mixed || self.rules != other.rules;
            self.rules.extend(other.rules);
            self.rules = in_order(self.rules);
            self.decided = self.decided.max(other.decided);
        }
        self
    }
}

fn in_order(mut rules: Vec<(Text, Uid)>) -> Vec<(Text, Uid)> {
    rules.sort_unstable();
    rules.dedup();
    rules
}
