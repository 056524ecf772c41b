//! Labels, and selectors of objects by their labels.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use crate::{Operator, Requirement, Text};

/// Labels by key.
pub type Labels = BTreeMap<Text, Text>;

/// Requirements that must all hold; without any, everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// On labels. Only `In`, `NotIn`, `Exists` and `DoesNotExist` can hold.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether everything matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether these labels match.
    #[must_use]
    #[inline]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| holds(requirement, labels.get(&requirement.key)))
    }

    /// Further requires that a label has this value.
    pub fn require(&mut self, key: impl Into<Text>, value: impl Into<Text>) {
        self.requirements.push(Requirement {
            key: key.into(),
            operator: Operator::In,
            values: vec![value.into()],
        });
    }
}

#[inline]
fn holds(requirement: &Requirement, label: Option<&Text>) -> bool {
    let listed = || label.is_some_and(|label| requirement.values.contains(label));
    match requirement.operator {
        Operator::In => listed(),
        Operator::NotIn => !listed(),
        Operator::Exists => label.is_some(),
        Operator::DoesNotExist => label.is_none(),
        Operator::Gt | Operator::Lt | Operator::Unknown(_) => false,
    }
}
