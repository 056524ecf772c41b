//! The server's connections to nodes: its own certificate, the certificates it trusts, and their limit.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use super::trust::{self, NodeTrust};
use crate::{
    Identity, Pem, Signer, Validity,
    certificates::{client_certificate, needs_renewal},
    clock,
};

/// How the server calls itself towards nodes, as Kubernetes' own does. In no group: the role `system:kubelet-api-admin` is bound to it.
pub(crate) const API_SERVER_TO_NODES: &str = "kube-apiserver-kubelet-client";
/// Connections to nodes at a time; each carries one stream and has a file.
const CONNECTIONS_MAX: usize = 4_096;
/// How a server connects to nodes. Cheap to clone.
#[derive(Clone)]
pub struct NodeConnections(Arc<Inner>);

struct Inner {
    signer: Signer,
    trust: NodeTrust,
    own: Mutex<Option<(Pem, Validity)>>,
    places: Arc<Semaphore>,
}

impl fmt::Debug for NodeConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConnections").field("trust", &self.0.trust).finish_non_exhaustive()
    }
}

impl NodeConnections {
    /// With a certificate of this signer.
    #[must_use]
    pub fn new(signer: Signer, trust: NodeTrust) -> Self {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self(Arc::new(Inner { signer, trust, own: Mutex::new(None), places }))
    }

    pub(super) fn places(&self) -> &Arc<Semaphore> {
        &self.0.places
    }

    pub(super) fn trust(&self) -> &NodeTrust {
        &self.0.trust
    }

    pub(super) fn config(&self, node: &str, trust: &NodeTrust) -> Result<ClientConfig, String> {
        let own = self.own(clock::now())?;
        trust::config(&own, &self.0.signer.authority().certificate, trust, node)
    }

    /// The server's certificate for nodes, a new one when it is due.
    fn own(&self, now: Timestamp) -> Result<Pem, String> {
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((pem, validity)) = own.as_ref()
            && !needs_renewal(now, validity.not_before, validity.not_after)
        {
            return Ok(pem.clone());
        }
        let identity = Identity { name: API_SERVER_TO_NODES, group: "" };
        let made = client_certificate(&self.0.signer.authority(), identity, now);
        let pem = made.map_err(|error| format!("make a certificate for nodes: {error}"))?;
        let validity = Validity::of_pem(&pem.certificate).ok_or("a certificate cannot be read")?;
        Ok(own.insert((pem, validity)).0.clone())
    }
}
