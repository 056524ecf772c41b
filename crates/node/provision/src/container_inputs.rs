//! The input from which a container is described.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use lazaret_images::Image;

use crate::NodeFacts;

/// An object that was read; the text says why it could not be. One that does not exist is not in the map at all.
pub type Lookup<T> = BTreeMap<String, Result<Arc<T>, String>>;

/// The input from which a container is described.
#[derive(Clone, Copy)]
pub struct ContainerInputs<'a> {
    /// The node.
    pub facts: &'a NodeFacts,
    /// Config maps of the pod's namespace, by name.
    pub config_maps: &'a Lookup<ConfigMap>,
    /// Secrets of the pod's namespace, by name.
    pub secrets: &'a Lookup<Secret>,
    /// Services: those of the pod's namespace and `default/kubernetes`. Others are left out here.
    pub services: &'a [Service],
    /// The volumes of the pod that are set up, by name.
    pub volumes: &'a BTreeMap<String, VolumePath>,
    /// The addresses of the pod.
    pub pod_ips: &'a [String],
    /// Qualified names of the devices that the container was allocated.
    pub cdi_devices: &'a [String],
    /// Files that are written for the container.
    pub files: &'a PodFiles,
    /// Lookups on disk.
    pub disk: &'a dyn Disk,
}

/// Without config maps and secrets.
impl fmt::Debug for ContainerInputs<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ContainerInputs").field("volumes", &self.volumes).finish_non_exhaustive()
    }
}

/// A volume that is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePath {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is read-only, whatever the mount says.
    pub is_read_only: bool,
}

/// Files that are written for a container. One that is not there is not mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFiles {
    /// `/etc/hosts`.
    pub hosts: Option<PathBuf>,
    /// `/etc/hostname`.
    pub hostname: Option<PathBuf>,
    /// `/etc/resolv.conf`.
    pub resolver: Option<PathBuf>,
    /// `terminationMessagePath`.
    pub termination_log: Option<PathBuf>,
}

/// A user as an image has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUser {
    /// The user.
    pub uid: u32,
    /// Its group; 0 when the image does not know the user.
    pub gid: u32,
    /// Further groups that list the user.
    pub groups: Vec<u32>,
    /// Its home directory; empty when the image does not know the user.
    pub home: String,
}

/// A part of a volume that is mounted.
#[derive(Clone, Copy, Debug)]
pub struct SubPath<'a> {
    /// The name of the volume.
    pub volume: &'a str,
    /// Where the volume is.
    pub volume_path: &'a std::path::Path,
    /// The part: relative, without `..`.
    pub path: &'a str,
    /// The container that mounts it.
    pub container: &'a str,
    /// Which of the container's mounts it is.
    pub index: usize,
}

/// Lookups on disk while a container is described.
pub trait Disk: fmt::Debug {
    /// Finds `USER`, `UID`, `USER:GROUP` or `UID:GID` in an image; empty is root.
    ///
    /// # Errors
    /// When the image does not know a user or group that is a name.
    fn image_user(&self, image: &Image, user: &str) -> Result<ImageUser, String>;

    /// Makes a part of a volume ready to be mounted, and answers from where.
    ///
    /// # Errors
    /// When it leads out of the volume. The text does not say where to.
    fn sub_path(&self, part: SubPath<'_>) -> Result<PathBuf, String>;

    /// Reads a file of a volume.
    ///
    /// # Errors
    /// When it is not there, too large, or outside the volume.
    fn read(&self, volume: &std::path::Path, path: &str) -> Result<String, String>;
}
