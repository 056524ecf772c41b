//! A policy with its rules by the keys of the signals that they mean: a signal is held against few of them.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Deref;

use lazaret_model::Text;

use crate::policy::Policy;

/// A policy, and which of its rules may mean a signal.
#[derive(Clone, Debug)]
pub(crate) struct IndexedPolicy {
    policy: Policy,
    /// Rules that mean signals of one key alone.
    by_key: BTreeMap<Text, Vec<usize>>,
    /// Rules that have to be asked about every signal.
    of_any_key: Vec<usize>,
}

impl IndexedPolicy {
    pub(crate) fn new(policy: Policy) -> Self {
        let (mut by_key, mut of_any_key) = (BTreeMap::<Text, Vec<usize>>::new(), Vec::new());
        for (index, rule) in policy.rules.iter().enumerate() {
            match rule.when.key() {
                Some(key) => by_key.entry(key.clone()).or_default().push(index),
                None => of_any_key.push(index),
            }
        }
        Self { policy, by_key, of_any_key }
    }

    /// The numbers of the rules that may mean a signal of this key.
    pub(crate) fn rules_about(&self, key: &Text) -> impl Iterator<Item = usize> {
        self.by_key.get(key).into_iter().flatten().chain(&self.of_any_key).copied()
    }
}

impl Deref for IndexedPolicy {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.policy
    }
}
