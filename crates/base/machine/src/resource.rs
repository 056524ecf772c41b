//! Resources of the API.

use alloc::{borrow::ToOwned, format, string::String};

/// A resource of the API in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Its group; empty for the core group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its name in paths: `pods`.
    pub plural: &'static str,
    /// Its kind: `Pod`.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// As objects say it: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether an owner reference or the like means this kind, in whatever version.
    #[must_use]
    pub fn is(&self, api_version: &str, kind: &str) -> bool {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.kind == kind && self.group == group
    }

    /// The path of a collection, of an object, or of its subresource. An empty namespace means all.
    #[must_use]
    pub fn path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let mut path =
            if self.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", self.group) };
        path.push_str(self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        for part in [self.plural, name, subresource].into_iter().filter(|part| !part.is_empty()) {
            path.push('/');
            path.push_str(part);
        }
        path
    }
}
