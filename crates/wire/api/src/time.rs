//! Instants as the API writes them: RFC 3339.

use lazaret_model::Timestamp;

/// Reads an instant as in `2026-03-01T12:00:00Z`, with an offset and fractions of a second if need be.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("{text:?} is not an instant: write it as in 2026-03-01T12:00:00Z");
    lazaret_cel::read_instant(text).map(Timestamp::from_millis).ok_or_else(wrong)
}

/// Writes an instant with fractions of a second, as the API does where they matter.
#[must_use]
pub fn format_time_precise(time: Timestamp) -> String {
    let whole = format_time(time);
    format!("{}.{:03}000Z", whole.trim_end_matches('Z'), time.as_millis().rem_euclid(1_000))
}

/// Writes an instant as the API does: in UTC, whole seconds. An instant outside the calendar is written as its limit.
#[must_use]
pub fn format_time(time: Timestamp) -> String {
    lazaret_cel::write_instant(time.as_millis())
}
