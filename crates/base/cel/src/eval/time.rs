//! Timestamps and durations: reading, writing, arithmetic, calendar fields.
//!
//! DEVIATION(cel-time-zones): time zones are `UTC` or an offset such as `+02:00`. Named zones need a database that changes with
//! politics; two schedulers with different editions would disagree about a device.

use alloc::{format, string::String};

use crate::{check::decls::TimeField, error::EvalError};

/// Nanoseconds, at most about 292 years either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duration(pub(crate) i64);

/// A point in time between the years 1 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant {
    secs: i64,
    nanos: u32,
}

const SECS_MIN: i64 = -62_135_596_800;
const SECS_MAX: i64 = 253_402_300_799;
const NANOS_PER_SEC: i64 = 1_000_000_000;
const SECS_PER_DAY: i64 = 86_400;

impl Instant {
    pub(crate) fn from_secs(secs: i64) -> Result<Self, EvalError> {
        Self::new(i128::from(secs) * i128::from(NANOS_PER_SEC))
    }

    /// From nanoseconds since 1970.
    fn new(nanos: i128) -> Result<Self, EvalError> {
        let per_sec = i128::from(NANOS_PER_SEC);
        let secs = i64::try_from(nanos.div_euclid(per_sec)).unwrap_or(i64::MAX);
        if !(SECS_MIN..=SECS_MAX).contains(&secs) {
            return Err(EvalError::new("timestamp overflow"));
        }
        Ok(Self { secs, nanos: u32::try_from(nanos.rem_euclid(per_sec)).unwrap_or(0) })
    }

    fn total_nanos(self) -> i128 {
        i128::from(self.secs) * i128::from(NANOS_PER_SEC) + i128::from(self.nanos)
    }

    pub(crate) fn as_secs(self) -> i64 {
        self.secs
    }

    pub(crate) fn plus(self, duration: Duration) -> Result<Self, EvalError> {
        Self::new(self.total_nanos() + i128::from(duration.0))
    }

    pub(crate) fn minus(self, duration: Duration) -> Result<Self, EvalError> {
        Self::new(self.total_nanos() - i128::from(duration.0))
    }

    pub(crate) fn since(self, earlier: Self) -> Result<Duration, EvalError> {
        i64::try_from(self.total_nanos() - earlier.total_nanos())
            .map(Duration)
            .map_err(|_| EvalError::new("duration overflow"))
    }

    /// A calendar field, in a time zone.
    pub(crate) fn field(self, field: TimeField, zone: Option<&str>) -> Result<i64, EvalError> {
        let local = self.secs + zone.map_or(Ok(0), offset)?;
        let (days, second) = (local.div_euclid(SECS_PER_DAY), local.rem_euclid(SECS_PER_DAY));
        let (year, month, day) = civil(days);
        Ok(match field {
            TimeField::FullYear => year,
            TimeField::Month => month - 1,
            TimeField::Date => day,
            TimeField::DayOfMonth => day - 1,
            TimeField::DayOfWeek => (days + 4).rem_euclid(7),
            TimeField::DayOfYear => days - days_of(year, 1, 1),
            TimeField::Hours => second / 3600,
            TimeField::Minutes => second / 60 % 60,
            TimeField::Seconds => second % 60,
            TimeField::Milliseconds => i64::from(self.nanos / 1_000_000),
        })
    }

    /// RFC 3339 in UTC, with as many digits of a second as it takes.
    pub(crate) fn to_text(self) -> String {
        let (days, second) = (self.secs.div_euclid(SECS_PER_DAY), self.secs.rem_euclid(SECS_PER_DAY));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if self.nanos > 0 {
            text.push('.');
            text.push_str(format!("{:09}", self.nanos).trim_end_matches('0'));
        }
        text.push('Z');
        text
    }
}

impl Duration {
    pub(crate) fn plus(self, other: Self) -> Result<Self, EvalError> {
        self.0.checked_add(other.0).map(Self).ok_or_else(overflow)
    }

    pub(crate) fn minus(self, other: Self) -> Result<Self, EvalError> {
        self.0.checked_sub(other.0).map(Self).ok_or_else(overflow)
    }

    /// The whole duration in that unit.
    pub(crate) fn field(self, field: TimeField) -> Option<i64> {
        let unit = match field {
            TimeField::Hours => 3600 * NANOS_PER_SEC,
            TimeField::Minutes => 60 * NANOS_PER_SEC,
            TimeField::Seconds => NANOS_PER_SEC,
            TimeField::Milliseconds => 1_000_000,
            TimeField::FullYear | TimeField::Month | TimeField::Date | TimeField::DayOfMonth => return None,
            TimeField::DayOfWeek | TimeField::DayOfYear => return None,
        };
        Some(self.0 / unit)
    }

    /// Seconds, with as many digits as it takes.
    pub(crate) fn to_text(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let (secs, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        if rest == 0 {
            return format!("{sign}{secs}s");
        }
        format!("{sign}{secs}.{}s", format!("{rest:09}").trim_end_matches('0'))
    }
}

fn overflow() -> EvalError {
    EvalError::new("duration overflow")
}

/// `1h30m`, `-1.5s`, `300ms`, `0`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, EvalError> {
    let invalid = || EvalError::new(format!("invalid duration: {text:?}"));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration(0));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(invalid()),
        };
        total += scaled(number, nanos).ok_or_else(invalid)?;
        if total > i128::from(i64::MAX) + 1 {
            return Err(invalid());
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).map(Duration).map_err(|_| invalid())
}

/// `number` times `unit`, truncated; `None` for what is no number.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.into() };
    // Digits beyond the nineteenth are below a nanosecond in every unit.
    let fraction = fraction.get(..19).unwrap_or(fraction);
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.into() };
    let digits = u32::try_from(fraction.len()).ok()?;
    Some(whole * unit + part * unit / 10_i128.pow(digits))
}

/// An instant in RFC 3339, as milliseconds since 1970. Fractions of a millisecond are cut off.
#[must_use]
pub fn read_instant(text: &str) -> Option<i64> {
    let instant = read_timestamp(text)?;
    Some(instant.secs * 1_000 + i64::from(instant.nanos / 1_000_000))
}

/// Milliseconds since 1970 as an instant in RFC 3339, in UTC, to the second. Years before 1 and after 9999 are written as these.
#[must_use]
pub fn write_instant(millis: i64) -> String {
    let secs = millis.div_euclid(1_000).clamp(SECS_MIN, SECS_MAX);
    Instant { secs, nanos: 0 }.to_text()
}

/// RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Result<Instant, EvalError> {
    read_timestamp(text).ok_or_else(|| EvalError::new(format!("invalid timestamp: {text:?}")))
}

fn read_timestamp(text: &str) -> Option<Instant> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month)
        || day < 1
        || day > days_in_month(year, month)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(after) = rest.strip_prefix(['.', ',']) {
        let len = after.bytes().take_while(u8::is_ascii_digit).count();
        nanos =
            scaled(&format!("0.{}", after.get(..len).filter(|digits| !digits.is_empty())?), 1_000_000_000)?;
        rest = after.get(len..)?;
    }
    let zone = if rest == "Z" { 0 } else { zone_offset(rest)? };
    let secs = days_of(year, month, day) * SECS_PER_DAY + hour * 3600 + minute * 60 + second - zone;
    Instant::new(i128::from(secs) * i128::from(NANOS_PER_SEC) + nanos).ok()
}

/// `+hh:mm` or `-hh:mm` in seconds.
fn zone_offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |digits: &str, max: i64| {
        let value: i64 = (digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse().ok())??;
        (value <= max).then_some(value)
    };
    Some(sign * (number(hours, 24)? * 3600 + number(minutes, 59)? * 60))
}

/// A zone as the calendar functions take it.
fn offset(zone: &str) -> Result<i64, EvalError> {
    if zone.is_empty() || zone == "UTC" {
        return Ok(0);
    }
    let signed = if zone.starts_with(['+', '-']) { String::from(zone) } else { format!("+{zone}") };
    zone_offset(&signed).ok_or_else(|| {
        EvalError::new(format!("unknown time zone {zone}: use UTC or an offset such as +02:00"))
    })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March put the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write() {
        let cases = [
            ("1h30m", 5_400_000_000_000, "5400s"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("300ms", 300_000_000, "0.3s"),
            ("0", 0, "0s"),
            ("1.000000001s", 1_000_000_001, "1.000000001s"),
            (".5s", 500_000_000, "0.5s"),
        ];
        for (text, nanos, written) in cases {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration(nanos), "{text}");
            assert_eq!(duration.to_text(), written);
        }
        for wrong in ["", "1", "1x", "s", ".s", "1.2.3s", "-", "300000h9999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn timestamps_read_and_write() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.123456789Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(parse_timestamp(text).unwrap().to_text(), text);
        }
        assert_eq!(parse_timestamp("2024-01-01T02:00:00+02:00").unwrap().to_text(), "2024-01-01T00:00:00Z");
        for wrong in [
            "2023-02-29T00:00:00Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "0000-12-31T00:00:00Z",
        ] {
            assert!(parse_timestamp(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_follow_the_zone() {
        let instant = parse_timestamp("2024-03-01T00:30:15.250Z").unwrap();
        let field = |field, zone| instant.field(field, zone).unwrap();
        assert_eq!(field(TimeField::Date, None), 1);
        assert_eq!(field(TimeField::DayOfYear, None), 60);
        assert_eq!(field(TimeField::DayOfWeek, None), 5);
        assert_eq!(field(TimeField::Date, Some("-01:00")), 29);
        assert_eq!(field(TimeField::Month, Some("-01:00")), 1);
        assert_eq!(field(TimeField::Hours, Some("05:30")), 6);
        assert_eq!(field(TimeField::Milliseconds, None), 250);
        assert!(instant.field(TimeField::Hours, Some("Mars/Olympus")).is_err());
    }
}
