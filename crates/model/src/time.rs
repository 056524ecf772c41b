//! Time as a number. Nothing in a core reads a clock: whoever calls says what time it is.

use core::fmt;

/// Milliseconds since 1970-01-01T00:00:00Z. Arithmetic saturates: the far future is [`Timestamp::NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Later than every instant that can occur.
    pub const NEVER: Self = Self(i64::MAX);
    /// The epoch.
    pub const EPOCH: Self = Self(0);

    /// From milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From whole seconds since the epoch, saturating.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down: the resolution that the API keeps.
    #[must_use]
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The same instant at the API's resolution of one second.
    #[must_use]
    pub const fn truncated_to_secs(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1000))
    }

    /// This instant and `secs` more. Saturates at [`Timestamp::NEVER`]: a toleration of 300 years means for ever.
    #[must_use]
    pub const fn plus_secs(self, secs: i64) -> Self {
        Self(self.0.saturating_add(secs.saturating_mul(1000)))
    }

    /// This instant and `millis` more, saturating.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this instant; negative when `earlier` is later. Saturates.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            f.write_str("never")
        } else {
            write!(f, "{}.{:03}s", self.0.div_euclid(1000), self.0.rem_euclid(1000))
        }
    }
}
