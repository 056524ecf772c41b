//! The driver, and what runs beside it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use lazaret_driver::{
    Claim, ClaimRef, Condition, DeviceKey, Driver, Failure, HealthReport, HealthRule, HealthTable, Kit,
    MetadataVersion, Observation, PreparedDevice, Publisher, Running, StartError, TableError, TaintEffect,
};
use thiserror::Error;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::{
    Shape, Soak, SoakOptions,
    binding::{Binder, Outcome},
    command::{Call, Command, CommandError, SliceFault},
    control::{self, ControlError},
    faults::{CommandEffect, ordered},
    orders, slice_faults,
    state::State,
};

/// How long a wrong publication waits for what is right to be published first.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// How the driver is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The driver's name.
    pub driver: String,
    /// The node whose devices these are.
    pub node: String,
    /// How many there are.
    pub devices: usize,
    /// Where kubelet keeps its files.
    pub kubelet_root: PathBuf,
    /// Where CDI files go.
    pub cdi: PathBuf,
    /// The UID of the driver's pod, if instances overlap in a rolling update.
    pub pod_uid: Option<String>,
    /// How often devices are looked at.
    pub health_interval: Duration,
    /// How long a condition must be over before its taint goes.
    pub recover_after: Duration,
    /// Faults from the start.
    pub faults: Vec<Command>,
}

/// Features beyond publishing GPUs.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Which devices there are.
    pub shape: Shape,
    /// Whether containers can read what their devices are.
    pub has_metadata: bool,
    /// Faults by chance.
    pub soak: Option<SoakOptions>,
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
    /// The running kit.
    pub running: Running,
    /// Where commands are taken.
    pub control: PathBuf,
    _tasks: JoinSet<()>,
}

impl Example {
    /// Ends it: calls in flight are answered, sockets go, slices stay.
    pub async fn stop(self) {
        self.running.stop().await;
        let _ = std::fs::remove_file(&self.control);
    }
}

/// Starts a driver of GPUs.
///
/// # Errors
/// When it cannot start.
pub async fn start(client: kube::Client, options: Options) -> Result<Example, RunError> {
    start_with(client, options, Extras::default()).await
}

/// Starts a driver.
///
/// # Errors
/// When it cannot start.
pub async fn start_with(client: kube::Client, options: Options, extras: Extras) -> Result<Example, RunError> {
    let data = options.kubelet_root.join("plugins").join(&options.driver);
    let has_binding = extras.shape.has_binding_conditions;
    let state = Arc::new(State::new(&options, extras.shape.clone(), data.join("checkpoint.json")));
    for command in &options.faults {
        state.apply(command.clone())?;
    }
    let changing = Arc::clone(&state);
    let mut kit = Kit::new(&options.driver, client.clone())
        .node(&options.node)
        .kubelet_root(&options.kubelet_root)
        .health_table(table(&options)?)
        .health_interval(options.health_interval)
        .cdi_directory(&options.cdi)
        .change_bytes(move |bytes| changing.change_bytes(bytes))
        .pools(state.pools());
    if extras.has_metadata {
        kit = kit.device_metadata([MetadataVersion::V1beta1, MetadataVersion::V1alpha1]);
    }
    let mut socket = "control.sock".to_owned();
    if let Some(uid) = &options.pod_uid {
        kit = kit.rolling_update(uid);
        socket = format!("control-{uid}.sock");
    }
    let running = kit.start(Simulated(Arc::clone(&state))).await?;
    let control = data.join(socket);
    let listener = control::listen(&control)?;
    let handler = CommandHandler { state, publisher: running.publisher().clone(), client };
    let mut tasks = JoinSet::new();
    handler.spawn(&mut tasks, extras.soak, has_binding);
    tasks.spawn(control::serve(listener, move |line| handler.clone().answer(line)));
    Ok(Example { running, control, _tasks: tasks })
}

/// Carries commands out.
#[derive(Clone)]
struct CommandHandler {
    state: Arc<State>,
    publisher: Publisher,
    client: kube::Client,
}

impl CommandHandler {
    async fn answer(self, line: String) -> Result<String, CommandError> {
        let command: Command = line.parse()?;
        if command == Command::List {
            return Ok(self.state.faults().list());
        }
        self.carry_out(command).await?;
        Ok("ok".into())
    }

    async fn carry_out(&self, command: Command) -> Result<(), CommandError> {
        if command == Command::Crash {
            std::process::abort();
        }
        match self.state.apply(command)? {
            CommandEffect::None => Ok(()),
            CommandEffect::Devices => {
                let published = self.publisher.publish(self.state.pools());
                published.map_err(|error| CommandError::Api(error.to_string()))
            }
            CommandEffect::Publishing(None) => {
                self.publisher.resume();
                Ok(())
            }
            CommandEffect::Publishing(Some(wrong)) => self.publish_wrong(wrong).await,
        }
    }

    async fn publish_wrong(&self, wrong: SliceFault) -> Result<(), CommandError> {
        self.publisher.resume();
        // A server that is away does not keep the driver from being silent.
        let _ = tokio::time::timeout(SETTLE_MAX, self.publisher.settled()).await;
        self.publisher.pause();
        let done = slice_faults::publish(&self.client, &self.state.driver, &self.state.node, wrong).await;
        if done.is_err() {
            // A fault that did not come about is not listed.
            let _ = self.state.apply(Command::Publish(None));
            self.publisher.resume();
        }
        done
    }

    /// Starts the tasks beside the control socket.
    fn spawn(&self, tasks: &mut JoinSet<()>, soak: Option<SoakOptions>, has_binding: bool) {
        let state = Arc::clone(&self.state);
        let order = move |orders| state.faults().order(orders);
        let (node, driver) = (self.state.node.clone(), self.state.driver.clone());
        tasks.spawn(orders::follow(self.client.clone(), node, driver, order));
        let wrong = self.state.faults().wrong();
        if let Some(wrong) = wrong {
            let handler = self.clone();
            tasks.spawn(async move {
                if let Err(error) = handler.publish_wrong(wrong).await {
                    warn!(%error, "publish something wrong from the start");
                }
            });
        }
        if let Some(options) = soak {
            tasks.spawn(self.clone().soak(options));
        }
        if has_binding {
            let state = Arc::clone(&self.state);
            let make_ready = move || {
                let state = Arc::clone(&state);
                async move {
                    let made = state.mode(Call::Bind).await;
                    made.map_or_else(|failure| Outcome::Failed(failure.to_string()), |()| Outcome::Ready)
                }
            };
            let (driver, pool) = (self.state.driver.clone(), self.state.node.clone());
            tasks.spawn(Binder { client: self.client.clone(), driver, pool, make_ready }.run());
        }
    }

    async fn soak(self, options: SoakOptions) {
        let mut soak = Soak::new(&options);
        loop {
            tokio::time::sleep(options.interval).await;
            let command = soak.next(&self.state.names, &self.state.faults());
            let Some(command) = command else { continue };
            info!(seed = options.seed, %command, "a fault by chance");
            if let Err(error) = self.carry_out(command).await {
                warn!(%error, "the fault did not come about");
            }
        }
    }
}

/// The taint of each condition. Names are those of real GPUs' conditions.
fn table(options: &Options) -> Result<HealthTable, TableError> {
    let driver = &options.driver;
    let clear_ms = i64::try_from(options.recover_after.as_millis()).unwrap_or(i64::MAX);
    let rule = |name: &str, effect: TaintEffect| {
        HealthRule::new(format!("{driver}/{name}"), effect).after(100, clear_ms)
    };
    let mut table = HealthTable::new(driver)
        .with("xid", rule("xid", TaintEffect::NoSchedule))?
        .with("lost", rule("lost", TaintEffect::NoExecute))?
        .with("ecc", rule("ecc", TaintEffect::NoSchedule))?
        .with("hot", rule("hot", TaintEffect::None))?;
    for effect in [TaintEffect::NoExecute, TaintEffect::NoSchedule, TaintEffect::None] {
        table = table.with(ordered(effect.name()), rule("unhealthy", effect))?;
    }
    Ok(table)
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
        let observe = |(device, conditions): (String, Vec<(String, String)>)| {
            let found = conditions.into_iter().map(|(name, detail)| Condition { name, detail }).collect();
            let found = failure.as_ref().map_or(Ok(found), |failure| Err(failure.to_string()));
            Observation { device: DeviceKey { pool: self.0.node.clone(), device }, found }
        };
        HealthReport::Observed(self.0.look().into_iter().map(observe).collect())
    }
}
