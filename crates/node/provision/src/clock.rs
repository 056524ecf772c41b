//! The only place that reads a clock.

use k8s_openapi::jiff;
use tokio::time::Instant;

/// Now, by the runtime's own clock, which is monotonic and which a test can stop.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time for the name of a directory, as kubelet writes it.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn stamp() -> String {
    let now = jiff::Timestamp::now();
    let civil = now.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    format!(
        "{:04}_{:02}_{:02}_{:02}_{:02}_{:02}.{:09}",
        civil.year(),
        civil.month(),
        civil.day(),
        civil.hour(),
        civil.minute(),
        civil.second(),
        civil.subsec_nanosecond()
    )
}
