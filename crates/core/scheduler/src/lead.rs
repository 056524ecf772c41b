//! Starting and ceasing to write.

use alloc::vec::Vec;

use lazaret_invariant::invariant;

use crate::{flight::Phase, state::Scheduler};

impl Scheduler {
    /// Starts to write.
    pub(crate) fn start_leading(&mut self) {
        if !self.leads {
            self.leads = true;
            self.classic_leads(true);
            self.queue.restart(self.now);
        }
    }

    /// Forgets effects in flight: they may or may not be done, the watch will show it. Acknowledged effects stay.
    pub(crate) fn stop_leading(&mut self) {
        if !self.leads {
            return;
        }
        self.leads = false;
        self.classic_leads(false);
        let withdrawn = self.outbox.withdraw_waiting();
        self.evicting.clear();
        self.pods.for_each_mut(|entry| entry.condition_write = None);
        let unfinished: Vec<u32> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.phase != Phase::Bound)
            .map(|(ix, _)| *ix)
            .collect();
        for ix in unfinished {
            let Some(flight) = invariant!(self.flights.remove(&ix), "a flight that was found is there")
            else {
                continue;
            };
            if flight.awaits.is_some_and(|effect| !withdrawn.contains(&effect))
                && flight.phase == Phase::Binding
            {
                self.set_uncertain(ix);
            }
            if let Some(extended) = flight.extended {
                self.free(&extended.planned_claim_uid);
            }
            self.remove_pod_from_node(ix);
            self.queue.back_off(self.now, ix);
        }
        for key in self.claim_writes.keys() {
            let Some(entry) =
                invariant!(self.claim_writes.get_mut(&key), "a claim that is written has an entry")
            else {
                continue;
            };
            entry.write.take_if(|write| withdrawn.contains(&write.effect));
            if let Some(write) = &mut entry.write {
                write.pods.clear();
            }
            (entry.tries, entry.deallocate) = (0, None);
            entry.wanted.clear();
            entry.unwanted.clear();
            match self.claim_cache.get(&key).cloned() {
                Some(claim) => self.close_if_seen(&key, &claim),
                None if entry.write.is_none() => {
                    let uid = entry.uid.clone();
                    self.free(&uid);
                    self.claim_writes.close(&key);
                }
                None => {}
            }
        }
    }
}
