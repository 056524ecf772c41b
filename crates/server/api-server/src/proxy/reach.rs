//! Where a node is reached, if it is a machine.

use lazaret_json::Value;

use super::location::Location;
use crate::{ApiError, Server};

/// The label of simulated nodes.
const HOLLOW_LABEL: &str = "hollow.lazaret.dev/node";

/// Whether a node can be asked.
pub(super) enum Reachability {
    Node(Location),
    /// There is no such machine.
    Simulated,
}

/// Where a node is.
///
/// # Errors
/// When there is no such node, or it cannot be reached.
pub(super) fn reach(server: &Server, name: &str) -> Result<Reachability, ApiError> {
    if server.node_connections().is_none() {
        return Ok(Reachability::Simulated);
    }
    if name.contains(':') {
        let why =
            format!("invalid node request {name:?}: only the port of the node's own API is connected to");
        return Err(ApiError::bad_request(why));
    }
    let Some(kind) = lazaret_kinds::find("", "nodes") else { return Ok(Reachability::Simulated) };
    let node: Value = server.get(kind, "", name).ok_or_else(|| ApiError::not_found(kind, name))?;
    if node["metadata"]["labels"][HOLLOW_LABEL].as_str().is_some() {
        return Ok(Reachability::Simulated);
    }
    Location::of(&node).map(Reachability::Node).map_err(ApiError::of_backend)
}
