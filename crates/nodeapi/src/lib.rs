//! The API of a node: logs, exec, attach and port-forward of its pods, over HTTPS, as kubelet has it.
//!
//! **Invariant.** Nobody is answered who has not proven who they are and what they may do. What a client sends is bounded. It must never
//! know how a container is run.

mod pods;

pub use pods::{Found, NotFound, Pods};
