//! A Kubernetes API for tests, in the test's own process: there in milliseconds, in memory, gone when dropped.
//!
//! It knows how to start, restart and stop an API server with everything that belongs to one: a store, roles, certificates, an address, a
//! kubeconfig. Nothing acts on the objects unless asked for: controllers under test are started by the test.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::api::{Api, ListParams};
//!
//! let cluster = lazaret_testkit::Cluster::start();
//! let namespaces: Api<Namespace> = Api::all(cluster.client());
//! let names = cluster.block_on(namespaces.list(&ListParams::default()))?;
//! assert!(names.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("default")));
//!
//! // Programs that are no part of this process get a kubeconfig and a real address with TLS.
//! let output = std::process::Command::new("true").env("KUBECONFIG", cluster.kubeconfig()).status()?;
//! # assert!(output.success());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariant.** A cluster that was dropped has left nothing behind: no thread, no port, no file. Two clusters share nothing. It must never
//! know what is being tested.

mod asked;
mod cluster;
mod error;
mod front;
mod host;
mod options;
mod running;

pub use cluster::Cluster;
pub use error::StartError;
pub use lazaret_runtime::Clock;
pub use lazaret_server::{Features, Server, User};
pub use options::{Options, Plane};
