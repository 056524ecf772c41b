//! Making GPUs usable for claims, and undoing it.

use std::{
    io,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use lazaret_cdi::{Device as CdiDevice, Spec, SpecDirectory};
use lazaret_driver::{AllocatedDevice, Claim, ClaimRef, Failure, PreparedDevice, read_file, write_file};
use lazaret_nvml::{Card, ComputeMode, Nvml, Partition, Placement, Profile};
use tracing::{info, warn};

use crate::{
    Config, DRIVER, Host, Partitions, Sharing,
    checkpoint::{Checkpoint, Held},
    driver::{find, own_partitions},
    edits,
    host::Node,
    inventory::{Gpu, Meaning, Versions},
};

/// The class of CDI devices.
const CLASS: &str = "claim";
/// Between two looks whether a reset has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A minute: a reset takes seconds, and nothing is prepared meanwhile.
const RESET_LOOKS_MAX: usize = 1_200;

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

    /// Looks for cards that did not answer before; whether there are any. What is known of the others stays as it is.
    pub(crate) fn find_more(&self) -> Result<bool, Failure> {
        if !self.found.read().unwrap_or_else(PoisonError::into_inner).is_incomplete {
            return Ok(false);
        }
        // No claim is prepared meanwhile: a partition that is being made for one is nobody else's.
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
    pub(crate) fn take_more(&self) -> bool {
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

    fn meaning<'a>(&self, gpus: &'a [Gpu], device: &AllocatedDevice) -> Result<Meaning<'a>, Failure> {
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

    /// What a claim will hold of a device; refused if another claim holds it.
    fn hold(
        &self,
        checkpoint: &Checkpoint,
        uid: &str,
        device: &AllocatedDevice,
        before: &[Held],
    ) -> Result<Held, Failure> {
        let gpus = self.gpus();
        let (gpu, slices, made_for_it) = match self.meaning(&gpus, device)? {
            Meaning::Whole(gpu) => (gpu, None, false),
            Meaning::Made(gpu, part) => (gpu, Some(part.placement), false),
            Meaning::Possible(gpu, _, placement) => (gpu, Some(placement), true),
        };
        let (card, slices) = (&gpu.facts.uuid, slices.map(|place| (place.start, place.size)));
        let other = checkpoint.other_holder(card, slices, uid).filter(|_| !device.admin_access);
        if let Some(other) = other {
            return Err(Failure::new(format_args!("{} is in use by claim {other}", device.device)));
        }
        let config = Config::read(&device.configs)?;
        if config.sharing != Sharing::AsItIs && slices.is_some() {
            return Err(Failure::new(format_args!(
                "{}: sharing can be set for whole GPUs only",
                device.device
            )));
        }
        // A second call must not take the mode that the first one set for the one before.
        let noted = before.iter().find(|held| held.device == device.device).and_then(|held| held.mode_before);
        let mode_before = match config.sharing {
            Sharing::AsItIs => noted,
            Sharing::TimeSlicing | Sharing::Exclusive if noted.is_some() => noted,
            Sharing::TimeSlicing | Sharing::Exclusive => Some(self.card(card)?.compute_mode()?.number()),
        };
        Ok(Held {
            device: device.device.clone(),
            uuid: card.clone(),
            mode_before,
            slices,
            made_for_it,
            admin: device.admin_access,
        })
    }

    /// Brings the hardware into the state that a claim wants; gives the nodes that a container needs.
    fn make(&self, device: &AllocatedDevice, held: &Held) -> Result<Vec<Node>, Failure> {
        match self.meaning(&self.gpus(), device)? {
            Meaning::Whole(gpu) => {
                self.make_whole(gpu, held)?;
                let mode = match Config::read(&device.configs)?.sharing {
                    Sharing::AsItIs => None,
                    Sharing::TimeSlicing => Some(ComputeMode::Default),
                    Sharing::Exclusive => Some(ComputeMode::ExclusiveProcess),
                };
                if let Some(mode) = mode {
                    self.card(&gpu.facts.uuid)?.set_compute_mode(mode)?;
                }
                Ok(vec![self.card_node(gpu)?])
            }
            Meaning::Made(gpu, part) => self.partition_nodes(gpu, part),
            Meaning::Possible(gpu, profile, placement) => {
                let part = self.make_partition(gpu, profile, placement)?;
                self.partition_nodes(gpu, &part)
            }
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
        if !held.made_for_it && held.mode_before.is_none() {
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
        let programs = self.host.programs();
        let program = programs.iter().find(|path| path.ends_with("nvidia-smi"));
        let program = program.ok_or("nvidia-smi is not on this node")?;
        let mut command = Command::new(program);
        command.args(["--gpu-reset", "-i", &gpu.facts.uuid]);
        run(command).map_err(|error| format!("{}: {error}", program.display()))?
    }
}

/// Runs a program to its end, or ends it. `Err` inside: it says that it failed.
fn run(mut command: Command) -> io::Result<Result<String, String>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    for _ in 0..RESET_LOOKS_MAX {
        if child.try_wait()?.is_some() {
            let output = child.wait_with_output()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            return Ok(if output.status.success() { Ok(text) } else { Err(text) });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    child.kill()?;
    child.wait()?;
    Err(io::Error::new(io::ErrorKind::TimedOut, "it did not end within a minute"))
}
