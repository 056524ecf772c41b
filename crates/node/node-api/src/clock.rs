//! The one place of this crate where time is read.

use jiff::Timestamp;

/// Now, by the machine's clock.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
