//! The machine's inputs for one device, when its signals change.

use std::collections::BTreeMap;

use lazaret_fleet::Fleet;
use lazaret_lifecycle::{Input as CoreInput, Signal, Source};
use lazaret_model::{AttrValue, Device, DeviceId, QualifiedName, Text, Timestamp};

/// The value of a signal, and when it began where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) value: Text,
    pub(super) message: Text,
    pub(super) at: Option<Timestamp>,
}

pub(super) type LevelsByKey = BTreeMap<Text, Level>;

/// A device and the time at which its inputs are made.
pub(super) struct Tell<'a> {
    pub(super) now: Timestamp,
    pub(super) id: &'a DeviceId,
}

impl Tell<'_> {
    pub(super) fn raise(&self, key: Text, level: &Level, source: Source, told: &mut Vec<CoreInput>) {
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
    pub(super) fn difference(
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

pub(super) fn lowered(id: &DeviceId, key: Text, source: Source) -> CoreInput {
    CoreInput::Lowered { device: id.clone(), key, source }
}

pub(super) fn severity(health: &str) -> u8 {
    match health {
        "Unhealthy" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

/// Attributes with one value, by their qualified names, as the driver published them.
pub(super) fn attributes(device: &Device, driver: &str) -> LevelsByKey {
    levels(device.attributes.iter().map(|(key, value)| (key, value)), driver)
}

/// The same with what patches make of them.
pub(super) fn patched_attributes(fleet: &Fleet, id: &DeviceId) -> Option<LevelsByKey> {
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
pub(super) fn hardware(device: &Device, driver: &str, identity: &str) -> Option<Text> {
    identity_among(device.attributes.iter().map(|(key, value)| (key, value)), driver, identity)
}

/// The same as patches leave it, which is what a claim selects by.
pub(super) fn patched_hardware(fleet: &Fleet, id: &DeviceId, identity: &str) -> Option<Text> {
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
