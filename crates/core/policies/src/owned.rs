//! The rules that policies own, as the watch shows them.

use alloc::collections::{BTreeMap, BTreeSet};

use lazaret_model::{DeviceSelector, Effect as TaintEffect, Text, Uid};

use crate::wanted::{Owner, Wanted};

/// A rule of Kubernetes that a policy owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Its policy.
    pub owner: Owner,
    /// Its selector.
    pub selector: DeviceSelector,
    /// The key of its taint.
    pub key: Text,
    /// The value of its taint.
    pub value: Text,
    /// The effect of its taint.
    pub effect: TaintEffect,
}

impl Owned {
    /// A rule of another incarnation of the policy, or with another selector, is not changed but made again.
    pub(crate) fn is_same_object(&self, wanted: &Wanted) -> bool {
        self.owner == wanted.owner && self.selector == wanted.selector
    }

    pub(crate) fn has_taint(&self, wanted: &Wanted) -> bool {
        (&self.key, &self.value, &self.effect) == (&wanted.key, &wanted.value, &wanted.effect)
    }
}

/// All of them, by name and by policy.
#[derive(Debug, Default)]
pub(crate) struct OwnedRules {
    rules: BTreeMap<Text, Owned>,
    of: BTreeMap<Text, BTreeSet<Text>>,
}

impl OwnedRules {
    pub(crate) fn get(&self, name: &Text) -> Option<&Owned> {
        self.rules.get(name)
    }

    /// Those of a policy, whichever of its incarnations.
    pub(crate) fn of(&self, policy: &Text) -> impl Iterator<Item = &Owned> {
        self.of.get(policy).into_iter().flatten().filter_map(|name| self.rules.get(name))
    }

    /// The policies that own some.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Text> {
        self.of.keys()
    }

    pub(crate) fn set(&mut self, rule: Owned) {
        self.remove(&rule.name);
        self.of.entry(rule.owner.name.clone()).or_default().insert(rule.name.clone());
        self.rules.insert(rule.name.clone(), rule);
    }

    pub(crate) fn remove(&mut self, name: &Text) {
        let Some(rule) = self.rules.remove(name) else { return };
        if let Some(names) = self.of.get_mut(&rule.owner.name) {
            names.remove(name);
            if names.is_empty() {
                self.of.remove(&rule.owner.name);
            }
        }
    }
}
