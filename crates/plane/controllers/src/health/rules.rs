//! DeviceTaintRules of the cluster, beside the health policies that stand in the place of rules in the fleet.

use std::sync::Arc;

use lazaret_fleet::{Fleet, Input};
use lazaret_runtime::{Model, Object};
use lazaret_signals::{beside_policies, rule_name};

/// A rule is there, or has changed. A rule of which nothing can be read stays as it was known.
pub(super) fn rule(fleet: &mut Fleet, object: &Object) {
    if let Ok(Model::Rule(rule)) = object.model() {
        fleet.apply(Input::Rule(Arc::new(beside_policies(rule))));
    }
}

pub(super) fn rule_gone(fleet: &mut Fleet, name: &str) {
    fleet.apply(Input::RuleGone(rule_name(name)));
}
