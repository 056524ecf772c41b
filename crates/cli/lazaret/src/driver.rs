//! `lazaret driver`: a driver of simulated devices on a real socket directory, and faults for it.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use lazaret_example::{Extras, FaultKind, Options, Profile, Shape, SoakOptions};

use crate::{Verdict, connect::Cluster, log::Logging, output, pages, signal};

/// Run a driver, or make one fail.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run a driver of simulated devices for a kubelet, with faults on command
    Example(Box<ExampleArgs>),
    /// Run a classic driver: a fabric whose simulated devices can be attached to any node
    Fabric(Box<crate::fabric::Args>),
    /// Send commands to a running example driver
    Tell(TellArgs),
    /// Run the driver for NVIDIA GPUs, or look after one that runs
    Nvidia(Box<crate::nvidia::Args>),
}

/// Which kind of devices.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ProfileName {
    Gpu,
    Nic,
    Fpga,
}

/// Run a driver of simulated devices.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExampleArgs {
    /// The Node whose devices these are
    #[arg(long, value_name = "NAME")]
    node_name: String,
    /// The driver's name
    #[arg(long, value_name = "NAME", default_value = "gpu.example.com")]
    driver_name: String,
    /// Which kind of devices
    #[arg(long, value_enum, value_name = "PROFILE", default_value = "gpu")]
    profile: ProfileName,
    /// Into how many parts each device can be divided, 2 to 16; counters see to it that either the whole or parts are used
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=16))]
    partitions: Option<u16>,
    /// Let several claims share a device, each with an amount of its capacity
    #[arg(long)]
    shared: bool,
    /// Make devices ready only once they are allocated: a pod is bound when its devices have a condition
    #[arg(long)]
    binding_conditions: bool,
    /// Let containers read what their devices are, in files
    #[arg(long)]
    device_metadata: bool,
    /// How many devices there are, 0 to 1024
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1024))]
    devices: u16,
    /// Where kubelet keeps its files
    #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
    kubelet_root: PathBuf,
    /// Where CDI files go
    #[arg(long, value_name = "PATH", default_value = lazaret_cdi::DYNAMIC_DIRECTORY)]
    cdi_root: PathBuf,
    /// The UID of this driver's pod, where instances overlap in a rolling update
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    /// How often devices are looked at, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    health_interval_ms: u64,
    /// How long a fault must be over before its taint goes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    recover_after_ms: u64,
    /// A fault from the start, as for `lazaret driver tell`; may be given several times
    #[arg(long = "fault", value_name = "COMMAND")]
    faults: Vec<String>,
    /// Let faults come and go by chance: the same ones in the same order for the same seed
    #[arg(long, value_name = "SEED")]
    soak_seed: Option<u64>,
    /// Between two faults by chance, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000, requires = "soak_seed", value_parser = clap::value_parser!(u64).range(1..))]
    soak_interval_ms: u64,
    /// Which faults: fail, flap, vanish, rename, hang, error, publish, frames, crash [default: all but crash]
    #[arg(long, value_name = "KIND", value_delimiter = ',', requires = "soak_seed")]
    soak_faults: Vec<FaultKind>,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    logging: Logging,
}

const EXAMPLES: &str = "Examples:
  lazaret driver example --node-name node-1
  lazaret driver example --node-name node-1 --kubelet-root /tmp/kubelet --cdi-root /tmp/cdi --fault 'fail gpu-3 xid 79'
  lazaret driver example --node-name node-1 --driver-name nic.example.com --profile nic --shared
  lazaret driver example --node-name node-1 --soak-seed 7 --soak-faults flap,vanish,hang
  lazaret driver tell --socket /var/lib/kubelet/plugins/gpu.example.com/control.sock 'fail gpu-3 lost'";

/// Send commands to a running example driver.
#[derive(Debug, clap::Args)]
#[command(after_help = COMMANDS)]
pub(crate) struct TellArgs {
    /// Its control socket, in its data directory
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Commands for the driver, each in quotes
    #[arg(required = true, value_name = "COMMAND")]
    commands: Vec<String>,
}

const COMMANDS: &str = "Commands:
  fail DEVICE CONDITION [DETAIL]  the device has a condition: xid, ecc (NoSchedule), lost (NoExecute), hot (None), or any other
  flap DEVICE CONDITION           it has it at every second look
  recover DEVICE                  it has none
  vanish DEVICE                   it is not published any more
  return DEVICE [NAME]            it is again, under this name
  hang|work CALL                  prepare, unprepare, health, bind or publish does not happen; does again
  error CALL TEXT                 prepare, unprepare, health or bind fails
  publish stale                   a slice of an older generation is left behind, with a device that is not there
  publish incomplete              the newest generation lacks a slice; `work publish` repairs both
  frames garbage|giant            the service socket sends what is no HTTP/2; `work frames` ends it
  crash                           the process ends at once and cleans nothing up
  list                            the faults there are

Devices that have the attribute driver.lazaret.dev/failsOnCommand can also be told by `kubectl device fail` and `recover`.";

impl Command {
    pub(crate) fn run(self) -> Result<Verdict> {
        // A driver waits for kubelet most of its life: threads and huge pages would only take memory.
        pages::start(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("start the runtime")?;
        match self {
            Self::Example(args) => {
                args.logging.start();
                runtime.block_on(args.work())?;
                Ok(Verdict::Yes)
            }
            Self::Fabric(args) => {
                runtime.block_on(args.work())?;
                Ok(Verdict::Yes)
            }
            Self::Tell(args) => runtime.block_on(args.work()),
            Self::Nvidia(args) => runtime.block_on(args.work()),
        }
    }
}

impl ExampleArgs {
    async fn work(self) -> Result<()> {
        let client = self.cluster.client().await?;
        let faults =
            self.faults.iter().map(|line| line.parse()).collect::<Result<_, _>>().context("--fault")?;
        let kinds = match self.soak_faults.is_empty() {
            true => FaultKind::SURVIVABLE.to_vec(),
            false => self.soak_faults,
        };
        let interval = Duration::from_millis(self.soak_interval_ms);
        let extras = Extras {
            shape: Shape {
                profile: match self.profile {
                    ProfileName::Gpu => Profile::Gpu,
                    ProfileName::Nic => Profile::Nic,
                    ProfileName::Fpga => Profile::Fpga,
                },
                partitions: self.partitions.unwrap_or_default(),
                is_shared: self.shared,
                has_binding_conditions: self.binding_conditions,
            },
            has_metadata: self.device_metadata,
            soak: self.soak_seed.map(|seed| SoakOptions { seed, interval, kinds }),
        };
        let options = Options {
            driver: self.driver_name,
            node: self.node_name,
            devices: self.devices.into(),
            kubelet_root: self.kubelet_root,
            cdi: self.cdi_root,
            pod_uid: self.pod_uid,
            health_interval: Duration::from_millis(self.health_interval_ms),
            recover_after: Duration::from_millis(self.recover_after_ms),
            faults,
        };
        let example = lazaret_example::start_with(client, options, extras).await?;
        output::note(&format!("registration socket: {}", example.running.sockets().registration.display()));
        output::note(&format!("control socket: {}", example.control.display()));
        output::note("running; Ctrl-C stops");
        signal::to_stop().await?;
        output::note("stopping");
        example.stop().await;
        Ok(())
    }
}

impl TellArgs {
    async fn work(self) -> Result<Verdict> {
        let answer = lazaret_example::tell(&self.socket, &self.commands).await;
        let answer = answer.with_context(|| format!("tell {}", self.socket.display()))?;
        output::print(&answer)?;
        match answer.lines().find(|line| line.starts_with("error: ")) {
            Some(error) => bail!("{}", error.trim_start_matches("error: ")),
            None => Ok(Verdict::Yes),
        }
    }
}
