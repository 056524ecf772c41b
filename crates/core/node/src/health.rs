//! The health of devices as plugins report it, and how long a report is valid.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use crate::Millis;

/// A report without a timeout is believed for this long.
const TIMEOUT_MS_DEFAULT: Millis = 30_000;
/// Devices of one driver whose health is kept. Further ones are left out.
pub const DEVICES_PER_DRIVER_MAX: usize = 16_384;
/// Bytes of a message in a pod's status. A longer one is cut.
pub const MESSAGE_BYTES_MAX: usize = 1_024;
/// Bytes of the names of a pool and of a device. Longer ones cannot be allocated.
const NAME_BYTES_MAX: usize = 253;

/// The health of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceHealth {
    /// It works.
    Healthy,
    /// It does not.
    Unhealthy,
    /// Not reported, or too long ago.
    #[default]
    Unknown,
}

impl DeviceHealth {
    /// As in a pod's status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
        }
    }
}

/// The report of a plugin about one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub device: String,
    /// How it is.
    pub health: DeviceHealth,
    /// A text for people.
    pub message: String,
    /// For how long this is valid, in seconds; not positive: 30.
    pub timeout_s: i64,
}

/// A device of a driver: pool and name.
pub(crate) type DeviceKey = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    health: DeviceHealth,
    message: String,
    timeout_ms: Millis,
    heard: Millis,
    /// The endpoint that said it.
    source: String,
}

/// The health of all devices of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    drivers: BTreeMap<String, BTreeMap<DeviceKey, Known>>,
}

impl Health {
    /// Merges a report. Devices that are not in it keep what was said before. Gives how many were left out, and whether
    /// anything changed.
    pub(crate) fn report(
        &mut self,
        now: Millis,
        driver: &str,
        source: &str,
        reports: Vec<HealthReport>,
    ) -> (usize, bool) {
        let devices = self.drivers.entry(driver.to_string()).or_default();
        let (mut left_out, mut changed) = (0, false);
        for report in reports {
            let key = (report.pool, report.device);
            let is_too_long = key.0.len() > NAME_BYTES_MAX || key.1.len() > NAME_BYTES_MAX;
            if is_too_long || !devices.contains_key(&key) && devices.len() >= DEVICES_PER_DRIVER_MAX {
                left_out += 1;
                continue;
            }
            let timeout_ms = match u64::try_from(report.timeout_s) {
                Ok(seconds @ 1..) => seconds.saturating_mul(1_000),
                Ok(0) | Err(_) => TIMEOUT_MS_DEFAULT,
            };
            let message = cut(report.message);
            let (health, source) = (report.health, source.to_string());
            let known = Known { health, message, timeout_ms, heard: now, source };
            let before = devices.insert(key, known.clone());
            changed |= before.is_none_or(|before| {
                (before.health, before.message, before.timeout_ms)
                    != (known.health, known.message, known.timeout_ms)
            });
        }
        (left_out, changed)
    }

    /// A stream ended: what it said is not known any more. DEVIATION(health-by-instance): what others said is.
    pub(crate) fn ended(&mut self, driver: &str, source: &str) -> bool {
        // It reported no device.
        let Some(devices) = self.drivers.get_mut(driver) else { return false };
        let before = devices.len();
        devices.retain(|_, known| known.source != source);
        let changed = devices.len() != before;
        if devices.is_empty() {
            self.drivers.remove(driver);
        }
        changed
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Millis) -> bool {
        let mut changed = false;
        self.drivers.retain(|_, devices| {
            let before = devices.len();
            devices.retain(|_, known| now < until(known));
            changed |= devices.len() != before;
            !devices.is_empty()
        });
        changed
    }

    pub(crate) fn of(&self, now: Millis, driver: &str, key: &DeviceKey) -> (DeviceHealth, Option<String>) {
        let known = self.drivers.get(driver).and_then(|devices| devices.get(key));
        match known.filter(|known| now < until(known)) {
            Some(known) => (known.health, Some(known.message.clone()).filter(|message| !message.is_empty())),
            None => (DeviceHealth::Unknown, None),
        }
    }

    /// When something becomes too old.
    pub(crate) fn wake(&self) -> Option<Millis> {
        self.drivers.values().flat_map(BTreeMap::values).map(until).min()
    }
}

fn until(known: &Known) -> Millis {
    known.heard.saturating_add(known.timeout_ms)
}

/// Cuts a message that is too long, between characters.
fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX - 3).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn report(device: &str, health: DeviceHealth, timeout_s: i64) -> HealthReport {
        let (pool, device) = ("p".into(), device.into());
        HealthReport { pool, device, health, message: "m".into(), timeout_s }
    }

    fn key(device: &str) -> DeviceKey {
        ("p".into(), device.into())
    }

    #[test]
    fn a_timeout_expires_and_devices_that_are_left_out_keep_their_health_until_then() {
        let mut health = Health::default();
        let both = vec![report("a", DeviceHealth::Healthy, 0), report("b", DeviceHealth::Unhealthy, 5)];
        assert_eq!(health.report(1_000, "d", "/e", both), (0, true));
        assert_eq!(health.of(5_999, "d", &key("b")), (DeviceHealth::Unhealthy, Some("m".into())));
        assert_eq!(health.of(6_000, "d", &key("b")), (DeviceHealth::Unknown, None));
        assert_eq!(health.wake(), Some(6_000));
        assert!(!health.expire(5_999) && health.expire(6_000));
        let again = vec![report("a", DeviceHealth::Healthy, 0)];
        assert_eq!(health.report(20_000, "d", "/e", again), (0, false), "heard again, nothing new");
        assert_eq!(health.of(49_999, "d", &key("a")).0, DeviceHealth::Healthy, "counted from reception");
        assert_eq!(health.of(50_000, "d", &key("a")).0, DeviceHealth::Unknown);
    }

    #[test]
    fn health_is_unknown_after_the_stream_stops_but_not_what_another_instance_says() {
        let mut health = Health::default();
        health.report(0, "d", "/old", vec![report("a", DeviceHealth::Healthy, 0)]);
        health.report(0, "d", "/new", vec![report("b", DeviceHealth::Healthy, 0)]);
        assert!(health.ended("d", "/old") && !health.ended("d", "/old"));
        assert_eq!(health.of(1, "d", &key("a")).0, DeviceHealth::Unknown);
        assert_eq!(health.of(1, "d", &key("b")).0, DeviceHealth::Healthy);
        assert!(health.ended("d", "/new"));
        assert!(health.drivers.is_empty());
    }

    #[test]
    fn devices_and_messages_beyond_the_cap_are_left_out_and_cut() {
        let mut health = Health::default();
        let many = (0..=DEVICES_PER_DRIVER_MAX)
            .map(|number| report(&alloc::format!("{number}"), DeviceHealth::Healthy, 0));
        assert_eq!(health.report(0, "d", "/e", many.collect()), (1, true));
        let long = HealthReport {
            message: "é".repeat(MESSAGE_BYTES_MAX),
            ..report("0", DeviceHealth::Unhealthy, i64::MAX)
        };
        assert_eq!(health.report(0, "d", "/e", vec![long]), (0, true));
        let (_, message) = health.of(1, "d", &key("0"));
        let message = message.unwrap();
        assert!(message.len() <= MESSAGE_BYTES_MAX && message.ends_with("é..."), "{}", message.len());
        let name = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(health.report(0, "d", "/e", vec![report(&name, DeviceHealth::Healthy, 0)]), (1, false));
    }
}
