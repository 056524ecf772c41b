//! Guards: which devices each is about, and whether it permits that something begins on them. The one place that decides it, for every door:
//! evictions, replacements, devices that policies take out of service, and plans.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{
    BreakerStatus, DeviceId, DeviceSelector, DisruptionGuard, GuardPreview, RecentlyOut, Stop, TaintedBy,
    Text, Timestamp,
};

use crate::{
    EffectiveTaint, Fleet, Origin, Presence, Problem, count_out_of_service,
    holds::{self, RuleHold, taint_hold, taint_reaches},
};

/// Which devices a guard is about, as the fleet was when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardReach {
    devices: Devices,
    problem: Option<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Devices {
    All,
    /// By names alone.
    Named(DeviceSelector),
    /// An expression failed on those that are unclear.
    Listed {
        selected: BTreeSet<DeviceId>,
        unclear: BTreeSet<DeviceId>,
    },
    /// The guard is not understood: it may be about every device of these names.
    Unclear(DeviceSelector),
}

/// Whether a guard is about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// It is not.
    No,
    /// It is.
    Yes,
    /// It is not known: the guard is not understood.
    Unclear,
}

impl GuardReach {
    /// Whether the guard is about a device.
    #[must_use]
    pub fn about(&self, device: &DeviceId) -> About {
        let yes = |is: bool| if is { About::Yes } else { About::No };
        match &self.devices {
            Devices::All => About::Yes,
            Devices::Named(selector) => yes(selector.names_match(device)),
            Devices::Listed { unclear, .. } if unclear.contains(device) => About::Unclear,
            Devices::Listed { selected, .. } => yes(selected.contains(device)),
            Devices::Unclear(selector) if selector.names_match(device) => About::Unclear,
            Devices::Unclear(_) => About::No,
        }
    }

    /// Whether something may begin on a device, where the guard says `stop` about the devices that it selects. A guard that is not understood
    /// permits nothing.
    #[must_use]
    pub fn stop_on(&self, device: &DeviceId, stop: Option<Stop>) -> Option<Stop> {
        match self.about(device) {
            About::No => None,
            About::Yes => stop,
            About::Unclear => Some(Stop::NotUnderstood),
        }
    }

    /// Why the guard is not understood, in whole or on some devices.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// The devices on which the guard is not understood, by names if it is not understood at all.
    #[must_use]
    pub fn unclear(&self) -> Option<UnclearDevices<'_>> {
        match &self.devices {
            Devices::Unclear(selector) => Some(UnclearDevices::Named(selector)),
            Devices::Listed { unclear, .. } if !unclear.is_empty() => Some(UnclearDevices::These(unclear)),
            Devices::All | Devices::Named(_) | Devices::Listed { .. } => None,
        }
    }
}

/// The devices on which a guard is not understood.
#[derive(Clone, Copy, Debug)]
pub enum UnclearDevices<'a> {
    /// All that have these names.
    Named(&'a DeviceSelector),
    /// These.
    These(&'a BTreeSet<DeviceId>),
}

/// A guard that permits nothing now, and why in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Why.
    pub why: Stop,
    /// The message.
    pub message: Text,
}

/// All guards, for a controller that asks about a few devices at a time.
#[derive(Debug, Default)]
pub struct Guards {
    list: Vec<Guarding>,
    trusts_user_names: bool,
    holds: Holds,
}

/// Rules and taints that are held until they are approved, of those that were asked about.
#[derive(Debug, Default)]
struct Holds {
    /// The revision of the fleet that the rest is about.
    revision: Option<u64>,
    /// Taints of drivers and patches that are held, and why.
    taints: Option<BTreeMap<TaintedBy, Text>>,
    /// Rules, and why they are held if they are.
    rules: BTreeMap<Text, Option<Text>>,
}

#[derive(Debug)]
struct Guarding {
    guard: Arc<DisruptionGuard>,
    /// The devices that it is about, at this revision of the fleet.
    reach: Option<(u64, GuardReach)>,
    breaker: BreakerStatus,
    stop: Option<Stop>,
}

impl Guards {
    /// None yet. `trusts_user_names`: the names of authors and approvers in annotations are those that the server recorded.
    #[must_use]
    pub fn new(trusts_user_names: bool) -> Self {
        Self { trusts_user_names, ..Self::default() }
    }

    /// These are all guards from now on.
    pub fn set(&mut self, guards: &[Arc<DisruptionGuard>]) {
        let guarding = |guard: &Arc<DisruptionGuard>| Guarding {
            guard: Arc::clone(guard),
            reach: None,
            breaker: guard.status,
            stop: None,
        };
        self.list = guards.iter().map(guarding).collect();
        self.holds = Holds::default();
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Finds out what each guard says now. Breakers are counted: their statuses may be late.
    pub fn look(&mut self, now: Timestamp, fleet: &Fleet) {
        if self.holds.revision != Some(fleet.revision()) {
            self.holds = Holds { revision: Some(fleet.revision()), ..Holds::default() };
        }
        for one in &mut self.list {
            if one.reach.as_ref().is_none_or(|(of, _)| *of != fleet.revision()) {
                one.reach = Some((fleet.revision(), fleet.guard_reach(&one.guard)));
            }
            let guard = &one.guard;
            one.breaker = guard.breaker.as_ref().map_or(guard.status, |breaker| {
                let mut recent = RecentlyOut::inherit(&guard.status);
                let count = count_out_of_service(now, fleet, guard, breaker, &mut recent);
                breaker.step(now, guard.reset_at, guard.status, count)
            });
            one.stop = guard.stop(now, one.breaker.tripped, guard.window_at(now));
        }
    }

    /// Why nothing may begin on a device because of taints that it has, as things were when guards were [looked at](Self::look): the guard that
    /// permits least, or else the one that holds all of these taints until they are approved.
    pub fn refusal<'a>(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        device: &DeviceId,
        taints: impl Iterator<Item = EffectiveTaint<'a>>,
    ) -> Option<Text> {
        if let Some(stopped) = self.stopped(device) {
            return Some(stopped.message);
        }
        if self.list.iter().all(|one| one.guard.confirm_above.is_none()) {
            return None;
        }
        let mut kept = None;
        for taint in taints {
            // One that is not held is reason enough.
            kept = kept.or(Some(self.held(now, fleet, device, &taint)?));
        }
        kept
    }

    /// The guard that permits least on a device, as things were when guards were [looked at](Self::look): nothing begins there.
    #[must_use]
    pub fn stopped(&self, device: &DeviceId) -> Option<Stopped> {
        let says = self.list.iter().filter_map(|one| {
            let (_, reach) = one.reach.as_ref()?;
            Some((reach.stop_on(device, one.stop)?, one, reach))
        });
        let (why, one, reach) = says.min_by_key(|(why, ..)| *why)?;
        let problem = reach.problem().map(|problem| format!("{problem}")).unwrap_or_default();
        Some(Stopped { why, message: one.guard.stop_message(why, &one.breaker, &problem) })
    }

    /// Why a taint is held until it is approved, if it is.
    fn held(
        &mut self,
        now: Timestamp,
        fleet: &Fleet,
        device: &DeviceId,
        taint: &EffectiveTaint<'_>,
    ) -> Option<Text> {
        if let Origin::Rule { name, .. } = taint.origin {
            if let Some(known) = self.holds.rules.get(name) {
                return known.clone();
            }
            let why = self.held_rule(fleet, name);
            self.holds.rules.insert(name.clone(), why.clone());
            return why;
        }
        let kind = holds::kind_of(taint, device)?;
        if self.holds.taints.is_none() {
            self.holds.taints = Some(self.held_taints(now, fleet));
        }
        self.holds.taints.as_ref()?.get(&kind).cloned()
    }

    fn held_rule(&self, fleet: &Fleet, name: &str) -> Option<Text> {
        let rule = fleet.rule(name)?.rule;
        let reach = holds::judged_reach(fleet, rule, self.trusts_user_names)?;
        let hold = RuleHold::new(fleet, rule, &reach, self.trusts_user_names);
        let mut refusals =
            self.list.iter().filter_map(|one| hold.refusal(fleet, &one.guard, |device| one.selects(device)));
        let (_, why) = refusals.next()?;
        Some(format!("DeviceTaintRule {name}: {}", hold.message(&why)).into())
    }

    /// The statuses of guards say which taints are known, and since when: an approval is for those.
    fn held_taints(&self, now: Timestamp, fleet: &Fleet) -> BTreeMap<TaintedBy, Text> {
        let mut messages = BTreeMap::new();
        // A taint that evicts no pod is not held.
        for (taint, reach) in taint_reaches(fleet).into_iter().filter(|(_, reach)| !reach.users.is_empty()) {
            let message = self.list.iter().find_map(|one| {
                let known = one.guard.held.iter().find(|known| known.taint == taint);
                let selects = |device: &DeviceId| one.selects(device);
                let counted = (&taint, &reach);
                let trusts = self.trusts_user_names;
                let hold = taint_hold(now, fleet, &one.guard, selects, counted, known, trusts)?;
                hold.is_held().then_some(hold.message)
            });
            if let Some(message) = message {
                messages.insert(taint, message);
            }
        }
        messages
    }
}

impl Guarding {
    /// Whether it is about a device, or may be.
    fn selects(&self, device: &DeviceId) -> bool {
        self.reach.as_ref().is_none_or(|(_, reach)| reach.about(device) != About::No)
    }
}

impl Fleet {
    /// Which devices a guard is about. Devices that its class or expressions cannot be asked about are neither selected nor left out: a held
    /// device without attributes is selected, one on which an expression fails is unclear.
    #[must_use]
    pub fn guard_reach(&self, guard: &DisruptionGuard) -> GuardReach {
        let Some(selector) = &guard.selector else {
            return GuardReach { devices: Devices::All, problem: None };
        };
        if selector.by_names_only() {
            return GuardReach { devices: Devices::Named(selector.clone()), problem: None };
        }
        let names = || DeviceSelector { class: None, cel: Vec::new(), ..selector.clone() };
        let selection = self.selection_of(selector);
        let problem = selection.problem();
        if let Some(Problem::BadExpression { .. } | Problem::BadClass { .. } | Problem::ClassMissing { .. }) =
            problem
        {
            return GuardReach { devices: Devices::Unclear(names()), problem };
        }
        let published = selection.published().map(|device| device.id());
        let mut selected: BTreeSet<DeviceId> =
            published.chain(selection.unpublished().map(|(device, _)| device)).collect();
        let unknown = self
            .slices
            .iter()
            .filter(|(_, entry)| entry.state.head.presence == Presence::Unknown)
            .flat_map(|(_, entry)| (0..entry.state.len()).map(|at| entry.state.device_id(at)));
        selected.extend(unknown.filter(|device| selector.names_match(device)));
        let unclear: BTreeSet<DeviceId> = selection.failed().collect();
        let problem = problem.filter(|_| !unclear.is_empty());
        GuardReach { devices: Devices::Listed { selected, unclear }, problem }
    }

    /// How much a guard selects, for its status.
    #[must_use]
    pub fn guard_preview(&self, guard: &DisruptionGuard, reach: &GuardReach) -> GuardPreview {
        let all = DeviceSelector::default();
        GuardPreview {
            generation: guard.generation,
            devices: self.selection_of(guard.selector.as_ref().unwrap_or(&all)).published_count() as u64,
            problem: reach.problem().map(|problem| format!("{problem}").into()),
        }
    }
}
