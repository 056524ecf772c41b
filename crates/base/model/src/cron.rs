//! Schedules as crontabs write them, in universal time.

use alloc::{format, string::String};

/// A schedule without an occurrence within this number of days has none: four years and a leap year that was left out.
const DAYS_MAX: i64 = 366 * 9;
const DAY_SECS: i64 = 86_400;
const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When something is to be done, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At times that fields describe.
    At(Fields),
    /// With this number of seconds in between.
    Every(i64),
}

/// The numbers that each field of a crontab admits, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Of days of the month and of the week one that is not restricted says nothing.
    any_day: bool,
    any_weekday: bool,
}

impl Schedule {
    /// Reads five fields, or a name like `@daily`, or `@every 1h30m`.
    ///
    /// # Errors
    /// The field that is invalid, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => match other.strip_prefix("@every ") {
                Some(length) => {
                    return every(length).ok_or_else(|| format!("failed to parse duration {other}"));
                }
                None if other.starts_with('@') => return Err(format!("unrecognized descriptor: {other}")),
                None => other,
            },
        };
        let words: alloc::vec::Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = words.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: {words:?}", words.len()));
        };
        Ok(Self::At(Fields {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, MONTHS)?,
            weekdays: field(weekdays, 0, 6, DAYS)?,
            any_day: is_any(days),
            any_weekday: is_any(weekdays),
        }))
    }

    /// The first time after `after`, in seconds since 1970; nothing if there is none within years.
    #[must_use]
    pub fn next(&self, after: i64) -> Option<i64> {
        match self {
            Self::Every(secs) => after.checked_add(*secs),
            Self::At(fields) => {
                let start = after.checked_add(60)?.div_euclid(60) * 60;
                let first = start.div_euclid(DAY_SECS);
                (first..=first + DAYS_MAX).filter(|day| fields.admits_day(*day)).find_map(|day| {
                    let least = (start - day * DAY_SECS).max(0) / 60;
                    let minute = (least..1_440).find(|minute| fields.admits_minute(*minute))?;
                    Some(day * DAY_SECS + minute * 60)
                })
            }
        }
    }

    /// The last time that is after `after` and not after `now`.
    #[must_use]
    pub fn latest(&self, after: i64, now: i64) -> Option<i64> {
        match self {
            Self::Every(secs) => {
                let times = now.checked_sub(after)?.div_euclid(*secs);
                (times > 0).then(|| after + times * secs)
            }
            Self::At(fields) => {
                let last = now.div_euclid(DAY_SECS);
                let found = (last - DAYS_MAX..=last).rev().take_while(|day| (day + 1) * DAY_SECS > after);
                let time = found.filter(|day| fields.admits_day(*day)).find_map(|day| {
                    let most = ((now - day * DAY_SECS) / 60).min(1_439);
                    let minute = (0..=most).rev().find(|minute| fields.admits_minute(*minute))?;
                    Some(day * DAY_SECS + minute * 60)
                })?;
                (time > after).then_some(time)
            }
        }
    }
}

impl Fields {
    fn admits_minute(&self, minute: i64) -> bool {
        self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1
    }

    /// Where both kinds of days are restricted, one of them is enough.
    fn admits_day(&self, day: i64) -> bool {
        let (month, of_month) = civil(day);
        let of_week = (day + 4).rem_euclid(7);
        if self.months >> month & 1 == 0 {
            return false;
        }
        let (by_month, by_week) = (self.days >> of_month & 1 == 1, self.weekdays >> of_week & 1 == 1);
        if self.any_day || self.any_weekday { by_month && by_week } else { by_month || by_week }
    }
}

/// Month and day of the month of a day since 1970: the year is counted from March, so that the leap day is its last.
fn civil(day: i64) -> (i64, i64) {
    let day = (day + 719_468).rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    (if month < 10 { month + 3 } else { month - 9 }, of_month)
}

fn is_any(text: &str) -> bool {
    text.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        matches!(range, "*" | "?") && step.parse() == Ok(1_u32)
    })
}

/// The bits of a field: numbers, ranges and steps, with commas between.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let bits = parts
        .map(|part| range(part, least, most, names))
        .try_fold(0, |all, bits| bits.map(|bits| all | bits))?;
    if bits == 0 { Err(format!("no value in {text:?}")) } else { Ok(bits) }
}

fn range(text: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    let number = |word: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + least);
        named.or_else(|| word.parse().ok()).ok_or_else(|| format!("failed to parse int from {word}: {text}"))
    };
    let (start, end) = match range.split_once('-') {
        _ if matches!(range, "*" | "?") => (least, most),
        Some((start, end)) => (number(start)?, number(end)?),
        // A number with a step means from there on.
        None => (number(range)?, if step.is_some() { most } else { number(range)? }),
    };
    let step = step.map_or(Ok(1), number)?;
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok((start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX)).fold(0, |bits, at| bits | 1 << at))
}

/// A length like `1h30m`, in whole seconds and at least one.
fn every(text: &str) -> Option<Schedule> {
    let (mut secs, mut rest) = (0_i64, text.trim());
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (unit, unit_length) = match &rest[end..] {
            unit if unit.starts_with("ms") => (0, 2),
            unit if unit.starts_with('h') => (3_600, 1),
            unit if unit.starts_with('m') => (60, 1),
            unit if unit.starts_with('s') => (1, 1),
            _ => return None,
        };
        secs = secs.checked_add(rest[..end].parse::<i64>().ok()?.checked_mul(unit)?)?;
        rest = &rest[end + unit_length..];
    }
    Some(Schedule::Every(secs.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-28 23:30:00, a Wednesday in a leap year.
    const NOW: i64 = 1_709_163_000;

    fn at(text: &str) -> Schedule {
        Schedule::parse(text).unwrap()
    }

    #[test]
    fn the_next_time_is_found() {
        for (text, after) in [
            ("* * * * *", 60),
            ("0 * * * *", 30 * 60),
            ("*/7 * * * *", 5 * 60),
            ("30 23 * * *", DAY_SECS),
            ("0 0 29 2 *", 30 * 60),
            ("0 0 1 3 *", DAY_SECS + 30 * 60),
            ("0 0 * * SUN", 3 * DAY_SECS + 30 * 60),
            ("0 12 * * 1-5", 12 * 3_600 + 30 * 60),
            ("@daily", 30 * 60),
            ("@hourly", 30 * 60),
            ("@every 90s", 90),
            ("@every 1h30m", 5_400),
            ("15 0 13 * fri", DAY_SECS + 45 * 60),
        ] {
            assert_eq!(at(text).next(NOW), Some(NOW + after), "{text}");
        }
        assert_eq!(at("59 23 31 2 *").next(NOW), None, "a day that never comes");
        assert_eq!(at("0 0 29 2 *").next(NOW + DAY_SECS), Some(NOW + 30 * 60 + 1_461 * DAY_SECS));
    }

    #[test]
    fn the_latest_time_is_found_however_long_ago_the_last_was() {
        assert_eq!(at("0 * * * *").latest(0, NOW), Some(NOW - 30 * 60));
        assert_eq!(at("0 * * * *").latest(NOW - 30 * 60, NOW), None);
        assert_eq!(at("* * * * *").latest(0, NOW + 59), Some(NOW));
        assert_eq!(at("0 0 29 2 *").latest(0, NOW), Some(NOW - 1_461 * DAY_SECS + 30 * 60));
        assert_eq!(at("@every 1m").latest(NOW - 150, NOW), Some(NOW - 30));
        assert_eq!(at("@every 1m").latest(NOW - 59, NOW), None);
        for text in ["*/7 3-9 * * *", "5 4 1,15 */2 1", "0 0 * * 0"] {
            let (schedule, mut time) = (at(text), NOW - 40 * DAY_SECS);
            while let Some(next) = schedule.next(time).filter(|next| *next <= NOW) {
                assert_eq!(schedule.latest(time, next), Some(next), "{text}");
                assert_eq!(schedule.latest(time, next - 1), None, "{text}");
                time = next;
            }
            assert!(schedule.latest(NOW - 40 * DAY_SECS, NOW).is_none_or(|latest| latest == time), "{text}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-3 * * * *",
            "*/0 * * * *",
            "x * * * *",
            ", * * * *",
            "@sometimes",
            "@every",
            "@every x",
            "@every 5",
            "1-2-3 * * * *",
            "-1 * * * *",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
    }
}
