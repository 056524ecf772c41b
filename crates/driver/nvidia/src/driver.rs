//! The driver.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

use lazaret_cdi::SpecDirectory;
use lazaret_driver::{
    Claim, ClaimRef, DeviceKey, Driver, Failure, FileError, HealthReport, Kit, Observation, Pool,
    PreparedDevice, Publisher, Running, StartError, read_file,
};
use lazaret_nvml::{Card, Error, LoadError, Nvml};
use thiserror::Error as ThisError;
use tokio::task::JoinSet;
use tracing::{error, warn};

use crate::{
    DRIVER, Host, Partitions,
    checkpoint::Checkpoint,
    inventory::{self, Gpu, Versions},
    monitor::{self, Health},
    notices,
    prepare::{Cards, Found},
    signals::Signals,
    table::{UnknownCondition, table},
};

/// Health is reported at least this often, whether it changed or not.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Between a report and the next wait: several changes at once are one report.
const GATHER: Duration = Duration::from_millis(2);

/// How the driver is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node whose GPUs these are.
    pub node: String,
    /// Where kubelet keeps its files.
    pub kubelet_root: PathBuf,
    /// Where CDI files go.
    pub cdi: PathBuf,
    /// The host's root directory.
    pub host_root: PathBuf,
    /// NVML's file, if it is not to be looked for.
    pub library: Option<PathBuf>,
    /// How cards are split.
    pub partitions: Partitions,
    /// Conditions whose taint evicts pods.
    pub evict_on: Vec<String>,
    /// How often figures are read.
    pub poll: Duration,
    /// The UID of the driver's pod, if instances overlap in a rolling update.
    pub pod_uid: Option<String>,
}

impl Options {
    /// Where this driver keeps its files.
    #[must_use]
    pub fn data(kubelet_root: &Path) -> PathBuf {
        kubelet_root.join("plugins").join(DRIVER)
    }
}

/// Why the driver does not run.
#[derive(Debug, ThisError)]
pub enum RunError {
    /// There is no NVML.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// NVML refused.
    #[error(transparent)]
    Nvml(#[from] Error),
    /// The kit refused.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A condition is not one.
    #[error(transparent)]
    Table(#[from] UnknownCondition),
    /// A file of an earlier process cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A thread cannot be started.
    #[error("start a thread: {0}")]
    Thread(std::io::Error),
}

/// A driver that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Nvidia {
    /// The running kit.
    pub running: Running,
    /// The GPUs, as they were found.
    pub gpus: Vec<Gpu>,
    health: Arc<Health>,
    _tasks: JoinSet<()>,
}

impl Nvidia {
    /// Ends it: calls in flight are answered, sockets go, slices stay.
    pub async fn stop(self) {
        self.health.stop();
        self.running.stop().await;
    }
}

/// Looks at the cards. Returns those that answer, and why others do not: the others do not keep them from being published.
pub(crate) fn find(
    nvml: &Nvml,
    host: &Host,
    partitions: Partitions,
) -> Result<(Vec<Gpu>, Vec<String>), Error> {
    let (mut gpus, mut failures) = (Vec::new(), Vec::new());
    for card in nvml.cards()? {
        match card.and_then(|card| look_at(&card, host, partitions)) {
            Ok(gpu) => gpus.push(gpu),
            Err(error) => failures.push(error.to_string()),
        }
    }
    gpus.sort_by_key(|gpu| gpu.facts.minor);
    Ok((gpus, failures))
}

fn look_at(card: &Card, host: &Host, partitions: Partitions) -> Result<Gpu, Error> {
    let facts = card.facts()?;
    let made = if facts.is_partitioned == Some(true) { card.partitions()? } else { Vec::new() };
    let can_be_split = partitions == Partitions::Dynamic && facts.is_partitioned.is_some();
    let known = if can_be_split || !made.is_empty() { card.profiles()? } else { Vec::new() };
    let profiles = if can_be_split { known.clone() } else { Vec::new() };
    let (pcie_root, numa_node) = (host.pcie_root(&facts.pci_address), host.numa_node(&facts.pci_address));
    Ok(Gpu { pcie_root, numa_node, facts, profiles, known, made })
}

/// Starts the driver.
///
/// # Errors
/// When it cannot start.
pub async fn start(client: kube::Client, options: Options) -> Result<Nvidia, RunError> {
    let table = table(&options.evict_on)?;
    let host = Host::at(&options.host_root);
    let nvml = Nvml::load(options.library.as_deref())?;
    let (mut gpus, failures) = find(&nvml, &host, options.partitions)?;
    for error in &failures {
        warn!(error, "a GPU does not answer: it is looked for every few seconds, and published when it does");
    }
    let versions = Versions { driver: nvml.driver_version()?, cuda: nvml.cuda_version()? };
    let data = Options::data(&options.kubelet_root);
    std::fs::create_dir_all(&data).map_err(|source| FileError::Io { path: data.clone(), source })?;
    if options.partitions == Partitions::Dynamic {
        own_partitions(&mut gpus, &read_file(&data.join("checkpoint.json"))?);
    }
    let found = Found { gpus: Arc::new(gpus.clone()), is_incomplete: !failures.is_empty(), is_more: false };
    let kept: Signals = read_file(&data.join("health.json"))?;
    let (notices, noticed) = notices::channel();
    let health = Arc::new(Health::new(kept.resumed(&host.boot()), data.join("health.json"), notices));
    let cards = Arc::new(Cards {
        node: options.node.clone(),
        host,
        cdi: SpecDirectory::new(&options.cdi),
        checkpoint: data.join("checkpoint.json"),
        versions,
        found: RwLock::new(found),
        partitions: options.partitions,
        library: options.library.clone(),
        changing: Mutex::new(()),
    });
    drop(nvml);
    spawn_threads(&cards, &health, data, options.poll)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(notices::write(client.clone(), Arc::clone(&cards), noticed));
    let mut kit = Kit::new(DRIVER, client)
        .node(&options.node)
        .kubelet_root(&options.kubelet_root)
        .health_table(table)
        .health_interval(GATHER)
        .pools(pools(&cards));
    if let Some(uid) = &options.pod_uid {
        kit = kit.rolling_update(uid);
    }
    let running = kit.start(Shared { cards: Arc::clone(&cards), health: Arc::clone(&health) }).await?;
    tasks.spawn(publish_late_cards(running.publisher().clone(), cards, Arc::clone(&health)));
    Ok(Nvidia { running, gpus, health, _tasks: tasks })
}

fn pools(cards: &Cards) -> BTreeMap<String, Pool> {
    [(cards.node.clone(), inventory::pool(&cards.gpus(), &cards.versions))].into()
}

/// Publishes GPUs that answered only after the start.
async fn publish_late_cards(publisher: Publisher, cards: Arc<Cards>, health: Arc<Health>) {
    loop {
        health.found.notified().await;
        if let Err(error) = publisher.publish(pools(&cards)) {
            error!(%error, "the GPUs cannot be published");
        }
    }
}

/// Partitions that an earlier process made for claims are not published as an administrator's. A card that an administrator has split
/// is left as it is.
pub(crate) fn own_partitions(gpus: &mut [Gpu], checkpoint: &Checkpoint) {
    for gpu in gpus {
        let held: Vec<(u32, u32)> = checkpoint
            .claims
            .values()
            .flatten()
            .filter(|held| held.made_for_it && held.uuid == gpu.facts.uuid)
            .filter_map(|held| held.slices)
            .collect();
        gpu.made.retain(|part| !held.contains(&(part.placement.start, part.placement.size)));
        if !gpu.made.is_empty() {
            warn!(gpu = %gpu.name(), "somebody has split this GPU: its partitions are published as they are");
            gpu.profiles.clear();
        }
    }
}

fn spawn_threads(
    cards: &Arc<Cards>,
    health: &Arc<Health>,
    data: PathBuf,
    poll: Duration,
) -> Result<(), RunError> {
    let (cards_1, health_1) = (Arc::clone(cards), Arc::clone(health));
    let follow = move || monitor::follow(&cards_1, &health_1, &data, poll);
    std::thread::Builder::new().name("nvml".into()).spawn(follow).map_err(RunError::Thread)?;
    let (cards, health) = (Arc::clone(cards), Arc::clone(health));
    let read = move || monitor::read_kernel_log(&cards, &health);
    std::thread::Builder::new().name("kernel-log".into()).spawn(read).map_err(RunError::Thread)?;
    Ok(())
}

struct Shared {
    cards: Arc<Cards>,
    health: Arc<Health>,
}

impl Shared {
    /// Hardware takes its time: off the reactor.
    async fn off<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cards) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let cards = Arc::clone(&self.cards);
        let done = tokio::task::spawn_blocking(move || work(&cards)).await;
        done.map_err(|_| Failure::new("the driver failed inside: see its log"))
    }
}

impl Driver for Shared {
    async fn prepare(&self, claims: &[Claim]) -> Vec<Result<Vec<PreparedDevice>, Failure>> {
        let mut answers = Vec::new();
        for claim in claims {
            let claim = claim.clone();
            answers.push(self.off(move |cards| cards.prepare(&claim)).await.and_then(|answer| answer));
        }
        answers
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Vec<Result<(), Failure>> {
        let mut answers = Vec::new();
        for claim in claims {
            let claim = claim.clone();
            answers.push(self.off(move |cards| cards.unprepare(&claim)).await.and_then(|answer| answer));
        }
        answers
    }

    async fn health(&self) -> HealthReport {
        // Returns when something changed: a taint is published within milliseconds of its event.
        let _ = tokio::time::timeout(REPORT_EVERY, self.health.changed.notified()).await;
        let signals = self.health.signals();
        let observe = |gpu: &Gpu| {
            let devices = gpu.devices().into_iter().map(|(name, _)| name);
            let observe = devices.map(|device| Observation {
                found: Ok(signals.conditions(&gpu.facts.uuid, &device)),
                device: DeviceKey { pool: self.cards.node.clone(), device },
            });
            observe.collect::<Vec<_>>()
        };
        HealthReport::Observed(self.cards.gpus().iter().flat_map(observe).collect())
    }
}
