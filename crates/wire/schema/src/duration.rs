//! Lengths of time, as Go reads and writes them.

/// Units and how many billionths of a second they are.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest negative one: one more than the longest positive one.
const NANOS_MAX: u64 = 1 << 63;

/// Reads `1h30m`, `-1.5s`, `0` as billionths of a second.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_u64;
    let mut any = false;
    while !rest.is_empty() {
        let (amount, after) = part(rest)?;
        total = total.checked_add(amount).filter(|total| *total <= NANOS_MAX)?;
        (rest, any) = (after, true);
    }
    match (any, negative) {
        (false, _) => None,
        (true, true) => 0_i64.checked_sub_unsigned(total),
        (true, false) => i64::try_from(total).ok(),
    }
}

/// A number with its unit, and the text after it.
fn part(text: &str) -> Option<(u64, &str)> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let whole = &text[..text.len() - after.len()];
    let (fraction, after) = match after.strip_prefix('.') {
        Some(digits) => {
            let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            (&digits[..digits.len() - after.len()], after)
        }
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, rest) = after.split_at(end);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let amount = number.checked_mul(*scale)?.checked_add(share(fraction, *scale))?;
    Some((amount, rest))
}

/// The part of a unit that a fraction is; digits after the 18th are ignored.
fn share(fraction: &str, scale: u64) -> u64 {
    const DIGITS_MAX: usize = 18;
    let digits = &fraction[..fraction.len().min(DIGITS_MAX)];
    let Ok(number) = digits.parse::<u64>() else { return 0 };
    let parts = 10_u128.pow(u32::try_from(digits.len()).unwrap_or(0));
    u64::try_from(u128::from(number) * u128::from(scale) / parts).unwrap_or(0)
}

/// As Go prints a duration: `1h2m3.5s`, `300ms`, `0s`.
pub(crate) fn to_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64, name: &str| {
        let digits = unit.to_string().len() - 1;
        let rest = format!("{:0digits$}", value % unit);
        let rest = rest.trim_end_matches('0');
        if rest.is_empty() {
            format!("{}{name}", value / unit)
        } else {
            format!("{}.{rest}{name}", value / unit)
        }
    };
    let text = match total {
        0 => "0s".to_owned(),
        1..1_000 => format!("{total}ns"),
        1_000..1_000_000 => fraction(total, 1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(total, 1_000_000, "ms"),
        _ => {
            let (hours, minutes) = (total / 3_600_000_000_000, total / 60_000_000_000 % 60);
            let seconds = fraction(total % 60_000_000_000, 1_000_000_000, "s");
            match (hours, minutes) {
                (0, 0) => seconds,
                (0, _) => format!("{minutes}m{seconds}"),
                _ => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            ("0", "0s"),
            ("-0", "0s"),
            ("60s", "1m0s"),
            ("90m", "1h30m0s"),
            ("1.5h", "1h30m0s"),
            ("+1000ms", "1s"),
            ("1500us", "1.5ms"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("10µs", "10µs"),
            ("1h1h", "2h0m0s"),
            ("-1m30s", "-1m30s"),
            ("0.1ns", "0s"),
            ("9223372036854775807ns", "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
        ];
        for (text, written) in cases {
            assert_eq!(parse(text).map(to_text).as_deref(), Some(written), "{text}");
            assert_eq!(parse(written).map(to_text).as_deref(), Some(written), "{written}");
        }
    }
}
