//! Whether a guard holds a rule, by how far the rule reaches and what was approved.

use alloc::{format, string::String};

use lazaret_model::{DeviceId, DeviceTaintRule, DisruptionGuard, Effect, Impact, Text};

use super::{
    reach::{Reach, devices_of, measure, reach_of, request_of},
    refusal::{Approved, refusal},
};
use crate::Fleet;

/// A rule that guards are asked about.
#[derive(Debug)]
pub struct RuleHold<'a> {
    rule: &'a DeviceTaintRule,
    reach: &'a Reach,
    /// Until all rules of its request are there the request is what its client said.
    declared: Option<Impact>,
    impact: Impact,
    approved: Option<Approved<'a>>,
}

impl<'a> RuleHold<'a> {
    /// `reach`: how far the rule reaches, with all others that were made by its request.
    #[must_use]
    pub fn new(fleet: &Fleet, rule: &'a DeviceTaintRule, reach: &'a Reach, trusts_user_names: bool) -> Self {
        let measured = measure(fleet, reach, |_| true);
        let declared = request_of(rule).map(|request| request.declared);
        let declared = declared.filter(|declared| measured.devices < declared.devices);
        let impact = declared.map_or(measured, |declared| measured.max(declared));
        let approved = Approved::rule(rule, trusts_user_names);
        Self { rule, reach, declared, impact, approved }
    }

    /// Why a guard holds it, if it does: the reason of the condition `Held`, and the same in words. `selects`: whether the guard is about a
    /// device, or may be.
    pub fn refusal(
        &self,
        fleet: &Fleet,
        guard: &DisruptionGuard,
        selects: impl FnMut(&DeviceId) -> bool,
    ) -> Option<(&'static str, String)> {
        let confirm = guard.confirm_above?;
        let selected = match &guard.selector {
            None => self.impact,
            Some(_) => {
                let selected = measure(fleet, self.reach, selects);
                let declared = self.declared.filter(|_| selected.devices > 0);
                declared.map_or(selected, |said| selected.max(said))
            }
        };
        if !confirm.is_exceeded_by(selected, devices_of(fleet, guard, &confirm)) {
            return None;
        }
        let command = format!("kubectl device approve {}", self.rule.name);
        refusal(guard, &confirm, self.impact, self.approved.as_ref(), &command)
    }

    /// The message for people about a [refusal](Self::refusal).
    #[must_use]
    pub fn message(&self, why: &str) -> Text {
        let whole = match self.reach.rules {
            0 | 1 => String::new(),
            rules => format!(" by {rules} rules of one request"),
        };
        format!("{}{whole}; {why}", self.impact).into()
    }
}

/// Rules that a policy was compiled to are not held once more, where nothing but the server itself can make one without being named as its
/// author.
#[must_use]
pub fn is_exempt(rule: &DeviceTaintRule, trusts_user_names: bool) -> bool {
    let is_signed = rule.review.as_ref().is_some_and(|review| review.written_by.is_some());
    trusts_user_names && rule.is_compiled && !is_signed
}

/// How far a rule that taints devices reaches, with all others that were made by its request. Nothing for one that no guard holds.
pub(crate) fn judged_reach(fleet: &Fleet, rule: &DeviceTaintRule, trusts_user_names: bool) -> Option<Reach> {
    let own = |rule: &DeviceTaintRule| {
        let taints = matches!(rule.taint.effect, Effect::NoExecute | Effect::NoSchedule);
        let is_counted = taints && !rule.is_said_to_be_expired() && !is_exempt(rule, trusts_user_names);
        let selector = rule.selector.as_ref().filter(|_| is_counted)?;
        Some(reach_of(fleet, rule, selector))
    };
    let mut reach = own(rule)?;
    let Some(request) = request_of(rule) else { return Some(reach) };
    reach.rules = 1;
    let others = fleet.rules().filter(|other| other.rule.name != rule.name);
    let of_request = others.filter(|other| request_of(other.rule).is_some_and(|one| one.id == request.id));
    of_request.filter_map(|other| own(other.rule)).for_each(|more| reach.add_rule(more));
    reach.finish();
    Some(reach)
}
