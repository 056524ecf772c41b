//! The writes of rules and of the statuses of policies.

use alloc::{format, vec::Vec};

use lazaret_model::{Text, Uid};

use crate::{
    attempts::Write,
    wanted::{Owner, Wanted},
};

/// Something to be done.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// The kinds of effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Make a rule.
    Create(Wanted),
    /// Give a rule of this incarnation this taint.
    Retaint(Uid, Wanted),
    /// Delete a rule of this incarnation.
    Delete(Text, Uid),
    /// Say in a policy's status what it became.
    Report(Report),
}

/// The status of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The policy.
    pub policy: Owner,
    /// The generation of the policy that it reports on.
    pub generation: i64,
    /// How many rules it has, as the watch shows them.
    pub rules: usize,
    /// How many selected devices have none, because there are too many.
    pub left_out: usize,
    /// Names of its rules that rules of others have.
    pub taken: Vec<Text>,
    /// How many rules could not be written so far.
    pub overdue: usize,
}

impl Write for EffectKind {
    fn key(&self) -> Text {
        match self {
            Self::Create(rule) | Self::Retaint(_, rule) => rule.name.clone(),
            Self::Delete(name, _) => name.clone(),
            Self::Report(report) => status_of(&report.policy.name),
        }
    }

    fn is_unseen(&self) -> bool {
        matches!(self, Self::Report(_))
    }
}

/// The key of the status of a policy: no name of a rule has a slash.
pub(crate) fn status_of(policy: &Text) -> Text {
    format!("/{policy}").into()
}

/// The policy whose status has this key.
pub(crate) fn policy_of(key: &Text) -> Option<Text> {
    key.strip_prefix('/').map(Text::from)
}
