//! Decides what simulated kubelets do: nodes register and renew their leases, pods start, end and go, claims are prepared and unprepared.
//!
//! [`Kubelet`] is a state machine over the Nodes, pods and ResourceClaims that it receives, for all nodes of a process. It yields effects: register
//! this node, write that this pod runs. It runs in `hollow` on a real API server, and in the worlds of the simulator.
//!
//! **Invariant.** A device is prepared for one claim at a time, whatever the control plane says. A pod reaches its end only after its devices are
//! unprepared. A claim that a node is asked about, or that it said is not prepared, is not prepared anew. All actions follow from the objects and the
//! time: a process that begins anew takes over the pods of the one before it.
//!
//! It must never know how an object looks on the wire, how a pod was placed, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;

mod agenda;
mod checkpoint;
mod claims;
mod effect;
mod held;
mod machine;
mod node;
mod nodes;
mod pod;
mod pods;
mod prepared;

pub use agenda::Agenda;
pub use checkpoint::{CHECKPOINT_BYTES_MAX, Checkpoint, HeldDevice, NotedClaim, SeenCheckpoint};
pub use effect::{EffectKind, EndPod, RemovePod, StartPod, Warning};
pub use machine::{Input, Kubelet, Options, Why};
pub use node::SeenNode;
pub use nodes::POD_ADDRESSES;
pub use pod::{Container, RestartPolicy, Script, SeenPod};
