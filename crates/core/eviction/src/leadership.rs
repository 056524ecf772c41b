//! Beginning to lead, ceasing to, and a clock that is set back.
//!
//! Across a change of leaders neither pace nor burst may be exceeded, and nobody tells the new leader what the old one
//! granted. So a new leader begins with empty buckets, and only a taint set after it began has its burst (see
//! `causes`). The price: the first pods of an old taint wait for one interval of its pace.

use lazaret_fleet::Fleet;
use lazaret_invariant::invariant;
use lazaret_machine::Recent;
use lazaret_model::Timestamp;

use crate::{
    Eviction,
    capacity_wait::CapacityWait,
    limiter::Limiter,
    machine::REMEMBERED_MAX,
    pods::{Permit, Phase},
};

impl Eviction {
    pub(crate) fn start_leading(&mut self, now: Timestamp, fleet: &Fleet) {
        if self.leader_since.is_some() {
            return;
        }
        self.leader_since = Some(now);
        self.closing = false;
        self.paces.start_empty(self.options.burst, now);
        self.ceiling = self
            .options
            .global_per_second
            .map(|rate| Limiter::empty_since(rate, self.options.burst, now, now));
        self.counted = Recent::new(REMEMBERED_MAX);
        self.rules.start_leading();
        let all = self.rules.numbers();
        self.inherit_names(fleet, &all);
        self.views.clear();
        self.restart_guards();
        // A follower has queued no pod.
        for at in self.pods.numbers() {
            self.schedule(at, now);
        }
    }

    pub(crate) fn stop_leading(&mut self, now: Timestamp) {
        if self.leader_since.take().is_none() {
            return;
        }
        for pace in self.flights.abandon() {
            self.paces.release(pace, false, now);
        }
        self.rules.stop_leading();
        self.inherited.clear();
        self.memories.stop_leading();
        self.views.clear();
        self.paces.dismiss();
        self.lines.dismiss();
        self.capacity = CapacityWait::default();
        self.forget_blocked();
        self.pods.clear_timers(|slot| {
            if let Phase::InFlight(_) = slot.phase {
                slot.phase = Phase::Waiting;
            }
            slot.active = 0;
            slot.failures = 0;
            slot.not_before = None;
            (slot.permit, slot.asked_since) = (Permit::Always, None);
            slot.uncertain = None;
        });
    }

    /// Evictions that were not sent are retracted; statuses are written.
    pub(crate) fn close(&mut self, now: Timestamp) {
        if self.leader_since.is_none() || self.closing {
            return;
        }
        self.closing = true;
        for at in self.flights.untaken_evictions() {
            self.retract(now, at);
        }
        for at in self.rules.numbers() {
            self.rules.touch(at);
        }
    }

    /// Instants that were set by the old clock would come too late by the new one.
    pub(crate) fn clock_went_back(&mut self, now: Timestamp) {
        if self.leader_since.is_some_and(|since| since > now) {
            self.leader_since = Some(now);
        }
        self.paces.retime_all(now);
        self.memories.retry_now();
        self.restart_capacity();
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.settle(now);
        }
        for at in self.rules.numbers() {
            if let Some(state) = self.rules.get_mut(at)
                && let Some(not_before) = &mut state.status.not_before
            {
                *not_before =
                    (*not_before).min(now.plus_millis(self.options.retry_ms(state.status.failures)));
            }
            self.rules.touch(at);
        }
        for at in self.pods.numbers() {
            let Some(slot) = invariant!(self.pods.get_mut(at), "the number of a slot leads to it") else {
                continue;
            };
            if let Some(not_before) = &mut slot.not_before {
                *not_before = (*not_before).min(now.plus_millis(self.options.retry_ms(slot.failures)));
            }
            if let Permit::Since(since, _) = &mut slot.permit {
                *since = (*since).min(now);
            }
            if let Some(asked_since) = &mut slot.asked_since {
                *asked_since = (*asked_since).min(now);
            }
            if let Some(held_until) = &mut slot.held_until {
                *held_until = (*held_until).min(now.plus_millis(self.options.brake_ms_max));
            }
        }
        for at in self.pods.numbers() {
            self.unschedule(at, now);
            self.schedule(at, now);
        }
    }
}
