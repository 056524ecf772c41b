//! Instants as the API writes them: RFC 3339.

use lazaret_model::Timestamp;

/// Reads an instant as in `2026-03-01T12:00:00Z`, with an offset and fractions of a second if need be.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("{text:?} is not an instant: write it as in 2026-03-01T12:00:00Z");
    if text.as_bytes().get(10) != Some(&b'T') || text.contains('[') {
        return Err(wrong());
    }
    let instant: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
    Ok(Timestamp::from_millis(instant.as_millisecond()))
}

/// Writes an instant with fractions of a second, as the API does where they matter.
#[must_use]
pub fn format_time_precise(time: Timestamp) -> String {
    let limit = if time < Timestamp::EPOCH { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    let instant = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or(limit);
    instant.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Writes an instant as the API does: in UTC, whole seconds. What no calendar has is written as its limit.
#[must_use]
pub fn format_time(time: Timestamp) -> String {
    let limit = if time < Timestamp::EPOCH { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    let instant = jiff::Timestamp::from_second(time.as_secs()).unwrap_or(limit);
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
