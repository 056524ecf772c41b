//! From kubeconfig to a client.

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use crate::{Error, args::Connection};

/// A client for the cluster that `connection` and the kubeconfig name; inside a pod without one, for its own cluster.
///
/// # Errors
/// When there is no kubeconfig, no such context, or a credential cannot be read.
pub async fn connect(connection: &Connection) -> Result<kube::Client, Error> {
    let failed = |error: String| Error::Connect(error);
    let options = KubeConfigOptions {
        context: connection.context.clone(),
        cluster: connection.cluster.clone(),
        user: connection.user.clone(),
    };
    let mut config = match &connection.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(error.to_string()))?
        }
        None if connection.context.is_none() && connection.cluster.is_none() && connection.user.is_none() => {
            Config::infer().await.map_err(|error| {
                failed(format!("no kubeconfig: set KUBECONFIG, or give --kubeconfig ({error})"))
            })?
        }
        None => Config::from_kubeconfig(&options).await.map_err(|error| failed(error.to_string()))?,
    };
    if let Some(user) = &connection.as_user {
        config.auth_info.impersonate = Some(user.clone());
    }
    if !connection.as_group.is_empty() {
        config.auth_info.impersonate_groups = Some(connection.as_group.clone());
    }
    // A watch may be silent for long; everything else is short.
    config.read_timeout = None;
    kube::Client::try_from(config).map_err(|error| failed(error.to_string()))
}
