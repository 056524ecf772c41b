//! The one way to write a number: no fraction digits, as few digits as can be, the largest suffix that allows it.

use alloc::{format, string::String};
use core::fmt;

use num_bigint::BigInt;

use super::{Format, NANOS, Nanos, Quantity};

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The exponent of the first decimal suffix: values are kept in nano-units.
const NANO_EXPONENT: usize = 9;

/// The canonical form. A number in binary format that is not whole, or closer to zero than 1024, is written in
/// decimal instead of being rounded.
///
/// DEVIATION(quantity-text): past the largest suffix, digits are left in front of it (`1000E`), where Kubernetes writes the digits
/// without any suffix and so another number. And the text that was parsed is never echoed: `+1` becomes `1`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.nanos() {
            Nanos::Small(0) => return f.pad("0"),
            Nanos::Small(nanos) => small(nanos, self.format()),
            Nanos::Big(nanos) => big(nanos, self.format()),
        };
        f.pad(&text)
    }
}

fn small(nanos: i128, format: Format) -> String {
    match format {
        Format::BinarySi if is_binary(nanos) => {
            let (digits, step) = strip_small(nanos / NANOS, 1024, BINARY_SUFFIXES.len() - 1);
            format!("{digits}{}", BINARY_SUFFIXES[step])
        }
        Format::BinarySi | Format::DecimalSi => {
            let (digits, step) = strip_small(nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
            format!("{digits}{}", DECIMAL_SUFFIXES[step])
        }
        Format::DecimalExponent => {
            let (digits, step) = strip_small(nanos, 1000, usize::MAX);
            with_exponent(&digits, step)
        }
    }
}

fn big(nanos: &BigInt, format: Format) -> String {
    match format {
        Format::BinarySi if nanos % NANOS == BigInt::ZERO => {
            let (digits, step) = strip_big(nanos / NANOS, 1024, BINARY_SUFFIXES.len() - 1);
            format!("{digits}{}", BINARY_SUFFIXES[step])
        }
        Format::BinarySi | Format::DecimalSi => {
            let (digits, step) = strip_big(nanos.clone(), 1000, DECIMAL_SUFFIXES.len() - 1);
            format!("{digits}{}", DECIMAL_SUFFIXES[step])
        }
        Format::DecimalExponent => {
            let (digits, step) = strip_big(nanos.clone(), 1000, usize::MAX);
            with_exponent(&digits, step)
        }
    }
}

fn is_binary(nanos: i128) -> bool {
    nanos % NANOS == 0 && (nanos / NANOS).unsigned_abs() >= 1024
}

fn with_exponent(digits: &dyn fmt::Display, steps: usize) -> String {
    match (3 * steps).checked_sub(NANO_EXPONENT) {
        Some(0) => format!("{digits}"),
        Some(exponent) => format!("{digits}e{exponent}"),
        None => format!("{digits}e-{}", NANO_EXPONENT - 3 * steps),
    }
}

/// Divides by `factor` while that is exact, at most `most` times; says how often.
fn strip_small(mut value: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && value % factor == 0 {
        value /= factor;
        times += 1;
    }
    (value, times)
}

fn strip_big(mut value: BigInt, factor: i128, most: usize) -> (BigInt, usize) {
    let mut times = 0;
    while times < most && &value % factor == BigInt::ZERO {
        value /= factor;
        times += 1;
    }
    (value, times)
}
