//! DeviceTaintRules of the cluster, beside the health policies that stand in the place of rules in the fleet.

use std::sync::Arc;

use lazaret_fleet::{Fleet, Input};
use lazaret_runtime::{Model, Object};
use lazaret_signals::{beside_policies, rule_name};

/// A rule is there, or has changed. One that cannot be understood taints nothing.
pub(super) fn rule(fleet: &mut Fleet, object: &Object) {
    fleet.apply(match object.model() {
        Ok(Model::Rule(rule)) => Input::Rule(Arc::new(beside_policies(rule))),
        Ok(_) | Err(_) => Input::RuleGone(rule_name(&object.key.name)),
    });
}

pub(super) fn rule_gone(fleet: &mut Fleet, name: &str) {
    fleet.apply(Input::RuleGone(rule_name(name)));
}
