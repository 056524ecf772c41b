//! Exact Kubernetes quantities: decimal numbers with a suffix. No floats.
//!
//! A value is a whole number of nano-units, the finest the API keeps: an `i128` where it fits, a big integer where
//! not, so that sums of what people write are exact.

mod arithmetic;
mod canonical;
mod holding;
mod parse;
#[cfg(test)]
mod tests;

use alloc::{boxed::Box, string::String};
use core::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use num_bigint::{BigInt, Sign};

use holding::Holding;

/// Nano-units in one unit.
const NANOS: i128 = 1_000_000_000;
/// Nano-units in one milli-unit.
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The suffix family a quantity is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m "" k M G T P E`.
    DecimalSi,
    /// `"" Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`, `E6`.
    DecimalExponent,
}

/// An exact amount. Equality, order and hash are those of the number; the format is only how it is written.
#[derive(Clone)]
pub struct Quantity(Stored);

/// The 128-bit value stands as two words so that a quantity has the alignment of a word and takes three of them.
#[derive(Clone)]
enum Stored {
    /// Nano-units. Always used when the value fits.
    Small { format: Format, holding: Holding, high: i64, low: u64 },
    /// Nano-units beyond `i128`.
    Big { format: Format, holding: Holding, nanos: Box<BigInt> },
}

/// A number of nano-units on its way in or out of a [`Quantity`].
enum Nanos<'a> {
    Small(i128),
    Big(&'a BigInt),
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// Neither digits nor a sign where they must be.
    Number(String),
    /// A suffix that does not exist.
    Suffix(String),
    /// More digits, or an exponent further from zero, than is kept (1024).
    Range(String),
}

impl Quantity {
    /// Reads a quantity: sign, digits, and a suffix. Fractions of a nano-unit are rounded away from zero, and
    /// a number with a binary suffix is limited to 2^63-1.
    ///
    /// # Errors
    /// When the text is none, or is beyond what is kept.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// Nothing.
    #[must_use]
    pub const fn zero() -> Self {
        Self::of_i128(0, Format::DecimalSi, Holding::integer(0))
    }

    /// A whole number, in decimal form.
    #[must_use]
    pub fn from_i64(value: i64) -> Self {
        Self::from_i64_format(value, Format::DecimalSi)
    }

    /// A whole number.
    #[must_use]
    pub fn from_i64_format(value: i64, format: Format) -> Self {
        Self::of_i128(i128::from(value) * NANOS, format, Holding::integer(0))
    }

    /// This number of thousandths.
    #[must_use]
    pub fn from_milli(millis: i128, format: Format) -> Self {
        let holding = if i64::try_from(millis).is_ok() { Holding::integer(-3) } else { Holding::decimal(-3) };
        match millis.checked_mul(NANOS_PER_MILLI) {
            Some(nanos) => Self::of_i128(nanos, format, holding),
            None => Self::of_big(BigInt::from(millis) * NANOS_PER_MILLI, format, holding),
        }
    }

    /// How it is written.
    #[must_use]
    pub const fn format(&self) -> Format {
        match &self.0 {
            Stored::Small { format, .. } | Stored::Big { format, .. } => *format,
        }
    }

    /// The same number, written otherwise.
    #[must_use]
    pub fn with_format(mut self, new: Format) -> Self {
        match &mut self.0 {
            Stored::Small { format, .. } | Stored::Big { format, .. } => *format = new,
        }
        self
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i32 {
        match self.nanos() {
            Nanos::Small(nanos) => match nanos.cmp(&0) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            },
            Nanos::Big(nanos) => match nanos.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// Whether it is less than nothing.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.sign() < 0
    }

    /// Whether the number is whole, however it was written.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        match self.nanos() {
            Nanos::Small(nanos) => nanos % NANOS == 0,
            Nanos::Big(nanos) => nanos % NANOS == BigInt::ZERO,
        }
    }

    /// The number if it is whole and fits, however it was written.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.is_integer().then(|| self.value_i64_rounded_up()).flatten()
    }

    /// The number in whole units, what is left over rounded away from zero; `None` when it does not fit.
    #[must_use]
    pub fn value_i64_rounded_up(&self) -> Option<i64> {
        match self.nanos() {
            Nanos::Small(nanos) => i64::try_from(divide_away_from_zero(nanos, NANOS)).ok(),
            // Beyond `i128` nano-units is far beyond `i64` units.
            Nanos::Big(_) => None,
        }
    }

    /// The number in thousandths if that is exact and fits.
    #[must_use]
    pub fn milli_exact(&self) -> Option<i64> {
        match self.nanos() {
            Nanos::Small(nanos) if nanos % NANOS_PER_MILLI == 0 => {
                i64::try_from(nanos / NANOS_PER_MILLI).ok()
            }
            Nanos::Small(_) | Nanos::Big(_) => None,
        }
    }

    fn nanos(&self) -> Nanos<'_> {
        match &self.0 {
            Stored::Small { high, low, .. } => Nanos::Small((i128::from(*high) << 64) | i128::from(*low)),
            Stored::Big { nanos, .. } => Nanos::Big(nanos),
        }
    }

    fn nanos_big(&self) -> BigInt {
        match self.nanos() {
            Nanos::Small(nanos) => BigInt::from(nanos),
            Nanos::Big(nanos) => nanos.clone(),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "splits the value into its two words"
    )]
    const fn of_i128(nanos: i128, format: Format, holding: Holding) -> Self {
        Self(Stored::Small { format, holding, high: (nanos >> 64) as i64, low: nanos as u64 })
    }

    fn of_big(nanos: BigInt, format: Format, holding: Holding) -> Self {
        match i128::try_from(&nanos) {
            Ok(small) => Self::of_i128(small, format, holding),
            Err(_) => Self(Stored::Big { format, holding, nanos: Box::new(nanos) }),
        }
    }
}

fn divide_away_from_zero(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    if value % divisor == 0 { quotient } else { quotient + value.signum() }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.nanos(), other.nanos()) {
            (Nanos::Small(a), Nanos::Small(b)) => a.cmp(&b),
            (Nanos::Big(a), Nanos::Big(b)) => a.cmp(b),
            // A value that is stored big is further from zero than any that is stored small.
            (Nanos::Big(_), Nanos::Small(_)) => self.sign().cmp(&0),
            (Nanos::Small(_), Nanos::Big(_)) => 0.cmp(&other.sign()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.nanos() {
            Nanos::Small(nanos) => nanos.hash(state),
            Nanos::Big(nanos) => nanos.hash(state),
        }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::zero()
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(text) => {
                write!(f, "{text:?} is not a quantity: write digits, then a suffix, as in 500m or 2Gi")
            }
            Self::Suffix(suffix) => write!(
                f,
                "unknown suffix {suffix:?}: use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"
            ),
            Self::Range(text) => write!(f, "{text:?} is out of range: at most 1024 digits before the point"),
        }
    }
}

impl core::error::Error for QuantityError {}
