//! RestartBackoff between a panic and the next start.

use lazaret_machine::Backoff;

/// The first pause is 100 ms and each is twice the one before, up to a minute: a task that panics every time is tried once a minute, for a user may
/// mend the cause.
const PAUSES: Backoff = Backoff::new(100, 60_000);
/// A task that ran for this long was healthy: its next panic is a first one.
const HEALTHY_MS: i64 = 60_000;

/// Panics of one task in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestartBackoff {
    panics: u32,
}

impl RestartBackoff {
    /// The pause after a panic of a task that ran for `ran_ms`.
    pub fn after(&mut self, ran_ms: i64) -> i64 {
        if ran_ms >= HEALTHY_MS {
            self.panics = 0;
        }
        self.panics = self.panics.saturating_add(1);
        PAUSES.after(self.panics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_longest_and_begin_anew_with_a_task_that_was_healthy() {
        let mut pauses = RestartBackoff::default();
        assert_eq!([(); 4].map(|()| pauses.after(0)), [100, 200, 400, 800]);
        for _ in 0..20 {
            pauses.after(0);
        }
        assert_eq!(pauses.after(HEALTHY_MS - 1), 60_000);
        assert_eq!(pauses.after(HEALTHY_MS), 100);
    }
}
