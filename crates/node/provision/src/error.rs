//! Why something cannot be given, with the reason that Kubernetes has for it.

use thiserror::Error;

/// Why a sandbox or a container cannot be described.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SpecError {
    /// `CreateContainerConfigError`, `CreateContainerError`, `SysctlForbidden`, `AppArmor`, `SecurityContextForbidden` or `FailedCreatePodSandBox`.
    pub reason: &'static str,
    /// The error, in Kubernetes' words where it has some.
    pub message: String,
}

impl SpecError {
    /// The pod asks for something that cannot be worked out: a key that is not there, a user that is not allowed.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { reason: "CreateContainerConfigError", message: message.into() }
    }

    /// The image does not have what the container needs.
    pub(crate) fn create(message: impl Into<String>) -> Self {
        Self { reason: "CreateContainerError", message: message.into() }
    }

    /// The pod as a whole cannot run here.
    pub(crate) fn sandbox(message: impl Into<String>) -> Self {
        Self { reason: "FailedCreatePodSandBox", message: message.into() }
    }

    /// The pod is not admitted to the node.
    pub(crate) fn refused(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The pod asks for rights that no pod may have in this way.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self { reason: "SecurityContextForbidden", message: message.into() }
    }

    /// Whether the pod is never admitted, as opposed to tried again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.reason, "SysctlForbidden" | "AppArmor" | "SecurityContextForbidden")
    }
}

/// Why a volume is not there. The text is that of the event `FailedMount`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} : {message}")]
pub struct VolumeError {
    /// The name of the volume in the pod.
    pub volume: String,
    /// The error, for a person.
    pub message: String,
}

impl VolumeError {
    /// The reason of the event.
    pub const REASON: &'static str = "FailedMount";

    pub(crate) fn new(volume: &str, message: impl Into<String>) -> Self {
        Self { volume: volume.to_owned(), message: message.into() }
    }
}
