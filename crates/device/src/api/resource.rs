//! Where a kind of object is served.

/// A resource of the API in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
}

pub(crate) const PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod" };
pub(crate) const CLASSIC_CLAIMS: Resource =
    Resource { group: "cdi.k8s.io", version: "v1alpha1", plural: "resourceclaims", kind: "ResourceClaim" };
pub(crate) const NODES: Resource = Resource { group: "", version: "v1", plural: "nodes", kind: "Node" };
pub(crate) const REPLACEMENT_POLICIES: Resource = Resource {
    group: "lazaret.dev",
    version: "v1alpha1",
    plural: "taintreplacementpolicies",
    kind: "TaintReplacementPolicy",
};
pub(crate) const DISRUPTION_GUARDS: Resource = Resource {
    group: "lazaret.dev",
    version: "v1alpha1",
    plural: "disruptionguards",
    kind: "DisruptionGuard",
};
pub(crate) const TAINT_POLICIES: Resource = Resource {
    group: "lazaret.dev",
    version: "v1alpha1",
    plural: "devicetaintpolicies",
    kind: "DeviceTaintPolicy",
};
pub(crate) const INCIDENTS: Resource =
    Resource { group: "lazaret.dev", version: "v1alpha1", plural: "deviceincidents", kind: "DeviceIncident" };
pub(crate) const SIGNALS: Resource =
    Resource { group: "lazaret.dev", version: "v1alpha1", plural: "devicesignals", kind: "DeviceSignal" };
pub(crate) const EVENTS: Resource = Resource { group: "", version: "v1", plural: "events", kind: "Event" };

impl Resource {
    /// `v1`, `resource.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of a collection or an object. An empty namespace means all of them, or none.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        let mut path =
            if self.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", self.group) };
        path.push_str(self.version);
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        for part in [self.plural, name].into_iter().filter(|part| !part.is_empty()) {
            path.push('/');
            path.push_str(part);
        }
        path
    }
}
