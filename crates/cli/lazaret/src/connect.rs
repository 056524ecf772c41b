//! How a cluster is found: as kubectl finds it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Which cluster.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Cluster {
    /// How to reach the server [default: as kubectl does]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Cluster {
    /// The one of this kubeconfig.
    pub(crate) fn at(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig: Some(kubeconfig), context: None }
    }

    /// A client for it.
    pub(crate) async fn client(&self) -> Result<kube::Client> {
        kube::Client::try_from(self.config().await?).context("connect")
    }

    /// How it is reached.
    pub(crate) async fn config(&self) -> Result<kube::Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
                kube::Config::from_custom_kubeconfig(file, &options).await?
            }
            None if self.context.is_some() => kube::Config::from_kubeconfig(&options).await?,
            None => kube::Config::infer().await.context("find a cluster: give --kubeconfig")?,
        };
        // A refusal, a disruption budget's for instance, must reach the caller at once; and a silent retry may be
        // sent after the lease was lost.
        config.default_retry = false;
        Ok(config)
    }

    /// Whether a kubeconfig was given.
    pub(crate) fn is_named(&self) -> bool {
        self.kubeconfig.is_some()
    }
}
