//! How a cluster is found: as kubectl finds it.

use std::path::Path;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// A client for the cluster of this kubeconfig and context.
pub(crate) async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<kube::Client> {
    kube::Client::try_from(config(kubeconfig, context).await?).context("connect")
}

/// How the cluster of this kubeconfig and context is reached.
pub(crate) async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<kube::Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options).await?
        }
        None if context.is_some() => kube::Config::from_kubeconfig(&options).await?,
        None => kube::Config::infer().await.context("find a cluster: give --kubeconfig")?,
    };
    // A refusal, a disruption budget's for instance, must reach the caller at once; and a silent retry may be
    // sent after the lease was lost.
    config.default_retry = false;
    Ok(config)
}
