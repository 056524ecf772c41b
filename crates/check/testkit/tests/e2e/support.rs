//! Helpers of these tests.
use std::{path::Path, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use lazaret_testkit::Cluster;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longer than anything takes on the slowest machine; what takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A client over TLS, as any program makes one.
pub(crate) async fn connect(cluster: &Cluster) -> Client {
    connect_with(&cluster.kubeconfig()).await
}

pub(crate) async fn connect_with(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // Tests want to see refusals, not have them tried again for minutes.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// A typed object from what people write.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// The code and reason of a refusal.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(answer: kube::Result<T>) -> (u16, String, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not refused: {other:?}"),
    }
}

/// Waits for something, not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("in {PATIENCE:?} not: {what}"))
}
