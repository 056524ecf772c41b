//! Applies edits to an OCI runtime spec.

use std::{collections::BTreeMap, io, path::Path};

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{ContainerEdits, DeviceNode, HostDevice, HostDeviceKind, Mount};

/// Why edits were not applied. The OCI spec is as it was.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The spec is not one.
    #[error("the OCI spec's {0} is not {1}")]
    Shape(&'static str, &'static str),
    /// A node says too little of itself, and the host has none to take the rest from.
    #[error("device node {path}: {source}")]
    HostDevice {
        /// On the host.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The host's node is another kind of thing.
    #[error("device node {path} has type {wanted}, and {found} on the host")]
    KindMismatch {
        /// On the host.
        path: String,
        /// In the spec.
        wanted: String,
        /// On the host.
        found: &'static str,
    },
}

/// Changes an OCI runtime spec (its JSON), with device nodes of this machine.
///
/// # Errors
/// When the edits do not fit. Nothing is changed then.
pub fn apply(edits: &ContainerEdits, oci: &mut Value) -> Result<(), ApplyError> {
    apply_with(edits, oci, HostDevice::at)
}

/// The same, with what `host` finds at a path.
///
/// # Errors
/// When the edits do not fit. Nothing is changed then.
pub fn apply_with(
    edits: &ContainerEdits,
    oci: &mut Value,
    host: impl Fn(&Path) -> io::Result<HostDevice>,
) -> Result<(), ApplyError> {
    let mut edited = oci.clone();
    add_env(&mut edited, &edits.env)?;
    let (uid, gid) = (user_id(&edited, "uid"), user_id(&edited, "gid"));
    for node in &edits.device_nodes {
        add_node(&mut edited, node, (uid, gid), &host)?;
    }
    for device in &edits.net_devices {
        let all = object(child(object(&mut edited, "root")?, "linux"), "linux")?;
        let all = object(child(all, "netDevices"), "linux.netDevices")?;
        all.insert(device.host_interface_name.clone(), json!({"name": device.name}));
    }
    add_mounts(&mut edited, &edits.mounts)?;
    for hook in &edits.hooks {
        let hooks = object(child(object(&mut edited, "root")?, "hooks"), "hooks")?;
        let mut value = without_empty(json!({"path": hook.path, "args": hook.args, "env": hook.env}));
        if let Some(timeout) = hook.timeout {
            value["timeout"] = timeout.into();
        }
        list(hooks, &hook.hook_name, "hooks")?.push(value);
    }
    if let Some(rdt) = &edits.intel_rdt {
        let linux = object(child(object(&mut edited, "root")?, "linux"), "linux")?;
        // The names of the fields are the same in both.
        linux.insert("intelRdt".into(), serde_json::to_value(rdt).unwrap_or_default());
    }
    for gid in edits.additional_gids.iter().filter(|gid| **gid != 0) {
        let process = object(child(object(&mut edited, "root")?, "process"), "process")?;
        let user = object(child(process, "user"), "process.user")?;
        let gids = list(user, "additionalGids", "process.user.additionalGids")?;
        if !gids.contains(&(*gid).into()) {
            gids.push((*gid).into());
        }
    }
    *oci = edited;
    Ok(())
}

fn add_env(oci: &mut Value, env: &[String]) -> Result<(), ApplyError> {
    if env.is_empty() {
        return Ok(());
    }
    let process = object(child(object(oci, "root")?, "process"), "process")?;
    let all = list(process, "env", "process.env")?;
    let name = |variable: &str| variable.split('=').next().unwrap_or_default().to_owned();
    let mut places: BTreeMap<String, usize> =
        all.iter().enumerate().filter_map(|(at, value)| Some((name(value.as_str()?), at))).collect();
    for variable in env {
        if let Some(at) = places.get(&name(variable)) {
            all[*at] = variable.as_str().into();
        } else {
            places.insert(name(variable), all.len());
            all.push(variable.as_str().into());
        }
    }
    Ok(())
}

fn add_node(
    oci: &mut Value,
    node: &DeviceNode,
    (uid, gid): (Option<u32>, Option<u32>),
    host: &impl Fn(&Path) -> io::Result<HostDevice>,
) -> Result<(), ApplyError> {
    let node = complete(node, host)?;
    let mut value = json!({"path": node.path, "type": node.kind, "major": node.major, "minor": node.minor});
    let numbers = [("fileMode", node.file_mode), ("uid", node.uid.or(uid)), ("gid", node.gid.or(gid))];
    for (name, number) in numbers {
        if let Some(number) = number {
            value[name] = number.into();
        }
    }
    let linux = object(child(object(oci, "root")?, "linux"), "linux")?;
    let devices = list(linux, "devices", "linux.devices")?;
    devices.retain(|other| other["path"] != node.path.as_str());
    devices.push(value);
    if !matches!(node.kind.as_str(), "b" | "c") {
        return Ok(());
    }
    let access = match node.permissions.as_str() {
        "" => "rwm",
        "none" => "",
        some => some,
    };
    let mut rule = json!({"allow": true, "type": node.kind, "major": node.major, "minor": node.minor});
    if !access.is_empty() {
        rule["access"] = access.into();
    }
    let resources = object(child(linux, "resources"), "linux.resources")?;
    list(resources, "devices", "linux.resources.devices")?.push(rule);
    Ok(())
}

/// Takes what a node does not say of itself from the host.
fn complete(
    node: &DeviceNode,
    host: &impl Fn(&Path) -> io::Result<HostDevice>,
) -> Result<DeviceNode, ApplyError> {
    let mut node = node.clone();
    let path = if node.host_path.is_empty() { node.path.clone() } else { node.host_path.clone() };
    let says_enough = !node.kind.is_empty() && (node.major != 0 || node.kind == "p");
    let found = match host(Path::new(&path)) {
        Ok(found) => found,
        Err(_) if says_enough => return Ok(node),
        Err(source) => return Err(ApplyError::HostDevice { path, source }),
    };
    node.file_mode = node.file_mode.or(Some(found.file_mode));
    if says_enough {
        return Ok(node);
    }
    let letter = found.kind.letter();
    if node.kind.is_empty() {
        letter.clone_into(&mut node.kind);
    } else if node.kind != letter {
        return Err(ApplyError::KindMismatch { path, wanted: node.kind, found: letter });
    }
    if found.kind != HostDeviceKind::Fifo && node.major == 0 {
        (node.major, node.minor) = (found.major, found.minor);
    }
    Ok(node)
}

fn add_mounts(oci: &mut Value, mounts: &[Mount]) -> Result<(), ApplyError> {
    if mounts.is_empty() {
        return Ok(());
    }
    let spaces = oci["linux"]["namespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let maps_users = spaces.iter().any(|space| space["type"] == "user");
    let all = list(object(oci, "root")?, "mounts", "mounts")?;
    for mount in mounts {
        all.retain(|other| other["destination"] != mount.container_path.as_str());
        let mut options = mount.options.clone();
        options.extend(id_map_option(mount).filter(|_| maps_users).map(str::to_owned));
        all.push(without_empty(json!({
            "destination": mount.container_path,
            "type": mount.kind,
            "source": mount.host_path,
            "options": options,
        })));
    }
    // A mount inside of another mount comes after it.
    all.sort_by_key(|mount| depth(mount["destination"].as_str().unwrap_or_default()));
    Ok(())
}

/// In a user namespace, files of a bind mount would belong to nobody.
fn id_map_option(mount: &Mount) -> Option<&'static str> {
    let has = |option: &str| mount.options.iter().any(|other| other == option);
    if has("idmap") || has("ridmap") {
        None
    } else if has("rbind") {
        Some("ridmap")
    } else {
        (has("bind") || mount.kind == "bind").then_some("idmap")
    }
}

/// Separators of a path, without empty parts, `.` and `..`.
fn depth(path: &str) -> usize {
    let mut parts = 0_usize;
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        parts = if part == ".." { parts.saturating_sub(1) } else { parts + 1 };
    }
    // The root is one separator, as is everything right below it.
    if path.starts_with('/') { parts.max(1) } else { parts.saturating_sub(1) }
}

fn user_id(oci: &Value, name: &str) -> Option<u32> {
    let id = oci["process"]["user"][name].as_u64().and_then(|id| u32::try_from(id).ok());
    id.filter(|id| *id != 0)
}

fn object<'a>(value: &'a mut Value, place: &'static str) -> Result<&'a mut Map<String, Value>, ApplyError> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or(ApplyError::Shape(place, "an object"))
}

fn list<'a>(
    parent: &'a mut Map<String, Value>,
    name: &str,
    place: &'static str,
) -> Result<&'a mut Vec<Value>, ApplyError> {
    let value = child(parent, name);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().ok_or(ApplyError::Shape(place, "a list"))
}

fn child<'a>(parent: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    parent.entry(name).or_insert(Value::Null)
}

fn without_empty(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| field != "" && *field != json!([]));
    }
    value
}
