//! `lazaret driver nvidia`: real GPUs.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use lazaret_nvidia::{CONDITIONS, Options, Partitions, Request};

use crate::{Verdict, connect::Cluster, log::Logging, output, signal};

/// Run the driver for NVIDIA GPUs, or look after one that runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The Node whose GPUs these are
    #[arg(long, value_name = "NAME", required = true)]
    node_name: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Where CDI files go
    #[arg(long, value_name = "PATH", default_value = lazaret_cdi::DYNAMIC_DIRECTORY)]
    cdi_root: PathBuf,
    /// Whether GPUs are split when a claim asks for a partition (MIG)
    #[arg(long, value_name = "HOW", default_value = "static")]
    partitions: How,
    /// A condition whose taint evicts pods; may be given several times
    #[arg(long, value_name = "CONDITION")]
    evict_on: Vec<String>,
    /// How often counters are read, in milliseconds; events are seen at once
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..))]
    poll_interval_ms: u64,
    /// The UID of this driver's pod, where instances overlap in a rolling update
    #[arg(long, value_name = "UID")]
    pod_uid: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    logging: Logging,
}

/// Where things are.
#[derive(Debug, clap::Args)]
struct Place {
    /// Where kubelet keeps its files
    #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
    kubelet_root: PathBuf,
    /// NVML's file [default: looked for]
    #[arg(long, value_name = "PATH")]
    nvml: Option<PathBuf>,
    /// The host's root directory, where its libraries and device nodes are
    #[arg(long, value_name = "PATH", default_value = "/")]
    host_root: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum How {
    /// As they are: whole GPUs, and partitions that somebody has made
    Static,
    /// When a claim is prepared; made whole again afterwards
    Dynamic,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Say what is seen, what would be published, what cannot be done and why
    Doctor(#[command(flatten)] Place),
    /// List the conditions of GPUs: taint, effect, and what clears each
    Conditions,
    /// Say that conditions of a GPU are over, where nothing else clears them
    Clear {
        /// Its name or UUID
        gpu: String,
        /// Which condition [default: all]
        condition: Option<String>,
        /// Where kubelet keeps its files
        #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
        kubelet_root: PathBuf,
    },
    /// Reset a GPU that no claim holds
    Reset {
        /// Its name or UUID
        gpu: String,
        /// Where kubelet keeps its files
        #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
        kubelet_root: PathBuf,
    },
}

const EXAMPLES: &str = "Examples:
  lazaret driver nvidia doctor
  lazaret driver nvidia --node-name node-1
  lazaret driver nvidia --node-name node-1 --partitions dynamic --evict-on lost --evict-on xid-fatal
  lazaret driver nvidia reset gpu-0";

/// A reset takes seconds; a GPU in use refuses at once.
const PATIENCE: Duration = Duration::from_secs(120);

impl Args {
    pub(crate) async fn work(self) -> Result<Verdict> {
        match self.action {
            None => self.drive().await.map(|()| Verdict::Yes),
            Some(Action::Doctor(place)) => {
                let (text, works) =
                    lazaret_nvidia::doctor(place.nvml.as_deref(), &place.host_root, &place.kubelet_root);
                output::print(&text)?;
                Ok(if works { Verdict::Yes } else { Verdict::No })
            }
            Some(Action::Conditions) => conditions(),
            Some(Action::Clear { gpu, condition, kubelet_root }) => {
                ask(&kubelet_root, Request { gpu, reset: false, condition }).await
            }
            Some(Action::Reset { gpu, kubelet_root }) => {
                ask(&kubelet_root, Request { gpu, reset: true, condition: None }).await
            }
        }
    }

    async fn drive(self) -> Result<()> {
        self.logging.start();
        let client = self.cluster.client().await?;
        let options = Options {
            node: self.node_name.unwrap_or_default(),
            kubelet_root: self.place.kubelet_root,
            cdi: self.cdi_root,
            host_root: self.place.host_root,
            library: self.place.nvml,
            partitions: match self.partitions {
                How::Static => Partitions::Static,
                How::Dynamic => Partitions::Dynamic,
            },
            evict_on: self.evict_on,
            poll: Duration::from_millis(self.poll_interval_ms),
            pod_uid: self.pod_uid,
        };
        let nvidia = lazaret_nvidia::start(client, options).await?;
        for gpu in &nvidia.gpus {
            let devices = gpu.devices().len();
            output::note(&format!("{}: {}, devices: {devices}", gpu.name(), gpu.facts.product));
        }
        output::note(&format!("registration socket: {}", nvidia.running.sockets().registration.display()));
        output::note("running; Ctrl-C stops");
        signal::to_stop().await?;
        output::note("stopping");
        nvidia.stop().await;
        Ok(())
    }
}

fn conditions() -> Result<Verdict> {
    let mut text = format!("{:<20}{:<36}{:<13}CLEARED BY\n", "CONDITION", "TAINT", "EFFECT");
    for (name, key, effect, cleared) in CONDITIONS {
        let key = format!("{}/{key}", lazaret_nvidia::DRIVER);
        text.push_str(&format!("{name:<20}{key:<36}{:<13}{cleared}\n", effect.name()));
    }
    output::print(&text)?;
    Ok(Verdict::Yes)
}

async fn ask(kubelet_root: &Path, request: Request) -> Result<Verdict> {
    let data = Options::data(kubelet_root);
    let answer = lazaret_nvidia::ask(&data, &request, PATIENCE).await;
    let answer = answer.with_context(|| format!("ask the driver in {}", data.display()))?;
    if !answer.done {
        bail!("{}", answer.message);
    }
    output::print(&format!("{}\n", answer.message))?;
    Ok(Verdict::Yes)
}
