//! The Container Device Interface (CDI) 1.1.0: how a driver tells a container runtime what a device needs inside a
//! container, and how a runtime finds and applies it.
//!
//! A driver builds a [`Spec`], checks nothing itself, and calls [`SpecDirectory::write`]: the file declares the lowest
//! version that its content needs, is valid, and appears at once or not at all. A runtime keeps a [`Cache`] over its
//! directories and calls [`Cache::inject`] with the qualified names that it was given.
//!
//! ```
//! use lazaret_cdi::{Cache, ContainerEdits, Device, Spec, SpecDirectory};
//!
//! let folder = tempfile::tempdir()?;
//! let edits = ContainerEdits { env: vec!["GPU=0".into()], ..ContainerEdits::default() };
//! let spec = Spec::new("gpu.example.com/gpu", vec![Device::new("gpu-0", edits)]);
//! SpecDirectory::new(folder.path()).write("gpu.example.com-gpu_claim-1", &spec)?;
//!
//! let mut cache = Cache::new([folder.path()]);
//! let mut oci = serde_json::json!({"process": {"env": ["PATH=/bin"]}});
//! cache.inject(&mut oci, &["gpu.example.com/gpu=gpu-0"])?;
//! assert_eq!(oci["process"]["env"], serde_json::json!(["PATH=/bin", "GPU=0"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariant.** A file that is broken, too large or one too many is an error of its own and never of another file. A
//! written spec is valid. An OCI spec is changed wholly or not at all, and its unknown fields stay. It must never know
//! its caller: no Kubernetes, no driver, no runtime.

mod apply;
mod cache;
mod directory;
mod host;
mod name;
mod read;
mod spec;
mod validate;
mod version;

pub use apply::{ApplyError, apply, apply_with};
pub use cache::{Cache, CacheError, InjectError};
pub use directory::{SpecDirectory, WriteError};
pub use host::{HostDevice, HostDeviceKind};
pub use name::{NameError, QualifiedName, split_kind, validate_class, validate_device_name, validate_vendor};
pub use read::{FILE_BYTES_MAX, ReadError, parse_json, parse_yaml, read};
pub use spec::{ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec};
pub use validate::{SpecError, validate};
pub use version::{KNOWN_VERSIONS, Version, minimum_version};

/// Where specs that outlive a boot are.
pub const STATIC_DIRECTORY: &str = "/etc/cdi";
/// Where specs of running things are. Its devices win over those of [`STATIC_DIRECTORY`].
pub const DYNAMIC_DIRECTORY: &str = "/var/run/cdi";
