//! Which pod goes first when a node is short of something, as kubelet ranks them.

use alloc::{collections::BTreeMap, string::String};
use core::cmp::Reverse;

use crate::{Amounts, PodView, Signal, pressure::CRITICAL_PRIORITY};

/// Resource usage of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodUse {
    /// Memory that cannot be given back at once, in bytes.
    pub memory: u64,
    /// Bytes on the node's disk. Nothing when they were not counted.
    pub storage: u64,
    /// Files and directories there.
    pub inodes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Its containers, by name.
    pub containers: BTreeMap<String, ContainerUse>,
    /// It uses more of the disk than it may, and goes whatever the node has: a sentence.
    pub violation: Option<String>,
}

/// Resource usage of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerUse {
    /// Memory that cannot be given back at once, in bytes.
    pub memory: u64,
    /// Bytes of its own root and of its logs.
    pub storage: u64,
}

/// The pod to evict first: one whose usage is unknown, then one that uses more than its request, then one of lower
/// priority, then the one that exceeds its request by most. For process ids, requests do not count.
pub(crate) fn choose<'a>(
    signal: Signal,
    pods: impl Iterator<Item = &'a PodView>,
    uses: &BTreeMap<String, PodUse>,
) -> Option<&'a PodView> {
    let may_go = pods.filter(|view| view.priority < CRITICAL_PRIORITY);
    may_go.min_by_key(|view| {
        let taken = uses.get(&view.pod.uid);
        let (used, asked) = taken.map_or((0, 0), |taken| amounts(signal, taken, view.requests));
        let is_within = signal == Signal::PidAvailable || used <= asked;
        let beyond = i128::from(used) - i128::from(asked);
        (taken.is_some(), is_within, view.priority, Reverse(beyond), view.pod.uid.clone())
    })
}

fn amounts(signal: Signal, taken: &PodUse, requests: Amounts) -> (u64, u64) {
    match signal {
        Signal::MemoryAvailable => (taken.memory, requests.memory),
        Signal::NodefsAvailable => (taken.storage, requests.ephemeral_storage),
        Signal::NodefsInodesFree => (taken.inodes, 0),
        Signal::PidAvailable => (taken.pids, 0),
    }
}
