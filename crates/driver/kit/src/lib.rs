//! A kit for drivers of Dynamic Resource Allocation (DRA), in Rust.
//!
//! A driver publishes the devices of a node to a cluster, and makes a device usable for a pod when kubelet asks for it. The part that
//! depends on the hardware is three functions, the trait [`Driver`]; everything else is the same for every driver and
//! is done here:
//!
//! - **Registration** with kubelet: a socket that kubelet finds, and that a server on stock `h2` can serve although kubelet
//!   names it in a header that is not valid HTTP ([`Sockets`]).
//! - **gRPC services**: `v1.DRAPlugin`, `v1beta1.DRAPlugin`, `v1.DRAResourceHealth`, `v1alpha1.DRAResourceHealth`.
//! - **Claims** are read from the API and checked before [`Driver::prepare`] sees them ([`Claim`]).
//! - **One call at a time**, also while two instances overlap in a rolling update (`serialize.lock`).
//! - **ResourceSlices**: pools, generations, splitting, repair, retry ([`Publisher`]).
//! - **Health**: what [`Driver::health`] observes becomes taints and the health that pods show, by one table
//!   ([`HealthTable`]), with debounce and recovery. A new device is looked at before it is published.
//! - **Device metadata**: files in which containers read what their devices are ([`Kit::device_metadata`]).
//! - **Classic claims**, of `cdi.k8s.io`: a plugin of type `ResourcePlugin` ([`ClassicKit`]), and the controller that allocates
//!   ([`controller`]).
//! - **Files** that outlive a crash, for what a driver must not forget ([`write_file`]).
//! - **An end**: [`Running::stop`] answers calls in flight and removes the sockets; [`probe`] asks whether it lives.
//!
//! ```no_run
//! use lazaret_driver::{Claim, ClaimRef, Driver, Failure, Kit, PreparedDevice};
//!
//! struct Gpus;
//!
//! impl Driver for Gpus {
//!     async fn prepare(&self, claims: &[Claim]) -> Vec<Result<Vec<PreparedDevice>, Failure>> {
//!         let prepare = |claim: &Claim| Ok(claim.devices.iter().map(PreparedDevice::of).collect());
//!         claims.iter().map(prepare).collect()
//!     }
//!
//!     async fn unprepare(&self, claims: &[ClaimRef]) -> Vec<Result<(), Failure>> {
//!         claims.iter().map(|_| Ok(())).collect()
//!     }
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = kube::Client::try_default().await?;
//! let running = Kit::new("gpu.example.com", client).start(Gpus).await?;
//! running.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/driver.md` builds a whole driver with it.
//!
//! **Invariant.** A driver's code sees only claims that are allocated, are the ones meant, and hold devices of this driver.
//! A call of kubelet ends with an answer for every claim it named. Nothing that arrives on a socket can take more than a
//! stated amount of memory or time. A taint is published until it is cleared: no other publication can lose it.

mod api_words;
mod calls;
mod changed_stream;
mod claim;
mod classic;
mod clock;
pub mod controller;
mod driver;
mod election;
mod events;
mod files;
mod follow;
mod grpc;
mod health;
mod held;
mod inventory;
mod kit;
mod lock;
mod metadata;
mod offer;
mod probe;
pub mod proto;
mod publish;
mod registrar;
mod running;
mod service;
mod sockets;
mod tasks;
mod term;

pub use claim::{AllocatedDevice, Claim, ClaimRef};
pub use classic::{ClassicClaim, ClassicDriver, ClassicFailure, ClassicKit, RunningPlugin};
pub use driver::{Driver, Failure, HealthReport, PreparedDevice};
pub use election::LeaderElection;
pub use files::{
    FileError, exchange, overwrite, read_bytes, read_file, sync_folder, write_bytes, write_file,
};
pub use grpc::Client;
pub use kit::{Kit, StartError};
pub use lazaret_model::{Effect as TaintEffect, validate_dns_label as validate_device_name};
pub use lazaret_publisher::{
    Condition, DeviceKey, Dropped, Gate, HealthRule, HealthTable, Nodes, Observation, Pool, PoolError,
    Problem as PublishProblem, TableError,
};
pub use metadata::{DeviceMetadata, MetadataError, MetadataVersion};
pub use offer::KubeletService;
pub use probe::{ProbeError, probe};
pub use publish::Publisher;
pub use running::{Problem, Registration, Running};
pub use sockets::{SocketError, Sockets};

/// The directory of kubelet's files, unless configured otherwise.
pub const KUBELET_ROOT: &str = "/var/lib/kubelet";
