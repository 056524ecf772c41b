//! From text to number, accepting exactly what Kubernetes accepts up to the limit on digits.
//!
//! Quirks kept on purpose, for an object that the API server took must load here: digits may be missing on either
//! side of the point or altogether (`Ki` and `m` are zero, though `Pi`, `Ei` and `e-10` are not), and zeros may lead.

use num_bigint::BigInt;

use super::{Format, Quantity, QuantityError, divide_away_from_zero, holding::Holding};

/// Digits that are kept, and the largest exponent.
///
/// DEVIATION(quantity-digits): Kubernetes takes exponents of 32 bits, and values
/// that would fill the memory with them.
const DIGITS_MAX: usize = 1024;
/// The number of decimal digits that any mantissa of 64 bits holds.
const MANTISSA_DIGITS_MAX: usize = 18;
const NANO_SCALE: i64 = -9;

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    let parts = Parts::split(text)?;
    let suffix = Suffix::read(parts.suffix).ok_or_else(|| QuantityError::Suffix(parts.suffix.into()))?;
    match suffix {
        Suffix::Decimal { exponent, format } => decimal(text, &parts, exponent, format),
        Suffix::Binary { exponent } => binary(text, &parts, exponent),
    }
}

/// A text in its four parts. The digits are ASCII, those before the point without leading zeros.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// There is a digit, even if it is a leading zero.
    has_digits: bool,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let wrong = || QuantityError::Number(text.into());
        if text.is_empty() {
            return Err(wrong());
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = take(unsigned, |b| b.is_ascii_digit());
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => take(rest, |b| b.is_ascii_digit()),
            None => ("", rest),
        };
        let (_, exponent) = take(suffix, |b| b"eEinumkKMGTP".contains(&b));
        let (_, rest) = take(exponent.strip_prefix(['-', '+']).unwrap_or(exponent), |b| b.is_ascii_digit());
        if !rest.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            negative: text.starts_with('-'),
            whole: whole.trim_start_matches('0'),
            fraction,
            suffix,
            has_digits: !whole.is_empty() || !fraction.is_empty(),
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|digit| digit - b'0')
    }

    /// How many digits Kubernetes counts: at least one before the point.
    fn digit_count(&self) -> usize {
        self.whole.len().max(1) + self.fraction.len()
    }

    fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == 0)
    }

    fn mantissa(&self) -> Mantissa {
        let small =
            self.digits().try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add(digit.into()));
        let mantissa = match small {
            Some(value) => Mantissa::Small(value),
            None => Mantissa::Big(self.digits().fold(BigInt::ZERO, |sum, digit| sum * 10 + digit)),
        };
        if self.negative { mantissa.negated() } else { mantissa }
    }
}

fn take(text: &str, wanted: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len()))
}

enum Suffix {
    Decimal { exponent: i64, format: Format },
    Binary { exponent: u32 },
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        let si = |exponent| Some(Self::Decimal { exponent, format: Format::DecimalSi });
        let binary = |exponent| Some(Self::Binary { exponent });
        match text {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent = text.strip_prefix(['e', 'E'])?.parse().ok()?;
                Some(Self::Decimal { exponent, format: Format::DecimalExponent })
            }
        }
    }
}

fn decimal(text: &str, parts: &Parts<'_>, exponent: i64, format: Format) -> Result<Quantity, QuantityError> {
    let out_of_range = || QuantityError::Range(text.into());
    let count = parts.digit_count();
    let scale = exponent.saturating_sub_unsigned(parts.fraction.len() as u64);
    let plain = count <= MANTISSA_DIGITS_MAX && scale >= NANO_SCALE;
    if !plain && !parts.has_digits {
        return Err(QuantityError::Number(text.into()));
    }
    if parts.is_zero() {
        let scale = i16::try_from(scale.clamp(NANO_SCALE, DIGITS_MAX as i64)).unwrap_or_default();
        return Ok(Quantity::of_i128(0, format, Holding { scale, decimal: !plain }));
    }
    let magnitude = exponent.saturating_add_unsigned(parts.whole.len() as u64);
    if count > DIGITS_MAX || magnitude > DIGITS_MAX as i64 {
        return Err(out_of_range());
    }
    let holding = if plain {
        Holding::integer(i16::try_from(scale).map_err(|_| out_of_range())?)
    } else {
        Holding::decimal(-9)
    };
    Ok(match parts.mantissa().times_power_of_ten(scale.saturating_sub(NANO_SCALE)) {
        Mantissa::Small(nanos) => Quantity::of_i128(nanos, format, holding),
        Mantissa::Big(nanos) => Quantity::of_big(nanos, format, holding),
    })
}

fn binary(text: &str, parts: &Parts<'_>, exponent: u32) -> Result<Quantity, QuantityError> {
    if parts.digit_count() > DIGITS_MAX {
        return Err(QuantityError::Range(text.into()));
    }
    // A bit has 0.3 digits: what is left for the written digits decides how the number is held.
    let plain = parts.fraction.is_empty() && parts.digit_count() + (exponent as usize * 3 / 10) < 15;
    if !plain && !parts.has_digits {
        return Err(QuantityError::Number(text.into()));
    }
    let scaled = parts.mantissa().times_power_of_two(exponent);
    let nanos = scaled.times_power_of_ten(-(parts.fraction.len() as i64) - NANO_SCALE);
    let limit = i128::from(i64::MAX) * super::NANOS;
    let (nanos, capped) = match nanos {
        Mantissa::Small(nanos) if nanos.unsigned_abs() <= limit.unsigned_abs() => (nanos, false),
        Mantissa::Small(_) | Mantissa::Big(_) => (if parts.negative { -limit } else { limit }, true),
    };
    let scale = match nanos {
        // Nothing is not rounded, and stays at the scale it was written in.
        0 => -i16::try_from(parts.fraction.len().min(9)).unwrap_or(9),
        _ if plain || capped => 0,
        _ => -9,
    };
    let holding = Holding { scale, decimal: !plain };
    let below_one = nanos != 0 && nanos.unsigned_abs() < super::NANOS.unsigned_abs();
    let format = if below_one { Format::DecimalSi } else { Format::BinarySi };
    Ok(Quantity::of_i128(nanos, format, holding))
}

enum Mantissa {
    Small(i128),
    Big(BigInt),
}

impl Mantissa {
    fn negated(self) -> Self {
        match self {
            Self::Small(value) => Self::Small(-value),
            Self::Big(value) => Self::Big(-value),
        }
    }

    fn times_power_of_two(self, exponent: u32) -> Self {
        match self {
            Self::Small(value) => match value.checked_mul(1 << exponent) {
                Some(product) => Self::Small(product),
                None => Self::Big(BigInt::from(value) << exponent),
            },
            Self::Big(value) => Self::Big(value << exponent),
        }
    }

    /// Multiplies, or divides and rounds away from zero. The caller bounds positive exponents.
    fn times_power_of_ten(self, exponent: i64) -> Self {
        let size = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let factor = 10_i128.checked_pow(size);
        match self {
            Self::Small(value) if exponent >= 0 => {
                match factor.and_then(|factor| value.checked_mul(factor)) {
                    Some(product) => Self::Small(product),
                    None => Self::Big(BigInt::from(value) * BigInt::from(10).pow(size)),
                }
            }
            Self::Big(value) if exponent >= 0 => Self::Big(value * BigInt::from(10).pow(size)),
            Self::Small(value) => match factor {
                Some(factor) => Self::Small(divide_away_from_zero(value, factor)),
                None => Self::Small(value.signum()),
            },
            Self::Big(value) => Self::Big(divide_big(&value, size)),
        }
    }
}

fn divide_big(value: &BigInt, digits: u32) -> BigInt {
    let sign = if value.sign() == num_bigint::Sign::Minus { -1 } else { 1 };
    if u64::from(digits) > value.bits() {
        return BigInt::from(sign);
    }
    let divisor = BigInt::from(10).pow(digits);
    let quotient = value / &divisor;
    if value % &divisor == BigInt::ZERO { quotient } else { quotient + sign }
}
