//! DeviceTaintRules of the cluster, beside the health policies that stand in the place of rules in the fleet: they count as out of service what
//! they taint.

use std::sync::Arc;

use lazaret_api::HealthPolicy;
use lazaret_fleet::{Fleet, Input};
use lazaret_model::{DeviceTaintRule, Taint, Text};
use lazaret_runtime::{Model, Object};

/// The prefix of a rule's name in the fleet. No policy has such a name.
const PREFIX: &str = "rule/";

/// Whether a rule of the fleet is one of the cluster, and not a policy.
pub(super) fn is_rule(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn name_of(name: &str) -> Text {
    format!("{PREFIX}{name}").into()
}

/// A rule is there, or has changed. One that cannot be understood taints nothing.
pub(super) fn rule(fleet: &mut Fleet, object: &Object) {
    let name = name_of(&object.key.name);
    fleet.apply(match object.model() {
        Ok(Model::Rule(rule)) => {
            Input::Rule(Arc::new(DeviceTaintRule { name, ..DeviceTaintRule::clone(rule) }))
        }
        Ok(_) | Err(_) => Input::RuleGone(name),
    });
}

pub(super) fn rule_gone(fleet: &mut Fleet, name: &str) {
    fleet.apply(Input::RuleGone(name_of(name)));
}

/// Whom a policy means, as a rule of the fleet that taints nothing.
pub(super) fn selection(policy: &HealthPolicy) -> DeviceTaintRule {
    DeviceTaintRule {
        name: policy.policy.name.clone(),
        generation: policy.generation,
        selector: Some(policy.selector.clone()),
        taint: Taint { key: "lazaret.dev/selected".into(), ..Taint::default() },
        ..DeviceTaintRule::default()
    }
}
