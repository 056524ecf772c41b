//! `lazaret node`: this machine as a node of a cluster.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use lazaret_agent::{Agent, Options};
use lazaret_runtime::Metrics;

use crate::{
    Verdict, connect::Cluster, frugal, listen::Listen, log::Logging, node_image, node_run::RunArgs, numbers,
    output, pages, signal,
};

/// Join a cluster as a node: run its pods, and prepare their devices.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Prepare and unprepare claims, and run no containers: beside something else that does
    #[arg(long)]
    dra_only: bool,
    /// Where plugins register, and where pods, images and the checkpoint are, as for a kubelet
    #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
    root: PathBuf,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    cluster: Cluster,
    /// Serve metrics, /healthz and /readyz over plain HTTP at this address, 127.0.0.1:10255 for instance [default: not at all]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Listen::parse)]
    metrics_listen: Option<Listen>,
    #[command(flatten)]
    logging: Logging,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Import, list, pull and remove the images of a node
    Image(node_image::Args),
}

/// Threads for what waits for others, and for what waits for a disk. Each keeps memory of its own, and a hundred pods that end at once would make
/// one each.
const WORKER_THREADS: usize = 1;
const BLOCKING_THREADS_MAX: usize = 6;
const BLOCKING_IDLE: Duration = Duration::from_secs(2);

/// The port of a kubelet.
const PORT: u16 = 10_250;

const EXAMPLES: &str = "Examples:
  lazaret node --kubeconfig node.kubeconfig
  lazaret node --node-name node-1 --root /tmp/kubelet --runtime processes --node-port 0 -v
  lazaret node --dra-only --node-name node-1
  lazaret node image import busybox.tar

The CDI names of a pod's containers are in ROOT/dra_pods/POD-UID.json while its claims are prepared.";

impl Args {
    pub(crate) fn run(mut self) -> Result<Verdict> {
        if let Some(Action::Image(image)) = self.action.take() {
            return image.run();
        }
        frugal::start();
        self.logging.start();
        // A node waits most of its life: huge pages would only take memory.
        pages::start(None);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_keep_alive(BLOCKING_IDLE)
            .enable_all()
            .build()
            .context("start the runtime")?;
        runtime.block_on(self.work())?;
        Ok(Verdict::Yes)
    }

    async fn work(self) -> Result<()> {
        let config = self.cluster.config().await?;
        let host = config.cluster_url.host().unwrap_or_default().to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let client = kube::Client::try_from(config).context("connect")?;
        let listener = match &self.metrics_listen {
            Some(listen) => Some(listen.bind("--metrics-listen").await?),
            None => None,
        };
        let metrics = Metrics::default();
        let options = Options { node: self.run.node_name()?, root: self.root };
        output::note(&format!("registration directory: {}", options.registry().display()));
        let mut agent = if self.dra_only {
            Agent::start(client, options, &metrics)?
        } else {
            let host_ip = toward(&host, port)?;
            let run = self.run.options(&options, host_ip, PORT, None).await?;
            output::note(&format!(
                "node {} at {}, runtime {}",
                options.node,
                run.listener.local_addr()?,
                run.runtime.name()
            ));
            Agent::start_with_pods(client, options, run, &metrics)?
        };
        output::note("running; Ctrl-C stops");
        tokio::select! {
            asked = signal::to_stop() => asked?,
            () = numbers::serve(listener, metrics) => {}
            () = agent.ended() => bail!("the agent ended: see the log"),
        }
        if self.run.stop_pods && !self.dra_only {
            output::note("stopping pods; Ctrl-C again leaves the rest running");
            tokio::select! {
                () = agent.stop_pods() => {}
                asked = signal::to_stop() => asked?,
            }
        }
        output::note(match self.dra_only {
            true => "stopping; what is prepared stays prepared",
            false => "stopping; containers that run go on running",
        });
        agent.stop().await;
        Ok(())
    }
}

/// The address of this machine on the way to a server.
fn toward(host: &str, port: u16) -> Result<IpAddr> {
    let host = host.trim_matches(['[', ']']);
    let find = || -> std::io::Result<IpAddr> {
        // Nothing is sent: the kernel only chooses a route.
        let any = if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = std::net::UdpSocket::bind(any)?;
        socket.connect((host, port))?;
        Ok(socket.local_addr()?.ip())
    };
    find().with_context(|| format!("find the address of this machine on the way to {host}: give --node-ip"))
}
