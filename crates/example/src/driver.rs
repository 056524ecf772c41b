//! The driver.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lazaret_cdi::{ContainerEdits, Device as CdiDevice, Spec, SpecDirectory};
use lazaret_driver::{
    Claim, ClaimRef, Condition, DeviceKey, Driver, Failure, HealthReport, HealthRule, HealthTable, Kit,
    Observation, Pool, PreparedDevice, Publisher, Running, StartError, TableError, TaintEffect,
};
use thiserror::Error;
use tokio::task::JoinSet;

use crate::{
    Checkpoint, Faults, Gpu,
    control::{self, ControlError},
    faults::{Call, Command, CommandError, Mode},
    gpu::gpus,
};

/// Between two looks whether a call that hangs may work again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The class of CDI devices.
const CLASS: &str = "gpu";

/// How the driver is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The driver's name.
    pub driver: String,
    /// The node whose GPUs these are.
    pub node: String,
    /// How many there are.
    pub devices: usize,
    /// Where kubelet keeps its files.
    pub kubelet_root: PathBuf,
    /// Where CDI files go.
    pub cdi: PathBuf,
    /// The UID of the driver's pod, if instances overlap in a rolling update.
    pub pod_uid: Option<String>,
    /// How often GPUs are looked at.
    pub health_interval: Duration,
    /// How long a condition must be over before its taint goes.
    pub recover_after: Duration,
    /// Faults from the start.
    pub faults: Vec<Command>,
}

/// Why the driver does not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The kit refused.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The table of taints cannot be made: the driver's name does not fit.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A fault from the start makes no sense.
    #[error(transparent)]
    Fault(#[from] CommandError),
}

/// A driver that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Example {
    /// What the kit made of it.
    pub running: Running,
    /// Where commands are taken.
    pub control: PathBuf,
    _tasks: JoinSet<()>,
}

impl Example {
    /// Ends it: calls under way are answered, sockets go, slices stay.
    pub async fn stop(self) {
        self.running.stop().await;
        let _ = std::fs::remove_file(&self.control);
    }
}

/// Starts the driver.
///
/// # Errors
/// What keeps it from starting.
pub async fn start(client: kube::Client, options: Options) -> Result<Example, RunError> {
    let data = options.kubelet_root.join("plugins").join(&options.driver);
    let state = Arc::new(State::new(&options, data.join("checkpoint.json")));
    for command in &options.faults {
        state.apply(command.clone())?;
    }
    let mut kit = Kit::new(&options.driver, client)
        .node(&options.node)
        .kubelet_root(&options.kubelet_root)
        .health_table(table(&options)?)
        .health_interval(options.health_interval)
        .pools(state.pools());
    let mut socket = "control.sock".to_owned();
    if let Some(uid) = &options.pod_uid {
        kit = kit.rolling_update(uid);
        socket = format!("control-{uid}.sock");
    }
    let running = kit.start(Simulated(Arc::clone(&state))).await?;
    let control = data.join(socket);
    let listener = control::listen(&control)?;
    let publisher = running.publisher().clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(control::serve(listener, move |line| answer(&state, &publisher, line)));
    Ok(Example { running, control, _tasks: tasks })
}

fn answer(state: &State, publisher: &Publisher, line: &str) -> Result<String, CommandError> {
    let command: Command = line.parse()?;
    match command {
        Command::Crash => std::process::abort(),
        Command::List => return Ok(state.faults().list()),
        Command::Fail(..)
        | Command::Flap(..)
        | Command::Recover(_)
        | Command::Vanish(_)
        | Command::Return(..)
        | Command::Hang(_)
        | Command::Error(..)
        | Command::Work(_) => {}
    }
    if state.apply(command)? {
        publisher.publish(state.pools()).map_err(|error| CommandError::Unknown(error.to_string()))?;
    }
    Ok("ok".into())
}

/// What conditions mean here. Names are those of what real GPUs have.
fn table(options: &Options) -> Result<HealthTable, TableError> {
    let driver = &options.driver;
    let clear_ms = i64::try_from(options.recover_after.as_millis()).unwrap_or(i64::MAX);
    let rule = |name: &str, effect: TaintEffect| {
        HealthRule::new(format!("{driver}/{name}"), effect).after(100, clear_ms)
    };
    HealthTable::new(driver)
        .with("xid", rule("xid", TaintEffect::NoSchedule))?
        .with("lost", rule("lost", TaintEffect::NoExecute))?
        .with("ecc", rule("ecc", TaintEffect::NoSchedule))?
        .with("hot", rule("hot", TaintEffect::None))
}

#[derive(Debug)]
struct State {
    driver: String,
    node: String,
    gpus: Vec<Gpu>,
    names: Vec<String>,
    cdi: SpecDirectory,
    checkpoint: PathBuf,
    faults: Mutex<Faults>,
    looks: AtomicU64,
}

impl State {
    fn new(options: &Options, checkpoint: PathBuf) -> Self {
        let gpus = gpus(&options.node, options.devices);
        Self {
            driver: options.driver.clone(),
            node: options.node.clone(),
            names: gpus.iter().map(|gpu| gpu.name.clone()).collect(),
            gpus,
            cdi: SpecDirectory::new(&options.cdi),
            checkpoint,
            faults: Mutex::default(),
            looks: AtomicU64::new(0),
        }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, command: Command) -> Result<bool, CommandError> {
        self.faults().apply(&self.names, command)
    }

    /// GPUs that are there, under the names that they have now.
    fn present(&self) -> Vec<Gpu> {
        let faults = self.faults();
        let present =
            self.gpus.iter().filter_map(|gpu| Some(Gpu { name: faults.name_of(&gpu.name)?, ..gpu.clone() }));
        present.collect()
    }

    fn pools(&self) -> BTreeMap<String, Pool> {
        let devices = self.present().iter().map(Gpu::device).collect();
        [(self.node.clone(), Pool::of(devices))].into()
    }

    /// Waits while a call is to hang.
    async fn mode(&self, call: Call) -> Result<(), Failure> {
        loop {
            let mode = self.faults().mode(call);
            match mode {
                Mode::Work => return Ok(()),
                Mode::Fail(why) => return Err(Failure::new(why)),
                Mode::Hang => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    fn file_of(&self, uid: &str) -> String {
        SpecDirectory::transient_name(&self.driver, CLASS, uid)
    }

    fn prepare(&self, claim: &Claim) -> Result<Vec<PreparedDevice>, Failure> {
        let (uid, present) = (&claim.id.uid, self.present());
        let mut checkpoint = Checkpoint::read(&self.checkpoint)?;
        let (mut cdi, mut prepared, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for device in &claim.devices {
            let gpu = present.iter().find(|gpu| gpu.name == device.device && device.pool == self.node);
            let gpu = gpu
                .ok_or_else(|| Failure::new(format_args!("there is no {}/{}", device.pool, device.device)))?;
            if let Some(other) = checkpoint.other_holder(&gpu.uuid, uid).filter(|_| !device.admin_access) {
                return Err(Failure::new(format_args!("{} is in use by claim {other}", gpu.name)));
            }
            if !device.admin_access {
                held.push(gpu.uuid.clone());
            }
            let name = format!("{uid}-{}", gpu.name);
            let variable = gpu.name.to_uppercase().replace('-', "_");
            let mut env =
                vec![format!("{variable}_UUID={}", gpu.uuid), format!("{variable}_RESOURCE_CLAIM={uid}")];
            if device.admin_access {
                env.push("DRA_ADMIN_ACCESS=true".into());
            }
            prepared.push(PreparedDevice::of(device).with_cdi(format!("{}/{CLASS}={name}", self.driver)));
            cdi.push(CdiDevice::new(name, ContainerEdits { env, ..ContainerEdits::default() }));
        }
        // First the note, then the file: what is not noted is never cleaned up.
        checkpoint.claims.insert(uid.clone(), held);
        checkpoint.write(&self.checkpoint)?;
        if !cdi.is_empty() {
            self.cdi.write(&self.file_of(uid), &Spec::new(format!("{}/{CLASS}", self.driver), cdi))?;
        }
        Ok(prepared)
    }

    fn unprepare(&self, claim: &ClaimRef) -> Result<(), Failure> {
        self.cdi.remove(&self.file_of(&claim.uid))?;
        let mut checkpoint = Checkpoint::read(&self.checkpoint)?;
        if checkpoint.claims.remove(&claim.uid).is_some() {
            checkpoint.write(&self.checkpoint)?;
        }
        Ok(())
    }
}

struct Simulated(Arc<State>);

impl Driver for Simulated {
    async fn prepare(&self, claims: &[Claim]) -> Vec<Result<Vec<PreparedDevice>, Failure>> {
        if let Err(failure) = self.0.mode(Call::Prepare).await {
            return claims.iter().map(|_| Err(failure.clone())).collect();
        }
        claims.iter().map(|claim| self.0.prepare(claim)).collect()
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Vec<Result<(), Failure>> {
        if let Err(failure) = self.0.mode(Call::Unprepare).await {
            return claims.iter().map(|_| Err(failure.clone())).collect();
        }
        claims.iter().map(|claim| self.0.unprepare(claim)).collect()
    }

    async fn health(&self) -> HealthReport {
        let failure = self.0.mode(Call::Health).await.err();
        let look = self.0.looks.fetch_add(1, Ordering::Relaxed);
        let faults = self.0.faults();
        let observe = |gpu: &Gpu| {
            let device = DeviceKey { pool: self.0.node.clone(), device: faults.name_of(&gpu.name)? };
            let found = faults.conditions(&gpu.name, look).into_iter();
            let found = found.map(|(name, detail)| Condition { name, detail }).collect();
            let found = failure.as_ref().map_or(Ok(found), |failure| Err(failure.to_string()));
            Some(Observation { device, found })
        };
        HealthReport::Observed(self.0.gpus.iter().filter_map(observe).collect())
    }
}
