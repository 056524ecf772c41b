//! Nodes that run pods, and their devices: those of the embedded server, or simulated here for a cluster that has none.

use std::{cell::RefCell, collections::BTreeSet, path::Path, rc::Rc};

use anyhow::{Context, Result, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use lazaret_hollow::HollowOptions;
use lazaret_runtime::{Client, Hub, Metrics, Tasks};
use serde::Deserialize;
use tokio::sync::{Notify, watch};

use crate::{
    objects::{LABEL, SLICES},
    output::progress,
    pods::{self},
    target::Target,
};

/// Nodes with devices.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Also the name of the class.
    pub(crate) driver: String,
    prefix: String,
    nodes: usize,
    /// They end with this: the machines, what they hear, and the word to stop.
    _simulated: Option<(Tasks, Hub, watch::Sender<bool>)>,
}

impl Fleet {
    /// The nodes that `lazaret up --nodes` has.
    pub(crate) fn of_embedded(nodes: usize) -> Self {
        let options = HollowOptions::default();
        Self {
            driver: options.driver.to_string(),
            prefix: options.node_prefix.to_string(),
            nodes,
            _simulated: None,
        }
    }

    /// Nodes simulated here, with unique names.
    pub(crate) async fn simulate(kubeconfig: &Path, run: &str, nodes: usize, devices: usize) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).context("read the kubeconfig")?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let hub =
            Hub::new(Client::new(kube::Client::try_from(config).context("connect")?), Metrics::default());
        let (stop, stopped) = watch::channel(false);
        let (driver, prefix) = (format!("{run}.lazaret.dev"), format!("{run}-"));
        let options = HollowOptions {
            nodes,
            devices,
            driver: driver.as_str().into(),
            node_prefix: prefix.as_str().into(),
            labels: vec![(LABEL.into(), run.into())],
            ..HollowOptions::default()
        };
        let tasks = lazaret_hollow::start(&hub, options, &stopped).map_err(|error| anyhow!("--{error}"))?;
        Ok(Self { driver, prefix, nodes, _simulated: Some((tasks, hub, stop)) })
    }

    /// The name of a node, counted from one.
    pub(crate) fn node(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }

    /// Waits until every node has published its devices.
    pub(crate) async fn wait(&self, target: &Target) -> Result<()> {
        let seen = Rc::new(RefCell::new(BTreeSet::new()));
        let all = Notify::new();
        let each = |line: &[u8]| {
            let event: SliceEvent = serde_json::from_slice(line).context("read an event")?;
            if event.object.spec.driver == self.driver {
                seen.borrow_mut().insert(event.object.metadata.name);
                progress("nodes with devices", seen.borrow().len(), self.nodes);
            }
            if seen.borrow().len() >= self.nodes {
                all.notify_one();
            }
            Ok(())
        };
        if self.nodes == 0 {
            return Ok(());
        }
        let path = format!("{SLICES}?watch=true");
        tokio::select! {
            failed = pods::watch(target, &path, None, each) => failed.map(drop),
            () = all.notified() => Ok(()),
        }
    }
}

#[derive(Deserialize)]
struct SliceEvent {
    object: Slice,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Slice {
    metadata: Named,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    driver: String,
}
