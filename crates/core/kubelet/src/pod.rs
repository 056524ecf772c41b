//! The fields of a pod that its node reads.

use alloc::{string::String, sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Pod, PodPhase, Timestamp};

/// A pod as a node sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPod {
    /// The pod in the form of the model.
    pub pod: Arc<Pod>,
    /// How its containers behave.
    pub script: Script,
    /// Its containers.
    pub containers: Vec<Container>,
    /// Those that run before them.
    pub init_containers: Vec<Container>,
    /// Whether containers that exit are started again.
    pub restart_policy: RestartPolicy,
    /// It has the node's address.
    pub host_network: bool,
    /// How long it may take to stop, while it is being deleted.
    pub grace_ms: i64,
    /// The spec's generation.
    pub generation: i64,
    /// When it was first seen by its node.
    pub start_time: Option<Timestamp>,
    /// The number of its address among those of its node, if it has one of these.
    pub address: Option<u8>,
    /// How often its containers were started again.
    pub restarts: u32,
    /// Its status says that it is not ready. The node controller writes that while it does not hear from the node.
    pub is_unready: bool,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image, which is not pulled.
    pub image: String,
}

/// How the containers of a pod behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Script {
    /// They exit after this time; `None`: as their restart policy suggests.
    pub run_for_ms: Option<i64>,
    /// The exit code.
    pub exit_code: i32,
    /// They take this long to stop.
    pub stop_after_ms: i64,
}

/// Whether containers that exit are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestartPolicy {
    /// It is started again.
    #[default]
    Always,
    /// It is started again if it failed.
    OnFailure,
    /// It is not started again.
    Never,
}

impl SeenPod {
    /// Where it is.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.pod.key
    }

    /// How long its containers run before they exit; `None`: until they are stopped.
    #[must_use]
    pub fn run_for_ms(&self, job_run_ms: i64) -> Option<i64> {
        self.script.run_for_ms.or(match self.restart_policy {
            RestartPolicy::Always => None,
            RestartPolicy::OnFailure | RestartPolicy::Never => Some(job_run_ms),
        })
    }

    /// How long its containers take to stop.
    #[must_use]
    pub fn stop_ms(&self) -> i64 {
        self.script.stop_after_ms.min(self.grace_ms)
    }

    /// The phase of the pod when its containers exit; `None`: they are started again.
    #[must_use]
    pub fn phase_after_exit(&self) -> Option<PodPhase> {
        match (self.restart_policy, self.script.exit_code) {
            (RestartPolicy::Always, _) => None,
            (RestartPolicy::OnFailure | RestartPolicy::Never, 0) => Some(PodPhase::Succeeded),
            (RestartPolicy::OnFailure, _) => None,
            (RestartPolicy::Never, _) => Some(PodPhase::Failed),
        }
    }
}
