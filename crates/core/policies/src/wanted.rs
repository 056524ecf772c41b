//! The rules that one policy needs.

use alloc::{collections::BTreeSet, format, vec::Vec};

use lazaret_fleet::Fleet;
use lazaret_model::{ConditionStatus, DeviceId, DeviceSelector, DeviceTaintRule, Effect, Text, Uid};

/// Rules of one policy. Every scheduler and every controller evaluates each of them against each device, so there cannot be one for each device
/// of a large cluster.
pub const RULES_PER_POLICY_MAX: usize = 256;
/// Bytes of a name for the name of its owner: 253, less a dash and 16 digits.
const NAME_BYTES_MAX: usize = 236;
/// The condition of a policy that says whether its devices are idle.
const DRAINED: &str = "Drained";

/// The policy that a rule belongs to, or the patch that a policy belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
}

/// A rule as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name, which follows from its policy and what it selects.
    pub name: Text,
    /// Whose it is.
    pub owner: Owner,
    /// Its selector, by names alone.
    pub selector: DeviceSelector,
    /// The key of its taint.
    pub key: Text,
    /// The value of its taint.
    pub value: Text,
    /// The effect of its taint.
    pub effect: Effect,
}

/// The rules of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its rules, by name.
    pub rules: Vec<Wanted>,
    /// Devices that are selected and have no rule.
    pub left_out: usize,
}

/// The rules of a policy that is among the rules of this fleet.
#[must_use]
pub fn compile(fleet: &Fleet, policy: &DeviceTaintRule) -> Compiled {
    // It is held, has expired, or selects nothing.
    let Some(selector) = policy.active_selector() else { return Compiled { rules: Vec::new(), left_out: 0 } };
    if selector.by_names_only() {
        // Kubernetes has the same selector, and devices that come later are selected at once.
        return Compiled { rules: Vec::from([wanted(policy, selector.clone())]), left_out: 0 };
    }
    let selection = fleet.rule_selection(&policy.name);
    let published = selection.published().map(|device| device.id());
    // A device that is held and not published comes back with its taint.
    let devices: BTreeSet<DeviceId> =
        published.chain(selection.unpublished().map(|(device, _)| device)).collect();
    let mut rules: Vec<Wanted> = devices
        .iter()
        .take(RULES_PER_POLICY_MAX)
        .map(|device| {
            let selector = DeviceSelector {
                driver: Some(device.driver.clone()),
                pool: Some(device.pool.clone()),
                device: Some(device.device.clone()),
                ..DeviceSelector::default()
            };
            wanted(policy, selector)
        })
        .collect();
    rules.sort_by(|one, other| one.name.cmp(&other.name));
    Compiled { left_out: devices.len() - rules.len(), rules }
}

fn wanted(policy: &DeviceTaintRule, selector: DeviceSelector) -> Wanted {
    Wanted {
        name: rule_name(&policy.name, &selector),
        owner: Owner { name: policy.name.clone(), uid: policy.uid.clone() },
        selector,
        key: policy.taint.key.clone(),
        value: policy.taint.value.clone(),
        effect: effect(policy),
    }
}

/// Kubernetes evicts for `NoExecute` at once: a rule has it only when no pod is left to evict.
fn effect(policy: &DeviceTaintRule) -> Effect {
    let is_idle = policy.conditions.iter().any(|condition| {
        condition.kind == DRAINED
            && condition.status == ConditionStatus::True
            && condition.observed_generation == policy.generation
    });
    let effect = &policy.taint.effect;
    if *effect == Effect::NoExecute && !is_idle { Effect::NoSchedule } else { effect.clone() }
}

/// The name of a policy's rule for a selector: the policy's, and a digest of what is selected.
#[must_use]
pub fn rule_name(policy: &str, selector: &DeviceSelector) -> Text {
    let part = |name: &Option<Text>| name.clone().unwrap_or_default();
    let text =
        format!("{}\n{}/{}/{}", policy, part(&selector.driver), part(&selector.pool), part(&selector.device));
    name_with_digest(policy, &text)
}

/// A name that begins with its owner's and tells apart what the text does.
pub(crate) fn name_with_digest(owner: &str, text: &str) -> Text {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    // Names of objects are ASCII.
    let stem = owner.get(..NAME_BYTES_MAX).unwrap_or(owner).trim_end_matches(['.', '-']);
    format!("{stem}-{digest:016x}").into()
}
