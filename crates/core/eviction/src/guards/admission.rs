//! Whether a rule may be made where something else evicts for it: Kubernetes' controller manager, at once and asking no guard.

use alloc::{collections::BTreeSet, format, sync::Arc};
use core::fmt;

use lazaret_fleet::{Fleet, Input, RuleHold, count_out_of_service, reach_of};
use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, DeviceTaintRule, DisruptionGuard, Patience, Stop, Text, Timestamp, patience};

use super::GuardState;
use crate::{
    block::Block,
    preview::{Preview, Subject, preview, users_of},
    waits::{End, Facts, wait},
};

/// A guard that does not permit a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The guard's reason to block evictions once the rule exists: [`Block::Paused`], [`Block::Breaker`], [`Block::Window`] or [`Block::Held`].
    pub why: Block,
    /// Its name.
    pub guard: Text,
    /// The message, as in a rule's status.
    pub message: Text,
    /// It is not understood, and so permits nothing.
    pub is_unclear: bool,
    /// Its breaker is tripped without the rule.
    pub is_tripped: bool,
    /// Pods that would be evicted.
    pub pods: usize,
    /// Namespaces that they are in.
    pub namespaces: usize,
}

/// The text for people: the guard's message, the consequence of the rule, and how to proceed.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, pods, namespaces, .. } = self;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        match (self.why, self.is_tripped) {
            (Block::Breaker, false) => write!(f, "with this rule {message}")?,
            _ => f.write_str(message)?,
        }
        write!(
            f,
            "; Kubernetes would evict {pods} pod{} in {namespaces} namespace{} without asking the guard: ",
            plural(*pods),
            plural(*namespaces)
        )?;
        match (self.why, self.is_tripped) {
            // Kubernetes waits for no approval.
            (Block::Breaker, false) | (Block::Held, _) => f.write_str("select fewer devices"),
            _ => self.write_end(f),
        }?;
        f.write_str(
            ", or use the effect NoSchedule, or a DeviceTaintPolicy, whose evictions wait for the guard",
        )
    }
}

impl Refusal {
    /// How the wait for the guard ends, in the words that it has everywhere.
    fn write_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = wait(&Facts::Eviction { reason: self.why.name(), message: &self.message });
        if matches!(ends.end, End::GuardResumed | End::GuardReset) {
            write!(f, "run `{}`", ends.ends)
        } else if ends.end == End::WindowOpens {
            f.write_str("wait for the next window")
        } else {
            f.write_str(&ends.ends)
        }
    }
}

/// The guard that does not permit `rule`, if one does not: whatever keeps evictions from beginning once the rule is there. A rule that
/// makes no pod leave is permitted. The fleet is as before afterwards.
#[must_use]
pub fn refusal_of(
    fleet: &mut Fleet,
    now: Timestamp,
    guards: &[Arc<DisruptionGuard>],
    rule: &Arc<DeviceTaintRule>,
) -> Option<Refusal> {
    if guards.is_empty() || !rule.taint.effect.evicts() {
        return None;
    }
    let before = fleet.rule(&rule.name).map(|view| Arc::clone(view.rule));
    fleet.apply(Input::Rule(Arc::clone(rule)));
    let found = with_rule(fleet, now, guards, rule);
    fleet.apply(before.map_or_else(|| Input::RuleGone(rule.name.clone()), Input::Rule));
    found
}

fn with_rule(
    fleet: &Fleet,
    now: Timestamp,
    guards: &[Arc<DisruptionGuard>],
    rule: &DeviceTaintRule,
) -> Option<Refusal> {
    let Preview { pods, namespaces, .. } = preview(fleet, now, Subject::Rule(&rule.name));
    if pods.is_empty() {
        return None;
    }
    let devices = left_devices(fleet, rule);
    let mut found: Option<(Stop, Refusal)> = None;
    for guard in guards {
        let mut state = GuardState::new(Arc::clone(guard));
        if let Some(breaker) = &guard.breaker {
            let counted = count_out_of_service(now, fleet, guard, breaker, &mut state.recent);
            state.breaker = breaker.step(now, guard.reset_at, guard.status, counted);
        }
        state.stop = state.stop_at(now);
        let Some(stop) = devices.iter().filter_map(|device| state.stop_on(fleet, device)).min() else {
            continue;
        };
        if found.as_ref().is_none_or(|(found, _)| stop < *found) {
            let refusal = Refusal {
                why: stop.into(),
                guard: guard.name.clone(),
                message: state.message(stop),
                is_unclear: stop == Stop::NotUnderstood,
                is_tripped: guard.status.tripped,
                pods: pods.len(),
                namespaces: namespaces.len(),
            };
            found = Some((stop, refusal));
        }
    }
    found.map(|(_, refusal)| refusal).or_else(|| held(fleet, guards, rule, (pods.len(), namespaces.len())))
}

/// The guard that would hold the rule until it is approved: Kubernetes waits for no approval.
fn held(
    fleet: &Fleet,
    guards: &[Arc<DisruptionGuard>],
    rule: &DeviceTaintRule,
    (pods, namespaces): (usize, usize),
) -> Option<Refusal> {
    let reach = reach_of(fleet, rule, rule.selector.as_ref()?);
    let hold = RuleHold::new(fleet, rule, &reach, false);
    guards.iter().find_map(|guard| {
        let mut state = GuardState::new(Arc::clone(guard));
        hold.refusal(fleet, guard, |device| state.selects(fleet, device))?;
        let confirm = guard.confirm_above?;
        Some(Refusal {
            why: Block::Held,
            guard: guard.name.clone(),
            message: format!("DisruptionGuard {} wants approval above {confirm}, and a rule of Kubernetes takes effect without", guard.name).into(),
            is_unclear: false,
            is_tripped: false,
            pods,
            namespaces,
        })
    })
}

/// Devices that a pod would have to leave because of this rule, now or when its toleration ends.
fn left_devices<'a>(fleet: &'a Fleet, rule: &DeviceTaintRule) -> BTreeSet<&'a DeviceId> {
    let mut devices = BTreeSet::new();
    for selected in fleet.rule_selection(&rule.name).held() {
        let claim = fleet.claim(selected.claim).and_then(|claim| claim.allocation.as_ref());
        let Some(result) = invariant!(
            claim.and_then(|given| given.results.get(selected.result)),
            "a selected device is in the allocation of its claim"
        ) else {
            continue;
        };
        let leaves = patience(&rule.taint, &result.tolerations) != Patience::Forever;
        if leaves && users_of(fleet, selected.claim).next().is_some() {
            devices.insert(&result.device);
        }
    }
    devices
}
