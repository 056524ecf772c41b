//! Limits that no eviction exceeds, whatever its reason.

use alloc::{format, string::String, vec::Vec};

use crate::{
    Approvers, ConfirmAbove, DeviceId, DeviceSelector, PoolId, TaintApproval, TaintHold, Text, Timestamp,
    Uid, Window,
};

/// A limit that an administrator puts on evictions from some devices.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DisruptionGuard {
    /// Its name.
    pub name: Text,
    /// The incarnation.
    pub uid: Uid,
    /// Grows with each change of the spec.
    pub generation: i64,
    /// Which devices; `None` selects all.
    pub selector: Option<DeviceSelector>,
    /// No eviction begins.
    pub paused: Option<Pause>,
    /// No eviction begins while too many devices are out of service.
    pub breaker: Option<Breaker>,
    /// Evictions begin only while one of these is open; none: at any time.
    pub windows: Vec<Window>,
    /// A rule that reaches more has no effect before it is approved.
    pub confirm_above: Option<ConfirmAbove>,
    /// The users who may approve it.
    pub approvers: Approvers,
    /// Since this instant a breaker that was tripped before is not, by a person's word.
    pub reset_at: Option<Timestamp>,
    /// Where the breaker stands, as the status says.
    pub status: BreakerStatus,
    /// Whether a window is open, as the status says.
    pub window_status: Option<WindowStatus>,
    /// How much it selects, as the status says.
    pub preview: Option<GuardPreview>,
    /// Taints that no rule sets and that reach more than is permitted without approval, as the status says.
    pub held: Vec<TaintHold>,
    /// The approvals of drivers' taints.
    pub approvals: Vec<TaintApproval>,
}

impl DisruptionGuard {
    /// Whether one of its windows is open; nothing if it has none.
    #[must_use]
    pub fn window_at(&self, now: Timestamp) -> Option<WindowStatus> {
        let closed = || Window::closed_until(&self.windows, now);
        (!self.windows.is_empty()).then(|| closed().map_or(WindowStatus::Open, WindowStatus::ClosedUntil))
    }

    /// Why nothing may begin on the devices that it selects, if nothing may. Everything that evicts a pod, replaces one or takes a device out of
    /// service because of a device asks this. `is_tripped`: its breaker is; `window`: see [`Self::window_at`].
    #[must_use]
    pub fn stop(&self, now: Timestamp, is_tripped: bool, window: Option<WindowStatus>) -> Option<Stop> {
        if self.paused.as_ref().is_some_and(|pause| pause.holds(now)) {
            Some(Stop::Paused)
        } else if self.breaker.is_some() && is_tripped {
            Some(Stop::Breaker)
        } else {
            matches!(window, Some(WindowStatus::ClosedUntil(_))).then_some(Stop::Window)
        }
    }

    /// The message for people, the same everywhere. `breaker`: where its breaker stands; `problem`: why it is not understood.
    #[must_use]
    pub fn stop_message(&self, stop: Stop, breaker: &BreakerStatus, problem: &str) -> Text {
        let name = &self.name;
        let message = match stop {
            Stop::NotUnderstood => format!("DisruptionGuard {name} is not understood: {problem}"),
            Stop::Paused => {
                let reason = self.paused.as_ref().map_or("", |pause| &pause.reason);
                format!("DisruptionGuard {name} is paused: {reason}")
            }
            Stop::Breaker => {
                let words = self.breaker.as_ref().map(|one| one.words(breaker)).unwrap_or_default();
                format!("DisruptionGuard {name} is tripped: {words}")
            }
            Stop::Window => format!("no window of DisruptionGuard {name} is open"),
        };
        message.into()
    }
}

/// Why a guard lets nothing begin on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// It is not known whether the guard selects the device.
    NotUnderstood,
    /// The guard is paused.
    Paused,
    /// Its breaker is tripped.
    Breaker,
    /// None of its windows is open.
    Window,
}

/// How much a guard selects, as its status says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GuardPreview {
    /// The generation of the guard.
    pub generation: i64,
    /// Devices that it selects.
    pub devices: u64,
    /// Why it is not understood, in whole or on some devices.
    pub problem: Option<Text>,
}

/// Whether evictions may begin by the windows of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStatus {
    /// One of them is open.
    Open,
    /// None is open; the next opens at this instant.
    ClosedUntil(Timestamp),
}

/// No eviction begins.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pause {
    /// Why, for people.
    pub reason: Text,
    /// The end of the pause; `None`: until a person resumes.
    pub until: Option<Timestamp>,
}

impl Pause {
    /// Whether it holds at an instant.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// How many devices may be out of service for evictions to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// How many.
    pub max_out_of_service: Share,
    /// Of what.
    pub of: BreakerUnit,
    /// Whatever was out of service within this time counts, although it is back. 0: only what is out of service now.
    pub window_seconds: i64,
    /// For how long it has to be below before evictions begin again.
    pub reset_after_seconds: i64,
}

/// A number, or a part of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A number.
    Count(u64),
    /// This percentage, rounded down, but one at least unless it is 0%.
    Percent(u64),
}

impl Share {
    /// The number that this share is of `total`. A percentage of a small fleet permits one: 10% of 9 devices is 1, not 0, for a limit of 0 would
    /// stop everything.
    #[must_use]
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                (total.saturating_mul(percent) / 100).max(u64::from(percent > 0 && total > 0))
            }
        }
    }
}

/// The things that a breaker counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum BreakerUnit {
    /// Devices with a taint that keeps new claims away.
    #[default]
    Devices,
    /// Nodes with such a device.
    Nodes,
    /// Fault domains with such a device.
    FaultDomains {
        /// The attribute of devices that names their fault domain; without a domain of its own it is the driver's.
        attribute: Text,
    },
}

impl BreakerUnit {
    /// The plural of the unit, in messages.
    #[must_use]
    pub fn plural(&self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Nodes => "nodes",
            Self::FaultDomains { .. } => "fault domains",
        }
    }
}

/// One of those that a breaker counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// A device.
    Device(DeviceId),
    /// A node; also the fault domain of its devices that name none.
    Node(Text),
    /// A fault domain, by the value of the attribute that names it. Devices of several drivers can be in one.
    FaultDomain(Text),
    /// The fault domain of devices that name none and are on no single node.
    Pool(PoolId),
}

/// Where a breaker stands. All that has to survive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BreakerStatus {
    /// No eviction begins.
    pub tripped: bool,
    /// How often it tripped.
    pub trips: u64,
    /// Since when more are out of service than permitted, or since when it is tripped.
    pub exceeded_since: Option<Timestamp>,
    /// It is tripped, and since this instant no more are out of service than permitted.
    pub below_since: Option<Timestamp>,
    /// Out of service.
    pub out_of_service: u64,
    /// Permitted to be.
    pub permitted: u64,
    /// In all.
    pub total: u64,
    /// How many of those that count as out of service are back, and were so within the breaker's window.
    pub recent: u64,
    /// When the last of these counts no more.
    pub recent_until: Option<Timestamp>,
}

impl BreakerStatus {
    /// Whether this may be written by who knew the breaker as `known`, where the status has `stored`: nobody has counted since, or it was this count.
    #[must_use]
    pub fn may_follow(&self, known: &Self, stored: &Self) -> bool {
        let count = |status: &Self| (status.trips, status.tripped);
        count(stored) == count(known) || count(stored) == count(self)
    }
}

/// How much there is, and how much of it is out of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Out of service, or so within the breaker's window.
    pub out: u64,
    /// In all.
    pub total: u64,
    /// How many of `out` are back.
    pub recent: u64,
    /// When the last of these counts no more.
    pub recent_until: Option<Timestamp>,
}

impl Breaker {
    /// Where it stands, in the words that every message about it has.
    #[must_use]
    pub fn words(&self, status: &BreakerStatus) -> String {
        let BreakerStatus { out_of_service, permitted, total, .. } = status;
        let (units, within) = (self.of.plural(), within(self.window_seconds));
        format!("{out_of_service} of {total} {units} out of service{within}, {permitted} permitted")
    }

    /// Where it stands now. It trips as soon as more are out of service than permitted, and is reset when it has been below for long enough, or
    /// by a person: then it does not trip again before it was below.
    #[must_use]
    pub fn step(
        &self,
        now: Timestamp,
        reset_at: Option<Timestamp>,
        before: BreakerStatus,
        count: Counted,
    ) -> BreakerStatus {
        let permitted = self.max_out_of_service.of(count.total);
        let Counted { out, total, recent, recent_until } = count;
        let mut next =
            BreakerStatus { out_of_service: out, permitted, total, recent, recent_until, ..before };
        let since = before.exceeded_since.map_or(now, |since| since.min(now));
        let is_reset = reset_at.is_some_and(|reset_at| reset_at >= since);
        if count.out > permitted {
            next.exceeded_since = Some(since);
            next.below_since = None;
            next.tripped = !is_reset;
            next.trips += u64::from(next.tripped && !before.tripped);
            return next;
        }
        let below_since = before.below_since.map_or(now, |below| below.min(now));
        let is_over = below_since.plus_secs(self.reset_after_seconds) <= now;
        if before.tripped && !is_reset && !is_over {
            next.below_since = Some(below_since);
        } else {
            (next.tripped, next.exceeded_since, next.below_since) = (false, None, None);
        }
        next
    }
}

/// Within which time something counts as out of service, in messages; nothing where only what is so now counts.
#[must_use]
pub fn within(window_seconds: i64) -> String {
    if window_seconds > 0 { format!(" within {window_seconds} s") } else { String::new() }
}
