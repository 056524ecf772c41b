//! `lazaret node`: the DRA half of a node.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lazaret_agent::{Agent, Options};
use lazaret_runtime::Metrics;

use crate::{Verdict, connect, listen::Listen, log::Logging, node_image, numbers, output, signal};

/// Run the DRA half of a node.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Prepare and unprepare claims, and run no containers. There is nothing else yet, so this must be given
    #[arg(long)]
    dra_only: bool,
    /// The Node whose pods these are
    #[arg(long, value_name = "NAME", required = true)]
    node_name: Option<String>,
    /// Where plugins register and the checkpoint is, as for a kubelet
    #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
    root: PathBuf,
    /// How to reach the server [default: as kubectl does]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
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

const EXAMPLES: &str = "Examples:
  lazaret node --dra-only --node-name node-1
  lazaret node --dra-only --node-name node-1 --root /tmp/kubelet --metrics-listen 127.0.0.1:10255 -v

The CDI names of a pod's containers are in ROOT/dra_pods/POD-UID.json while its claims are prepared.";

impl Args {
    pub(crate) fn run(mut self) -> Result<Verdict> {
        if let Some(Action::Image(image)) = self.action.take() {
            return image.run();
        }
        if !self.dra_only {
            bail!("give --dra-only: no containers can be run yet");
        }
        self.logging.start();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
        runtime.block_on(self.work())?;
        Ok(Verdict::Yes)
    }

    async fn work(self) -> Result<()> {
        let client = connect::client(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let listener = match &self.metrics_listen {
            Some(listen) => Some(listen.bind("--metrics-listen").await?),
            None => None,
        };
        let metrics = Metrics::default();
        let options = Options { node: self.node_name.unwrap_or_default(), root: self.root };
        output::note(&format!("registration directory: {}", options.registry().display()));
        let mut agent = Agent::start(client, options, &metrics)?;
        output::note("running; Ctrl-C stops");
        tokio::select! {
            asked = signal::to_stop() => asked?,
            () = numbers::serve(listener, metrics) => {}
            () = agent.ended() => bail!("the agent ended: see the log"),
        }
        output::note("stopping; what is prepared stays prepared");
        agent.stop().await;
        Ok(())
    }
}
