//! Spans of time on the command line.

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) i64);

/// `90s`, `5m`, `1h30m`, as kubectl has it; a bare number is seconds.
pub(crate) fn parse_span(text: &str) -> Result<Span, String> {
    let wrong = || format!("{text:?} is no time: write it as 90s, 5m or 1h30m");
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Span(i64::from(seconds) * 1000));
    }
    if text.is_empty() {
        return Err(wrong());
    }
    let mut millis: i64 = 0;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            'h' => 3_600_000,
            'm' => 60_000,
            's' => 1000,
            _ => return Err(wrong()),
        };
        let number: i64 = std::mem::take(&mut digits).parse().map_err(|_| wrong())?;
        millis = number.checked_mul(unit).and_then(|part| millis.checked_add(part)).ok_or_else(wrong)?;
    }
    if digits.is_empty() { Ok(Span(millis)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        for (text, millis) in
            [("90s", 90_000), ("1h30m", 5_400_000), ("45", 45_000), ("0", 0), ("2m5s", 125_000)]
        {
            assert_eq!(parse_span(text), Ok(Span(millis)), "{text}");
        }
        for text in ["", "s", "5x", "1h3", "-5s", "9999999999999999h"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
