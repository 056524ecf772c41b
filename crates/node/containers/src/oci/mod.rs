//! The OCI runtime spec of a container.

mod capabilities;
mod config;
mod devices;
mod mounts;
mod seccomp;

pub(crate) use config::{Place, config};
pub(crate) use seccomp::Architecture;
