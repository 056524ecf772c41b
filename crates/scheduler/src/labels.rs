//! Labels, and selectors of whatever carries them.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_model::{Operator, Requirement, Text};

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
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| holds(requirement, labels.get(&requirement.key)))
    }
}

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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn operators() {
        let labels: Labels = [("app".into(), "web".into())].into();
        for (key, operator, values, expected) in [
            ("app", Operator::In, vec!["web", "db"], true),
            ("app", Operator::In, vec!["db"], false),
            ("tier", Operator::In, vec!["db"], false),
            ("app", Operator::NotIn, vec!["web"], false),
            ("tier", Operator::NotIn, vec!["web"], true),
            ("app", Operator::Exists, vec![], true),
            ("tier", Operator::Exists, vec![], false),
            ("app", Operator::DoesNotExist, vec![], false),
            ("tier", Operator::DoesNotExist, vec![], true),
            ("app", Operator::Gt, vec!["1"], false),
            ("app", Operator::Unknown("Like".into()), vec!["web"], false),
        ] {
            let values = values.into_iter().map(Text::from).collect();
            let requirement = Requirement { key: key.into(), operator, values };
            let selector = LabelSelector { requirements: vec![requirement.clone()] };
            assert_eq!(selector.matches(&labels), expected, "{requirement:?}");
        }
        assert!(LabelSelector::default().matches(&Labels::new()), "nothing is required");
    }
}
