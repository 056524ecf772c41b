//! Prepares the containers of a pod: environment, files, identity and limits.
//!
//! [`sandbox_spec`] and [`container_spec`] describe them and are pure: their input is [`ContainerInputs`]. [`Volumes`] keeps volumes on
//! disk. [`Provision`] joins both for a node's agent.
//!
//! **Invariant.** A container gets everything that its pod requests, or the pod reports what is missing; nothing is left out silently. No path
//! that a pod names leads out of its own directory. It must never know which runtime runs the container.

mod amount;
mod cache;
mod clock;
mod container;
mod container_inputs;
mod contents;
mod disk;
mod downward;
mod env_file;
mod environment;
mod error;
mod expand;
mod facts;
mod hostname;
mod hosts;
mod identity;
mod kind;
mod limits;
mod locks;
mod mounts;
mod names;
mod not_applied;
mod objects;
mod pod;
mod provision;
mod qos;
mod resolver;
mod resolver_config;
mod sandbox;
mod security;
mod services;
mod storage;
mod sysctls;
mod termination;
mod tokens;
mod volumes;

pub use container::container_spec;
pub use container_inputs::{ContainerInputs, Disk, ImageUser, Lookup, PodFiles, SubPath, VolumePath};
pub use disk::usage::{DiskUse, count as disk_use};
pub use error::{SpecError, VolumeError};
pub use facts::NodeFacts;
pub use hosts::hosts_file;
pub use not_applied::not_applied;
pub use objects::{ApiObjects, Objects, Reading};
pub use provision::{CacheSizes, Provision, StartFacts};
pub use qos::{QosClass, qos_class};
pub use resolver::{ResolverNote, pod_resolver};
pub use resolver_config::ResolverConfig;
pub use sandbox::sandbox_spec;
pub use storage::{StorageUse, storage_violation};
pub use termination::{last_output, termination_message};
pub use volumes::{Volumes, image_volumes};
