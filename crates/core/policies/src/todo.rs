//! The writes that are to be sent, in order: devices are tainted before others are freed, and both before a status says so.

use alloc::collections::BTreeMap;

use lazaret_model::Text;

use crate::effect::{EffectKind, Report};

/// The writes that are to be sent.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    /// Writes that make a rule as it is wanted, by the rule's name.
    pub(crate) rules: BTreeMap<Text, EffectKind>,
    /// Deletions of rules that are not wanted, by the rule's name.
    pub(crate) deletions: BTreeMap<Text, EffectKind>,
    /// By the policy's name.
    pub(crate) reports: BTreeMap<Text, Report>,
}

impl Todo {
    pub(crate) fn pop(&mut self) -> Option<EffectKind> {
        let rule = self.rules.pop_first().or_else(|| self.deletions.pop_first()).map(|(_, write)| write);
        rule.or_else(|| self.reports.pop_first().map(|(_, report)| EffectKind::Report(report)))
    }

    /// The writes of a rule are decided again.
    pub(crate) fn forget(&mut self, rule: &Text) {
        self.rules.remove(rule);
        self.deletions.remove(rule);
    }
}
