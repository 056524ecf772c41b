//! Instants, read as Go reads them and written as Kubernetes writes them.

const SECONDS_A_DAY: i64 = 86_400;

/// The first second of the year 1: in Go the instant that nothing has been said of, which is written as `null`.
const UNSAID: i64 = -62_135_596_800;

/// The first second after the year 9999, which no text of four digits can name.
const END: i64 = 253_402_300_800;

/// The first second of the year 0.
const BEGIN: i64 = -62_167_219_200;

/// A point in time, by its distance from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    seconds: i64,
    nanos: u32,
}

impl Instant {
    // DEVIATION(years-of-four-digits): what could not be read again is not written.
    /// Whole seconds since 1970, and billionths of a second after that; nothing outside of the years 0 to 9999.
    pub(crate) fn new(seconds: i64, nanos: u32) -> Option<Self> {
        ((BEGIN..END).contains(&seconds) && nanos < 1_000_000_000).then_some(Self { seconds, nanos })
    }

    /// Reads RFC 3339, to Go's mind: an hour may have one digit, a comma may stand for the point, an offset may be a whole day.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut rest = Rest(text.as_bytes());
        let year = rest.digits(4)?;
        rest.take(b'-')?;
        let month = rest.digits(2)?;
        rest.take(b'-')?;
        let day = rest.digits(2)?;
        rest.take(b'T')?;
        let hour = rest.digits(2).or_else(|| rest.digits(1))?;
        rest.take(b':')?;
        let minute = rest.digits(2)?;
        rest.take(b':')?;
        let second = rest.digits(2)?;
        let nanos = rest.fraction()?;
        let offset = rest.offset()?;
        let fits = (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let seconds = days_before(year, month, day) * SECONDS_A_DAY + hour * 3_600 + minute * 60 + second;
        fits.then(|| Self::new(seconds - offset, nanos))?
    }

    /// Whether it is the one that says nothing.
    pub(crate) fn is_unsaid(self) -> bool {
        self.seconds == UNSAID && self.nanos == 0
    }

    /// In UTC, to the second or, with `micros`, to the microsecond.
    pub(crate) fn to_text(self, micros: bool) -> String {
        let (days, within) = (self.seconds.div_euclid(SECONDS_A_DAY), self.seconds.rem_euclid(SECONDS_A_DAY));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (within / 3_600, within / 60 % 60, within % 60);
        let whole = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if micros { format!("{whole}.{:06}Z", self.nanos / 1_000) } else { format!("{whole}Z") }
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, wanted: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[wanted])?;
        Some(())
    }

    /// A number of exactly this many digits; nothing is taken where there are fewer.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let add =
            |number: i64, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'));
        let number = digits.iter().try_fold(0, add)?;
        self.0 = rest;
        Some(number)
    }

    /// Billionths after a point, if there is one; digits beyond count nothing.
    fn fraction(&mut self) -> Option<u32> {
        let [b'.' | b',', digits @ ..] = self.0 else { return Some(0) };
        let count = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        let shown = digits[..count].iter().copied().chain(std::iter::repeat(b'0')).take(9);
        self.0 = &digits[count..];
        Some(shown.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
    }

    /// `Z`, or an offset in seconds, and nothing after it.
    fn offset(&mut self) -> Option<i64> {
        if self.0 == b"Z" {
            return Some(0);
        }
        let sign = if self.take(b'+').is_some() { 1 } else { self.take(b'-').map(|()| -1)? };
        let hours = self.digits(2)?;
        self.take(b':')?;
        let minutes = self.digits(2)?;
        (hours <= 24 && minutes <= 60 && self.0.is_empty()).then_some(sign * (hours * 3_600 + minutes * 60))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date. Years begin in March here, so that the day that leap years add is the last one.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day from the number of days since 1970: the reverse.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + years + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them_and_written_as_kubernetes_writes_them() {
        let cases = [
            ("2026-01-02T15:04:05Z", "2026-01-02T15:04:05Z", "2026-01-02T15:04:05.000000Z"),
            ("2026-01-02T15:04:05+00:00", "2026-01-02T15:04:05Z", "2026-01-02T15:04:05.000000Z"),
            ("2026-01-02T15:04:05.123456+00:00", "2026-01-02T15:04:05Z", "2026-01-02T15:04:05.123456Z"),
            ("2026-01-02T15:04:05.999999999Z", "2026-01-02T15:04:05Z", "2026-01-02T15:04:05.999999Z"),
            ("2026-01-02T15:04:05.1234567890123Z", "2026-01-02T15:04:05Z", "2026-01-02T15:04:05.123456Z"),
            ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z", "2025-12-31T23:30:00.000000Z"),
            ("2024-02-28T23:30:00-01:00", "2024-02-29T00:30:00Z", "2024-02-29T00:30:00.000000Z"),
            ("2026-01-02T5:04:05,5Z", "2026-01-02T05:04:05Z", "2026-01-02T05:04:05.500000Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000000Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z"),
            ("2026-01-02T00:00:00+24:60", "2025-12-31T23:00:00Z", "2025-12-31T23:00:00.000000Z"),
        ];
        for (text, seconds, micros) in cases {
            let read = Instant::parse(text).unwrap_or_else(|| panic!("{text} is a time"));
            assert_eq!((read.to_text(false), read.to_text(true)), (seconds.to_owned(), micros.to_owned()));
        }
        for text in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01", "2026-01-02T15:04:05+25:00"] {
            assert_eq!(Instant::parse(text), None, "{text}");
        }
        assert!(Instant::parse("0001-01-01T00:00:00Z").unwrap().is_unsaid());
    }

    #[test]
    fn days_of_ten_thousand_years_are_read_as_they_are_written() {
        for day in (BEGIN / SECONDS_A_DAY..END / SECONDS_A_DAY).step_by(13) {
            let instant = Instant::new(day * SECONDS_A_DAY + day.rem_euclid(SECONDS_A_DAY), 0).unwrap();
            assert_eq!(Instant::parse(&instant.to_text(false)), Some(instant));
        }
    }
}
