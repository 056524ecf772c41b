//! The only place that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lazaret_model::Timestamp;

/// What time it is.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the clock of the shell")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Waits until the clock shows `at`; for ever without one.
pub async fn sleep_until(at: Option<Timestamp>) {
    match at {
        // A clock may be set while somebody waits: never sleep long without looking at it again.
        Some(at) => {
            while let left @ 1.. = at.as_millis().saturating_sub(now().as_millis()) {
                tokio::time::sleep(Duration::from_millis(left.unsigned_abs().min(10_000))).await;
            }
        }
        None => std::future::pending().await,
    }
}
