//! An image that is there.

use std::path::PathBuf;

/// An image that is there, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The digest of its configuration, `sha256:…`.
    pub id: String,
    /// The name by which it was found, with its registry and tag.
    pub name: String,
    /// `NAME@DIGEST` of its manifest, when it came from a registry; for `imageID` in a pod's status.
    pub repo_digest: Option<String>,
    /// Its configuration.
    pub config: ImageConfig,
    /// Its layers, unpacked, the topmost first.
    pub layers: Vec<PathBuf>,
    /// Whether a container runtime keeps it, which alone sees its files.
    pub is_opaque: bool,
    /// The bytes of its unpacked layers.
    pub bytes: u64,
}

/// The settings of an image for its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The program.
    pub entrypoint: Vec<String>,
    /// Its arguments, or the program when there is no entrypoint.
    pub command: Vec<String>,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    /// Where it starts; empty is `/`.
    pub working_directory: String,
    /// `USER`, `UID`, `USER:GROUP` or `UID:GID`; empty is root.
    pub user: String,
    /// The signal that asks it to stop.
    pub stop_signal: Option<String>,
}
