//! Windows: when evictions may begin.

use alloc::{sync::Arc, vec::Vec};

use crate::Timestamp;

const DAY_MS: i64 = 86_400_000;
const WEEK_MS: i64 = 7 * DAY_MS;
/// 1 January 1970 was a Thursday; weeks begin on Monday here.
const MONDAY_MS: i64 = 4 * DAY_MS;

/// A span of time that comes back every day or every week.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// From Monday, 0; `None`: every day.
    pub weekday: Option<u8>,
    /// Minutes after midnight.
    pub minute: u16,
    /// How long it is open.
    pub seconds: u32,
    /// How far its clock is ahead of UTC.
    pub offset_seconds: i32,
    /// When its clock changes; `None`: never.
    pub zone: Option<Zone>,
}

/// A clock that is ahead of UTC by another time at other instants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zone {
    /// From when it is ahead by how many seconds, ascending; the first holds for all time before as well.
    offsets: Arc<[(Timestamp, i32)]>,
}

impl Zone {
    /// A clock with these offsets in seconds, each from an instant on; `None` unless there is one and the instants ascend.
    #[must_use]
    pub fn new(offsets: Vec<(Timestamp, i32)>) -> Option<Self> {
        let ascends = offsets.is_sorted_by(|one, other| one.0 < other.0);
        (ascends && !offsets.is_empty()).then(|| Self { offsets: offsets.into() })
    }

    fn offset_ms(&self, at: Timestamp) -> i64 {
        let next = self.offsets.partition_point(|(from, _)| *from <= at);
        let (_, seconds) = self.offsets[next.saturating_sub(1)];
        i64::from(seconds) * 1_000
    }

    /// When the clock shows this many milliseconds since 1970. Where it shows them twice the first time; where it never does, as much later as
    /// the clock is put forward.
    fn instant(&self, local_ms: i64) -> Timestamp {
        let at = |offset_ms: i64| Timestamp::from_millis(local_ms.saturating_sub(offset_ms));
        // No two changes are within a day of each other, and no clock is a day ahead or behind.
        let before = self.offset_ms(Timestamp::from_millis(local_ms.saturating_sub(DAY_MS)));
        let after = self.offset_ms(Timestamp::from_millis(local_ms.saturating_add(DAY_MS)));
        let shown = [at(before), at(after)]
            .into_iter()
            .filter(|instant| instant.as_millis().saturating_add(self.offset_ms(*instant)) == local_ms);
        shown.min().unwrap_or_else(|| at(before))
    }
}

impl Window {
    /// The days of the week as they are written.
    pub const WEEKDAYS: [&'static str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

    /// When it is or was last opened, and when it is opened next.
    fn around(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        if let Some(zone) = &self.zone {
            return self.around_in(zone, now);
        }
        let minute_ms = i64::from(self.minute) * 60_000 - i64::from(self.offset_seconds) * 1_000;
        let (period, anchor) = match self.weekday {
            None => (DAY_MS, minute_ms),
            Some(day) => (WEEK_MS, MONDAY_MS + i64::from(day) * DAY_MS + minute_ms),
        };
        let since = now.as_millis().saturating_sub(anchor).rem_euclid(period);
        let last = now.plus_millis(-since);
        (last, last.plus_millis(period))
    }

    /// The same where the clock changes.
    fn around_in(&self, zone: &Zone, now: Timestamp) -> (Timestamp, Timestamp) {
        let today = now.as_millis().saturating_add(zone.offset_ms(now)).div_euclid(DAY_MS);
        // One day more than a week either way: a clock that is put back or forward may move a start over midnight.
        let days = (today.saturating_sub(8)..=today.saturating_add(8)).filter(|day| {
            // 1 January 1970 was a Thursday.
            self.weekday.is_none_or(|wanted| (day + 3).rem_euclid(7) == i64::from(wanted))
        });
        let starts = days.map(|day| zone.instant(day * DAY_MS + i64::from(self.minute) * 60_000));
        let (mut last, mut next) = (Timestamp::from_millis(i64::MIN), Timestamp::NEVER);
        for start in starts {
            if start <= now {
                last = last.max(start);
            } else {
                next = next.min(start);
            }
        }
        (last, next)
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        now < self.around(now).0.plus_secs(i64::from(self.seconds))
    }

    /// When it is opened next.
    #[must_use]
    pub fn next_start(&self, now: Timestamp) -> Timestamp {
        self.around(now).1
    }

    /// When the next of these opens, if none is open. Without windows nothing is closed.
    #[must_use]
    pub fn closed_until(windows: &[Self], now: Timestamp) -> Option<Timestamp> {
        if windows.iter().any(|window| window.is_open(now)) {
            return None;
        }
        windows.iter().map(|window| window.next_start(now)).min()
    }

    /// Until when none of these opens or closes. Several that follow one another without a gap still have an end each.
    #[must_use]
    pub fn unchanged_until(windows: &[Self], now: Timestamp) -> Timestamp {
        let change = |window: &Self| {
            let (last, next) = window.around(now);
            let end = last.plus_secs(i64::from(window.seconds));
            if now < end { end.min(next) } else { next }
        };
        windows.iter().map(change).min().unwrap_or(Timestamp::NEVER)
    }

    /// A window as it is written: `Sat 02:00` or `02:00`, `4h` or `1h30m`, `UTC` or `+02:00`. Zones with a name are known to shells.
    ///
    /// # Errors
    /// Which of the three is not understood.
    pub fn parse(start: &str, duration: &str, zone: &str) -> Result<Self, WindowError> {
        let (weekday, clock) = match start.split_once(' ') {
            None => (None, start),
            Some((day, clock)) => {
                let at = Self::WEEKDAYS.iter().position(|known| *known == day).ok_or(WindowError::Start)?;
                (Some(u8::try_from(at).map_err(|_| WindowError::Start)?), clock)
            }
        };
        let minute = minutes(clock).ok_or(WindowError::Start)?;
        let most = if weekday.is_some() { WEEK_MS } else { DAY_MS } / 1_000;
        let seconds = seconds(duration).filter(|seconds| (1..=most).contains(&i64::from(*seconds)));
        let offset_seconds = match zone {
            "" | "UTC" => 0,
            other => offset(other).ok_or(WindowError::Zone)?,
        };
        Ok(Self {
            weekday,
            minute,
            seconds: seconds.ok_or(WindowError::Duration)?,
            offset_seconds,
            zone: None,
        })
    }
}

/// Which part of a window is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// Neither a day and a time nor a time.
    Start,
    /// No time, or longer than until the next start.
    Duration,
    /// Neither `UTC` nor an offset.
    Zone,
}

/// `02:00`.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2)?;
    let number = |text: &str, most: u16| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|value| digits && *value <= most)
    };
    Some(number(hours, 23)? * 60 + number(minutes, 59)?)
}

/// `4h`, `1h30m`, `90s`.
fn seconds(text: &str) -> Option<u32> {
    let (mut sum, mut number): (u32, Option<u32>) = (0, None);
    for c in text.chars() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
            continue;
        }
        let unit = match c {
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        sum = sum.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    number.is_none().then_some(sum)
}

/// `+02:00`.
fn offset(text: &str) -> Option<i32> {
    let (sign, clock) = match text.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    Some(sign * i32::from(minutes(clock).filter(|minutes| *minutes <= 14 * 60)?) * 60)
}
