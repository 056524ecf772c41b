//! How objects say what a hollow node should do with them.

/// On a Node: which of its devices fail, see [`failures`](crate::failures).
pub const FAIL: &str = "hollow.lazaret.dev/fail";
/// On a Node: how long its driver takes to unprepare the devices of a pod, as in `30s`; no time if not given. Such a node says what is
/// prepared on it.
pub const UNPREPARE_AFTER: &str = "hollow.lazaret.dev/unprepare-after";
/// On a Node: what is prepared on it. Its node writes it before a pod runs and reads it when it starts again; nobody else should.
pub const PREPARED: &str = "hollow.lazaret.dev/prepared";
/// On a pod: how long its containers run, as in `5s`; then they exit with [`EXIT_CODE`].
pub const RUN_FOR: &str = "hollow.lazaret.dev/run-for";
/// On a pod: what its containers exit with; 0 if not given.
pub const EXIT_CODE: &str = "hollow.lazaret.dev/exit-code";
/// On a pod: how long its containers take to stop when it is deleted; at most its grace period, 0 if not given.
pub const STOP_AFTER: &str = "hollow.lazaret.dev/stop-after";

/// Reads `1h`, `2m`, `5s`, `1.5s`, `300ms`, or several of these in a row, as Go writes durations.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match &rest[..unit] {
                "h" => 3_600_000.0,
                "m" => 60_000.0,
                "s" => 1_000.0,
                "ms" => 1.0,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    // A pod that is to run for longer than anybody will watch it runs for ever.
    #[allow(clippy::cast_possible_truncation, reason = "rounding is meant, and the cast saturates")]
    Some(total.min(1e15) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let rows = [
            ("5s", Some(5_000)),
            ("300ms", Some(300)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("2h", Some(7_200_000)),
            ("0s", Some(0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
            ("-1s", None),
            ("1.2.3s", None),
            ("99999999999999999999h", Some(1_000_000_000_000_000)),
        ];
        for (text, millis) in rows {
            assert_eq!(duration_ms(text), millis, "{text:?}");
        }
    }
}
