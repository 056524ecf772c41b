//! Permissions of a node, and the reasons of refusals. Where the authorizer cannot know the object, admission refuses (`admission::node`).

use lazaret_kinds::{Access, Features};

use super::graph::Vertex;

/// The namespace of the leases by which nodes say that they are alive.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Lets nodes read the service accounts of their pods.
const READ_ACCOUNTS: &str = "KubeletServiceAccountTokenForCredentialProviders";

const READ: &[&str] = &["get", "list", "watch"];

/// Permissions of every node: verbs, group, resources.
const ALL_NODES: &[(&[&str], &str, &[&str])] = &[
    (&["create"], "authentication.k8s.io", &["tokenreviews"]),
    (&["create"], "authorization.k8s.io", &["subjectaccessreviews", "localsubjectaccessreviews"]),
    (READ, "", &["services"]),
    (&["get"], "", &["endpoints"]),
    (&["create", "update", "patch"], "", &["events"]),
    (&["create", "update", "patch"], "events.k8s.io", &["events"]),
    (&["create", "get", "list", "watch"], "certificates.k8s.io", &["certificatesigningrequests"]),
    (READ, "certificates.k8s.io", &["clustertrustbundles"]),
    (READ, "storage.k8s.io", &["csidrivers"]),
    (READ, "node.k8s.io", &["runtimeclasses"]),
];

/// A node that asks, and what is known of it.
pub(super) struct RequestingNode<'a> {
    pub(super) node: &'a str,
    pub(super) features: &'a Features,
    /// Whether a path leads from an object to the node.
    pub(super) is_related: &'a dyn Fn(Vertex, &str, &str) -> bool,
}

type Decision = Result<(), String>;

fn no(why: &str) -> Decision {
    Err(why.to_owned())
}

impl RequestingNode<'_> {
    /// Permits, or says why this authorizer does not.
    pub(super) fn decide(&self, access: Access<'_>) -> Decision {
        match (access.group, access.resource) {
            ("", "secrets") => self.read_one(Vertex::Secret, access),
            ("", "configmaps") => self.read_one(Vertex::ConfigMap, access),
            ("", "persistentvolumeclaims") if access.subresource == "status" => self.write_status(access),
            ("", "persistentvolumeclaims") => self.get(Vertex::VolumeClaim, access),
            ("", "persistentvolumes") => self.get(Vertex::Volume, access),
            ("resource.k8s.io", "resourceclaims") => self.get(Vertex::ResourceClaim, access),
            ("cdi.k8s.io", "resourceclaims") => self.get(Vertex::ClassicClaim, access),
            ("storage.k8s.io", "volumeattachments") => self.get(Vertex::Attachment, access),
            ("", "serviceaccounts") => self.account(access),
            ("coordination.k8s.io", "leases") => self.lease(access),
            ("storage.k8s.io", "csinodes") => self.csi_node(access),
            ("resource.k8s.io", "resourceslices") => self.slice(access),
            ("", "nodes") => self.node(access),
            ("", "pods") => self.pod(access),
            _ => all_nodes(access),
        }
    }

    fn related(&self, vertex: Vertex, access: Access<'_>) -> Decision {
        if access.name.is_empty() {
            return no("No Object name found");
        }
        if (self.is_related)(vertex, access.namespace, access.name) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn get(&self, vertex: Vertex, access: Access<'_>) -> Decision {
        if access.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !access.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(vertex, access)
    }

    /// Reads one object of a namespace, also by a list or watch of its name.
    fn read_one(&self, vertex: Vertex, access: Access<'_>) -> Decision {
        if !READ.contains(&access.verb) {
            return no("can only read resources of this type");
        }
        if !access.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if access.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(vertex, access)
    }

    fn write_status(&self, access: Access<'_>) -> Decision {
        match access.verb {
            "update" | "patch" => self.related(Vertex::VolumeClaim, access),
            _ => no("can only get/update/patch this type"),
        }
    }

    fn account(&self, access: Access<'_>) -> Decision {
        if access.verb == "get" && access.subresource.is_empty() {
            if !self.features.is_on(READ_ACCOUNTS) {
                return no("not allowed to get service accounts");
            }
            return self.read_one(Vertex::ServiceAccount, access);
        }
        if access.verb != "create" || access.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if access.subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related(Vertex::ServiceAccount, access)
    }

    fn lease(&self, access: Access<'_>) -> Decision {
        if !matches!(access.verb, "get" | "create" | "update" | "patch" | "delete") {
            return no("can only get, create, update, patch, or delete a node lease");
        }
        if access.namespace != LEASE_NAMESPACE {
            return Err(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"));
        }
        if access.verb != "create" && access.name != self.node {
            return no("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn csi_node(&self, access: Access<'_>) -> Decision {
        match (access.subresource, access.verb) {
            ("", "get" | "create" | "update" | "patch" | "delete") => {}
            ("", _) => return no("can only get, create, update, patch, or delete a CSINode"),
            // The status of a CSINode is not served: the feature that writes it is alpha.
            ("status", _) => return no("CSINode status access requires CSIVolumeHealth feature"),
            _ => return no("cannot authorize CSINode subresources"),
        }
        if access.verb != "create" && access.name != self.node {
            return no("can only access CSINode with the same name as the requesting node");
        }
        Ok(())
    }

    fn slice(&self, access: Access<'_>) -> Decision {
        if !access.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match access.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(Vertex::Slice, access),
            "list" | "watch" | "deletecollection" if self.is_selected(access) => Ok(()),
            "list" | "watch" | "deletecollection" => {
                no("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self, access: Access<'_>) -> Decision {
        match (access.subresource, access.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match access.name {
                name if name == self.node => Ok(()),
                "" => Err(format!("node '{}' cannot read all nodes, only its own Node object", self.node)),
                other => Err(format!("node '{}' cannot read '{other}', only its own Node object", self.node)),
            },
            _ => no(""),
        }
    }

    fn pod(&self, access: Access<'_>) -> Decision {
        match (access.subresource, access.verb) {
            ("", "get") => self.get(Vertex::Pod, access),
            ("", "list" | "watch") if self.is_selected(access) => Ok(()),
            ("", "list" | "watch") if access.name.is_empty() => {
                no("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "list" | "watch") => self.related(Vertex::Pod, access),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => no(""),
        }
    }

    /// Whether only objects of the node are selected.
    fn is_selected(&self, access: Access<'_>) -> bool {
        let is_own = |field: &lazaret_kinds::FieldRequirement| {
            field.field == "spec.nodeName" && field.equal && field.value == self.node
        };
        access.fields.iter().any(is_own)
    }
}

fn all_nodes(access: Access<'_>) -> Decision {
    let permitted = ALL_NODES.iter().any(|(verbs, group, resources)| {
        verbs.contains(&access.verb) && *group == access.group && resources.contains(&access.resource)
    });
    if permitted && access.subresource.is_empty() { Ok(()) } else { no("") }
}
