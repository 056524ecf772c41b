//! Containers by a runtime that speaks Kubernetes' Container Runtime Interface over a socket: containerd from 1.7, CRI-O from 1.28.
//!
//! [`Cri`] is a [`lazaret_containers::Runtime`]; [`Cri::find_image`] and [`Cri::pull_image`] are the images that the runtime itself keeps.
//! Devices are passed by their CDI names, and the runtime applies them.
//!
//! **Invariant.** Only what this crate made is listed or touched: another client of the same runtime keeps what it has. A runtime that would ignore
//! CDI names never gets a container that needs one. Every call has a time limit. It must never know Kubernetes' API.

mod clock;
mod connection;
mod convert;
mod garbage;
mod image;
mod probe;
mod runtime;
mod stream;
mod uses;
mod version;

pub mod proto;

pub use probe::ProbeOptions;
pub use runtime::Cri;
