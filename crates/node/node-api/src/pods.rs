//! The pods that the API is about.

use std::path::PathBuf;

use serde_json::Value;
use thiserror::Error;

/// The pods of a node, as its agent knows them.
pub trait Pods: Send + Sync {
    /// One container. Without a name, the pod's only one, or the one that it names as its default.
    ///
    /// # Errors
    /// When there is none, or it has not been made yet.
    fn find(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        is_previous: bool,
    ) -> Result<Found, NotFound>;

    /// A pod that has a sandbox, whichever of its containers run.
    ///
    /// # Errors
    /// When there is none, or it has not been made yet.
    fn find_sandbox(&self, namespace: &str, pod: &str) -> Result<FoundSandbox, NotFound>;

    /// All pods, as the API has them.
    fn all(&self) -> Vec<Value>;
}

/// A container that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The runtime's id of the container.
    pub container: String,
    /// Its name in the pod.
    pub name: String,
    /// The UID of the pod.
    pub pod_uid: String,
    /// The log file.
    pub log: PathBuf,
    /// Whether it runs now. Following its log ends when it does not.
    pub is_running: bool,
    /// Whether it was made with a terminal.
    pub tty: bool,
    /// Whether its input can be attached to.
    pub stdin: bool,
}

/// A pod that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSandbox {
    /// The runtime's id of its sandbox.
    pub id: String,
    /// The UID of the pod.
    pub pod_uid: String,
}

/// Why there is none, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotFound {
    /// There is no such pod, or no such container in it.
    #[error("{0}")]
    Unknown(String),
    /// The pod has the container, which has not started, or not before.
    #[error("{0}")]
    NotStarted(String),
}
