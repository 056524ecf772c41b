//! `lazaret driver fabric`: a classic driver to try classic claims with, its controller and its plugin on a node.

use std::path::PathBuf;

use anyhow::{Context, Result};
use lazaret_driver::{
    ClassicKit,
    controller::{ControllerKit, TaintedDevices},
};
use lazaret_example::{Fabric, FabricOptions, FabricPlugin};

use crate::{connect::Cluster, log::Logging, output, signal};

/// Which half of the driver runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The controller and the plugin of this node
    Both,
    /// The controller, once in a cluster
    Controller,
    /// The plugin, on each further node
    Plugin,
}

/// Run a classic driver: a fabric whose simulated devices can be attached to any node.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The driver's name, which classes have as driverName
    #[arg(long, value_name = "NAME", default_value = "fabric.example.com")]
    driver_name: String,
    /// Which half of the driver runs here
    #[arg(long, value_enum, value_name = "PART", default_value = "both")]
    part: Part,
    /// How many devices the fabric has, 0 to 4096
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=4096))]
    devices: u16,
    /// How many devices can be attached to one node at a time
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    ports_per_node: u16,
    /// How many pods may use a claim at a time, -1 for any number
    #[arg(long, value_name = "COUNT", default_value_t = 1, allow_negative_numbers = true, value_parser = user_limit)]
    user_limit: i64,
    /// Where the node keeps its files
    #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
    kubelet_root: PathBuf,
    /// Where CDI files go
    #[arg(long, value_name = "PATH", default_value = lazaret_cdi::DYNAMIC_DIRECTORY)]
    cdi_root: PathBuf,
    /// Where the fabric remembers what is attached [default: fabric.json in the driver's directory]
    #[arg(long, value_name = "PATH")]
    state: Option<PathBuf>,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    logging: Logging,
}

const EXAMPLES: &str = "Examples:
  lazaret driver fabric
  lazaret driver fabric --kubelet-root /tmp/node --cdi-root /tmp/node/cdi --devices 8
  lazaret driver fabric --part plugin
  lazaret driver fabric --part controller --user-limit -1

A class and a pod for it: examples/fabric.yaml";

fn user_limit(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(limit @ (-1 | 1..)) => Ok(limit),
        Ok(_) | Err(_) => Err("must be at least 1, or -1 for any number of pods".to_owned()),
    }
}

impl Args {
    pub(crate) async fn work(self) -> Result<()> {
        self.logging.start();
        let directory = self.kubelet_root.join("plugins").join(&self.driver_name);
        std::fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
        let controller = match self.part {
            Part::Both | Part::Controller => Some(self.controller(&directory).await?),
            Part::Plugin => None,
        };
        let plugin = match self.part {
            Part::Both | Part::Plugin => {
                let plugin = FabricPlugin::new(&self.driver_name, &self.cdi_root);
                Some(ClassicKit::new(&self.driver_name).kubelet_root(&self.kubelet_root).start(plugin)?)
            }
            Part::Controller => None,
        };
        if let Some(plugin) = &plugin {
            output::note(&format!("registration socket: {}", plugin.sockets().registration.display()));
        }
        output::note("running; Ctrl-C stops");
        signal::to_stop().await?;
        output::note("stopping");
        if let Some(plugin) = plugin {
            plugin.stop().await;
        }
        if let Some(controller) = controller {
            controller.stop().await;
        }
        Ok(())
    }

    async fn controller(
        &self,
        directory: &std::path::Path,
    ) -> Result<lazaret_driver::controller::RunningController> {
        let client = self.cluster.client().await?;
        let options = FabricOptions {
            devices: self.devices.into(),
            ports_per_node: self.ports_per_node.into(),
            user_limit: self.user_limit,
            ..FabricOptions::default()
        };
        let state = self.state.clone().unwrap_or_else(|| directory.join("fabric.json"));
        let tainted = TaintedDevices::default();
        let fabric = Fabric::open(options, state)?.without_tainted(&self.driver_name, &tainted);
        Ok(ControllerKit::new(&self.driver_name, client).tainted_devices(&tainted).start(fabric))
    }
}
