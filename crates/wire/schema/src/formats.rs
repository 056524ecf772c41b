//! Strings that are more than text: times, durations, quantities, bytes. As strict as Go is when it reads them.

use crate::{duration, instant::Instant};

/// An instant as RFC 3339 writes it: `2026-01-02T15:04:05Z`, `2026-01-02T15:04:05.678+01:00`.
pub(crate) fn is_time(text: &str) -> bool {
    Instant::parse(text).is_some()
}

/// A length of time as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(crate) fn is_duration(text: &str) -> bool {
    duration::parse(text).is_some()
}

/// A quantity: `500m`, `1.5`, `80Gi`, `1e3`, also with spaces around it.
pub(crate) fn is_quantity(text: &str) -> bool {
    const SUFFIXES: &[&str] =
        &["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let text = text.trim();
    let Some(suffix) = after_number(text.strip_prefix(['-', '+']).unwrap_or(text)) else { return false };
    let exponent = |text: &str| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    SUFFIXES.contains(&suffix) || suffix.strip_prefix(['e', 'E']).is_some_and(exponent)
}

/// Bytes in base64, in lines or not.
pub(crate) fn is_base64(text: &str) -> bool {
    let mut digits = 0_usize;
    let mut padding = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => digits += 1,
            _ => return false,
        }
    }
    padding <= 2 && (digits + padding).is_multiple_of(4)
}

/// The text after digits with at most one point among them; `None` if there is no digit.
pub(crate) fn after_number(text: &str) -> Option<&str> {
    let whole = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match whole.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => whole,
    };
    let number = &text[..text.len() - rest.len()];
    number.bytes().any(|byte| byte.is_ascii_digit()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn table(fits: fn(&str) -> bool, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(fits(text), "{text:?}");
        }
        for text in no {
            assert!(!fits(text), "{text:?}");
        }
    }

    #[test]
    fn times() {
        table(
            is_time,
            &[
                "2026-01-02T15:04:05Z",
                "0001-01-01T00:00:00Z",
                "2026-01-02T15:04:05.123456Z",
                "2026-01-02T15:04:05.5-07:00",
                "2024-02-29T23:59:59+14:00",
                "9999-12-31T23:59:59.999999Z",
                "2026-01-02T5:04:05,5Z",
            ],
            &[
                "",
                "*",
                "now",
                "2026-01-02",
                "2026-01-02 15:04:05Z",
                "2026-01-02T15:04:05",
                "2026-01-02T15:04:60Z",
                "2026-02-29T00:00:00Z",
                "2026-13-01T00:00:00Z",
                "2026-01-02T25:00:00Z",
                "2026-01-02T15:04:05.Z",
                "2026-01-02T15:04:05Zjunk",
                "2026-01-02T15:04:05+0100",
                "2026-01-02T15:04:0é",
                "9999-12-31T23:59:59-01:00",
                "2026-01-02t15:04:05z",
            ],
        );
    }

    #[test]
    fn durations() {
        table(
            is_duration,
            &["0", "-0", "1s", "1h30m", "-1.5h", "+5ms", ".5s", "1.s", "10µs", "3ns"],
            &[
                "",
                "-",
                "1",
                "s",
                "1x",
                "1s2",
                "1 s",
                ".s",
                "1hh",
                "300y",
                "2562048h",
                "9223372036854775808ns",
            ],
        );
    }

    #[test]
    fn quantities() {
        table(
            is_quantity,
            &["0", "1", "-1", "+1", "1.5", ".5", "5.", "500m", "80Gi", "1e3", "1E-3", "1E", " 1Ki ", "100n"],
            &["", " ", "a", "1x", "1ki", "1KiB", "1e", "1e+", "--1", "1.2.3", "Gi", "1 Gi", "0x10"],
        );
    }

    #[test]
    fn bytes() {
        table(
            is_base64,
            &["", "YQ==", "YWI=", "YWJj", "YW\nJj\r\n", "+/+/"],
            &["!!", "YQ", "YQ=", "YQ===", "Y===", "=YQ=", "YQ==YQ==", "-_-_", "YQ =="],
        );
    }
}
