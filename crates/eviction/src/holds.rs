//! Rules that reach more than a guard permits without approval: they are held, and a held rule has no effect.
//!
//! The reach of a rule is counted again when the rule or a guard changes, when the fleet has changed and a pod is about to leave, and otherwise now
//! and then. The leader evicts no pod for a rule that it holds; the taint is gone for all readers when the rule's status says so.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::fmt::Write as _;

use lazaret_fleet::{Fleet, PodIx};
use lazaret_invariant::invariant;
use lazaret_model::{
    Approvers, ConfirmAbove, DeviceId, DeviceSelector, DeviceTaintRule, DisruptionGuard, Effect, Impact,
    ObjectKey, RuleRequest, Taint, Text, Timestamp,
};

use crate::{
    Eviction,
    block::{Block, Blocked, NAMED_MAX},
    dispatch::Candidate,
    guards::GuardState,
    patience,
    reason::due_of,
};

/// How often rules are looked at again while nobody is about to go.
const JUDGED_EVERY_MS: i64 = 1_000;

/// Why a rule is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The reason of the condition `Held`.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) message: Text,
    /// Pods that would be evicted.
    pub(crate) pods: u64,
    /// The first of them by name.
    named: Vec<ObjectKey>,
}

impl Held {
    /// The message of the condition `EvictionBlocked`.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::from(Block::Held.name());
        text.push_str(": ");
        if let Some((first, others)) = self.named.split_first() {
            let pods = if self.pods == 1 { "pod" } else { "pods" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{} {pods} not evicted ({first}", self.pods);
            others.iter().for_each(|pod| {
                let _ = write!(text, ", {pod}");
            });
            if self.pods > self.named.len() as u64 {
                let _ = write!(text, " and {} more", self.pods - self.named.len() as u64);
            }
            text.push_str("): ");
        }
        let _ = write!(text, "{}.", self.message);
        text
    }
}

/// Which rules have to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Rules that changed since they were looked at.
    changed: BTreeSet<u32>,
    /// All of them have to be looked at.
    all: bool,
    /// The revision of the fleet for which all were last looked at, and when.
    judged: Option<(u64, Timestamp)>,
    /// The fleet has changed since.
    stale: bool,
    /// How many rules are held, and how many pods they would evict.
    held: (usize, u64),
}

impl Holds {
    /// All rules have to be looked at again.
    pub(crate) fn restart(&mut self) {
        self.all = true;
        (self.judged, self.stale) = (None, false);
    }

    pub(crate) fn rule_changed(&mut self, rule: u32) {
        self.changed.insert(rule);
    }

    /// Whether the fleet has changed since rules were looked at.
    pub(crate) fn are_stale(&self) -> bool {
        self.stale
    }

    /// Whether some rule is held.
    pub(crate) fn are_any(&self) -> bool {
        self.held.0 > 0
    }

    /// How many pods would be evicted by rules that are held.
    pub(crate) fn pods(&self) -> u64 {
        self.held.1
    }

    /// When all rules are looked at again.
    pub(crate) fn next_wake(&self, latest: Timestamp) -> Option<Timestamp> {
        let (_, when) = self.judged.filter(|_| self.stale)?;
        Some(when.plus_millis(JUDGED_EVERY_MS).max(latest.plus_millis(1)))
    }
}

/// Devices and pods that a rule reaches.
#[derive(Debug, Default)]
struct Reach {
    devices: Vec<DeviceId>,
    /// Pods that would be evicted, with the device.
    users: Vec<(PodIx, DeviceId)>,
    /// How many rules of a request are counted.
    rules: usize,
}

impl Eviction {
    /// Finds out which rules are held.
    pub(crate) fn judge_rules(&mut self, now: Timestamp, fleet: &Fleet) {
        if !self.guards.want_approval() {
            self.holds.changed.clear();
            (self.holds.judged, self.holds.stale) = (None, false);
            if core::mem::take(&mut self.holds.all) || self.holds.are_any() {
                let flips: usize = self
                    .rules
                    .numbers()
                    .into_iter()
                    .map(|at| usize::from(self.set_held(now, at, None)))
                    .sum();
                self.sum_up_holds(now, flips > 0);
            }
            return;
        }
        let revision = fleet.revision();
        let is_fresh = self.holds.judged.is_some_and(|(of, _)| of == revision);
        let is_recent =
            self.holds.judged.is_some_and(|(_, when)| when <= now && now < when.plus_millis(JUDGED_EVERY_MS));
        self.holds.stale = !is_fresh;
        let judges_all = self.holds.all || (!is_fresh && (!is_recent || self.somebody_may_go(now)));
        let rules =
            if judges_all { self.rules.numbers() } else { self.holds.changed.iter().copied().collect() };
        self.holds.changed.clear();
        if judges_all {
            (self.holds.all, self.holds.stale) = (false, false);
            self.holds.judged = Some((revision, now));
        }
        if rules.is_empty() {
            return;
        }
        let (rules, requests) = self.with_requests(now, fleet, rules);
        let mut flipped = false;
        for at in rules {
            let held = self.judge(now, fleet, at, &requests);
            flipped |= self.set_held(now, at, held);
        }
        self.sum_up_holds(now, flipped);
    }

    /// These rules and all others that were made by the same requests, and what each request reaches.
    fn with_requests(
        &self,
        now: Timestamp,
        fleet: &Fleet,
        mut rules: Vec<u32>,
    ) -> (Vec<u32>, BTreeMap<Text, Reach>) {
        let mut requests: BTreeMap<Text, Reach> = BTreeMap::new();
        for at in &rules {
            if let Some(request) = self.rules.get(*at).and_then(|state| request_of(&state.rule)) {
                requests.entry(request.id.clone()).or_default();
            }
        }
        if requests.is_empty() {
            return (rules, requests);
        }
        for at in self.rules.numbers() {
            let Some(state) = invariant!(self.rules.get(at), "the number of a rule leads to it") else {
                continue;
            };
            // No request made it.
            let Some(request) = request_of(&state.rule) else { continue };
            let Some(known) = requests.get_mut(&request.id) else { continue };
            rules.push(at);
            if let Some(selector) = self.counted_selector(now, at) {
                let more = reach(fleet, &state.rule, selector);
                known.devices.extend(more.devices);
                known.users.extend(more.users);
                known.rules += 1;
            }
        }
        for reach in requests.values_mut() {
            reach.devices.sort_unstable();
            reach.devices.dedup();
        }
        rules.sort_unstable();
        rules.dedup();
        (rules, requests)
    }

    /// Which devices a rule selects, if guards may hold it.
    fn counted_selector(&self, now: Timestamp, at: u32) -> Option<&DeviceSelector> {
        let state = self.rules.get(at).filter(|state| !state.retired && !state.is_expired(now))?;
        let blocks = matches!(state.rule.taint.effect, Effect::NoExecute | Effect::NoSchedule);
        state.rule.selector.as_ref().filter(|_| blocks && !self.is_exempt(&state.rule))
    }

    /// Returns whether it was not held before and is now, or the other way round.
    fn set_held(&mut self, now: Timestamp, at: u32, held: Option<Held>) -> bool {
        let wanted = self.guards.want_approval();
        let Some(state) = invariant!(self.rules.get_mut(at), "the number of a rule leads to it") else {
            return false;
        };
        let changed = state.held.as_deref() != held.as_ref();
        let flipped = state.held.is_some() != held.is_some();
        // Where no status says that it is held, its taint was in force all the time.
        if flipped && held.is_none() && state.rule.is_held() {
            state.begin_to_apply(now);
        }
        if changed {
            state.held = held.map(Box::new);
        }
        if changed || state.hold_is_news(wanted) {
            self.rules.touch(at);
        }
        flipped
    }

    fn sum_up_holds(&mut self, now: Timestamp, flipped: bool) {
        self.holds.held = (0, 0);
        for at in self.rules.numbers() {
            if let Some(held) = self.rules.get(at).and_then(|state| state.held.as_deref()) {
                self.holds.held = (self.holds.held.0 + 1, self.holds.held.1 + held.pods);
            }
        }
        if flipped {
            self.release_guarded(now);
        }
    }

    /// Why a rule is held, if it is.
    fn judge(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        at: u32,
        requests: &BTreeMap<Text, Reach>,
    ) -> Option<Held> {
        let selector = self.counted_selector(now, at)?.clone();
        let rule = self.rules.get(at)?.rule.clone();
        let own = reach(fleet, &rule, &selector);
        // Rules that were made by one request are counted as one rule.
        let request = request_of(&rule).and_then(|request| Some((request, requests.get(&request.id)?)));
        let reach = request.map_or(&own, |(_, reach)| reach);
        let measured = measure(fleet, reach, |_| true);
        let declared = request.map(|(request, _)| request.declared);
        // Until all of its rules are there a request is what its client said.
        let declared = declared.filter(|declared| measured.devices < declared.devices);
        let impact = declared.map_or(measured, |declared| measured.max(declared));
        let trusts_user_names = self.options.trusts_user_names;
        let (reason, why) = self.guards.list_mut().iter_mut().find_map(|guard| {
            let confirm = guard.guard.confirm_above?;
            let selected = match &guard.guard.selector {
                None => impact,
                Some(_) => {
                    let selected = measure(fleet, reach, |device| guard.selects(fleet, device));
                    declared.filter(|_| selected.devices > 0).map_or(selected, |said| selected.max(said))
                }
            };
            let exceeds = confirm.is_exceeded_by(selected, devices_of(fleet, &guard.guard, &confirm));
            exceeds.then(|| refusal(&rule, impact, &guard.guard, &confirm, trusts_user_names)).flatten()
        })?;
        let evicts = matches!(rule.taint.effect, Effect::NoExecute);
        let users = own.users.iter().filter(|_| evicts).filter_map(|(pod, _)| fleet.pod(*pod));
        let mut named: Vec<&ObjectKey> = users.map(|pod| &pod.key).collect();
        named.sort_unstable();
        named.dedup();
        let pods = named.len() as u64;
        let named = named.into_iter().take(NAMED_MAX).cloned().collect();
        let whole = match reach.rules {
            0 | 1 => String::new(),
            rules => format!(" by {rules} rules of one request"),
        };
        let next = next_step(reason, &rule);
        let message = format!("{impact}{whole}; {why}; {next}").into();
        Some(Held { reason, message, pods, named })
    }

    /// Rules that a policy was compiled to are not held once more, where nobody but the server itself can make one without being named as its
    /// author.
    fn is_exempt(&self, rule: &DeviceTaintRule) -> bool {
        let is_signed = rule.review.as_ref().is_some_and(|review| review.written_by.is_some());
        self.options.trusts_user_names && rule.is_compiled && !is_signed
    }

    /// The block of a pod that is due because of a rule that is held. Its taint is gone as soon as the rule's status says so.
    pub(crate) fn held_by_rule(&self, now: Timestamp, candidate: Candidate) -> Option<Blocked> {
        if !self.holds.are_any() {
            return None;
        }
        due_of(&self.pods.get(candidate.pod)?.reasons, now).iter().find_map(|reason| {
            let rule = self.causes.get(reason.cause_ix)?.rule?;
            let held = self.rules.get(rule)?.held.as_deref()?;
            Some(Blocked { why: Block::Held, message: held.message.clone() })
        })
    }
}

impl GuardState {
    /// Whether it wants approval of rules that reach far.
    pub(crate) fn wants_approval(&self) -> bool {
        self.guard.confirm_above.is_some()
    }
}

/// How much a rule reaches, whether it is held or not: the devices that it taints, and the pods that it evicts.
#[must_use]
pub fn impact(fleet: &Fleet, rule: &DeviceTaintRule) -> Impact {
    // DEVIATION(absent-selector): it selects no device.
    let Some(selector) = &rule.selector else { return Impact::default() };
    measure(fleet, &reach(fleet, rule, selector), |_| true)
}

/// How much these rules reach together.
#[must_use]
pub fn impact_together<'a>(fleet: &Fleet, rules: impl Iterator<Item = &'a DeviceTaintRule>) -> Impact {
    let mut all = Reach::default();
    for rule in rules {
        // It selects no device.
        let Some(selector) = &rule.selector else { continue };
        let more = reach(fleet, rule, selector);
        all.devices.extend(more.devices);
        all.users.extend(more.users);
    }
    all.devices.sort_unstable();
    all.devices.dedup();
    measure(fleet, &all, |_| true)
}

/// The request that a rule was made by.
fn request_of(rule: &DeviceTaintRule) -> Option<&RuleRequest> {
    rule.review.as_ref()?.request.as_ref()
}

/// Why this guard holds a rule that exceeds its limits; nothing if it was approved.
fn refusal(
    rule: &DeviceTaintRule,
    impact: Impact,
    guard: &DisruptionGuard,
    confirm: &ConfirmAbove,
    trusts_user_names: bool,
) -> Option<(&'static str, String)> {
    let name = &guard.name;
    let review = rule.review.as_deref();
    let approval = review.and_then(|review| review.approval.as_ref()).filter(|said| said.is_about(rule));
    let Some(approval) = approval else {
        let why = format!("DisruptionGuard {name} wants approval above {confirm}");
        return Some(("ApprovalRequired", why));
    };
    if !approval.covers(impact) {
        let why = format!("the approval was for {} and has lapsed", approval.seen);
        return Some(("ApprovalLapsed", why));
    }
    if guard.approvers == Approvers::Anyone {
        return None;
    }
    let author = review.and_then(|review| review.written_by.as_ref()).filter(|_| trusts_user_names);
    match (author, &approval.by) {
        (Some(author), Some(by)) if author != by => None,
        (Some(author), Some(_)) => {
            let why =
                format!("DisruptionGuard {name} wants approval by another user than {author}, who wrote it");
            Some(("ApproverNotDifferent", why))
        }
        (None, _) | (_, None) => {
            let why = format!(
                "DisruptionGuard {name} wants approval by another user, and this server does not say who wrote and who approved the rule"
            );
            Some(("ApproverUnknown", why))
        }
    }
}

/// The next step of a person for a rule that is held.
fn next_step(reason: &str, rule: &DeviceTaintRule) -> String {
    let name = &rule.name;
    let author = rule.review.as_deref().and_then(|review| review.written_by.as_ref());
    match (reason, author) {
        ("ApproverNotDifferent", Some(author)) => {
            format!("another user than {author} has to run kubectl device approve {name}")
        }
        ("ApproverUnknown", _) => {
            format!("write its spec again, then another user has to run kubectl device approve {name}")
        }
        _ => format!("kubectl device approve {name}"),
    }
}

/// How many devices a guard selects, if a limit is a part of them.
fn devices_of(fleet: &Fleet, guard: &DisruptionGuard, confirm: &ConfirmAbove) -> u64 {
    if !matches!(confirm.devices, Some(lazaret_model::Share::Percent(_))) {
        return 0;
    }
    let all = DeviceSelector::default();
    fleet.selection_of(guard.selector.as_ref().unwrap_or(&all)).published_count() as u64
}

fn reach(fleet: &Fleet, rule: &DeviceTaintRule, selector: &DeviceSelector) -> Reach {
    let selection = fleet.selection_of(selector);
    let published = selection.published().map(|device| device.id());
    let devices = published.chain(selection.unpublished().map(|(device, _)| device)).collect();
    let mut users = Vec::new();
    let will_evict = request_of(rule).is_some_and(|request| request.evicts);
    if matches!(rule.taint.effect, Effect::NoExecute) || will_evict {
        for selected in selection.held() {
            let Some(claim) = invariant!(
                fleet.claim(selected.claim),
                "a selected device is in the allocation of its claim"
            ) else {
                continue;
            };
            let results = claim.allocation.as_ref().map_or(&[][..], |given| &given.results);
            let Some(result) = invariant!(
                results.get(selected.result),
                "a selected device is in the allocation of its claim"
            ) else {
                continue;
            };
            let taint = Taint { effect: Effect::NoExecute, ..rule.taint.clone() };
            if patience(&taint, &result.tolerations).ends(Timestamp::EPOCH) == Timestamp::NEVER {
                continue;
            }
            let leaves = |at: &PodIx| {
                fleet.pod(*at).is_some_and(|pod| {
                    pod.node.is_some() && !pod.phase.is_finished() && pod.deleting_since.is_none()
                })
            };
            let pods = fleet.pods_of_claim(selected.claim).filter(leaves);
            users.extend(pods.map(|pod| (pod, result.device.clone())));
        }
    }
    Reach { devices, users, rules: 0 }
}

/// How much a rule reaches of the devices that somebody selects.
fn measure(fleet: &Fleet, reach: &Reach, mut selects: impl FnMut(&DeviceId) -> bool) -> Impact {
    let devices = reach.devices.iter().filter(|device| selects(device)).count() as u64;
    let (mut pods, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for (pod, device) in &reach.users {
        if selects(device)
            && let Some(found) = fleet.pod(*pod)
        {
            pods.insert(*pod);
            namespaces.insert(&found.key.namespace);
        }
    }
    Impact { pods: pods.len() as u64, namespaces: namespaces.len() as u64, devices }
}
