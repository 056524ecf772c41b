//! Guards: which devices each is about, and whether it permits that something begins on them. The one place that decides it, for every door:
//! evictions, replacements, devices that policies take out of service, and plans.

use alloc::{collections::BTreeSet, format, sync::Arc, vec::Vec};

use lazaret_model::{
    BreakerStatus, DeviceId, DeviceSelector, DisruptionGuard, GuardPreview, RecentlyOut, Stop, Text,
    Timestamp,
};

use crate::{Fleet, Presence, Problem, count_out_of_service};

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
    /// These are all guards from now on.
    pub fn set(&mut self, guards: &[Arc<DisruptionGuard>]) {
        let guarding = |guard: &Arc<DisruptionGuard>| Guarding {
            guard: Arc::clone(guard),
            reach: None,
            breaker: guard.status,
            stop: None,
        };
        self.list = guards.iter().map(guarding).collect();
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Finds out what each guard says now. Breakers are counted: their statuses may be late.
    pub fn look(&mut self, now: Timestamp, fleet: &Fleet) {
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

    /// Why nothing may begin on a device, as things were when they were [looked at](Self::look): the guard that permits least.
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
