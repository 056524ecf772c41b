//! The server's connections to nodes: its own certificate, whom it trusts, how many there may be.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use lazaret_json::Value;
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use super::{location::Location, trust};
use crate::{
    ApiError, Identity, Pem, Server, Signer, Validity,
    auth::bootstrap::API_SERVER_TO_NODES,
    certificates::{client_certificate, needs_renewal},
    clock,
};

/// Connections to nodes at a time; each carries one stream and has a file.
const CONNECTIONS_MAX: usize = 4_096;
/// What simulated nodes are labelled with.
const HOLLOW_LABEL: &str = "hollow.lazaret.dev/node";

/// Whom a node's serving certificate must come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeTrust {
    /// The cluster's own authority; it must name the node.
    Cluster,
    /// These authorities (PEM); it must be for the address that is connected to.
    Authority(String),
    /// Anybody. Then no address of this machine itself is connected to.
    Nobody,
}

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

/// Whether a node can be asked.
pub(super) enum Reached {
    Node(Location),
    /// There is no such machine.
    Simulated,
}

/// Where a node is.
///
/// # Errors
/// When there is no such node, or it cannot be reached.
pub(super) fn reach(server: &Server, name: &str) -> Result<Reached, ApiError> {
    if server.node_connections().is_none() {
        return Ok(Reached::Simulated);
    }
    if name.contains(':') {
        let why =
            format!("invalid node request {name:?}: only the port of the node's own API is connected to");
        return Err(ApiError::bad_request(why));
    }
    let Some(kind) = lazaret_kinds::find("", "nodes") else { return Ok(Reached::Simulated) };
    let node: Value = server.get(kind, "", name).ok_or_else(|| ApiError::not_found(kind, name))?;
    if node["metadata"]["labels"][HOLLOW_LABEL].as_str().is_some() {
        return Ok(Reached::Simulated);
    }
    Location::of(&node).map(Reached::Node).map_err(ApiError::of_backend)
}
