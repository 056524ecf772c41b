//! Control groups of pods whose containers another runtime makes, below them. The limits of a pod as a whole are set here, as by a
//! kubelet: the protocol to such a runtime has no field for them.

use std::{collections::BTreeSet, io};

use crate::{
    Limits, RuntimeError,
    cgroup::{self, Cgroups},
    layout,
};

/// The control groups of the pods of one node.
#[derive(Clone, Debug)]
pub struct PodGroups {
    cgroups: Cgroups,
    group: String,
}

impl PodGroups {
    /// Those of a node, by its name. `None` where none can be made.
    #[must_use]
    pub fn open(node: &str) -> Option<Self> {
        if !layout::is_name(node) {
            return None;
        }
        let groups = Self { cgroups: Cgroups::find(), group: cgroup::of_runtime(&format!("cri-{node}")) };
        let is_made = groups.cgroups != Cgroups::Absent
            && groups.cgroups.make(&groups.group, &Limits::default()).is_ok();
        is_made.then_some(groups)
    }

    /// The path of a pod's group, which the groups of its containers are below.
    #[must_use]
    pub fn path(&self, pod_uid: &str) -> String {
        cgroup::of_pod(&self.group, pod_uid)
    }

    /// Makes the group of a pod with these limits.
    ///
    /// # Errors
    /// When the kernel does not take one.
    pub fn make(&self, pod_uid: &str, limits: &Limits) -> Result<(), RuntimeError> {
        if !layout::is_name(pod_uid) {
            return Err(RuntimeError::NotPossible(format!("{pod_uid:?} cannot be the UID of a pod here")));
        }
        self.cgroups.make(&self.path(pod_uid), limits).map_err(failed)
    }

    /// Gives the group of a pod other limits.
    ///
    /// # Errors
    /// When the kernel does not take one.
    pub fn change(&self, pod_uid: &str, limits: &Limits) -> Result<(), RuntimeError> {
        self.cgroups.change(&self.path(pod_uid), limits).map_err(failed)
    }

    /// Removes the group of a pod of which nothing is left.
    ///
    /// # Errors
    /// When there are processes in it.
    pub fn remove(&self, pod_uid: &str) -> Result<(), RuntimeError> {
        if !layout::is_name(pod_uid) {
            return Ok(());
        }
        self.cgroups.remove(&self.path(pod_uid)).map_err(failed)
    }

    /// Removes groups of other pods, as far as nothing runs in them.
    pub fn keep_only(&self, pods: &BTreeSet<String>) {
        for uid in self.cgroups.below(&self.group).difference(pods) {
            self.cgroups.remove_empty(&self.path(uid));
        }
    }

    /// Removes the group of the node when no pod is left.
    pub fn close(&self) {
        self.cgroups.remove_empty(&self.group);
    }
}

fn failed(error: io::Error) -> RuntimeError {
    RuntimeError::Failed(format!("cgroup: {error}"))
}
