//! The words of a rule's status: the condition `EvictionInProgress` in Kubernetes' shapes, and `Drained`. Words are for people: what has to
//! survive is in fields.

use alloc::string::String;
#[cfg(test)]
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use lazaret_model::{Condition, ConditionStatus, DeviceTaintRule, Effect, EvictionCount, Text};

use crate::{block::Block, effect::RuleStatus, holds::Held};

/// The type of the condition.
pub const EVICTION_IN_PROGRESS: &str = "EvictionInProgress";
/// The type of the condition that says whether the selected devices are idle.
pub const DRAINED: &str = "Drained";
/// The type of the condition that says what keeps pods from being evicted.
pub const EVICTION_BLOCKED: &str = "EvictionBlocked";
/// Its reason when nothing does any more.
const NOT_BLOCKED: &str = "NotBlocked";
/// The reason of `EvictionInProgress` of a rule that a DeviceTaintPolicy controls: pods are evicted because of the policy, and counted there.
const BY_POLICY: &str = "ByPolicy";
/// The reason of a condition that was not verified when its controller ended.
const NOT_VERIFIED: &str = "NotVerified";
/// Longer problems are cut: a condition's message may have 32,768 bytes, a person reads far fewer.
const PROBLEM_BYTES_MAX: usize = 1_024;

/// The facts that the status of a rule states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Pods that the rule makes leave, or would.
    pub(crate) pods: u64,
    /// The number of their namespaces.
    pub(crate) namespaces: u64,
    /// Pods that have left because of it.
    pub(crate) evicted: EvictionCount,
    /// Some claim holds a selected device, or pods have to leave one.
    pub(crate) in_use: bool,
    /// A DeviceTaintPolicy controls it, and no pod was evicted because of the rule itself.
    pub(crate) by_policy: bool,
    /// It has no effect before it is approved.
    pub(crate) held: bool,
    /// Devices that are published and selected.
    pub(crate) published: usize,
    /// Allocation results that are selected.
    pub(crate) allocated: usize,
    /// Of those: not published any more, recognised by what is remembered of them.
    pub(crate) from_memory: usize,
    /// Why the rule cannot be evaluated, fully or in part.
    pub(crate) problem: Option<String>,
}

impl RuleStatus {
    /// How many pods were evicted because of the rule; nothing where that is counted elsewhere.
    #[must_use]
    pub fn counted(&self) -> Option<EvictionCount> {
        (self.condition.reason != BY_POLICY).then_some(self.evictions)
    }
}

/// The condition that says it, apart from when.
pub(crate) fn condition(rule: &DeviceTaintRule, facts: &Facts) -> Condition {
    let (status, reason) = verdict(rule, facts);
    Condition {
        kind: EVICTION_IN_PROGRESS.into(),
        status,
        reason,
        message: message(&rule.taint.effect, facts).into(),
        observed_generation: rule.generation,
        last_transition: None,
    }
}

/// The condition that says whether the selected devices are idle: no claim holds one, so no pod uses one and no driver has one prepared.
pub(crate) fn drained(rule: &DeviceTaintRule, facts: &Facts) -> Condition {
    let (status, reason, message) = if facts.held {
        (ConditionStatus::False, "Held", "The rule is held: nothing is drained.")
    } else if facts.in_use {
        (ConditionStatus::False, "DevicesInUse", "Selected devices are allocated to claims.")
    } else if facts.problem.is_some() {
        (ConditionStatus::Unknown, "SelectorError", "Not all devices can be checked.")
    } else {
        (ConditionStatus::True, "Idle", "No selected device is allocated to a claim.")
    };
    Condition {
        kind: DRAINED.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        observed_generation: rule.generation,
        last_transition: None,
    }
}

/// The condition that says what keeps pods from being evicted, or that nothing does any more.
pub(crate) fn blocked(rule: &DeviceTaintRule, by: Option<(Block, String)>) -> Condition {
    let (status, reason, message) = match by {
        Some((why, message)) => (ConditionStatus::True, why.name(), message),
        None => (ConditionStatus::False, NOT_BLOCKED, String::new()),
    };
    Condition {
        kind: EVICTION_BLOCKED.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        observed_generation: rule.generation,
        last_transition: None,
    }
}

/// The condition that says that a rule applies no more, or that it does after all.
pub(crate) fn expired(rule: &DeviceTaintRule, is_expired: bool) -> Condition {
    let (status, reason, message) = if is_expired {
        let message = "The rule applies no more: nothing is tainted and nobody is evicted because of it.";
        (ConditionStatus::True, "ExpiresAtReached", message)
    } else {
        (ConditionStatus::False, "NotExpired", "")
    };
    Condition {
        kind: DeviceTaintRule::EXPIRED.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        observed_generation: rule.generation,
        last_transition: None,
    }
}

/// The condition that says that a rule has no effect before it is approved, or that it has.
pub(crate) fn held(rule: &DeviceTaintRule, why: Option<&Held>) -> Condition {
    let (status, reason, message) = match why {
        Some(held) => (ConditionStatus::True, held.reason, held.message.clone()),
        None => (ConditionStatus::False, "NotHeld", Text::default()),
    };
    Condition {
        kind: DeviceTaintRule::HELD.into(),
        status,
        reason: reason.into(),
        message,
        observed_generation: rule.generation,
        last_transition: None,
    }
}

/// The condition of a rule or a policy that says what keeps pods from being evicted, where something does.
#[must_use]
pub fn blocked_condition(rule: &DeviceTaintRule) -> Option<&Condition> {
    rule.conditions
        .iter()
        .find(|condition| condition.kind == EVICTION_BLOCKED && condition.status == ConditionStatus::True)
}

/// For which reason a condition says that pods are kept.
pub(crate) fn blocked_reason(condition: Option<&Condition>) -> Option<&str> {
    condition
        .filter(|condition| condition.status == ConditionStatus::True)
        .map(|condition| &*condition.reason)
}

/// Whether two conditions say the same, if there are any.
pub(crate) fn both_say_the_same(one: Option<&Condition>, other: Option<&Condition>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => says_the_same(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Takes back that all is over: a leader that ends before it has verified that says what it counted, and leaves the rest to the next one.
pub(crate) fn leave_open(status: &mut RuleStatus) {
    let RuleStatus { condition, drained, .. } = status;
    for condition in [condition, drained] {
        condition.status = ConditionStatus::Unknown;
        condition.reason = NOT_VERIFIED.into();
    }
}

/// Whether one status says what the other does, counts included.
pub(crate) fn says_all_of(one: &RuleStatus, other: &RuleStatus) -> bool {
    says_the_same(&one.condition, &other.condition)
        && says_the_same(&one.drained, &other.drained)
        && both_say_the_same(one.blocked.as_ref(), other.blocked.as_ref())
        && both_say_the_same(one.expired.as_ref(), other.expired.as_ref())
        && both_say_the_same(one.held.as_ref(), other.held.as_ref())
        && one.evictions.pods == other.evictions.pods
        && one.evicting == other.evicting
}

/// The sentences for a rule of this effect.
pub(crate) fn message(effect: &Effect, facts: &Facts) -> String {
    let mut text = String::new();
    let mut say = |sentence: fmt::Arguments<'_>| {
        let space = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{space}{sentence}");
    };
    let spaces = Count(facts.namespaces, "namespace", "different namespaces");
    match effect {
        Effect::NoExecute if facts.pods > 0 => {
            let verb = if facts.pods == 1 { "needs" } else { "need" };
            say(format_args!("{} {verb} to be evicted in {spaces}.", pods(facts.pods)));
        }
        Effect::NoExecute | Effect::NoSchedule if facts.by_policy => {
            say(format_args!("The DeviceTaintPolicy that controls the rule evicts pods and counts them."));
        }
        Effect::NoExecute => {}
        Effect::None => {
            say(format_args!("{} selected.", published(facts.published)));
            say(format_args!("{} selected.", allocated(facts.allocated)));
            let pods = pods(facts.pods);
            say(format_args!("{pods} would be evicted in {spaces} if the effect was NoExecute."));
        }
        Effect::NoSchedule | Effect::Unknown(_) => {
            say(format_args!("Eviction only happens for the NoExecute effect."));
        }
    }
    if facts.from_memory > 0 {
        let subject = allocated(facts.from_memory);
        let verb = if facts.from_memory == 1 { "is" } else { "are" };
        say(format_args!("{subject} {verb} matched from memory, being published no more."));
    }
    let EvictionCount { pods: evicted, at_least, .. } = facts.evicted;
    if evicted > 0 {
        let least = if at_least { "At least " } else { "" };
        say(format_args!("{least}{} evicted since the rule was created.", pods(evicted)));
    }
    if let Some(problem) = &facts.problem {
        say(format_args!("Not all devices can be checked: {}", cut(problem)));
    }
    text
}

/// DEVIATION(eviction-condition).
fn verdict(rule: &DeviceTaintRule, facts: &Facts) -> (ConditionStatus, Text) {
    if matches!(rule.taint.effect, Effect::NoExecute) && facts.pods > 0 {
        return (ConditionStatus::True, "PodsPendingEviction".into());
    }
    let reason = if facts.held {
        "Held"
    } else if facts.problem.is_some() {
        "SelectorError"
    } else {
        match rule.taint.effect {
            Effect::NoExecute | Effect::NoSchedule if facts.by_policy => BY_POLICY,
            Effect::NoExecute if facts.evicted.pods > 0 => "Completed",
            Effect::NoExecute => "NotStarted",
            Effect::None => "NoEffect",
            Effect::NoSchedule | Effect::Unknown(_) => "OtherEffect",
        }
    };
    (ConditionStatus::False, reason.into())
}

/// A number with its noun: the number, the singular, and the plural.
struct Count(u64, &'static str, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, one, several) = self;
        write!(f, "{count} {}", if *count == 1 { one } else { several })
    }
}

fn pods(count: u64) -> Count {
    Count(count, "pod", "pods")
}

fn published(count: usize) -> Count {
    Count(count as u64, "published device", "published devices")
}

fn allocated(count: usize) -> Count {
    Count(count as u64, "allocated device", "allocated devices")
}

/// A text of a server or a selector, no longer than a person reads.
pub(crate) fn cut(problem: &str) -> Text {
    let mut end = problem.len().min(PROBLEM_BYTES_MAX);
    while !problem.is_char_boundary(end) {
        end -= 1;
    }
    if end == problem.len() {
        return problem.into();
    }
    let mut text = String::from(&problem[..end]);
    // Writing to a string cannot fail.
    let _ = write!(text, " (and {} bytes more)", problem.len() - end);
    text.into()
}

/// The status that the rule has.
pub(crate) fn existing(rule: &DeviceTaintRule) -> Option<RuleStatus> {
    let find = |kind: &str| rule.conditions.iter().find(|condition| condition.kind == kind).cloned();
    let mut evicting = rule.evicting.clone();
    evicting.sort_unstable();
    Some(RuleStatus {
        condition: find(EVICTION_IN_PROGRESS)?,
        drained: find(DRAINED).unwrap_or_default(),
        blocked: find(EVICTION_BLOCKED),
        expired: find(DeviceTaintRule::EXPIRED),
        held: find(DeviceTaintRule::HELD),
        evictions: rule.evictions.unwrap_or_default(),
        evicting,
        effective_since: rule.effective_since,
    })
}

/// Whether two conditions say the same, whenever they were written.
pub(crate) fn says_the_same(one: &Condition, other: &Condition) -> bool {
    one.kind == other.kind
        && one.status == other.status
        && one.reason == other.reason
        && one.message == other.message
        && one.observed_generation == other.observed_generation
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use lazaret_model::Taint;

    use super::*;

    fn rule(effect: Effect) -> DeviceTaintRule {
        DeviceTaintRule {
            taint: Taint { effect, ..Taint::default() },
            generation: 3,
            ..DeviceTaintRule::default()
        }
    }

    #[test]
    fn shapes() {
        let pending = |pods, namespaces, evicted| Facts {
            pods,
            namespaces,
            evicted: EvictionCount { pods: evicted, ..EvictionCount::default() },
            ..Facts::default()
        };
        let preview = |published, allocated, pods, namespaces, from_memory| Facts {
            published,
            allocated,
            pods,
            namespaces,
            from_memory,
            ..Facts::default()
        };
        let problem = Facts { problem: Some("class big: not found".into()), ..Facts::default() };
        let unknown = || Effect::Unknown("NoBreathe".into());
        for (effect, facts, expected) in [
            (Effect::NoExecute, pending(0, 0, 0), "False NotStarted "),
            (
                Effect::NoExecute,
                pending(1, 1, 0),
                "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace.",
            ),
            (
                Effect::NoExecute,
                pending(2, 2, 1),
                "True PodsPendingEviction 2 pods need to be evicted in 2 different namespaces. 1 pod evicted since the rule was created.",
            ),
            (
                Effect::NoExecute,
                pending(0, 0, 7),
                "False Completed 7 pods evicted since the rule was created.",
            ),
            (
                Effect::None,
                preview(3, 1, 1, 1, 0),
                "False NoEffect 3 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute.",
            ),
            (
                Effect::None,
                preview(0, 3, 2, 2, 1),
                "False NoEffect 0 published devices selected. 3 allocated devices selected. 2 pods would be evicted in 2 different namespaces if the effect was NoExecute. 1 allocated device is matched from memory, being published no more.",
            ),
            (
                Effect::None,
                preview(1, 0, 0, 0, 0),
                "False NoEffect 1 published device selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces if the effect was NoExecute.",
            ),
            (
                Effect::NoSchedule,
                pending(0, 0, 0),
                "False OtherEffect Eviction only happens for the NoExecute effect.",
            ),
            (
                unknown(),
                pending(0, 0, 2),
                "False OtherEffect Eviction only happens for the NoExecute effect. 2 pods evicted since the rule was created.",
            ),
            (
                Effect::NoExecute,
                problem,
                "False SelectorError Not all devices can be checked: class big: not found",
            ),
        ] {
            let condition = condition(&rule(effect), &facts);
            let text = format!("{:?} {} {}", condition.status, condition.reason, condition.message);
            assert_eq!(text, expected);
            assert_eq!(condition.observed_generation, 3);
        }
    }

    #[test]
    fn a_rule_of_a_policy_says_who_evicts_and_states_no_count() {
        let by_policy = || Facts { by_policy: true, ..Facts::default() };
        for effect in [Effect::NoSchedule, Effect::NoExecute] {
            let rule = rule(effect);
            let condition = condition(&rule, &by_policy());
            assert_eq!(condition.reason, "ByPolicy");
            assert!(condition.message.starts_with("The DeviceTaintPolicy that controls the rule evicts"));
            let status = RuleStatus {
                condition,
                drained: drained(&rule, &by_policy()),
                blocked: None,
                expired: None,
                held: None,
                evictions: EvictionCount::default(),
                evicting: Vec::new(),
                effective_since: None,
            };
            assert_eq!(status.counted(), None);
        }
        let pending = Facts { pods: 1, namespaces: 1, ..by_policy() };
        assert_eq!(condition(&rule(Effect::NoExecute), &pending).reason, "PodsPendingEviction");
    }

    #[test]
    fn a_count_that_may_be_too_low_says_so() {
        let evicted = |pods, at_least| Facts {
            evicted: EvictionCount { pods, at_least, ..EvictionCount::default() },
            ..Facts::default()
        };
        let message = |facts: &Facts| condition(&rule(Effect::NoExecute), facts).message;
        assert_eq!(message(&evicted(7, true)), "At least 7 pods evicted since the rule was created.");
        assert_eq!(message(&evicted(1, false)), "1 pod evicted since the rule was created.");
        assert_eq!(message(&evicted(0, true)), "");
    }

    #[test]
    fn idle_devices_are_said_to_be() {
        let problem = Some(String::from("class big: not found"));
        for (in_use, problem, expected) in [
            (true, None, "False DevicesInUse"),
            (false, None, "True Idle"),
            (false, problem.clone(), "Unknown SelectorError"),
            (true, problem, "False DevicesInUse"),
        ] {
            let condition = drained(&rule(Effect::NoExecute), &Facts { in_use, problem, ..Facts::default() });
            assert_eq!(format!("{:?} {}", condition.status, condition.reason), expected);
            assert_eq!((condition.kind.as_str(), condition.observed_generation), ("Drained", 3));
        }
    }
}
