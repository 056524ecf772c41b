//! Settings of a pod that no container here gets.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::{SpecError, amount, pod::PodView};

/// Settings of a container that a [`lazaret_containers::ContainerSpec`] cannot express, each a short text for a person. Those that
/// a runtime cannot apply come in addition.
///
/// # Errors
/// When there is no such container.
pub fn not_applied(pod: &Pod, name: &str) -> Result<Vec<String>, SpecError> {
    let view = PodView::new(pod)?;
    let container = view.container(name)?;
    let own = container.security_context.as_ref();
    let of_pod = view.security();
    let mut all = Vec::new();
    let mut note = |asked: bool, text: &str| {
        if asked {
            all.push(text.to_owned());
        }
    };
    let selinux = own.is_some_and(|own| own.se_linux_options.is_some())
        || of_pod.is_some_and(|pod| pod.se_linux_options.is_some());
    note(selinux, "SELinux options");
    let windows = own.is_some_and(|own| own.windows_options.is_some())
        || of_pod.is_some_and(|pod| pod.windows_options.is_some());
    note(windows, "Windows options");
    note(has_huge_pages(&container), "limit of huge pages");
    let target = view.spec.ephemeral_containers.iter().flatten().find(|other| other.name == name);
    let target = target.and_then(|container| container.target_container_name.as_deref());
    let shares = view.spec.share_process_namespace.unwrap_or(false) || view.spec.host_pid.unwrap_or(false);
    note(
        target.is_some_and(|target| !target.is_empty()) && !shares,
        "process namespace of the target container",
    );
    note(view.spec.runtime_class_name.as_ref().is_some_and(|class| !class.is_empty()), "runtime class");
    Ok(all)
}

fn has_huge_pages(container: &Container) -> bool {
    amount::limits(container).is_some_and(|limits| limits.keys().any(|name| name.starts_with("hugepages-")))
}
