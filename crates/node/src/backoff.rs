//! Pauses that double.

use crate::Millis;

/// A pause between attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first_ms: Millis,
    pub(crate) most_ms: Millis,
}

impl Backoff {
    /// The pause after this many failures in a row.
    pub(crate) fn after(self, failures: u32) -> Millis {
        let doubled = self.first_ms.saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(self.most_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first_ms: 500, most_ms: 122_000 };
        let pauses = [1, 2, 3, 8, 9, 100].map(|failures| backoff.after(failures));
        assert_eq!(pauses, [500, 1_000, 2_000, 64_000, 122_000, 122_000]);
    }
}
