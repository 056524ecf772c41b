//! The machine's inputs for one device, when its signals change.

use alloc::{collections::BTreeMap, format, string::ToString, vec::Vec};

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Signal, Source};
use lazaret_model::{AttrValue, Device, DeviceId, QualifiedName, ResourceSlice, Text, Timestamp};

/// The value of a signal, and when it began where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) value: Text,
    pub(crate) message: Text,
    pub(crate) at: Option<Timestamp>,
}

pub(crate) type LevelsByKey = BTreeMap<Text, Level>;

/// A device and the time at which its inputs are made.
pub(crate) struct Tell<'a> {
    pub(crate) now: Timestamp,
    pub(crate) id: &'a DeviceId,
}

impl Tell<'_> {
    pub(crate) fn raise(&self, key: Text, level: &Level, source: Source, told: &mut Vec<CoreInput>) {
        told.push(CoreInput::Raised(Signal {
            device: self.id.clone(),
            key,
            value: level.value.clone(),
            source,
            at: level.at.unwrap_or(self.now).min(self.now),
            lasts: true,
            message: level.message.clone(),
        }));
    }

    /// Raises signals that are new or changed, and lowers those that ended.
    pub(crate) fn difference(
        &self,
        before: &LevelsByKey,
        now: &LevelsByKey,
        source: Source,
        told: &mut Vec<CoreInput>,
    ) {
        for (key, level) in now.iter().filter(|(key, level)| before.get(*key) != Some(level)) {
            self.raise(key.clone(), level, source, told);
        }
        for key in before.keys().filter(|key| !now.contains_key(*key)) {
            told.push(lowered(self.id, key.clone(), source));
        }
    }
}

/// The name of a device of a slice.
pub(crate) fn id_of(slice: &ResourceSlice, device: &Device) -> DeviceId {
    DeviceId { driver: slice.driver.clone(), pool: slice.pool.name.clone(), device: device.name.clone() }
}

pub(crate) fn lowered(id: &DeviceId, key: Text, source: Source) -> CoreInput {
    CoreInput::Lowered { device: id.clone(), key, source }
}

pub(crate) fn severity(health: &str) -> u8 {
    match health {
        "Unhealthy" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

/// Attributes with one value, by their qualified names, as the driver published them.
pub(crate) fn attributes(device: &Device, driver: &str) -> LevelsByKey {
    levels(device.attributes.iter().map(|(key, value)| (key, value)), driver)
}

/// The same with what patches make of them.
pub(crate) fn patched_attributes(fleet: &Fleet, id: &DeviceId) -> Option<LevelsByKey> {
    let device = fleet.device(id)?;
    Some(levels(device.attributes().map(|(key, _, value)| (key, value)), &id.driver))
}

fn levels<'a>(attributes: impl Iterator<Item = (&'a Text, &'a AttrValue)>, driver: &str) -> LevelsByKey {
    let mut levels = LevelsByKey::new();
    for (key, value) in attributes {
        let Some(value) = value.as_text() else { continue };
        let key: Text = QualifiedName::of_key(key, driver).to_string().into();
        let message = format!("attribute {key} is {value}").into();
        levels.insert(key, Level { value, message, at: None });
    }
    levels
}

/// The identity of the hardware, which stays the same when a device is renamed.
pub(crate) fn hardware(device: &Device, driver: &str, identity: &str) -> Option<Text> {
    identity_among(device.attributes.iter().map(|(key, value)| (key, value)), driver, identity)
}

/// The same as patches leave it, which is what a claim selects by.
pub(crate) fn patched_hardware(fleet: &Fleet, id: &DeviceId, identity: &str) -> Option<Text> {
    let device = fleet.device(id)?;
    identity_among(device.attributes().map(|(key, _, value)| (key, value)), &id.driver, identity)
}

fn identity_among<'a>(
    mut attributes: impl Iterator<Item = (&'a Text, &'a AttrValue)>,
    driver: &str,
    identity: &str,
) -> Option<Text> {
    let wanted = QualifiedName::of_key(identity, driver);
    let found = attributes.find(|(key, _)| QualifiedName::of_key(key, driver) == wanted)?;
    if let AttrValue::String(text) = found.1 { Some(text.clone()) } else { None }
}
