//! Making GPUs usable for claims, and undoing it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use lazaret_cdi::{Device as CdiDevice, Spec, SpecDirectory};
use lazaret_driver::{AllocatedDevice, Claim, ClaimRef, Failure, PreparedDevice, read_file, write_file};
use lazaret_nvml::{Card, ComputeMode, Nvml, Partition, Placement, Profile};
use tracing::{info, warn};

use crate::{
    Config, DRIVER, Host, Interval, Partitions, Sharing,
    checkpoint::{Checkpoint, Held},
    driver::{find, own_partitions},
    edits,
    host::Node,
    inventory::{Gpu, NamedDevice, Versions},
    smi,
};

/// The class of CDI devices.
const CLASS: &str = "claim";

/// The cards of a node, and what is done with them.
#[derive(Debug)]
pub(crate) struct Cards {
    pub(crate) node: String,
    pub(crate) host: Host,
    pub(crate) cdi: SpecDirectory,
    pub(crate) checkpoint: PathBuf,
    pub(crate) versions: Versions,
    pub(crate) found: RwLock<Found>,
    pub(crate) partitions: Partitions,
    pub(crate) library: Option<PathBuf>,
    /// One change of hardware at a time: a claim, or a reset.
    pub(crate) changing: Mutex<()>,
}

/// The cards that answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) gpus: Arc<Vec<Gpu>>,
    /// Some did not.
    pub(crate) is_incomplete: bool,
    /// Some answered only now, and are to be published.
    pub(crate) is_more: bool,
}

impl Cards {
    pub(crate) fn gpus(&self) -> Arc<Vec<Gpu>> {
        Arc::clone(&self.found.read().unwrap_or_else(PoisonError::into_inner).gpus)
    }

    /// Looks for cards that did not answer before; whether there are any. The state of the others does not change.
    pub(crate) fn find_more(&self) -> Result<bool, Failure> {
        if !self.found.read().unwrap_or_else(PoisonError::into_inner).is_incomplete {
            return Ok(false);
        }
        // No claim is prepared meanwhile: a partition that is being made belongs to its claim alone.
        let _turn = self.turn();
        let nvml = Nvml::load(self.library.as_deref())?;
        let (mut more, failures) = find(&nvml, &self.host, self.partitions)?;
        let mut gpus = Vec::clone(&self.gpus());
        more.retain(|gpu| gpus.iter().all(|known| known.facts.uuid != gpu.facts.uuid));
        if self.partitions == Partitions::Dynamic {
            own_partitions(&mut more, &read_file(&self.checkpoint)?);
        }
        for gpu in &more {
            info!(gpu = %gpu.name(), uuid = %gpu.facts.uuid, "a GPU that did not answer before is published");
        }
        let is_found = !more.is_empty();
        gpus.append(&mut more);
        gpus.sort_by_key(|gpu| gpu.facts.minor);
        let found = Found { gpus: Arc::new(gpus), is_incomplete: !failures.is_empty(), is_more: is_found };
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(is_found)
    }

    /// Whether there are cards to publish that answered only after the start. They are asked for once.
    pub(crate) fn take_late_cards(&self) -> bool {
        std::mem::take(&mut self.found.write().unwrap_or_else(PoisonError::into_inner).is_more)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The card of a GPU. NVML is loaded anew each time: after a reload of the kernel module old handles mean nothing.
    pub(crate) fn card(&self, uuid: &str) -> Result<Card, Failure> {
        let nvml = Nvml::load(self.library.as_deref())?;
        let cards = nvml.cards()?.into_iter().flatten();
        let mut found = cards.filter(|card| card.uuid().is_ok_and(|found| found == uuid));
        found.next().ok_or_else(|| Failure::new(format_args!("{uuid} is not among the GPUs any more")))
    }

    fn meaning<'a>(&self, gpus: &'a [Gpu], device: &AllocatedDevice) -> Result<NamedDevice<'a>, Failure> {
        let all = gpus.iter().flat_map(Gpu::devices);
        let mut found = all.filter(|(name, _)| *name == device.device && device.pool == self.node);
        let found = found.next().map(|(_, meaning)| meaning);
        found.ok_or_else(|| Failure::new(format_args!("there is no {}/{}", device.pool, device.device)))
    }

    fn file_of(uid: &str) -> String {
        SpecDirectory::transient_name(DRIVER, CLASS, uid)
    }

    pub(crate) fn prepare(&self, claim: &Claim) -> Result<Vec<PreparedDevice>, Failure> {
        let _turn = self.turn();
        let uid = &claim.id.uid;
        let mut checkpoint: Checkpoint = read_file(&self.checkpoint)?;
        let before = checkpoint.claims.get(uid).cloned().unwrap_or_default();
        let mut held = Vec::new();
        for device in &claim.devices {
            held.push(self.hold(&checkpoint, uid, device, &before)?);
        }
        // First the note, then the hardware: what is not noted is never undone.
        checkpoint.claims.insert(uid.clone(), held.clone());
        write_file(&self.checkpoint, &checkpoint)?;
        let (mut cdi, mut prepared) = (Vec::new(), Vec::new());
        for (device, held) in claim.devices.iter().zip(&held) {
            let nodes = self.make(device, held)?;
            let name = format!("{uid}-{}", device.device);
            prepared.push(PreparedDevice::of(device).with_cdi(format!("{DRIVER}/{CLASS}={name}")));
            cdi.push(CdiDevice::new(name, edits::device(&nodes)));
        }
        if !cdi.is_empty() {
            let common = edits::common(&self.host, &self.versions.driver);
            let spec = Spec { container_edits: common, ..Spec::new(format!("{DRIVER}/{CLASS}"), cdi) };
            self.cdi.write(&Self::file_of(uid), &spec)?;
        }
        info!(claim = %claim.id.name, namespace = %claim.id.namespace, devices = prepared.len(), "prepared");
        Ok(prepared)
    }

    /// The part of a device that a claim will hold; refused if another claim holds it.
    fn hold(
        &self,
        checkpoint: &Checkpoint,
        uid: &str,
        device: &AllocatedDevice,
        before: &[Held],
    ) -> Result<Held, Failure> {
        let gpus = self.gpus();
        let (gpu, slices, made_for_it) = match self.meaning(&gpus, device)? {
            NamedDevice::Whole(gpu) => (gpu, None, false),
            NamedDevice::Made(gpu, part) => (gpu, Some(part.placement), false),
            NamedDevice::Possible(gpu, _, placement) => (gpu, Some(placement), true),
        };
        let (card, slices) = (&gpu.facts.uuid, slices.map(|place| (place.start, place.size)));
        let other = checkpoint.other_holder(card, slices, uid).filter(|_| !device.admin_access);
        if let Some(other) = other {
            return Err(Failure::in_use(&device.device, other));
        }
        let sharing = Config::read(&device.configs)?.sharing;
        if sharing != Sharing::AsItIs && slices.is_some() {
            return Err(Failure::new(format_args!(
                "{}: sharing can be set for whole GPUs only",
                device.device
            )));
        }
        if sharing != Sharing::AsItIs && device.admin_access {
            return Err(Failure::new(format_args!(
                "{}: sharing cannot be set with adminAccess: the GPU may be in use by another claim",
                device.device
            )));
        }
        // A second call must not take the mode that the first one set for the one before.
        let noted = before.iter().find(|held| held.device == device.device);
        let mode_noted = noted.and_then(|held| held.mode_before);
        let mode_before = match sharing {
            Sharing::AsItIs => mode_noted,
            Sharing::TimeSlicing(_) | Sharing::Exclusive if mode_noted.is_some() => mode_noted,
            Sharing::TimeSlicing(_) | Sharing::Exclusive => Some(self.card(card)?.compute_mode()?.number()),
        };
        let interval_noted = noted.is_some_and(|held| held.interval_set);
        Ok(Held {
            device: device.device.clone(),
            uuid: card.clone(),
            mode_before,
            interval_set: interval_noted || self.can_set_interval(&device.device, card, sharing)?,
            slices,
            made_for_it,
            admin: device.admin_access,
        })
    }

    /// Whether turns of another length than the default are to be set. A card that cannot have it is found out by setting the
    /// default, which is what comes back afterwards: of what is refused here nothing has to be undone.
    fn can_set_interval(&self, device: &str, card: &str, sharing: Sharing) -> Result<bool, Failure> {
        let Sharing::TimeSlicing(Some(interval)) = sharing else { return Ok(false) };
        smi::set_time_slice(&self.host, card, Interval::Default).map_err(|error| {
            Failure::new(format_args!(
                "{device}: sharing.timeSlicingConfig cannot be applied: {error}; leave it out"
            ))
        })?;
        Ok(interval != Interval::Default)
    }

    /// Brings the hardware into the state that a claim wants; gives the nodes that a container needs.
    fn make(&self, device: &AllocatedDevice, held: &Held) -> Result<Vec<Node>, Failure> {
        match self.meaning(&self.gpus(), device)? {
            NamedDevice::Whole(gpu) => {
                self.make_whole(gpu, held)?;
                self.share(gpu, Config::read(&device.configs)?.sharing)?;
                Ok(vec![self.card_node(gpu)?])
            }
            NamedDevice::Made(gpu, part) => self.partition_nodes(gpu, part),
            NamedDevice::Possible(gpu, profile, placement) => {
                let part = self.make_partition(gpu, profile, placement)?;
                self.partition_nodes(gpu, &part)
            }
        }
    }

    fn share(&self, gpu: &Gpu, sharing: Sharing) -> Result<(), Failure> {
        let mode = match sharing {
            Sharing::AsItIs => return Ok(()),
            Sharing::TimeSlicing(_) => ComputeMode::Default,
            Sharing::Exclusive => ComputeMode::ExclusiveProcess,
        };
        self.card(&gpu.facts.uuid)?.set_compute_mode(mode)?;
        match sharing {
            Sharing::TimeSlicing(Some(interval)) if interval != Interval::Default => {
                smi::set_time_slice(&self.host, &gpu.facts.uuid, interval).map_err(Failure::new)
            }
            Sharing::AsItIs | Sharing::TimeSlicing(_) | Sharing::Exclusive => Ok(()),
        }
    }

    /// A card that was split for claims, of which none is left.
    fn make_whole(&self, gpu: &Gpu, held: &Held) -> Result<(), Failure> {
        if gpu.profiles.is_empty() || held.admin {
            return Ok(());
        }
        let card = self.card(&gpu.facts.uuid)?;
        if card.is_partitioned()? == Some(true) {
            card.set_partitioned(false)?;
        }
        Ok(())
    }

    fn make_partition(
        &self,
        gpu: &Gpu,
        profile: &Profile,
        placement: Placement,
    ) -> Result<Partition, Failure> {
        let card = self.card(&gpu.facts.uuid)?;
        if card.is_partitioned()? != Some(true) {
            card.set_partitioned(true)?;
        }
        let same = |part: &Partition| part.placement == placement && part.profile == profile.id;
        // It may be there: the call before this one made it and was not answered.
        if let Some(part) = card.partitions()?.into_iter().find(same) {
            return Ok(part);
        }
        let part = card.create_partition(profile, placement)?;
        info!(gpu = %gpu.name(), profile = %profile.name, uuid = %part.uuid, "partition made");
        Ok(part)
    }

    fn card_node(&self, gpu: &Gpu) -> Result<Node, Failure> {
        let node = self.host.card_node(gpu.facts.minor);
        node.ok_or_else(|| Failure::new(format_args!("/dev/nvidia{} does not exist", gpu.facts.minor)))
    }

    fn partition_nodes(&self, gpu: &Gpu, part: &Partition) -> Result<Vec<Node>, Failure> {
        let (minor, instance) = (gpu.facts.minor, part.gpu_instance);
        let capabilities = self.host.partition_nodes(minor, instance, part.compute_instance);
        let mut nodes = vec![self.card_node(gpu)?];
        nodes.extend(capabilities.map_err(Failure::new)?);
        Ok(nodes)
    }

    pub(crate) fn unprepare(&self, claim: &ClaimRef) -> Result<(), Failure> {
        let _turn = self.turn();
        let mut checkpoint: Checkpoint = read_file(&self.checkpoint)?;
        for held in checkpoint.claims.get(&claim.uid).cloned().unwrap_or_default() {
            self.undo(&checkpoint, &claim.uid, &held)?;
        }
        self.cdi.remove(&Self::file_of(&claim.uid))?;
        if checkpoint.claims.remove(&claim.uid).is_some() {
            write_file(&self.checkpoint, &checkpoint)?;
            info!(claim = %claim.name, namespace = %claim.namespace, "unprepared");
        }
        Ok(())
    }

    fn undo(&self, checkpoint: &Checkpoint, uid: &str, held: &Held) -> Result<(), Failure> {
        if !held.made_for_it && held.mode_before.is_none() && !held.interval_set {
            return Ok(());
        }
        let card = match self.card(&held.uuid) {
            Ok(card) => card,
            Err(failure) => {
                // Partitions and modes go with the card.
                warn!(device = %held.device, %failure, "nothing is undone on a GPU that is gone");
                return Ok(());
            }
        };
        if let Some(mode) = held.mode_before {
            card.set_compute_mode(mode.into())?;
        }
        if held.interval_set {
            smi::set_time_slice(&self.host, &held.uuid, Interval::Default).map_err(Failure::new)?;
        }
        let Some((start, size)) = held.slices.filter(|_| held.made_for_it) else { return Ok(()) };
        let here = |part: &Partition| part.placement == Placement { start, size };
        if let Some(part) = card.partitions()?.into_iter().find(here) {
            card.destroy_partition(part.gpu_instance)?;
            info!(device = %held.device, uuid = %part.uuid, "partition unmade");
        }
        let others = checkpoint.other_holder(&held.uuid, None, uid);
        if others.is_none() && card.partitions()?.is_empty() {
            card.set_partitioned(false)?;
        }
        Ok(())
    }

    /// Resets a card that no claim holds.
    pub(crate) fn reset(&self, gpu: &Gpu) -> Result<String, String> {
        let _turn = self.turn();
        let checkpoint: Checkpoint = read_file(&self.checkpoint).map_err(|error| error.to_string())?;
        if let Some(claim) = checkpoint.holder(&gpu.facts.uuid) {
            return Err(format!("{} is in use by claim {claim}: drain it first", gpu.name()));
        }
        smi::reset(&self.host, &gpu.facts.uuid).map_err(|error| error.to_string())
    }
}
