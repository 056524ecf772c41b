//! Health policies in the place of rules, beside the rules of the cluster.

use alloc::format;

use lazaret_fleet::{Fleet, Origin};
use lazaret_model::{DeviceId, DeviceSelector, DeviceTaintRule, Taint, Text};

/// The prefix of a rule's name in the fleet. No policy has such a name.
const PREFIX: &str = "rule/";

/// Whether a rule of the fleet is one of the cluster, and not a policy.
pub(crate) fn is_rule(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether a policy selects a device.
pub(crate) fn is_selected(fleet: &Fleet, id: &DeviceId) -> bool {
    fleet.effective_taints(id).any(|one| matches!(one.origin, Origin::Rule { name, .. } if !is_rule(name)))
}

/// The name of a rule of the cluster in the fleet.
#[must_use]
pub fn rule_name(name: &str) -> Text {
    format!("{PREFIX}{name}").into()
}

/// A rule of the cluster, for the fleet: it counts as out of service what it taints.
#[must_use]
pub fn beside_policies(rule: &DeviceTaintRule) -> DeviceTaintRule {
    DeviceTaintRule { name: rule_name(&rule.name), ..rule.clone() }
}

/// The devices of a policy, as a rule of the fleet that taints nothing.
#[must_use]
pub fn selection(policy: Text, generation: i64, selector: DeviceSelector) -> DeviceTaintRule {
    DeviceTaintRule {
        name: policy,
        generation,
        selector: Some(selector),
        taint: Taint { key: "lazaret.dev/selected".into(), ..Taint::default() },
        ..DeviceTaintRule::default()
    }
}
