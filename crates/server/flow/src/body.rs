//! How long a body may take to arrive.

/// The time that any body may take, however short.
const BODY_GRACE_MS: u64 = 10_000;
/// A body arrives at least this fast once the grace is over: 1 MiB a minute.
const BODY_BYTES_PER_SECOND_MIN: u64 = 16 << 10;
/// Every body has arrived after this long, as every request of Kubernetes that is no watch.
const BODY_MS_MAX: u64 = 60_000;

/// When a body that began to arrive at `started_ms`, and of which `received` bytes are there, is given up unless more comes.
#[must_use]
pub fn body_deadline_ms(started_ms: u64, received: u64) -> u64 {
    let earned = received.saturating_mul(1_000) / BODY_BYTES_PER_SECOND_MIN;
    started_ms.saturating_add(BODY_GRACE_MS.saturating_add(earned).min(BODY_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_earn_time_up_to_a_limit() {
        for (received, deadline) in [
            (0, 10_005),
            (1, 10_005),
            (16 << 10, 11_005),
            (160 << 10, 20_005),
            (3 << 20, 60_005),
            (u64::MAX, 60_005),
        ] {
            assert_eq!(body_deadline_ms(5, received), deadline, "{received}");
        }
    }
}
