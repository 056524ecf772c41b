//! The clock of this crate.

use std::time::SystemTime;

#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
