//! Ranges of costs and sizes. Everything saturates.

/// The least and the most that something can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostRange {
    /// At best.
    pub min: u64,
    /// At worst.
    pub max: u64,
}

/// The least and the most that something can hold: characters, bytes, elements or entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl CostRange {
    pub(super) const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn scale(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl Size {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// That many times `cost`.
    pub(super) fn times(self, cost: CostRange) -> CostRange {
        CostRange { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }

    /// `factor` for each.
    pub(super) fn scale(self, factor: f64) -> CostRange {
        CostRange { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }
}

/// Rounded up, in the floating point that the reference uses.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    libm::ceil(size as f64 * factor) as u64
}
