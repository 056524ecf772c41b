//! The one place of this crate where time is read: to measure the disk, never to decide about data.

use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Microseconds since this was first asked, never zero.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn micros() -> u64 {
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}
