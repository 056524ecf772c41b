//! The node's own API.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use lazaret_nodeapi::{ApiReviews, Certificate, NodeApi, Options, Tls, keep_certificate};
use lazaret_runtime::Metrics;
use tokio::{net::TcpListener, sync::watch};
use tracing::{error, warn};

use super::{api::NodePods, shared::Shared};
use crate::api_words::api_words;

/// Between two looks for the cluster's authority.
const RETRY: Duration = Duration::from_secs(5);

/// Serves logs, exec and the like of this node's pods, until `stop` says so.
pub(super) async fn serve(
    shared: Arc<Shared>,
    listener: std::net::TcpListener,
    authority: Option<String>,
    metrics: Metrics,
    stop: watch::Receiver<bool>,
) {
    let authority = match authority {
        Some(authority) => authority,
        None => find_authority(&shared.client).await,
    };
    // Its name alone: only such a certificate is approved without a person.
    let names = vec![shared.node.clone()];
    let made = Certificate::self_signed(&shared.node, &names)
        .and_then(|certificate| Tls::new(&certificate, &authority).map(|tls| (certificate, tls)));
    let (certificate, tls) = match made {
        Ok(made) => made,
        Err(error) => return error!(%error, "the node's API is not served"),
    };
    let listener = match listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return error!(%error, "the node's API is not served"),
    };
    let api = NodeApi::new(Options {
        node: shared.node.clone(),
        pods: Arc::new(NodePods(Arc::clone(&shared))),
        runtime: Arc::clone(&shared.runtime),
        reviews: Arc::new(ApiReviews::new(shared.client.clone(), shared.node.clone())),
        machine: Arc::new(super::facts::usage),
        metrics: Arc::new(move || metrics.text()),
    });
    tokio::select! {
        () = api.serve(listener, tls, stop) => {}
        () = keep_certificate(shared.client.clone(), shared.node.clone(), names, certificate) => {}
    }
}

/// The certificate that signs those of clients, as the cluster says.
async fn find_authority(client: &kube::Client) -> String {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    loop {
        match api.get("extension-apiserver-authentication").await {
            Ok(map) => {
                if let Some(authority) = map.data.unwrap_or_default().remove("client-ca-file") {
                    return authority;
                }
                warn!("kube-system/extension-apiserver-authentication has no client-ca-file");
            }
            Err(error) => {
                warn!(why = api_words(&error), "read kube-system/extension-apiserver-authentication")
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}
