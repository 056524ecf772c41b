//! `dra_manager_state`, as kubelet writes and reads it: a JSON text in a JSON object with its checksum.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize};

const KIND: &str = "DRACheckpoint";
const API_VERSION: &str = "checkpoint.dra.kubelet.k8s.io/v1";

/// A claim and the pods that use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimState {
    /// The claim's incarnation.
    #[serde(rename = "ClaimUID")]
    pub uid: String,
    /// Its name.
    #[serde(rename = "ClaimName")]
    pub name: String,
    /// Its namespace.
    #[serde(rename = "Namespace")]
    pub namespace: String,
    /// UIDs of pods that use it.
    #[serde(rename = "PodUIDs", default, deserialize_with = "null_is_empty")]
    pub pods: BTreeMap<String, Nothing>,
    /// All drivers with results in the claim, also those without devices.
    #[serde(rename = "DriverState", default, deserialize_with = "null_is_empty")]
    pub drivers: BTreeMap<String, DriverState>,
    /// DEVIATION(checkpoint-held): the devices that it was given, whatever its drivers answered. Kubelet does not write it and skips it.
    #[serde(
        rename = "HeldDevices",
        default,
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub held: Vec<HeldDevice>,
}

/// A device that a claim was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDevice {
    /// Its driver.
    #[serde(rename = "Driver")]
    pub driver: String,
    /// Its pool.
    #[serde(rename = "PoolName")]
    pub pool: String,
    /// Its name in the pool.
    #[serde(rename = "DeviceName")]
    pub device: String,
    /// Which share of it.
    #[serde(rename = "ShareID", default)]
    pub share: Option<String>,
    /// For administration: nobody else is kept from it.
    #[serde(rename = "AdminAccess", default)]
    pub is_admin: bool,
}

/// An element of a set, as Go writes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// What a driver did for a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverState {
    /// The devices that it prepared.
    #[serde(rename = "Devices", default, deserialize_with = "null_is_empty")]
    pub devices: Vec<DeviceState>,
    /// Calls that are not made for it.
    #[serde(
        rename = "skipNodeOperations",
        default,
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub skipped: Vec<String>,
}

impl DriverState {
    /// Whether a call is not made for this driver.
    pub(crate) fn skips(&self, call: &str) -> bool {
        self.skipped.iter().any(|skipped| skipped == call || skipped == "*")
    }
}

/// A device that was prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its pool.
    #[serde(rename = "PoolName")]
    pub pool: String,
    /// Its name in the pool.
    #[serde(rename = "DeviceName")]
    pub device: String,
    /// Which share of it.
    #[serde(rename = "ShareID", default)]
    pub share: Option<String>,
    /// Requests that it is for; none: all.
    #[serde(rename = "RequestNames", default, deserialize_with = "null_is_empty")]
    pub requests: Vec<String>,
    /// CDI names.
    #[serde(rename = "CDIDeviceIDs", default, deserialize_with = "null_is_empty")]
    pub cdi_ids: Vec<String>,
}

/// Why a checkpoint cannot be used. Nothing may be prepared then: what is in use is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointError {
    /// It is not what it should be.
    Form(String),
    /// It was changed, or written in part.
    Checksum {
        /// What is in the file.
        stated: u32,
        /// What it should be.
        computed: u32,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(why) => write!(f, "not a checkpoint: {why}; drain the node and remove the file"),
            Self::Checksum { stated, computed } => {
                write!(f, "checksum {stated}, should be {computed}: drain the node and remove the file")
            }
        }
    }
}

impl core::error::Error for CheckpointError {}

#[derive(Serialize, Deserialize)]
struct Envelope {
    #[serde(rename = "Data")]
    data: String,
    #[serde(rename = "Checksum")]
    checksum: u32,
}

#[derive(Serialize, Deserialize)]
struct Data<C> {
    #[serde(default)]
    kind: String,
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(rename = "ClaimInfoStateList")]
    claims: C,
}

/// Writes a checkpoint.
///
/// # Errors
/// Never for strings and maps; a shell passes it on all the same.
pub fn write(claims: &[ClaimState]) -> Result<Vec<u8>, CheckpointError> {
    let form = |error: serde_json::Error| CheckpointError::Form(error.to_string());
    let data = Data { kind: KIND.into(), api_version: API_VERSION.into(), claims };
    let data = serde_json::to_string(&data).map_err(form)?;
    let checksum = checksum(data.as_bytes());
    serde_json::to_vec(&Envelope { data, checksum }).map_err(form)
}

/// Reads a checkpoint.
///
/// # Errors
/// When it cannot be trusted.
pub fn read(text: &[u8]) -> Result<Vec<ClaimState>, CheckpointError> {
    let form = |error: serde_json::Error| CheckpointError::Form(error.to_string());
    let envelope: Envelope = serde_json::from_slice(text).map_err(form)?;
    let computed = checksum(envelope.data.as_bytes());
    if computed != envelope.checksum {
        return Err(CheckpointError::Checksum { stated: envelope.checksum, computed });
    }
    let data: Data<Option<Vec<ClaimState>>> = serde_json::from_str(&envelope.data).map_err(form)?;
    Ok(data.claims.unwrap_or_default())
}

/// CRC-32 as in Ethernet and zip.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Go writes an empty list as `null`.
fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!(checksum(b""), 0);
    }
}
