//! The one place of this crate where time is read.

/// Now, by the machine's clock.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
