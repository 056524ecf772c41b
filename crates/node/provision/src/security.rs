//! Privileges and confinement of a container.

use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, SeccompProfile, SecurityContext};
use lazaret_containers::{Seccomp, Security};

use crate::{NodeFacts, SpecError, pod::PodView};

/// The rights of a container.
pub(crate) fn of_container(
    view: &PodView<'_>,
    container: &Container,
    facts: &NodeFacts,
) -> Result<Security, SpecError> {
    let own = container.security_context.clone().unwrap_or_default();
    check_rights(&own, view)?;
    let privileged = own.privileged.unwrap_or(false);
    let capabilities = own.capabilities.unwrap_or_default();
    let profile = own.seccomp_profile.as_ref();
    let profile = profile.or_else(|| view.security().and_then(|pod| pod.seccomp_profile.as_ref()));
    Ok(Security {
        privileged,
        add_capabilities: capabilities.add.unwrap_or_default(),
        drop_capabilities: capabilities.drop.unwrap_or_default(),
        read_only_root: own.read_only_root_filesystem.unwrap_or(false),
        allow_privilege_escalation: own.allow_privilege_escalation.unwrap_or(true),
        // A privileged container is not confined, as runtimes have it.
        seccomp: if privileged { Seccomp::Unconfined } else { seccomp(profile, facts)? },
        unmasked_proc: own.proc_mount.as_deref() == Some("Unmasked"),
    })
}

/// Refuses rights that no server that checks pods stores. A node that applied them would give a container more than it may have.
fn check_rights(own: &SecurityContext, view: &PodView<'_>) -> Result<(), SpecError> {
    let refused = |why: &str| Err(SpecError::config(why));
    // The masks are those of the host: root in the container would write below them. An API server refuses such a pod, but an old one is stored.
    if own.proc_mount.as_deref() == Some("Unmasked") && view.has_host_users() {
        return refused("procMount Unmasked needs a pod with hostUsers: false");
    }
    if own.allow_privilege_escalation == Some(false) {
        if own.privileged == Some(true) {
            return refused("allowPrivilegeEscalation: false and privileged: true exclude each other");
        }
        let mut added = own.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.any(|name| name == "CAP_SYS_ADMIN") {
            return refused(
                "allowPrivilegeEscalation: false and the capability CAP_SYS_ADMIN exclude each other",
            );
        }
    }
    Ok(())
}

/// Refuses a pod of which a container wants rights that it may not have, before anything of it is made.
pub(crate) fn check_pod(view: &PodView<'_>) -> Result<(), SpecError> {
    if view.spec.share_process_namespace == Some(true) && view.spec.host_pid == Some(true) {
        return Err(SpecError::forbidden("shareProcessNamespace and hostPID exclude each other"));
    }
    let mut own = view.containers().filter_map(|container| container.security_context.clone());
    let checked = own.try_for_each(|own| check_rights(&own, view));
    checked.map_err(|error| SpecError::forbidden(error.message))
}

fn seccomp(profile: Option<&SeccompProfile>, facts: &NodeFacts) -> Result<Seccomp, SpecError> {
    let Some(profile) = profile else {
        return Ok(if facts.seccomp_default { Seccomp::RuntimeDefault } else { Seccomp::Unconfined });
    };
    match profile.type_.as_str() {
        "RuntimeDefault" => Ok(Seccomp::RuntimeDefault),
        "Unconfined" => Ok(Seccomp::Unconfined),
        "Localhost" => {
            let Some(name) = profile.localhost_profile.as_deref().filter(|name| !name.is_empty()) else {
                return Err(SpecError::config(
                    "localhostProfile must be set if seccompProfile type is Localhost.",
                ));
            };
            let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            if !is_below || name.contains('\0') {
                return Err(SpecError::config(format!(
                    "localhostProfile {name:?} must be a relative path without '..'"
                )));
            }
            Ok(Seccomp::File(facts.seccomp_root.join(name)))
        }
        other => Err(SpecError::config(format!("unknown seccomp profile type {other:?}"))),
    }
}

/// Refuses a pod that wants AppArmor where there is none.
pub(crate) fn check_app_armor(view: &PodView<'_>, facts: &NodeFacts) -> Result<(), SpecError> {
    let is_wanted = |profile: &AppArmorProfile| profile.type_ != "Unconfined";
    let by_pod = view.security().and_then(|pod| pod.app_armor_profile.as_ref()).is_some_and(is_wanted);
    let by_container = || {
        view.containers().any(|container| {
            let own = container.security_context.as_ref();
            own.and_then(|own| own.app_armor_profile.as_ref()).is_some_and(is_wanted)
        })
    };
    let by_annotation = || {
        view.pod.metadata.annotations.iter().flatten().any(|(key, value)| {
            key.starts_with("container.apparmor.security.beta.kubernetes.io/") && value != "unconfined"
        })
    };
    if facts.has_app_armor || !(by_pod || by_container() || by_annotation()) {
        return Ok(());
    }
    Err(SpecError::refused("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"))
}
