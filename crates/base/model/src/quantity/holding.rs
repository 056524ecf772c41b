//! How Kubernetes would hold the number.
//!
//! Two answers there depend on more than the number. `AsInt64`, which CEL's `isInteger` and `asInteger` call, only
//! succeeds for numbers held as a 64-bit integer with a decimal scale that is not negative, so that `1k` is an
//! integer and `1000m` or `1.5Gi` is not. And `AsApproximateFloat64` rounds the mantissa before it scales it. To
//! give the same answers, a quantity remembers how it came about, in bytes that would otherwise be padding.
//!
//! DEVIATION(quantity-zero-scale): a zero written finer than nano (`0e-12`) counts as nano here, so a float of a sum with it may differ in
//! its last bit.

use num_bigint::{BigInt, Sign};

use super::{Nanos, Quantity};

/// Kept by every quantity beside its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Holding {
    /// The power of ten that the mantissa counts, -9 to 1024.
    pub(super) scale: i16,
    /// Arbitrary precision, as opposed to a mantissa of 64 bits.
    pub(super) decimal: bool,
}

impl Holding {
    pub(super) const fn integer(scale: i16) -> Self {
        Self { scale, decimal: false }
    }

    pub(super) const fn decimal(scale: i16) -> Self {
        Self { scale, decimal: true }
    }

    /// How a sum of two that are not zero is held, `total` in nano-units where it is small. Two integers give an integer at the finer
    /// scale unless a step on the way leaves 64 bits.
    pub(super) fn of_sum(left: (Self, i128), right: (Self, i128), total: Option<i128>) -> Self {
        let ((a, left), (b, right)) = (left, right);
        let scale = a.scale.min(b.scale);
        if a.decimal || b.decimal {
            return Self::decimal(scale);
        }
        let fits = |nanos: i128| mantissa_i64(nanos, scale).is_some();
        let held = fits(left) && fits(right) && total.is_some_and(fits);
        Self { scale, decimal: !held }
    }
}

impl Quantity {
    /// The answer of Kubernetes' `AsInt64`: the whole number, unless it was written or came about in a way that is
    /// held with a fraction (`1000m`) or as an arbitrary decimal (`1.5Gi`, `4Pi`). For the number itself see
    /// [`Quantity::as_i64`].
    #[must_use]
    pub fn as_i64_if_held_so(&self) -> Option<i64> {
        let holding = self.holding();
        if holding.decimal || holding.scale < 0 { None } else { self.as_i64() }
    }

    /// Whether nothing tells the two apart: the number, how it is written, and how it is held.
    #[must_use]
    pub fn is_identical(&self, other: &Self) -> bool {
        self.holding() == other.holding() && self.format() == other.format() && self == other
    }

    /// The nearest float, the way Kubernetes' `AsApproximateFloat64` rounds: mantissa first, then the scale.
    #[must_use]
    pub fn approximate_f64(&self) -> f64 {
        let scale = self.holding().scale;
        let mantissa = match self.nanos() {
            Nanos::Small(nanos) => match 10_i128.checked_pow(nano_digits(scale)) {
                #[expect(clippy::cast_precision_loss, reason = "rounds to nearest, as asked")]
                Some(unit) => (nanos / unit) as f64,
                None => 0.0,
            },
            Nanos::Big(nanos) => nearest_f64(&(nanos / BigInt::from(10).pow(nano_digits(scale)))),
        };
        if scale == 0 { mantissa } else { mantissa * power_of_ten(scale) }
    }

    pub(super) const fn holding(&self) -> Holding {
        match &self.0 {
            super::Stored::Small { holding, .. } | super::Stored::Big { holding, .. } => *holding,
        }
    }
}

/// The mantissa at `scale` of a number of nano-units, if that is exact and has 64 bits.
pub(super) fn mantissa_i64(nanos: i128, scale: i16) -> Option<i64> {
    let unit = 10_i128.checked_pow(nano_digits(scale))?;
    if nanos % unit == 0 { i64::try_from(nanos / unit).ok() } else { None }
}

/// How many digits lie between nano-units and units of `10^scale`.
fn nano_digits(scale: i16) -> u32 {
    u32::try_from(i32::from(scale) + 9).unwrap_or(0)
}

/// Rounds to the nearest float, ties to even: 64 leading bits and a sticky one decide.
fn nearest_f64(value: &BigInt) -> f64 {
    let shift = value.bits().saturating_sub(126);
    let magnitude = value.magnitude();
    let head = magnitude >> shift;
    let sticky = u128::from((&head << shift) != *magnitude);
    #[expect(clippy::cast_precision_loss, reason = "rounds to nearest, as asked")]
    let mut float = (u128::try_from(&head).unwrap_or(u128::MAX) | sticky) as f64;
    for _ in 0..shift {
        float *= 2.0;
    }
    if value.sign() == Sign::Minus { -float } else { float }
}

/// The power of ten as Go's `math.Pow10` computes it: one of 10^(32n), times or over one of 10^0 to 10^31.
fn power_of_ten(exponent: i16) -> f64 {
    const UNITS: [f64; 32] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
    ];
    const STEPS: [f64; 10] = [1e0, 1e32, 1e64, 1e96, 1e128, 1e160, 1e192, 1e224, 1e256, 1e288];
    let size = usize::from(exponent.unsigned_abs());
    if exponent < 0 {
        // A scale is never below -9, so the step is always 10^0.
        UNITS.get(size).map_or(0.0, |unit| 1.0 / unit)
    } else if exponent > 308 {
        f64::INFINITY
    } else {
        STEPS[size / 32] * UNITS[size % 32]
    }
}
