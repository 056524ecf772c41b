//! How the scheduler is set up.

use alloc::vec::Vec;

use lazaret_allocator::Features;
use lazaret_model::Text;

use crate::{
    DEFAULT_SCHEDULER,
    budget::{ATTEMPT_UNITS, TURN_UNITS},
};

/// How the scheduler is set up. The defaults are those of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whose pods it places: those that name one of these.
    pub names: Vec<Text>,
    /// Which of several nodes is taken.
    pub packing: Packing,
    /// The features of device allocation that are on.
    pub features: Features,
    /// Whether devices of a class can stand in for extended resources.
    pub extended_resources: bool,
    /// Whether devices can take of the resources of their own node.
    pub node_allocatable: bool,
    /// Whether pods wait for their classic claims; if not, they are placed as if they had none.
    pub classic: bool,
    /// Of suitable devices, prefers those without informational taints.
    pub prefer_healthy: bool,
    /// Of how many in a hundred nodes to look for the best; 0: fewer the more nodes there are.
    pub sample_percent: u32,
    /// The first pause after a failed attempt; doubled with each further one.
    pub backoff_ms: i64,
    /// The longest pause.
    pub backoff_ms_max: i64,
    /// Pods that fit nowhere are tried again after this time even if nothing happened.
    pub flush_ms: i64,
    /// Pods that are being bound at a time; further decisions wait.
    pub in_flight_max: usize,
    /// How long devices may take to get ready.
    pub binding_timeout_s: i64,
    /// Whether pods may be evicted for others of higher priority.
    pub preemption: bool,
    /// The units of work of a pod's turn: [`crate::TURN_UNITS`].
    pub turn_units: u64,
    /// Those of an attempt: [`crate::ATTEMPT_UNITS`].
    pub attempt_units: u64,
}

/// Which of several nodes is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Packing {
    /// The emptiest.
    Spread,
    /// The fullest.
    Pack,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            names: [DEFAULT_SCHEDULER.into()].into(),
            packing: Packing::Spread,
            features: Features::kubernetes_1_37(),
            extended_resources: true,
            node_allocatable: false,
            classic: false,
            prefer_healthy: false,
            sample_percent: 0,
            backoff_ms: 1_000,
            backoff_ms_max: 10_000,
            flush_ms: 300_000,
            in_flight_max: 1_024,
            binding_timeout_s: 600,
            preemption: true,
            turn_units: TURN_UNITS,
            attempt_units: ATTEMPT_UNITS,
        }
    }
}
