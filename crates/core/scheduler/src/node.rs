//! Nodes, as far as placing pods is concerned.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{Awaited, Taint};

use crate::Amounts;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Name, labels, declared features: what devices are chosen by too.
    pub facts: Arc<lazaret_model::Node>,
    /// `spec.taints`. `PreferNoSchedule` is an unknown effect here, for devices have none such.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable`, without the number of pods.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub pods_max: i64,
    /// Whether it says what is prepared on it.
    pub reports: bool,
    /// Claims that it has yet to unprepare: their devices are not allocated before that.
    pub awaiting: Vec<Awaited>,
}
