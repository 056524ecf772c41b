//! The life of pods on a node: which container runs when, and what the status of the pod says.
//!
//! [`Pods`] is the whole of it: a shell gives it the pods that the API has for this node, what the runtime has, and what became of
//! its actions; it answers with images to pull, sandboxes and containers to run and to stop, probes to make and statuses to write.
//!
//! **Invariant.** No container of a pod is started before everything that it waits for is there, and none after the pod is to end. It must
//! never know how a container is run, or where the API is.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod action;
mod admission;
mod backoff;
mod container;
mod end;
mod found;
mod machine;
mod outcome;
mod pod;
mod pressure;
mod probe;
mod rank;
mod report;
mod resize;
mod start;
mod status;
mod thresholds;
mod view;

pub use action::{Action, FoundContainer, FoundPhase, FoundSandbox, Input, Outcome, PodRef, ProbeKind};
pub use container::Exit;
pub use lazaret_machine::{CorrelatedEvent as Written, Correlator, EventText};
pub use machine::{Options, Pods};
pub use pressure::PressureOptions;
pub use rank::{ContainerUse, PodUse};
pub use resize::Resources;
pub use status::{Condition, ConditionKind, ContainerStatus, Phase, State, Status};
pub use thresholds::{
    CrossedThreshold, Level, Levels, PressureKind, Signal, SoftThreshold, Threshold, Thresholds,
};
pub use view::{
    Amounts, ContainerView, Gate, InitialContainerStatus, InitialStatus, Kind, PodView, Probe, PullPolicy,
    Restart, RestartRule,
};

/// Milliseconds since 1970. The shell advances them by a monotonic clock.
pub type Millis = u64;
