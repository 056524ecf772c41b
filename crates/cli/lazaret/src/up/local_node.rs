//! This machine as a node of the control plane, in the same process; with a driver if one is asked for.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use lazaret_agent::{Agent, Options};
use lazaret_example::{Example, Extras};
use lazaret_nvidia::{Nvidia, Partitions};
use lazaret_runtime::Metrics;
use lazaret_server::{Server, controller_user, node_user};

use crate::{node_run::RunArgs, output, signal};

/// Flags of a node beside its control plane.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LocalNodeArgs {
    /// Run pods on this machine as well: it joins as a node
    #[arg(long, conflicts_with = "api_only")]
    pub(crate) node: bool,
    /// Where the node keeps its files [default: node below --data-dir]
    #[arg(long, value_name = "PATH", requires = "node")]
    node_root: Option<PathBuf>,
    /// Start this driver for the node
    #[arg(long, value_name = "NAME", requires = "node")]
    driver: Option<DriverName>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DriverName {
    /// Simulated GPUs that fail on command
    Example,
    /// The NVIDIA GPUs of this machine, as `lazaret driver nvidia` publishes them
    Nvidia,
}

/// A driver that runs in this process.
#[derive(Debug)]
enum Driver {
    Example(Example),
    Nvidia(Nvidia),
}

/// How many devices the example driver has, and what it looks like: as `lazaret driver example` has it.
const DRIVER: &str = "gpu.example.com";
/// Looks for the Node that is being registered.
const REGISTRATION_POLLS_MAX: usize = 100;
const REGISTRATION_PAUSE: Duration = Duration::from_millis(20);
/// How often the NVIDIA driver reads counters; events it sees at once.
const NVIDIA_POLL: Duration = Duration::from_secs(5);
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
const RECOVER_AFTER: Duration = Duration::from_secs(5);

/// A node that runs in this process.
#[derive(Debug)]
pub(super) struct LocalNode {
    agent: Agent,
    driver: Option<Driver>,
    stops_pods: bool,
}

impl LocalNodeArgs {
    /// The name of the node, if there is one.
    pub(super) fn node_name(&self) -> Result<Option<String>> {
        self.node.then(|| self.run.node_name()).transpose()
    }

    /// Starts the node. Everything goes through the API, as from another machine, and with a node's own rights.
    pub(super) async fn start(
        &self,
        server: &Server,
        data: PathBuf,
        local: IpAddr,
        devices: usize,
        authority: String,
    ) -> Result<Option<LocalNode>> {
        let Some(node) = self.node_name()? else { return Ok(None) };
        let root = self.node_root.clone().unwrap_or_else(|| data.join("node"));
        let root = std::path::absolute(&root).context("--node-root")?;
        let run = match self.driver {
            Some(DriverName::Example | DriverName::Nvidia) => {
                self.run.clone().with_cdi_root(root.join("cdi"))
            }
            None => self.run.clone(),
        };
        let local = if local.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { local };
        let options = Options { node: node.clone(), root: root.clone() };
        let run_options = run.options(&options, local, 0, Some(authority)).await?;
        output::note(&format!(
            "node {node}: files in {}, runtime {}",
            root.display(),
            run_options.runtime.name()
        ));
        let client = server.client(node_user(&node));
        let agent = Agent::start_with_pods(client, options, run_options, &Metrics::default())?;
        let cdi = run.last_cdi_root().cloned().unwrap_or_else(|| root.join("cdi"));
        if self.driver.is_some() {
            wait_for_node(server, &node).await;
        }
        let driver = match self.driver {
            Some(DriverName::Example) => {
                Some(Driver::Example(start_example(server, node, root, cdi, devices).await?))
            }
            Some(DriverName::Nvidia) => Some(Driver::Nvidia(start_nvidia(server, node, root, cdi).await?)),
            None => None,
        };
        Ok(Some(LocalNode { agent, driver, stops_pods: self.run.stop_pods }))
    }
}

/// The drivers' name in the table of controllers' roles.
const DRIVER_USER: &str = "local-driver";

/// Waits a moment for the Node, whose UID is in everything that a driver publishes. A driver that is too early tries again by itself.
async fn wait_for_node(server: &Server, name: &str) {
    let nodes: Api<Node> = Api::all(server.client(controller_user(DRIVER_USER)));
    for _ in 0..REGISTRATION_POLLS_MAX {
        if matches!(nodes.get_opt(name).await, Ok(Some(_))) {
            return;
        }
        tokio::time::sleep(REGISTRATION_PAUSE).await;
    }
}

async fn start_example(
    server: &Server,
    node: String,
    kubelet_root: PathBuf,
    cdi: PathBuf,
    devices: usize,
) -> Result<Example> {
    let options = lazaret_example::Options {
        driver: DRIVER.into(),
        node,
        devices,
        kubelet_root,
        cdi,
        pod_uid: None,
        health_interval: HEALTH_INTERVAL,
        recover_after: RECOVER_AFTER,
        faults: Vec::new(),
    };
    let client = server.client(controller_user(DRIVER_USER));
    let example = lazaret_example::start_with(client, options, Extras::default()).await;
    example.context("start the example driver")
}

async fn start_nvidia(server: &Server, node: String, kubelet_root: PathBuf, cdi: PathBuf) -> Result<Nvidia> {
    let options = lazaret_nvidia::Options {
        node,
        kubelet_root,
        cdi,
        host_root: "/".into(),
        library: None,
        partitions: Partitions::Static,
        evict_on: Vec::new(),
        poll: NVIDIA_POLL,
        pod_uid: None,
    };
    let client = server.client(controller_user(DRIVER_USER));
    lazaret_nvidia::start(client, options).await.context("start the NVIDIA driver")
}

impl LocalNode {
    /// Lets go of the node. Its containers run on, unless they were to stop with it.
    pub(super) async fn stop(mut self) {
        if self.stops_pods {
            output::note("stopping pods; Ctrl-C again leaves the rest running");
            tokio::select! {
                () = self.agent.stop_pods() => {}
                _ = signal::to_stop() => {}
            }
        }
        match self.driver {
            Some(Driver::Example(driver)) => driver.stop().await,
            Some(Driver::Nvidia(driver)) => driver.stop().await,
            None => {}
        }
        self.agent.stop().await;
    }
}
