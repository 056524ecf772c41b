//! `lazaret store compact`: a snapshot now, by the running server or by this process.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use lazaret_store::{OpenError, Store};
use serde::{Deserialize, Serialize};

use crate::{
    Verdict,
    connect::Cluster,
    output::{self, Format},
    place::Place,
};

/// Write a snapshot now and remove the log before it; through the server if it is running.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// How to reach a running server [default: the kubeconfig in the data directory]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "After a key was rotated this encrypts everything with the new one. A running server writes with the keys that it was
started with.

Examples:
  lazaret store compact --data-dir /var/lib/lazaret
  lazaret store compact --kubeconfig /var/lib/lazaret/kubeconfig -o json";

/// Contents of a snapshot.
#[derive(Debug, Deserialize, Serialize)]
struct Compacted {
    revision: u64,
    items: u64,
    bytes: u64,
}

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let done = match &self.kubeconfig {
            Some(kubeconfig) => through_server(kubeconfig.clone())?,
            None => self.here_or_through_server()?,
        };
        if self.output == Format::Table {
            let Compacted { revision, items, bytes } = done;
            output::print(&format!("compacted to {items} objects at revision {revision} ({bytes} bytes)\n"))?;
        } else {
            output::structured(&done, self.output)?;
        }
        Ok(Verdict::Yes)
    }

    fn here_or_through_server(&self) -> Result<Compacted> {
        let dir = self.place.store()?;
        if !dir.is_dir() {
            bail!("{} holds no store", dir.display());
        }
        match Store::open(&dir, self.place.options()?) {
            Ok(store) => {
                let done = store.snapshot_blocking().map_err(|error| anyhow!(error))?;
                store.close();
                Ok(Compacted { revision: done.revision, items: done.items, bytes: done.bytes })
            }
            Err(OpenError::Locked { .. }) => through_server(self.place.folder()?.join("kubeconfig")),
            Err(error) => Err(anyhow!(error)),
        }
    }
}

fn through_server(kubeconfig: PathBuf) -> Result<Compacted> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(async {
        let client = Cluster::at(kubeconfig).client().await?;
        let request = http::Request::post("/lazaret/store/compact").body(Vec::new())?;
        client.request(request).await.context("ask the server to compact its store")
    })
}
