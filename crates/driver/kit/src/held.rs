//! Which claims a driver has prepared or is preparing, in a file: a device that one of them holds is refused to every other.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use lazaret_conflict::DeviceUse;
use serde::{Deserialize, Serialize as Written};

use crate::{
    AllocatedDevice, Claim, ClaimRef, Failure,
    driver::Holder,
    files::{read_file, write_file},
    lock::Serialize,
};

/// In the driver's data directory.
pub(crate) const FILE_NAME: &str = "prepared-claims.json";
const LOCK_FILE_NAME: &str = "prepared-claims.lock";
/// A larger file is not written: it could not be read.
const FILE_BYTES_MAX: usize = 4 << 20;

/// The claims that are noted.
#[derive(Debug)]
pub(crate) struct HeldDevices {
    driver: String,
    path: PathBuf,
    /// One change of the file at a time, also among two instances of the driver.
    turn: Serialize,
}

#[derive(Clone, Debug, Default, Written, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claims: BTreeMap<String, Noted>,
}

/// A claim that is or may be prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Written, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noted {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The pods for which it was reserved.
    pub(crate) pods: Vec<NotedPod>,
    devices: Vec<NotedDevice>,
}

/// A pod that may use a claim.
#[derive(Clone, Debug, PartialEq, Eq, Written, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotedPod {
    pub(crate) name: String,
    pub(crate) uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Written, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotedDevice {
    pool: String,
    device: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    admin: bool,
}

/// A claim that is refused a device, and the claim that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) device: String,
    pub(crate) holder: Noted,
}

impl Refusal {
    pub(crate) fn failure(&self) -> Failure {
        let Self { device, holder: Noted { namespace, name, .. } } = self;
        Failure::new(format_args!("device {device} is in use by claim {namespace}/{name}"))
    }
}

/// The outcome of noting a claim.
pub(crate) enum Note {
    /// It may be prepared. Whether it was noted before.
    Taken { is_new: bool },
    /// Another claim has one of its devices.
    Refused(Refusal),
}

impl HeldDevices {
    /// Those of a driver whose files are in this directory, with another instance beside it or not.
    pub(crate) fn new(driver: &str, directory: &Path, is_rolling: bool) -> Self {
        let turn = if is_rolling {
            Serialize::File(Arc::default(), directory.join(LOCK_FILE_NAME))
        } else {
            Serialize::Process(Arc::default())
        };
        Self { driver: driver.to_owned(), path: directory.join(FILE_NAME), turn }
    }

    /// Notes claims before the driver is called: one answer for each. The notes are on disk when this returns.
    pub(crate) async fn note(&self, claims: &[Claim]) -> Result<Vec<Note>, Failure> {
        let _turn = self.turn.turn().await.map_err(|status| Failure::new(status.message()))?;
        let mut file: File = read_file(&self.path)?;
        let notes: Vec<Note> = claims.iter().map(|claim| self.note_one(&mut file, claim)).collect();
        if notes.iter().any(|note| matches!(note, Note::Taken { .. })) {
            self.write(&file)?;
        }
        Ok(notes)
    }

    fn note_one(&self, file: &mut File, claim: &Claim) -> Note {
        if let Some(refusal) = self.refusal(file, claim) {
            return Note::Refused(refusal);
        }
        let is_new = !file.claims.contains_key(&claim.id.uid);
        let noted = file.claims.entry(claim.id.uid.clone()).or_default();
        (noted.namespace, noted.name) = (claim.id.namespace.clone(), claim.id.name.clone());
        noted.pods = pods(claim);
        for device in &claim.devices {
            let device = NotedDevice::of(device);
            // Its devices of before may be prepared until it is unprepared.
            if !noted.devices.contains(&device) {
                noted.devices.push(device);
            }
        }
        Note::Taken { is_new }
    }

    fn refusal(&self, file: &File, claim: &Claim) -> Option<Refusal> {
        let others = || file.claims.iter().filter(|(uid, _)| **uid != claim.id.uid);
        claim.devices.iter().map(NotedDevice::of).find_map(|wanted| {
            let excludes =
                |held: &NotedDevice| held.as_use(&self.driver).excludes(&wanted.as_use(&self.driver));
            let (_, holder) = others().find(|(_, other)| other.devices.iter().any(excludes))?;
            let device = format!("{}/{}/{}", self.driver, wanted.pool, wanted.device);
            Some(Refusal { device, holder: holder.clone() })
        })
    }

    /// The driver refused a claim because another one holds what it wants: the refusal with the name of that claim, if it is known here.
    pub(crate) fn resolve(&self, holder: &Holder) -> Option<Refusal> {
        let file: File = read_file(&self.path).ok()?;
        let noted = file.claims.get(&holder.claim_uid)?.clone();
        Some(Refusal { device: holder.device.clone(), holder: noted })
    }

    /// Forgets claims after the driver has unprepared them.
    pub(crate) async fn forget<'a>(&self, uids: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        let _turn = self.turn.turn().await.map_err(|status| Failure::new(status.message()))?;
        let mut file: File = read_file(&self.path)?;
        let before = file.claims.len();
        uids.for_each(|uid| drop(file.claims.remove(uid)));
        if file.claims.len() < before { self.write(&file) } else { Ok(()) }
    }

    /// Whether the file can be read: otherwise nothing is unprepared either.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        read_file::<File>(&self.path)?;
        Ok(())
    }

    fn write(&self, file: &File) -> Result<(), Failure> {
        if serde_json::to_vec(file)?.len() > FILE_BYTES_MAX {
            return Err(Failure::new("too many ResourceClaims are prepared by this driver"));
        }
        Ok(write_file(&self.path, file)?)
    }
}

impl NotedDevice {
    fn of(device: &AllocatedDevice) -> Self {
        let AllocatedDevice { pool, device, share_id, admin_access, .. } = device.clone();
        Self { pool, device, share: share_id, admin: admin_access }
    }

    fn as_use<'a>(&'a self, driver: &'a str) -> DeviceUse<'a> {
        let Self { pool, device, share, admin } = self;
        DeviceUse { driver, pool, device, share: share.as_deref(), is_admin: *admin }
    }
}

fn pods(claim: &Claim) -> Vec<NotedPod> {
    let status = claim.object.status.as_ref();
    let users = status.and_then(|status| status.reserved_for.as_deref()).unwrap_or_default();
    let pods = users.iter().filter(|user| user.resource == "pods");
    pods.map(|user| NotedPod { name: user.name.clone(), uid: user.uid.clone() }).collect()
}

/// The claim of a refusal, as an event names it.
pub(crate) fn place(claim: &ClaimRef) -> String {
    format!("{}/{}", claim.namespace, claim.name)
}
