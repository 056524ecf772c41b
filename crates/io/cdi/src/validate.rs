//! Checks specs.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{
    ContainerEdits, DeviceNode, Hook, IntelRdt, NameError, NetDevice, Spec, Version, minimum_version,
    name::{split_kind, validate_class, validate_device_name, validate_vendor},
};

/// A Linux file name is shorter than this.
const CLOS_ID_BYTES_MAX: usize = 4096;

/// Why a spec is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// No such version.
    #[error("cdiVersion {0:?} is unknown")]
    UnknownVersion(String),
    /// Its content is newer than it says.
    #[error("cdiVersion must be at least {0}")]
    VersionTooOld(Version),
    /// The kind is not `vendor/class`.
    #[error("kind {0:?} is not vendor/class")]
    Kind(String),
    /// A name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There are no devices.
    #[error("there are no devices")]
    NoDevices,
    /// Two devices have one name.
    #[error("device {0:?} is there twice")]
    DuplicateDevice(String),
    /// A device changes nothing.
    #[error("device {0:?} has no edits")]
    EmptyDevice(String),
    /// Something in the edits is wrong.
    #[error("{place}: {what}")]
    Edit {
        /// The device, or the spec as a whole.
        place: String,
        /// The error.
        what: String,
    },
}

/// Checks a spec.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate(spec: &Spec) -> Result<(), SpecError> {
    let version: Version =
        spec.version.parse().map_err(|()| SpecError::UnknownVersion(spec.version.clone()))?;
    let minimum = minimum_version(spec);
    if version < minimum {
        return Err(SpecError::VersionTooOld(minimum));
    }
    let (vendor, class) = split_kind(&spec.kind).ok_or_else(|| SpecError::Kind(spec.kind.clone()))?;
    validate_vendor(vendor)?;
    validate_class(class)?;
    check_edits("containerEdits", &spec.container_edits)?;
    let mut names = BTreeSet::new();
    for device in &spec.devices {
        validate_device_name(&device.name)?;
        if device.container_edits.is_empty() {
            return Err(SpecError::EmptyDevice(device.name.clone()));
        }
        check_edits(&format!("device {:?}", device.name), &device.container_edits)?;
        if !names.insert(device.name.as_str()) {
            return Err(SpecError::DuplicateDevice(device.name.clone()));
        }
    }
    if names.is_empty() { Err(SpecError::NoDevices) } else { Ok(()) }
}

fn check_edits(place: &str, edits: &ContainerEdits) -> Result<(), SpecError> {
    let wrong = |what: String| SpecError::Edit { place: place.to_owned(), what };
    check_env(&edits.env).map_err(wrong)?;
    for node in &edits.device_nodes {
        check_node(node).map_err(wrong)?;
    }
    for hook in &edits.hooks {
        check_hook(hook).map_err(wrong)?;
    }
    for mount in &edits.mounts {
        if mount.host_path.is_empty() || mount.container_path.is_empty() {
            return Err(wrong("a mount has no hostPath or no containerPath".into()));
        }
    }
    if let Some(rdt) = &edits.intel_rdt {
        check_rdt(rdt).map_err(wrong)?;
    }
    check_net_devices(&edits.net_devices).map_err(wrong)
}

fn check_env(env: &[String]) -> Result<(), String> {
    let nameless = env.iter().find(|variable| variable.find('=').is_none_or(|at| at == 0));
    nameless.map_or(Ok(()), |variable| Err(format!("{variable:?} is not NAME=VALUE")))
}

fn check_node(node: &DeviceNode) -> Result<(), String> {
    if node.path.is_empty() {
        return Err("a device node has no path".into());
    }
    if !matches!(node.kind.as_str(), "" | "b" | "c" | "u" | "p") {
        return Err(format!("device node {:?} has the unknown type {:?}", node.path, node.kind));
    }
    let letters = node.permissions.bytes().all(|letter| b"rwm".contains(&letter));
    if !letters && node.permissions != "none" {
        return Err(format!(
            "device node {:?} has the unknown permissions {:?}",
            node.path, node.permissions
        ));
    }
    Ok(())
}

fn check_hook(hook: &Hook) -> Result<(), String> {
    const NAMES: &[&str] =
        &["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];
    if !NAMES.contains(&hook.hook_name.as_str()) {
        return Err(format!("the hook name {:?} is unknown", hook.hook_name));
    }
    if hook.path.is_empty() {
        return Err(format!("the hook {} has no path", hook.hook_name));
    }
    check_env(&hook.env)
}

fn check_rdt(rdt: &IntelRdt) -> Result<(), String> {
    let id = rdt.clos_id.as_str();
    let wrong = id.len() >= CLOS_ID_BYTES_MAX || matches!(id, "." | "..") || id.contains(['/', '\n']);
    if wrong && id != "/" { Err("closID is not a file name".into()) } else { Ok(()) }
}

fn check_net_devices(devices: &[NetDevice]) -> Result<(), String> {
    let (mut outside, mut inside) = (BTreeSet::new(), BTreeSet::new());
    for device in devices {
        if device.host_interface_name.is_empty() || device.name.is_empty() {
            return Err("a net device has no hostInterfaceName or no name".into());
        }
        if !outside.insert(&device.host_interface_name) || !inside.insert(&device.name) {
            return Err(format!("net device {:?} or its name is there twice", device.host_interface_name));
        }
    }
    Ok(())
}
