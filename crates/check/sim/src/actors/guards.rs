//! Guards: an administrator writes them, controllers hear of them a while later and write where their breakers stand.

use std::sync::Arc;

use lazaret_eviction::{Input, Outcome, SetGuardStatus};
use lazaret_model::{
    Approval, Approvers, Breaker, BreakerUnit, ConfirmAbove, DeviceSelector, DeviceTaintRule,
    DisruptionGuard, Impact, Pause, Review, Share, TaintApproval, TaintHold, Text, WindowStatus,
};

use crate::{
    api::wall,
    coverage::Mark,
    mutant::Mutant,
    palette,
    world::{Step, World},
};

/// The attribute that names a fault domain: drivers publish it, and patches change it and take it away.
pub(crate) const FAULT_DOMAIN: &str = "model";
/// How many guards there are at most.
const GUARDS: u32 = 2;

/// The approval of a taint as the status of a guard has it.
fn approval_of(hold: &TaintHold, by: &str) -> TaintApproval {
    TaintApproval { taint: hold.taint.clone(), since: hold.since, seen: hold.impact, by: Some(by.into()) }
}

impl World {
    /// Guard `number` is written, or taken away.
    pub(crate) fn write_guard(&mut self, number: u32, how: u32, seconds: u32) {
        let name = Text::from(format!("guard-{}", number % GUARDS));
        let known = self.guards.remove(&name);
        if !how.is_multiple_of(4) {
            let uid = known.as_ref().map_or_else(|| self.api.new_uid(), |known| known.uid.clone());
            let until = wall(self.now).plus_secs(i64::from(seconds % 20));
            let guard = DisruptionGuard {
                name: name.clone(),
                uid,
                generation: known.as_ref().map_or(1, |known| known.generation + 1),
                selector: self.selector(how / 4).filter(|_| (how / 3).is_multiple_of(2)),
                paused: (how % 4 == 1).then(|| Pause {
                    reason: "played".into(),
                    until: (!seconds.is_multiple_of(3)).then_some(until),
                }),
                breaker: (how % 4 != 1 && seconds % 13 != 12).then_some(Breaker {
                    max_out_of_service: [Share::Count(1), Share::Percent(20), Share::Percent(50)]
                        [(how / 4 % 3) as usize],
                    of: match (how % 4, seconds % 2) {
                        (2, _) => BreakerUnit::Devices,
                        (_, 0) => BreakerUnit::FaultDomains { attribute: palette::word(FAULT_DOMAIN) },
                        _ => BreakerUnit::Nodes,
                    },
                    window_seconds: [0, 0, 20, 0, 0, 10, 0, 0][(seconds / 7 % 8) as usize],
                    reset_after_seconds: i64::from(seconds % 7),
                }),
                windows: if (how / 5).is_multiple_of(8) {
                    vec![palette::window(seconds / 64)]
                } else {
                    Vec::new()
                },
                confirm_above: (how / 16).is_multiple_of(2).then(|| ConfirmAbove {
                    pods: [None, Some(0), Some(1), Some(4)][(how / 32 % 4) as usize],
                    namespaces: (how / 128).is_multiple_of(3).then_some(1),
                    devices: [None, Some(Share::Count(2)), Some(Share::Percent(10))]
                        [(seconds / 20 % 3) as usize],
                }),
                approvers: if (how / 256).is_multiple_of(2) {
                    Approvers::Anyone
                } else {
                    Approvers::Different
                },
                reset_at: seconds.is_multiple_of(11).then(|| wall(self.now)),
                status: known.as_ref().map(|known| known.status).unwrap_or_default(),
                window_status: known.as_ref().and_then(|known| known.window_status),
                preview: known.as_ref().and_then(|known| known.preview.clone()),
                held: known.as_ref().map(|known| known.held.clone()).unwrap_or_default(),
                approvals: known.filter(|_| seconds.is_multiple_of(2)).map_or_else(Vec::new, |known| {
                    let by = if seconds.is_multiple_of(3) { "system:node:n" } else { "bob" };
                    known.held.iter().map(|hold| approval_of(hold, by)).collect()
                }),
            };
            self.guards.insert(name, Arc::new(guard));
        }
        self.tell_guards();
    }

    /// Whether some guard wants approval of rules that reach far: then a rule that is written has no effect before it was decided about.
    pub(crate) fn approval_is_wanted(&self) -> bool {
        self.guards.values().any(|guard| guard.confirm_above.is_some())
    }

    /// The author of a rule whose spec was written, as the server names it.
    pub(crate) fn review(&self) -> Option<Box<Review>> {
        let author = Review { is_required: true, written_by: Some("alice".into()), ..Review::default() };
        self.approval_is_wanted().then(|| Box::new(author))
    }

    /// A person approves a rule that was seen to reach this much, whatever it reaches.
    pub(crate) fn approve(&mut self, name: &Text, number: u32) {
        let seen = Impact {
            pods: u64::from(number % 16),
            namespaces: u64::from(number / 16 % 4),
            devices: u64::from(number / 64 % 64),
        };
        self.write_approval(name, seen, if number.is_multiple_of(3) { "alice" } else { "bob" });
    }

    /// A person approves a rule for its reach as far as a client has seen it, or for less: as if it had been looked at before it reached more.
    pub(crate) fn approve_as_seen(&mut self, name: &Text, number: u32) {
        let Some(stored) = self.api.rules.get(name) else { return };
        let rule = DeviceTaintRule::clone(stored.object);
        let Impact { pods, namespaces, devices } = self.impact(0, &rule, None);
        let part = [1, 2, 1_000][(number % 3) as usize];
        let seen = Impact { pods: pods / part, namespaces, devices: devices.div_ceil(part) };
        self.write_approval(name, seen, if (number / 3).is_multiple_of(5) { "alice" } else { "bob" });
    }

    fn write_approval(&mut self, name: &Text, seen: Impact, by: &str) {
        let Some(stored) = self.api.rules.get(name) else { return };
        let mut rule = DeviceTaintRule::clone(stored.object);
        let approval = Approval {
            uid: rule.uid.clone(),
            generation: rule.generation,
            seen,
            by: Some(by.into()),
            ..Approval::default()
        };
        rule.review.get_or_insert_default().approval = Some(approval);
        self.api.rules.put(&mut self.api.versions, rule);
        self.coverage.hit(Mark::Approved);
    }

    /// Faults end, and so do guards.
    pub(crate) fn lift_guards(&mut self) {
        self.guards.clear();
        self.tell_guards();
    }

    /// Controllers hear of the guards, each when its watch comes to it.
    pub(crate) fn tell_guards(&mut self) {
        for number in 0..self.controllers.len() {
            self.push_soon(self.config.lag_ms, Step::Guards(number));
        }
    }

    /// A controller hears of the guards as they are.
    pub(crate) fn hear_guards(&mut self, number: usize) {
        if self.clients[number].down {
            return;
        }
        let mut guards: Vec<Arc<DisruptionGuard>> = self.guards.values().map(Arc::clone).collect();
        self.controllers[number].guards = guards.clone();
        let distort: Option<fn(&mut DisruptionGuard)> = match self.mutant {
            Some(Mutant::IgnorePause) => Some(|guard| guard.paused = None),
            Some(Mutant::IgnoreGuardWindows) => Some(|guard| guard.windows.clear()),
            Some(Mutant::IgnoreBreaker) => Some(|guard| guard.breaker = None),
            Some(Mutant::IgnoreBreakerWindow) => Some(|guard| {
                guard.breaker.iter_mut().for_each(|breaker| breaker.window_seconds = 0);
            }),
            Some(Mutant::DevicesForDomains) => Some(|guard| {
                let domains = |breaker: &&mut Breaker| matches!(breaker.of, BreakerUnit::FaultDomains { .. });
                if let Some(breaker) = guard.breaker.as_mut().filter(domains) {
                    breaker.of = BreakerUnit::Devices;
                }
            }),
            Some(Mutant::ForgetTrips) => Some(|guard| guard.status.trips = 0),
            Some(Mutant::IgnoreConfirm) => Some(|guard| guard.confirm_above = None),
            Some(Mutant::ApproveTaints) => Some(|guard| {
                guard.approvals = guard.held.iter().map(|hold| approval_of(hold, "bob")).collect()
            }),
            Some(Mutant::OpenGuards) => Some(|guard| {
                let selector = guard.selector.as_mut();
                let is_broken =
                    |one: &&mut DeviceSelector| one.cel.iter().any(|text| palette::is_broken(text));
                if let Some(selector) = selector.filter(is_broken) {
                    *selector = DeviceSelector { device: Some("none".into()), ..DeviceSelector::default() };
                }
            }),
            Some(_) | None => None,
        };
        if let Some(distort) = distort {
            guards.iter_mut().for_each(|guard| distort(Arc::make_mut(guard)));
        }
        self.feed(number, Input::Guards(&guards));
    }

    pub(crate) fn perform_guard(&mut self, write: &SetGuardStatus) -> Outcome {
        let Some(known) = self.guards.get(&write.guard).filter(|guard| guard.uid == write.uid) else {
            return Outcome::Gone;
        };
        let (known, mut write) = (Arc::clone(known), write.clone());
        if let (Some(Mutant::CountTripsAgain), Some(breaker)) = (self.mutant, &mut write.breaker) {
            breaker.trips += u64::from(known.status.tripped && breaker.tripped);
        }
        let is_counted =
            write.breaker.is_some_and(|breaker| !breaker.may_follow(&write.known, &known.status));
        if is_counted && self.mutant != Some(Mutant::UncheckedTrips) {
            return Outcome::Conflict;
        }
        self.check_trips(&known, &write);
        let mut guard = DisruptionGuard::clone(&known);
        (guard.status, guard.window_status) = (write.breaker.unwrap_or_default(), write.window);
        guard.preview = Some(write.preview);
        guard.held = write.held.unwrap_or_default();
        if guard.held.iter().any(TaintHold::is_held) {
            self.coverage.hit(Mark::TaintHeld);
        }
        if guard.status.tripped {
            self.coverage.hit(Mark::Tripped);
        }
        if matches!(guard.window_status, Some(WindowStatus::ClosedUntil(_))) {
            self.coverage.hit(Mark::WindowClosed);
        }
        self.guards.insert(write.guard, Arc::new(guard));
        self.tell_guards();
        Outcome::Done
    }
}
