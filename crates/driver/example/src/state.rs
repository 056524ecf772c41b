//! The devices, what is wrong with them, and what is prepared.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lazaret_cdi::{ContainerEdits, Device as CdiDevice, Spec, SpecDirectory};
use lazaret_driver::{
    AllocatedDevice, Claim, ClaimRef, Failure, Pool, PreparedDevice, read_file, write_file,
};

use crate::{
    Checkpoint, Faults, Options, Shape, Unit,
    command::{Call, Command, CommandError, Frames},
    faults::{CommandEffect, Mode},
    unit::{pool, units},
};

/// Between two looks whether a call that hangs may work again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) driver: String,
    pub(crate) node: String,
    pub(crate) units: Vec<Unit>,
    /// The names of the units at the start.
    pub(crate) names: Vec<String>,
    shape: Shape,
    cdi: SpecDirectory,
    checkpoint: PathBuf,
    faults: Mutex<Faults>,
    looks: AtomicU64,
}

impl State {
    pub(crate) fn new(options: &Options, shape: Shape, checkpoint: PathBuf) -> Self {
        let count = u16::try_from(options.devices).unwrap_or(u16::MAX);
        let units = units(&options.node, count, &shape);
        Self {
            driver: options.driver.clone(),
            node: options.node.clone(),
            names: units.iter().map(|unit| unit.name.clone()).collect(),
            units,
            shape,
            cdi: SpecDirectory::new(&options.cdi),
            checkpoint,
            faults: Mutex::default(),
            looks: AtomicU64::new(0),
        }
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn apply(&self, command: Command) -> Result<CommandEffect, CommandError> {
        self.faults().apply(&self.names, command)
    }

    /// Units that are there, under the names that they have now. A part goes with what it is a part of.
    fn present(&self) -> Vec<Unit> {
        let faults = self.faults();
        let named = |unit: &Unit| Some(Unit { name: published_name(&faults, unit)?, ..unit.clone() });
        self.units.iter().filter_map(named).collect()
    }

    pub(crate) fn pools(&self) -> BTreeMap<String, Pool> {
        [(self.node.clone(), pool(&self.driver, &self.present(), &self.shape))].into()
    }

    /// The conditions of each unit at this look, by the name under which it is published. A fault of a whole device is
    /// a fault of its parts.
    pub(crate) fn look(&self) -> Vec<(String, Vec<(String, String)>)> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        let faults = self.faults();
        let found = |unit: &Unit| {
            let mut conditions = faults.conditions(&unit.name, look);
            if let Some((whole, _)) = &unit.part {
                conditions.extend(faults.conditions(whole, look));
            }
            Some((published_name(&faults, unit)?, conditions))
        };
        self.units.iter().filter_map(found).collect()
    }

    /// Waits while a call is to hang.
    pub(crate) async fn mode(&self, call: Call) -> Result<(), Failure> {
        loop {
            let mode = self.faults().mode(call);
            match mode {
                Mode::Work => return Ok(()),
                Mode::Fail(why) => return Err(Failure::new(why)),
                Mode::Hang => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Changes what is sent to kubelet, while that is asked for.
    pub(crate) fn change_bytes(&self, bytes: &mut [u8]) {
        let frames = self.faults().frames();
        match frames {
            None => {}
            Some(Frames::Garbage) => bytes.iter_mut().for_each(|byte| *byte ^= 0x5a),
            // The length is the first three bytes of a frame.
            Some(Frames::Giant) => bytes.iter_mut().take(3).for_each(|byte| *byte = 0xff),
        }
    }

    fn kind(&self) -> String {
        format!("{}/{}", self.driver, self.shape.profile.word())
    }

    fn file_of(&self, uid: &str) -> String {
        SpecDirectory::transient_name(&self.driver, self.shape.profile.word(), uid)
    }

    pub(crate) fn prepare(&self, claim: &Claim) -> Result<Vec<PreparedDevice>, Failure> {
        let (uid, present) = (&claim.id.uid, self.present());
        let mut checkpoint: Checkpoint = read_file(&self.checkpoint)?;
        let (mut cdi, mut prepared, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for device in &claim.devices {
            let unit = present.iter().find(|unit| unit.name == device.device && device.pool == self.node);
            let unit = unit
                .ok_or_else(|| Failure::new(format_args!("there is no {}/{}", device.pool, device.device)))?;
            if !device.admin_access && !self.shape.is_shared {
                if let Some(other) = checkpoint.other_holder(&unit.uuid, uid) {
                    return Err(Failure::in_use(&unit.name, other));
                }
                held.push(unit.uuid.clone());
            }
            let share = device.share_id.as_ref().map(|share| format!("-{share}")).unwrap_or_default();
            let name = format!("{uid}-{}{share}", unit.name);
            let id = format!("{}={name}", self.kind());
            let metadata = unit.metadata(self.shape.profile);
            prepared.push(PreparedDevice::of(device).with_cdi(id).with_metadata(metadata));
            cdi.push(CdiDevice::new(name, edits(uid, unit, device)));
        }
        // First the note, then the file: what is not noted is never cleaned up.
        checkpoint.claims.insert(uid.clone(), held);
        write_file(&self.checkpoint, &checkpoint)?;
        if !cdi.is_empty() {
            self.cdi.write(&self.file_of(uid), &Spec::new(self.kind(), cdi))?;
        }
        Ok(prepared)
    }

    pub(crate) fn unprepare(&self, claim: &ClaimRef) -> Result<(), Failure> {
        self.cdi.remove(&self.file_of(&claim.uid))?;
        let mut checkpoint: Checkpoint = read_file(&self.checkpoint)?;
        if checkpoint.claims.remove(&claim.uid).is_some() {
            write_file(&self.checkpoint, &checkpoint)?;
        }
        Ok(())
    }
}

fn published_name(faults: &Faults, unit: &Unit) -> Option<String> {
    if let Some((whole, _)) = &unit.part {
        faults.name_of(whole)?;
    }
    faults.name_of(&unit.name)
}

/// The edits of a container with a device: environment variables that identify it.
fn edits(uid: &str, unit: &Unit, device: &AllocatedDevice) -> ContainerEdits {
    let variable = unit.name.to_uppercase().replace('-', "_");
    let mut env = vec![format!("{variable}_UUID={}", unit.uuid), format!("{variable}_RESOURCE_CLAIM={uid}")];
    if device.admin_access {
        env.push("DRA_ADMIN_ACCESS=true".into());
    }
    if let Some(share) = &device.share_id {
        env.push(format!("{variable}_SHARE_ID={share}"));
    }
    ContainerEdits { env, ..ContainerEdits::default() }
}
