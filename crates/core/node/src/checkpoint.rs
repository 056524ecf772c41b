//! `dra_manager_state`, as kubelet writes and reads it: a JSON text in a JSON object with its checksum.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    ClaimKind,
    crc::{Checksum, checksum},
};

const KIND: &str = "DRACheckpoint";
const API_VERSION: &str = "checkpoint.dra.kubelet.k8s.io/v1";

/// A claim and the pods that use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimState {
    /// Its API. Claims of each are in a list of their own.
    #[serde(skip)]
    pub kind: ClaimKind,
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
    pub pods: BTreeMap<String, EmptyObject>,
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
    /// For administration: other claims may have the device, too.
    #[serde(rename = "AdminAccess", default)]
    pub is_admin: bool,
}

/// An element of a set, as Go writes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyObject {}

/// The state of a claim at one driver.
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
        /// The checksum in the file.
        stated: u32,
        /// The checksum of the data.
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

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "Data")]
    data: String,
    #[serde(rename = "Checksum")]
    checksum: u32,
    #[serde(rename = "Sequence", default)]
    sequence: Option<u64>,
}

/// A claim that is written and stays where it is. Names and order are those of [`ClaimState`].
#[derive(Serialize)]
pub(crate) struct BorrowedState<'a> {
    #[serde(rename = "ClaimUID")]
    pub(crate) uid: &'a str,
    #[serde(rename = "ClaimName")]
    pub(crate) name: &'a str,
    #[serde(rename = "Namespace")]
    pub(crate) namespace: &'a str,
    #[serde(rename = "PodUIDs", serialize_with = "as_go_set")]
    pub(crate) pods: &'a BTreeSet<String>,
    #[serde(rename = "DriverState")]
    pub(crate) drivers: &'a BTreeMap<String, DriverState>,
    #[serde(rename = "HeldDevices", skip_serializing_if = "<[HeldDevice]>::is_empty")]
    pub(crate) held: &'a [HeldDevice],
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn as_go_set<S: Serializer>(set: &&BTreeSet<String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(set.iter().map(|element| (element, EmptyObject {})))
}

#[derive(Serialize, Deserialize)]
struct Data<C> {
    #[serde(default)]
    kind: String,
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(rename = "ClaimInfoStateList")]
    claims: C,
    /// DEVIATION(checkpoint-classic): classic claims. Kubelet does not know them and skips the list.
    #[serde(rename = "ClassicClaimInfoStateList", default, skip_serializing_if = "Option::is_none")]
    classic: Option<C>,
}

/// Writes a checkpoint.
///
/// # Errors
/// Never for strings and maps; a shell passes it on all the same.
pub fn write(claims: &[ClaimState]) -> Result<Vec<u8>, CheckpointError> {
    let texts = claims.iter().map(|claim| Ok((claim.kind, ClaimText::of(claim)?)));
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    assemble(texts.iter().map(|(kind, text)| (*kind, text)))
}

/// A claim as it is in a checkpoint: by itself, and as a part of a JSON string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimText {
    plain: String,
    escaped: String,
}

impl ClaimText {
    pub(crate) fn of(claim: &impl Serialize) -> Result<Self, CheckpointError> {
        let plain = serde_json::to_string(claim).map_err(form)?;
        let escaped = escaped(&plain)?;
        Ok(Self { plain, escaped })
    }
}

/// A checkpoint of claims that are text already. Classic claims come after the others, in a list that is there if one is.
pub(crate) fn assemble<'a>(
    claims: impl Iterator<Item = (ClaimKind, &'a ClaimText)> + Clone,
) -> Result<Vec<u8>, CheckpointError> {
    let of = |wanted: ClaimKind| claims.clone().filter(move |(kind, _)| *kind == wanted);
    let lists = [(ClaimKind::Structured, ""), (ClaimKind::Classic, CLASSIC_OPEN)];
    let empty = Data { kind: KIND.into(), api_version: API_VERSION.into(), claims: [(); 0], classic: None };
    let empty = serde_json::to_string(&empty).map_err(form)?;
    let (head, tail) = empty.split_at(empty.len() - CLOSE.len());
    let bytes: usize = claims.clone().map(|(_, claim)| claim.escaped.len() + 1).sum();
    let mut file = Vec::with_capacity(bytes + 2 * empty.len() + ENVELOPE_BYTES);
    let mut checksum = Checksum::default();
    file.extend_from_slice(b"{\"Data\":\"");
    file.extend_from_slice(escaped(head)?.as_bytes());
    checksum.add(head.as_bytes());
    for (kind, open) in lists {
        let escaped_open = escaped(open)?;
        for (number, (_, claim)) in of(kind).enumerate() {
            let (plain, escaped) = if number > 0 { (",", ",") } else { (open, escaped_open.as_str()) };
            file.extend_from_slice(escaped.as_bytes());
            checksum.add(plain.as_bytes());
            file.extend_from_slice(claim.escaped.as_bytes());
            checksum.add(claim.plain.as_bytes());
        }
    }
    file.extend_from_slice(tail.as_bytes());
    checksum.add(tail.as_bytes());
    file.extend_from_slice(b"\",\"Checksum\":");
    file.extend_from_slice(checksum.value().to_string().as_bytes());
    file.push(b'}');
    Ok(file)
}

/// Text after the last claim.
const CLOSE: &str = "]}";
/// Text before the first classic claim.
const CLASSIC_OPEN: &str = "],\"ClassicClaimInfoStateList\":[";
/// Bytes around the data, at most.
const ENVELOPE_BYTES: usize = 128;

/// As it is within a JSON string.
fn escaped(text: &str) -> Result<String, CheckpointError> {
    let mut quoted = serde_json::to_string(text).map_err(form)?;
    quoted.pop();
    quoted.remove(0);
    Ok(quoted)
}

fn form(error: serde_json::Error) -> CheckpointError {
    CheckpointError::Form(error.to_string())
}

/// Reads a checkpoint.
///
/// # Errors
/// When it cannot be trusted.
pub fn read(text: &[u8]) -> Result<Vec<ClaimState>, CheckpointError> {
    let envelope = trusted(text)?;
    let data: Data<Option<Vec<ClaimState>>> = serde_json::from_str(&envelope.data).map_err(form)?;
    let classic = data.classic.flatten().unwrap_or_default().into_iter();
    let classic = classic.map(|claim| ClaimState { kind: ClaimKind::Classic, ..claim });
    Ok(data.claims.unwrap_or_default().into_iter().chain(classic).collect())
}

/// A checkpoint with the number of its write. DEVIATION(checkpoint-sequence): kubelet does not write it and skips it.
pub(crate) fn numbered(text: &[u8], sequence: u64) -> Vec<u8> {
    let mut file = text.strip_suffix(b"}").unwrap_or(text).to_vec();
    file.extend_from_slice(alloc::format!(",\"Sequence\":{sequence}}}").as_bytes());
    file
}

/// The number of a checkpoint's write; none in a file of kubelet's. The checksum does not cover it, and need not: of a text
/// that was written in part the data is wrong as well, or is all that it should be.
///
/// # Errors
/// When the checkpoint cannot be trusted.
pub fn sequence(text: &[u8]) -> Result<Option<u64>, CheckpointError> {
    trusted(text).map(|envelope| envelope.sequence)
}

fn trusted(text: &[u8]) -> Result<Envelope, CheckpointError> {
    let envelope: Envelope = serde_json::from_slice(text).map_err(form)?;
    let computed = checksum(envelope.data.as_bytes());
    if computed != envelope.checksum {
        return Err(CheckpointError::Checksum { stated: envelope.checksum, computed });
    }
    Ok(envelope)
}

/// Go writes an empty list as `null`.
fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
