//! Permissions of nodes without any role: to read the objects of their pods, and to write their own.

mod feed;
mod graph;
pub(crate) mod references;
mod rules;
#[cfg(test)]
mod tests;

use lazaret_kinds::{Access, User};

use self::{feed::Feed, rules::RequestingNode};
use crate::ObjectStore;

pub(crate) use rules::LEASE_NAMESPACE;

/// The user of a node's kubelet: `system:node:NAME` in the group `system:nodes`.
#[must_use]
pub fn node_user(name: &str) -> User {
    let groups = vec!["system:nodes".into(), "system:authenticated".into()];
    User { name: format!("system:node:{name}"), groups, ..User::default() }
}

/// The name of the node that asks, if a node asks; empty if it does not say which.
pub(crate) fn node_name(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    user.groups.iter().any(|group| group == "system:nodes").then_some(name)
}

/// Permits nodes what their pods and they themselves need. Refuses nothing for good: roles may permit more.
#[derive(Debug, Default)]
pub(super) struct NodeAuthorizer {
    feed: Feed,
}

impl NodeAuthorizer {
    /// Whether a node may do this to objects.
    ///
    /// # Errors
    /// Why this authorizer does not permit it; empty for a user that is not a node.
    pub(super) fn access(&self, stored: &ObjectStore, user: &User, access: Access<'_>) -> Result<(), String> {
        let Some(node) = node_name(user) else { return Err(String::new()) };
        if node.is_empty() {
            return Err(format!("unknown node for user {:?}", user.name));
        }
        let is_related = |vertex, namespace: &str, name: &str| {
            self.feed.ask(stored, |graph| graph.has_path(node, vertex, namespace, name))
        };
        RequestingNode { node, features: stored.features(), is_related: &is_related }.decide(access)
    }
}
