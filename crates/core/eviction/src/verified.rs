//! Whether what is seen is as new as a rule.
//!
//! The watches of pods, claims and slices come at their own pace. A rule may be seen before a pod that was bound, or a slice that was
//! published, long before the rule was made. A status that says that nothing is left to do is therefore held back until the machine has
//! been told once, since it first saw this spec, that it has seen what the server had then. That is a promise to whoever runs
//! `kubectl wait --for=condition=EvictionInProgress=false`.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_fleet::Kind;
use lazaret_model::{ConditionStatus, DeviceTaintRule, Effect};

use crate::{Eviction, effect::RuleStatus};

/// The kinds that decide which pods use which devices.
const USERS: [Kind; 2] = [Kind::Pod, Kind::Claim];
/// The kinds that decide which devices a rule selects by class or expression.
const DEVICES: [Kind; 3] = [Kind::Slice, Kind::Patch, Kind::Class];

/// The kinds that the machine must see as the server has them now, or later. Granted by [`Input::ViewReached`](crate::Input::ViewReached).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRequest {
    /// To grant it by.
    pub number: u64,
    /// Objects of these kinds.
    pub kinds: Vec<Kind>,
}

/// Whether everything that there was when a spec was first seen has been seen since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verified {
    /// Not asked yet.
    #[default]
    No,
    /// Wanted by this request.
    Asked(u64),
    Yes,
}

/// Requests, one at a time.
#[derive(Debug, Default)]
pub(crate) struct ViewRequests {
    /// The number of the last one.
    last: u64,
    open: Option<u64>,
    /// Rules whose status waits for the next one.
    waiting: BTreeSet<u32>,
    /// Rules whose status waits for the open one.
    asked: BTreeSet<u32>,
}

impl ViewRequests {
    pub(crate) fn want(&mut self, rule: u32) {
        self.waiting.insert(rule);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}

impl Eviction {
    /// The view that the machine wants now, if any. The next request comes after this one was granted.
    pub fn poll_view(&mut self) -> Option<ViewRequest> {
        if self.leader_since.is_none() || self.views.open.is_some() || self.views.waiting.is_empty() {
            return None;
        }
        let number = self.views.last + 1;
        let waiting = core::mem::take(&mut self.views.waiting);
        let mut by_names_only = true;
        for at in waiting {
            let Some(state) = self.rules.get_mut(at).filter(|state| state.verified == Verified::No) else {
                continue;
            };
            state.verified = Verified::Asked(number);
            by_names_only &= selects_by_names(&state.rule);
            self.views.asked.insert(at);
        }
        if self.views.asked.is_empty() {
            return None;
        }
        (self.views.last, self.views.open) = (number, Some(number));
        let devices = DEVICES.into_iter().filter(|_| !by_names_only);
        Some(ViewRequest { number, kinds: USERS.into_iter().chain(devices).collect() })
    }

    /// Everything that there was when this was asked for has been seen.
    pub(crate) fn view_reached(&mut self, number: u64) {
        if self.views.open != Some(number) {
            return;
        }
        self.views.open = None;
        for at in core::mem::take(&mut self.views.asked) {
            // Under the same number there may be another rule by now, or another spec.
            if let Some(state) =
                self.rules.get_mut(at).filter(|state| state.verified == Verified::Asked(number))
            {
                state.verified = Verified::Yes;
                state.status.looked = None;
                self.rules.touch(at);
            }
        }
    }
}

/// Whether a status says that nothing is left to do, or that nobody uses the devices.
pub(crate) fn says_that_all_is_over(rule: &DeviceTaintRule, status: &RuleStatus) -> bool {
    let ended =
        matches!(rule.taint.effect, Effect::NoExecute) && status.condition.status == ConditionStatus::False;
    ended || status.drained.status == ConditionStatus::True
}

fn selects_by_names(rule: &DeviceTaintRule) -> bool {
    rule.selector.as_ref().is_none_or(lazaret_model::DeviceSelector::by_names_only)
}
