//! Whose ResourceSlices are to be deleted, and when: those of all drivers at the start, and those of a driver that cannot be
//! called any more.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use lazaret_machine::Backoff;

use crate::Millis;

/// A driver that cannot be called for this long loses its slices, as kubelet has it.
pub const WIPE_AFTER_MS: Millis = 30_000;
const RETRY: Backoff = Backoff::new(1_000, 300_000);

#[derive(Clone, Copy, Debug)]
struct Attempt {
    at: Millis,
    failures: u32,
    is_in_flight: bool,
}

/// Slices to delete; `None` is all drivers of the node.
#[derive(Clone, Debug)]
pub(crate) struct Wipes {
    pending: BTreeMap<Option<String>, Attempt>,
}

impl Wipes {
    /// At the start no driver is registered, so none can be called.
    pub(crate) fn at_start(now: Millis) -> Self {
        let all = (None, Attempt { at: now, failures: 0, is_in_flight: false });
        Self { pending: [all].into() }
    }

    /// A driver can be called, or cannot. A timer that runs is not started again.
    pub(crate) fn usable(&mut self, now: Millis, driver: &str, is_usable: bool) {
        let key = Some(String::from(driver));
        if is_usable {
            self.pending.remove(&key);
        } else {
            let attempt = Attempt { at: now + WIPE_AFTER_MS, failures: 0, is_in_flight: false };
            self.pending.entry(key).or_insert(attempt);
        }
    }

    pub(crate) fn due(&mut self, now: Millis) -> Vec<Option<String>> {
        let mut due = Vec::new();
        for (driver, attempt) in &mut self.pending {
            if !attempt.is_in_flight && attempt.at <= now {
                attempt.is_in_flight = true;
                due.push(driver.clone());
            }
        }
        due
    }

    pub(crate) fn ended(&mut self, now: Millis, driver: &Option<String>, is_done: bool) {
        if is_done {
            self.pending.remove(driver);
        } else if let Some(attempt) = self.pending.get_mut(driver) {
            attempt.failures += 1;
            attempt.is_in_flight = false;
            attempt.at = now + RETRY.millis_after(attempt.failures);
        }
    }

    pub(crate) fn wake(&self) -> Option<Millis> {
        let waiting = self.pending.values().filter(|attempt| !attempt.is_in_flight);
        waiting.map(|attempt| attempt.at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_wiped_at_the_start_and_30_s_after_a_driver_is_lost_but_not_on_a_quick_restart() {
        let mut wipes = Wipes::at_start(0);
        assert_eq!(wipes.due(0), [None]);
        assert!(wipes.due(5_000).is_empty(), "in flight");
        wipes.ended(5_000, &None, false);
        assert_eq!((wipes.wake(), wipes.due(6_000)), (Some(6_000), [None].into()));
        wipes.ended(6_000, &None, true);
        wipes.usable(10_000, "d", false);
        wipes.usable(20_000, "d", false);
        assert!(wipes.due(39_999).is_empty());
        assert_eq!(wipes.due(40_000), [Some("d".into())], "counted from when it was lost");
        wipes.ended(40_000, &Some("d".into()), true);
        assert_eq!(wipes.wake(), None);
        wipes.usable(50_000, "d", false);
        wipes.usable(79_999, "d", true);
        assert!(wipes.due(200_000).is_empty(), "it came back in time");
    }
}
