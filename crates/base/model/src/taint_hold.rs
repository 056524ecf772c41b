//! Taints that no rule sets, and that reach more than a guard permits: what is counted together, and what was approved.

use alloc::{format, string::String};
use core::fmt;

use crate::{Impact, Text, Timestamp};

/// The annotation of a guard with approvals of drivers' taints. The server records who gave each.
pub const TAINT_APPROVALS: &str = "lazaret.dev/taint-approvals";
/// Approvals that the annotation of a guard has at most.
pub const TAINT_APPROVALS_MAX: usize = 16;

/// Taints of effect NoExecute that no rule sets: those of one kind are counted, held and approved together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintedBy {
    /// A driver, in its slices: all its devices with a taint of this key and value.
    Driver {
        /// The driver.
        driver: Text,
        /// The taint's key.
        key: Text,
        /// The taint's value.
        value: Text,
    },
    /// A ResourceSlicePatch, with all its taints.
    Patch {
        /// Its name.
        name: Text,
    },
}

impl TaintedBy {
    /// The command that approves it.
    #[must_use]
    pub fn approve_command(&self) -> Text {
        match self {
            Self::Driver { driver, key, value } => {
                let taint = Named { key, value };
                format!("kubectl device approve --driver {driver} --taint {taint}").into()
            }
            Self::Patch { name } => format!("kubectl device approve {name}").into(),
        }
    }
}

impl fmt::Display for TaintedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { driver, key, value } => {
                write!(f, "taint {} of driver {driver}", Named { key, value })
            }
            Self::Patch { name } => write!(f, "ResourceSlicePatch {name}"),
        }
    }
}

/// A taint of effect NoExecute, as commands name it.
struct Named<'a> {
    key: &'a Text,
    value: &'a Text,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value } = self;
        let equals = if value.is_empty() { "" } else { "=" };
        write!(f, "{key}{equals}{value}:NoExecute")
    }
}

/// An approval of a driver's taint, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintApproval {
    /// The taint.
    pub taint: TaintedBy,
    /// Since when the guard counted it: one that was gone from all devices and is back was not approved.
    pub since: Timestamp,
    /// How much it reached.
    pub seen: Impact,
    /// The approver, recorded by the server.
    pub by: Option<Text>,
}

/// A taint that reaches more than a guard permits without approval, as the status of the guard says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintHold {
    /// The taint.
    pub taint: TaintedBy,
    /// Since when it is counted. An approval names this instant.
    pub since: Timestamp,
    /// How much it reached when the status was written.
    pub impact: Impact,
    /// Why it is held; `NotHeld` if it was approved.
    pub reason: Text,
    /// For people.
    pub message: Text,
}

impl TaintHold {
    /// The reason of a taint that was approved.
    pub const NOT_HELD: &str = "NotHeld";
    /// Taints that the status of a guard has at most. Others are held as well, and are listed once there is room.
    pub const LISTED_MAX: usize = 16;

    /// Whether it evicts no pod.
    #[must_use]
    pub fn is_held(&self) -> bool {
        &*self.reason != Self::NOT_HELD
    }

    /// Reason and message of the condition of a guard that lists these: the first that is held, and how many more are.
    #[must_use]
    pub fn summary(holds: &[Self]) -> (&str, String) {
        let mut held = holds.iter().filter(|hold| hold.is_held());
        let Some(first) = held.next() else { return (Self::NOT_HELD, String::new()) };
        let more = match held.count() {
            0 => String::new(),
            1 => "; and 1 more taint".into(),
            more => format!("; and {more} more taints"),
        };
        (&first.reason, format!("{}{more}", first.message))
    }
}
