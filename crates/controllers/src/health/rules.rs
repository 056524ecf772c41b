//! DeviceTaintRules of the cluster, beside the health policies that stand in the place of rules in the fleet: they count as out of service what
//! they taint.

use std::sync::Arc;

use lazaret_fleet::{Fleet, Input};
use lazaret_model::DeviceTaintRule;
use lazaret_runtime::{Model, Object};
use lazaret_signals::rule_name;

/// A rule is there, or has changed. One that cannot be understood taints nothing.
pub(super) fn rule(fleet: &mut Fleet, object: &Object) {
    let name = rule_name(&object.key.name);
    fleet.apply(match object.model() {
        Ok(Model::Rule(rule)) => {
            Input::Rule(Arc::new(DeviceTaintRule { name, ..DeviceTaintRule::clone(rule) }))
        }
        Ok(_) | Err(_) => Input::RuleGone(name),
    });
}

pub(super) fn rule_gone(fleet: &mut Fleet, name: &str) {
    fleet.apply(Input::RuleGone(rule_name(name)));
}
