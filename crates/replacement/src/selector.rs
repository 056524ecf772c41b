//! Which pods a policy, or a replica set, means.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_model::Text;

/// Requirements on labels that must all hold. None at all: every pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Each must hold.
    pub all: Vec<(Text, Match)>,
}

/// What is required of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// One of these values.
    In(Vec<Text>),
    /// Absent, or another value.
    NotIn(Vec<Text>),
    /// Present.
    Exists,
    /// Absent.
    Absent,
}

impl Match {
    fn holds(&self, value: Option<&Text>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
        }
    }

    fn wants_presence(&self) -> bool {
        match self {
            Self::In(_) | Self::Exists => true,
            Self::NotIn(_) | Self::Absent => false,
        }
    }
}

impl Selector {
    /// Whether these labels are meant.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<Text, Text>) -> bool {
        self.all.iter().all(|(key, wanted)| wanted.holds(labels.get(key)))
    }

    /// The label whose absence alone makes a pod no longer meant. The template's hash if it is one, for nothing else
    /// selects by it.
    pub(crate) fn key_to_take_off(&self) -> Option<&Text> {
        let mut keys = self.all.iter().filter(|(_, wanted)| wanted.wants_presence()).map(|(key, _)| key);
        let first = keys.clone().next();
        keys.find(|key| **key == TEMPLATE_HASH).or(first)
    }
}

/// The label by which a deployment tells its replica sets apart.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Text, Text> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn all_requirements_hold_or_it_is_not_meant() {
        let selector = Selector {
            all: vec![
                ("app".into(), Match::In(vec!["a".into(), "b".into()])),
                ("tier".into(), Match::Exists),
                ("canary".into(), Match::Absent),
                ("zone".into(), Match::NotIn(vec!["z".into()])),
            ],
        };
        assert!(selector.matches(&labels(&[("app", "b"), ("tier", "")])));
        assert!(selector.matches(&labels(&[("app", "a"), ("tier", "x"), ("zone", "y")])));
        for wrong in [
            &[("app", "c"), ("tier", "x")][..],
            &[("app", "a")],
            &[("app", "a"), ("tier", "x"), ("canary", "")],
            &[("app", "a"), ("tier", "x"), ("zone", "z")],
            &[],
        ] {
            assert!(!selector.matches(&labels(wrong)), "{wrong:?}");
        }
        assert!(Selector::default().matches(&labels(&[])));
    }

    #[test]
    fn the_label_that_releases_a_pod() {
        let of = |keys: &[(&str, Match)]| Selector {
            all: keys.iter().map(|(key, wanted)| ((*key).into(), wanted.clone())).collect(),
        };
        let hash = of(&[("app", Match::Exists), (TEMPLATE_HASH, Match::In(vec!["5d".into()]))]);
        assert_eq!(hash.key_to_take_off().map(Text::as_str), Some(TEMPLATE_HASH));
        assert_eq!(of(&[("app", Match::Exists)]).key_to_take_off().map(Text::as_str), Some("app"));
        assert_eq!(of(&[("app", Match::Absent)]).key_to_take_off(), None);
    }
}
