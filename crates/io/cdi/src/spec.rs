//! The file format.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// One CDI file: the devices of one kind, and what each needs in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The version of the format, `1.1.0`. [`SpecDirectory::write`](crate::SpecDirectory::write) sets it.
    #[serde(rename = "cdiVersion")]
    pub version: String,
    /// `vendor/class`.
    pub kind: String,
    /// For people and tools; no effect on containers.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// At least one.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub devices: Vec<Device>,
    /// For a container that gets any of the devices, once.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "ContainerEdits::is_empty")]
    pub container_edits: ContainerEdits,
}

impl Spec {
    /// A spec of this kind (`vendor/class`) with these devices.
    #[must_use]
    pub fn new(kind: impl Into<String>, devices: Vec<Device>) -> Self {
        Self { kind: kind.into(), devices, ..Self::default() }
    }
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Unique in its kind. A runtime may remember what a name meant, so a name should not be used again for something
    /// else: put the UID of the claim into it.
    pub name: String,
    /// For people and tools; no effect on containers.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The edits of a container that uses the device. Never empty: a device that needs none has no CDI name.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub container_edits: ContainerEdits,
}

impl Device {
    /// A device that makes these edits.
    #[must_use]
    pub fn new(name: impl Into<String>, container_edits: ContainerEdits) -> Self {
        Self { name: name.into(), annotations: BTreeMap::new(), container_edits }
    }
}

/// Changes to a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerEdits {
    /// `NAME=VALUE`; replaces a variable of the same name.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Device nodes.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
    /// Network interfaces that move into the container. Since 1.1.0.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub net_devices: Vec<NetDevice>,
    /// Programs that the runtime runs.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// Mounts.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Intel's cache and memory bandwidth allocation. Since 0.7.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intel_rdt: Option<IntelRdt>,
    /// Groups for the container's process; 0 is ignored. Since 0.7.0.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub additional_gids: Vec<u32>,
}

impl ContainerEdits {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds other edits after these. Of several `intel_rdt` the last is used.
    pub fn append(&mut self, other: &Self) {
        self.env.extend_from_slice(&other.env);
        self.device_nodes.extend_from_slice(&other.device_nodes);
        self.net_devices.extend_from_slice(&other.net_devices);
        self.hooks.extend_from_slice(&other.hooks);
        self.mounts.extend_from_slice(&other.mounts);
        if other.intel_rdt.is_some() {
            self.intel_rdt.clone_from(&other.intel_rdt);
        }
        self.additional_gids.extend_from_slice(&other.additional_gids);
    }
}

/// A device node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceNode {
    /// In the container.
    pub path: String,
    /// On the host, if elsewhere. Since 0.5.0.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub host_path: String,
    /// `b`, `c`, `u`, `p`; empty: that of the host's node.
    #[serde(
        default,
        rename = "type",
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
    /// 0: that of the host's node.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "is_zero")]
    pub major: i64,
    /// Used with `major`.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "is_zero")]
    pub minor: i64,
    /// Permissions of the file; those of the host's node if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// The permissions in the control group: some of `rwm`, or `none`; empty: `rwm`.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub permissions: String,
    /// Owner; the process's user if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group; the process's group if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mount {
    /// The source, on the host.
    pub host_path: String,
    /// The destination; replaces another mount there.
    pub container_path: String,
    /// As for `mount`.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The file system. Since 0.4.0.
    #[serde(
        default,
        rename = "type",
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
}

/// A program that the runtime runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// When: `prestart`, `createRuntime`, `createContainer`, `startContainer`, `poststart`, `poststop`.
    pub hook_name: String,
    /// The program.
    pub path: String,
    /// Its arguments, its own name first.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

/// Intel's Resource Director Technology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IntelRdt {
    /// The class of service.
    #[serde(
        default,
        rename = "closID",
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub clos_id: String,
    /// Cache.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub l3_cache_schema: String,
    /// Memory bandwidth.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "String::is_empty")]
    pub mem_bw_schema: String,
    /// Lines for the schemata file. Since 1.1.0.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub schemata: Vec<String>,
    /// A monitoring group of its own. Since 1.1.0.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "is_false")]
    pub enable_monitoring: bool,
}

/// A network interface that moves into the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetDevice {
    /// Its name on the host.
    pub host_interface_name: String,
    /// Its name in the container.
    pub name: String,
}

/// Go writes an empty list as `null`, and reads it so.
fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}
