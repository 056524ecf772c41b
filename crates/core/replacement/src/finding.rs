//! One taint that concerns one pod, for one policy.

use core::fmt;

use lazaret_model::{Taint, Text, Timestamp};

/// Where a taint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// On the pod's node.
    Node,
    /// On a device that one of the pod's claims holds.
    Device,
}

impl Origin {
    /// The condition of a pod whose taint is young.
    #[must_use]
    pub fn detected(self) -> &'static str {
        match self {
            Self::Node => "NodeTaintDetected",
            Self::Device => "DeviceTaintDetected",
        }
    }

    /// The condition of a pod that is to be replaced.
    #[must_use]
    pub fn replacing(self) -> &'static str {
        match self {
            Self::Node => "NodeTaintReplacing",
            Self::Device => "DeviceTaintReplacing",
        }
    }
}

/// A taint at its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// On what.
    pub origin: Origin,
    /// The node's or the device's name.
    pub place: Text,
    /// The taint's key.
    pub key: Text,
    /// Its value.
    pub value: Text,
    /// Its effect.
    pub effect: Text,
}

impl Cause {
    /// Whether a taint of the same place is the one that it names.
    pub(crate) fn is_taint(&self, taint: &Taint) -> bool {
        (&self.key, &self.value, &*self.effect) == (&taint.key, &taint.value, taint.effect.name())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "taint {}", self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        if !self.effect.is_empty() {
            write!(f, ":{}", self.effect)?;
        }
        match self.origin {
            Origin::Node => write!(f, " on node {}", self.place),
            Origin::Device => write!(f, " on device {}", self.place),
        }
    }
}

/// A taint that a policy does not bear for ever, with its timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The policy, in the pod's namespace.
    pub policy: Text,
    /// The taint.
    pub cause: Cause,
    /// Since when it counts: when it was set, or first seen; not before the pod was there.
    pub since: Timestamp,
    /// From when on the pod is marked to be replaced.
    pub due: Timestamp,
    /// From when on it may be replaced.
    pub after: Timestamp,
}

impl Finding {
    /// The condition that it is in.
    #[must_use]
    pub fn condition(&self, now: Timestamp) -> &'static str {
        if self.due <= now { self.cause.origin.replacing() } else { self.cause.origin.detected() }
    }
}
