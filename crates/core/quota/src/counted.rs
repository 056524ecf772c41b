//! Which resources of a quota an object of a kind counts against.

use alloc::{
    borrow::ToOwned,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
};

/// A kind of objects, by its group and plural name.
pub type Kind = (String, String);

/// The names of resources that pods can request.
const POD_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
const SERVICE_RESOURCES: &[&str] = &["services", "services.nodeports", "services.loadbalancers"];
pub(crate) const REQUESTS: &str = "requests.";
pub(crate) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";
/// Resources of Kubernetes' own that have a domain.
const NATIVE_DOMAIN: &str = "kubernetes.io/";
/// The extended resource that stands for a device class: the class follows.
pub(crate) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// The same in a quota.
pub(crate) const REQUESTS_DEVICE_CLASS: &str = "requests.deviceclass.resource.kubernetes.io/";
/// After the name of a device class: devices of this class that claims may get.
pub(crate) const CLASS_DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// After the name of a storage class.
pub(crate) const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Kinds that quotas have counted under a short name since before there was one for every kind.
const SHORT: &[&str] = &["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// A kind that quotas count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    pub(crate) sort: ObjectType,
    /// `count/pods`, `count/deployments.apps`.
    pub(crate) count: String,
    /// `configmaps`, if the kind has such a name.
    pub(crate) short: Option<&'static str>,
}

/// How the objects of a kind are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectType {
    Pod,
    Service,
    VolumeClaim,
    DeviceClaim,
    /// By their number alone.
    Other,
}

impl Counted {
    /// The kind with this plural name in a group; `None` if quotas never count it.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        if plural == "events" && ["", "events.k8s.io"].contains(&group) {
            return None;
        }
        let sort = match (group, plural) {
            ("", "pods") => ObjectType::Pod,
            ("", "services") => ObjectType::Service,
            ("", "persistentvolumeclaims") => ObjectType::VolumeClaim,
            ("resource.k8s.io", "resourceclaims") => ObjectType::DeviceClaim,
            _ => ObjectType::Other,
        };
        let count =
            if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") };
        let short = SHORT.iter().find(|short| group.is_empty() && **short == plural).copied();
        Some(Self { sort, count, short })
    }

    /// Whether updates of objects of this kind can change what they use; of all others only their being there counts.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.sort != ObjectType::Other
    }

    /// Whether objects of this kind count against a resource of a quota.
    pub(crate) fn counts(&self, resource: &str, classes: &Classes) -> bool {
        if resource == self.count || self.short == Some(resource) {
            return true;
        }
        match self.sort {
            ObjectType::Pod => {
                POD_RESOURCES.contains(&resource)
                    || resource.starts_with(HUGE_PAGES)
                    || resource.starts_with(REQUESTS_HUGE_PAGES)
                    || is_extended(resource)
            }
            ObjectType::Service => SERVICE_RESOURCES.contains(&resource),
            ObjectType::VolumeClaim => {
                let plain = resource.rsplit_once(STORAGE_CLASS).map_or(resource, |(_, plain)| plain);
                ["persistentvolumeclaims", "requests.storage"].contains(&plain)
            }
            ObjectType::DeviceClaim => {
                resource.ends_with(CLASS_DEVICES)
                    || resource
                        .strip_prefix(REQUESTS_DEVICE_CLASS)
                        .is_some_and(|class| classes.extended(class).is_some())
                    || is_extended(resource)
                        && resource.strip_prefix(REQUESTS).is_some_and(|name| classes.serve(name))
            }
            ObjectType::Other => false,
        }
    }

    /// Whether device classes matter for what objects of this kind count against.
    #[must_use]
    pub fn asks_classes(&self) -> bool {
        self.sort == ObjectType::DeviceClaim
    }

    /// Whether these are pods.
    #[must_use]
    pub fn is_pods(&self) -> bool {
        self.sort == ObjectType::Pod
    }
}

/// Whether a resource of a quota is an extended resource that pods request.
fn is_extended(resource: &str) -> bool {
    let native = !resource.contains('/') || resource.contains(NATIVE_DOMAIN);
    resource.starts_with(REQUESTS) && !native || resource.starts_with(REQUESTS_DEVICE_CLASS)
}

/// Device classes that serve extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    extended: BTreeMap<String, String>,
    served: BTreeSet<String>,
}

impl Classes {
    /// A class, with the extended resource that it serves besides its own.
    pub fn add(&mut self, class: &str, extended: Option<&str>) {
        self.served.insert(format!("{DEVICE_CLASS}{class}"));
        if let Some(extended) = extended.filter(|name| !name.is_empty()) {
            self.served.insert(extended.to_owned());
            self.extended.insert(class.to_owned(), extended.to_owned());
        }
    }

    /// The extended resource that a class serves.
    pub(crate) fn extended(&self, class: &str) -> Option<&str> {
        self.extended.get(class).map(String::as_str)
    }

    /// Whether some class serves an extended resource.
    fn serve(&self, resource: &str) -> bool {
        self.served.contains(resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_counts_against_its_own_resources() {
        let mut classes = Classes::default();
        classes.add("gpu", Some("example.com/gpu"));
        let rows: &[(&str, &str, &[&str], &[&str])] = &[
            (
                "",
                "pods",
                &[
                    "pods",
                    "count/pods",
                    "cpu",
                    "limits.memory",
                    "hugepages-2Mi",
                    "requests.hugepages-2Mi",
                    "requests.example.com/gpu",
                    "requests.deviceclass.resource.kubernetes.io/gpu",
                ],
                &[
                    "requests.storage",
                    "count/pods.apps",
                    "example.com/gpu",
                    "requests.kubernetes.io/x",
                    "limits.hugepages-2Mi",
                ],
            ),
            ("", "services", &["services", "count/services", "services.nodeports"], &["pods"]),
            (
                "",
                "persistentvolumeclaims",
                &[
                    "persistentvolumeclaims",
                    "requests.storage",
                    "fast.storageclass.storage.k8s.io/requests.storage",
                    "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
                ],
                &["fast.storageclass.storage.k8s.io/pods", "storage"],
            ),
            (
                "resource.k8s.io",
                "resourceclaims",
                &[
                    "count/resourceclaims.resource.k8s.io",
                    "gpu.deviceclass.resource.k8s.io/devices",
                    "requests.deviceclass.resource.kubernetes.io/gpu",
                    "requests.example.com/gpu",
                ],
                &["requests.example.com/nic", "requests.deviceclass.resource.kubernetes.io/nic", "pods"],
            ),
            ("", "configmaps", &["configmaps", "count/configmaps"], &["secrets"]),
            ("apps", "deployments", &["count/deployments.apps"], &["deployments", "count/deployments"]),
            ("example.com", "configmaps", &["count/configmaps.example.com"], &["configmaps"]),
        ];
        for (group, plural, yes, no) in rows {
            let kind = Counted::of(group, plural).unwrap();
            yes.iter()
                .for_each(|name| assert!(kind.counts(name, &classes), "{plural} counts against {name}"));
            no.iter().for_each(|name| {
                assert!(!kind.counts(name, &classes), "{plural} does not count against {name}")
            });
        }
        assert_eq!(Counted::of("", "events"), None);
        assert_eq!(Counted::of("events.k8s.io", "events"), None);
    }
}
