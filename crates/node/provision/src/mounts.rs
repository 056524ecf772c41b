//! The mounts of a container.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use lazaret_containers::{Mount, Propagation, Security};

use crate::{
    ContainerInputs, PodFiles, SpecError, SubPath,
    environment::Variables,
    expand::expand,
    names::{self, PATH_BYTES_MAX},
};

/// Mounts of one container. The kernel has a limited number of them for all.
const MOUNTS_MAX: usize = 1024;

/// The mounts of a container, outer ones before those below them.
pub(crate) fn of_container(
    container: &Container,
    variables: &Variables,
    security: &Security,
    inputs: &ContainerInputs<'_>,
) -> Result<Vec<Mount>, SpecError> {
    if let Some(device) = container.volume_devices.iter().flatten().next() {
        return Err(SpecError::config(format!(
            "cannot find volume {:?} to pass into container {:?}",
            device.name, container.name
        )));
    }
    if container.volume_mounts.as_ref().is_some_and(|mounts| mounts.len() > MOUNTS_MAX) {
        return Err(SpecError::config(format!("a container has at most {MOUNTS_MAX} mounts on this node")));
    }
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        mounts.push(of_volume(container, index, mount, variables, security, inputs)?);
    }
    let PodFiles { hosts, hostname, resolver, termination_log } = inputs.files;
    let read_only = security.read_only_root;
    let of_pod = [
        (hosts, "/etc/hosts", false),
        (hostname, "/etc/hostname", read_only),
        (resolver, "/etc/resolv.conf", read_only),
    ];
    for (source, target, read_only) in of_pod {
        let is_taken = mounts.iter().any(|mount| mount.target == Path::new(target));
        if let Some(source) = source.as_ref().filter(|_| !is_taken) {
            mounts.push(file(source, Path::new(target), read_only));
        }
    }
    let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    if let (Some(source), Some(path)) = (termination_log, path) {
        mounts.push(file(source, &target(path)?, false));
    }
    mounts.sort_by_key(|mount| mount.target.components().count());
    Ok(mounts)
}

fn file(source: &Path, target: &Path, read_only: bool) -> Mount {
    Mount { source: source.to_owned(), target: target.to_owned(), read_only, ..Mount::default() }
}

fn of_volume(
    container: &Container,
    index: usize,
    mount: &VolumeMount,
    variables: &Variables,
    security: &Security,
    inputs: &ContainerInputs<'_>,
) -> Result<Mount, SpecError> {
    let Some(volume) = inputs.volumes.get(&mount.name) else {
        return Err(SpecError::config(format!(
            "cannot find volume {:?} to mount into container {:?}",
            mount.name, container.name
        )));
    };
    let part = sub_path(mount, variables)?;
    let source = match part.as_str() {
        "" => volume.path.clone(),
        path => {
            let part = SubPath {
                volume: &mount.name,
                volume_path: &volume.path,
                path,
                container: &container.name,
                index,
            };
            // An error of the disk is not shown to a pod's owner.
            inputs.disk.sub_path(part).map_err(|problem| {
                tracing::warn!(volume = mount.name, container = container.name, problem, "prepare subPath");
                SpecError::config(format!(
                    "failed to prepare subPath for volumeMount {:?} of container {:?}",
                    mount.name, container.name
                ))
            })?
        }
    };
    check_recursive_read_only(mount)?;
    if mount.bind_mount_options.as_ref().is_some_and(|options| !options.is_empty()) {
        return Err(SpecError::config(format!(
            "volume {:?} requested bind mount options, but they are not supported by the runtime",
            mount.name
        )));
    }
    Ok(Mount {
        source,
        target: target(&mount.mount_path)?,
        read_only: mount.read_only.unwrap_or(false) || volume.is_read_only,
        propagation: propagation(mount, security)?,
        tmpfs: None,
    })
}

/// The part of a volume that is mounted; empty for all of it.
fn sub_path(mount: &VolumeMount, variables: &Variables) -> Result<String, SpecError> {
    let mut path = mount.sub_path.clone().unwrap_or_default();
    if let Some(expression) = mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty()) {
        let mut missing = std::collections::BTreeSet::new();
        let expanded = expand(expression, PATH_BYTES_MAX, |name| {
            let value = variables.get(name).filter(|value| !value.is_empty()).cloned();
            if value.is_none() {
                missing.insert(name.to_owned());
            }
            value
        });
        if !missing.is_empty() {
            let missing: Vec<String> = missing.into_iter().collect();
            return Err(SpecError::config(format!("missing value for {}", missing.join(", "))));
        }
        path = expanded.map_err(|_| {
            SpecError::config(format!(
                "SubPath of volume {:?} is longer than {PATH_BYTES_MAX} bytes",
                mount.name
            ))
        })?;
    }
    if path.starts_with('/') {
        return Err(SpecError::config(format!("error SubPath `{path}` must not be an absolute path")));
    }
    if names::has_backsteps(&path) {
        return Err(SpecError::config(format!(
            "unable to provision SubPath `{path}`: must not contain '..'"
        )));
    }
    Ok(path)
}

/// Where a mount is in the container: absolute, and not above its root.
fn target(path: &str) -> Result<PathBuf, SpecError> {
    if path.is_empty() || path.contains('\0') || path.len() > PATH_BYTES_MAX || names::has_backsteps(path) {
        return Err(SpecError::config(format!("invalid container mount point {path:?}")));
    }
    let target: PathBuf = Path::new("/").join(path).components().collect();
    if target == Path::new("/") {
        return Err(SpecError::config(format!("invalid container mount point {path:?}")));
    }
    Ok(target)
}

fn propagation(mount: &VolumeMount, security: &Security) -> Result<Propagation, SpecError> {
    match mount.mount_propagation.as_deref() {
        None | Some("" | "None") => Ok(Propagation::Private),
        Some("HostToContainer") => Ok(Propagation::FromHost),
        Some("Bidirectional") if security.privileged => Ok(Propagation::Both),
        Some("Bidirectional") => Err(SpecError::config(
            "Bidirectional mount propagation is available only to privileged containers",
        )),
        Some(other) => Err(SpecError::config(format!("invalid MountPropagation mode: {other:?}"))),
    }
}

fn check_recursive_read_only(mount: &VolumeMount) -> Result<(), SpecError> {
    let mode = mount.recursive_read_only.as_deref().unwrap_or("Disabled");
    if mode == "Disabled" {
        return Ok(());
    }
    let wrong = |what: String| {
        Err(SpecError::config(format!(
            "failed to resolve recursive read-only mode: volume {:?} requested recursive read-only mode, \
             but it is {what}",
            mount.name
        )))
    };
    if !mount.read_only.unwrap_or(false) {
        return wrong("not read-only".to_owned());
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        return wrong(format!("not compatible with propagation {propagation:?}"));
    }
    match mode {
        "IfPossible" => Ok(()),
        "Enabled" => wrong("not supported by the runtime".to_owned()),
        other => Err(SpecError::config(format!(
            "failed to resolve recursive read-only mode: unknown recursive read-only mode {other:?}"
        ))),
    }
}
