//! Errors, in words that say what to do about them.

use std::fmt::Write as _;

use thiserror::Error;

/// Why a command did not do what it was asked for.
#[derive(Debug, Error)]
pub enum Error {
    /// No connection could be set up.
    #[error("connect: {0}")]
    Connect(String),
    /// The server cannot be reached, or stopped answering.
    #[error("{action}: the API server does not answer: {cause}")]
    Unreachable {
        /// The action that failed.
        action: String,
        /// The error of the transport.
        cause: String,
    },
    /// The cluster has no Dynamic Resource Allocation.
    #[error(
        "this cluster does not serve ResourceSlices and ResourceClaims (it runs {version}): Dynamic Resource Allocation is on by default from Kubernetes 1.34; before, turn on the feature gate DynamicResourceAllocation and the API group resource.k8s.io"
    )]
    NoDra {
        /// The version that the server reports.
        version: String,
    },
    /// The cluster has devices but no rules for them.
    #[error(
        "this cluster does not serve DeviceTaintRules (it runs {version}): they are on by default from Kubernetes 1.37; in 1.36 add --runtime-config=resource.k8s.io/v1beta2=true and the feature gate DRADeviceTaintRules, before that v1alpha3 and the gate DRADeviceTaints"
    )]
    NoRules {
        /// The version that the server reports.
        version: String,
    },
    /// Rules are served and have no effect.
    #[error(
        "nothing was written: the feature gate {gate} is off on this server (it runs {version}), so a DeviceTaintRule has no effect; turn the gate on in API server, scheduler and controller manager"
    )]
    RulesOff {
        /// The gate.
        gate: &'static str,
        /// The version that the server reports.
        version: String,
    },
    /// No kind of this server selects devices by class or expression.
    #[error(
        "nothing was written: the DeviceTaintRules of this server (it runs {version}) select by driver, pool and device alone, and it has no DeviceTaintPolicies; to have them: lazaret install | kubectl apply -f -; or leave out --future and taint the devices that match now"
    )]
    NoPolicies {
        /// The version that the server reports.
        version: String,
    },
    /// The user lacks a permission.
    #[error("{message}{}", rbac_hint(verb, group, resource))]
    Forbidden {
        /// The message of the server.
        message: String,
        /// The verb that is not permitted.
        verb: &'static str,
        /// Of which group.
        group: String,
        /// Of which resource.
        resource: String,
    },
    /// The server wants to know who asks.
    #[error("{action}: the API server does not know this user: {message}")]
    Unauthorized {
        /// The action that failed.
        action: String,
        /// The message of the server.
        message: String,
    },
    /// The object is not there.
    #[error("{what} not found")]
    NotFound {
        /// Which.
        what: String,
    },
    /// The object changed in between.
    #[error("{action}: {message}: it was changed at the same time; look again and repeat the command")]
    Conflict {
        /// The action that failed.
        action: String,
        /// The message of the server.
        message: String,
    },
    /// The server refused.
    #[error("{action}: {message}")]
    Refused {
        /// The action that failed.
        action: String,
        /// The HTTP status code.
        code: u16,
        /// The message of the server.
        message: String,
    },
    /// The answer of the server cannot be decoded.
    #[error("{what}: {cause}")]
    Unreadable {
        /// The answer or file that was read.
        what: String,
        /// The error in it.
        cause: String,
    },
    /// The arguments are invalid, or not supported here.
    #[error("{0}")]
    Usage(String),
    /// A confirmation was refused or missing.
    #[error("{0}")]
    Declined(String),
    /// Time is up.
    #[error("{0}")]
    TimedOut(String),
    /// Output could not be written.
    #[error("write output: {0}")]
    Output(#[from] std::io::Error),
}

impl Error {
    /// Wrong words.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Whether output ended because nobody reads it any more, as behind `| head`.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// The rule that a role lacks, ready to paste.
fn rbac_hint(verb: &str, group: &str, resource: &str) -> String {
    let mut text = String::from("\nadd to a ClusterRole of this user, or ask for it:\n");
    // Writing to a string cannot fail.
    let _ = write!(text, "  - apiGroups: [{group:?}]\n    resources: [{resource:?}]\n    verbs: [{verb:?}]");
    text
}
