//! Names of resources, in containers, limit ranges and quotas.

use lazaret_model::validate_label_name;

use crate::{Errors, path::Path};

const CONTAINER: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const AMOUNTS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";
const REQUESTS: &str = "requests.";
const NATIVE_DOMAIN: &str = "kubernetes.io/";

/// Whether it is memory in large pages.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_paged(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with(REQUESTS_HUGE_PAGES)
}

/// Whether a quota may name this resource without a domain.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    [CONTAINER, COUNTED, AMOUNTS].iter().any(|known| known.contains(&name)) || is_paged(name)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

/// Whether it is an extended resource, which Kubernetes itself does not define.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && validate_label_name(&format!("{REQUESTS}{name}")).is_ok()
}

/// Whether more of a resource may be promised than there is.
pub(crate) fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Whether there are only whole numbers of it.
pub(crate) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// A name with a domain, or one of Kubernetes' own.
pub(crate) fn resource(errors: &mut Errors, path: &Path<'_>, name: &str) -> bool {
    if let Err(error) = validate_label_name(name) {
        errors.invalid(path, name, error.to_string());
        return false;
    }
    if !name.contains('/') && !is_standard_for_quota(name) && name != "storage" {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

/// A name that stands in a quota.
pub(crate) fn quota_resource(errors: &mut Errors, path: &Path<'_>, name: &str) {
    resource(errors, path, name);
    if !name.contains('/') && !is_standard_for_quota(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
}

/// A name that stands in the requests of a container.
pub(crate) fn container_resource(errors: &mut Errors, path: &Path<'_>, name: &str) {
    resource(errors, path, name);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !name.starts_with(HUGE_PAGES) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}
