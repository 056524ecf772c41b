//! `lazaret driver`: a driver of simulated GPUs on a real socket directory, and faults for it.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use lazaret_example::Options;

use crate::{Verdict, connect, log::Logging, output, signal};

/// Run a driver, or make one fail.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run a driver of simulated GPUs for a kubelet, with faults on command
    Example(ExampleArgs),
    /// Send commands to a running example driver
    Tell(TellArgs),
    /// Run the driver for NVIDIA GPUs, or look after one that runs
    Nvidia(Box<crate::nvidia::Args>),
}

/// Run a driver of simulated GPUs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExampleArgs {
    /// The Node whose GPUs these are
    #[arg(long, value_name = "NAME")]
    node_name: String,
    /// The driver's name
    #[arg(long, value_name = "NAME", default_value = "gpu.example.com")]
    driver_name: String,
    /// How many GPUs there are, 0 to 1024
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
    /// How often GPUs are looked at, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    health_interval_ms: u64,
    /// How long a fault must be over before its taint goes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    recover_after_ms: u64,
    /// A fault from the start, as for `lazaret driver tell`; may be given several times
    #[arg(long = "fault", value_name = "COMMAND")]
    faults: Vec<String>,
    /// How to reach the server [default: as kubectl does]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    logging: Logging,
}

const EXAMPLES: &str = "Examples:
  lazaret driver example --node-name node-1
  lazaret driver example --node-name node-1 --kubelet-root /tmp/kubelet --cdi-root /tmp/cdi --fault 'fail gpu-3 xid 79'
  lazaret driver tell --socket /var/lib/kubelet/plugins/gpu.example.com/control.sock 'fail gpu-3 lost'";

/// Send commands to a running example driver.
#[derive(Debug, clap::Args)]
#[command(after_help = COMMANDS)]
pub(crate) struct TellArgs {
    /// Its control socket, in its data directory
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// What it should do, each in quotes
    #[arg(required = true, value_name = "COMMAND")]
    commands: Vec<String>,
}

const COMMANDS: &str = "Commands:
  fail GPU CONDITION [DETAIL]   the GPU has a condition: xid, ecc (NoSchedule), lost (NoExecute), hot (None), or any other
  flap GPU CONDITION            it has it at every second look
  recover GPU                   it has none
  vanish GPU                    it is not published any more
  return GPU [NAME]             it is again, under this name
  hang|work CALL                prepare, unprepare or health does not return; does again
  error CALL TEXT               it fails
  crash                         the process ends at once and cleans nothing up
  list                          the faults there are";

impl Command {
    pub(crate) fn run(self) -> Result<Verdict> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
        match self {
            Self::Example(args) => {
                args.logging.start();
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
        let client = connect::client(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let faults =
            self.faults.iter().map(|line| line.parse()).collect::<Result<_, _>>().context("--fault")?;
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
        let example = lazaret_example::start(client, options).await?;
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
