//! How a rule wants the pods on its devices to leave.

use alloc::vec::Vec;

use crate::{Timestamp, Window, named};

/// How pods leave because of a rule. A rule without it lets pods leave as Kubernetes does: deleted, the longest overdue first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct EvictionSpec {
    /// By which request.
    pub mode: EvictionMode,
    /// How long after its own deadline a pod may stay at most: a disruption budget or its owner may keep it until then.
    pub deadline_seconds: Option<i64>,
    /// How many pods may be terminating at a time because of the rule.
    pub max_concurrent: Option<u32>,
    /// From this instant on the rule applies no more.
    pub expires_at: Option<Timestamp>,
    /// Evictions begin only while one of these is open; none: at any time.
    pub windows: Vec<Window>,
    /// How pods of a group leave.
    pub groups: GroupMode,
    /// Whether a pod waits until there is room for its replacement.
    pub capacity: CapacityMode,
    /// How long after its own deadline a pod waits for room at most; `None`: for as long as there is none.
    pub capacity_timeout_seconds: Option<i64>,
    /// For how long after the taint was set no pod has to leave, whatever it tolerates.
    pub notice_seconds: Option<i64>,
}

impl EvictionSpec {
    /// Whether the rule applies no more.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether pods of a group leave together.
    #[must_use]
    pub fn is_together(&self) -> bool {
        self.groups == GroupMode::Together
    }

    /// When the next window opens, if none is open.
    #[must_use]
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        Window::closed_until(&self.windows, now)
    }

    /// From when a toleration or a notice counts, where the taint is in force since an instant: from when a window is open.
    #[must_use]
    pub fn counts_from(&self, since: Timestamp) -> Timestamp {
        self.closed_until(since).unwrap_or(since)
    }

    /// For how long a pod that says so may stay after its own deadline, in seconds: never beyond the rule's.
    #[must_use]
    pub fn granted_seconds(&self, preference: EvictionPreference) -> u32 {
        let most = u32::try_from(self.deadline_seconds.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
        match preference {
            EvictionPreference::Immediate => 0,
            EvictionPreference::AllowCompletion => most,
            EvictionPreference::Seconds(seconds) => seconds.min(most),
        }
    }
}

named! {
    /// Whether pods wait until there is room for their replacements.
    #[derive(Default)]
    pub enum CapacityMode {
        /// They leave whether there is room or not.
        #[default]
        Ignore,
        /// A pod leaves once the claims of its replacement could be allocated.
        Wait,
    }
}

named! {
    /// How pods of one PodGroup, one Job or one label `lazaret.dev/group` leave.
    #[derive(Default)]
    pub enum GroupMode {
        /// Each by itself.
        #[default]
        Apart,
        /// In one go, or all wait.
        Together,
    }
}

named! {
    /// The request with which a pod is evicted.
    #[derive(Default)]
    pub enum EvictionMode {
        /// Deleted.
        #[default]
        Delete,
        /// Evicted: a disruption budget that refuses is obeyed for ever.
        Evict,
        /// Evicted until the deadline, deleted from then on.
        EvictThenDelete,
    }
}

/// The wish of a workload for its eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EvictionPreference {
    /// It need not wait.
    #[default]
    Immediate,
    /// It wants to end by itself.
    AllowCompletion,
    /// It wants to stay for this number of seconds.
    Seconds(u32),
}

impl EvictionPreference {
    /// Parses the value of the annotation; `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Immediate" => Some(Self::Immediate),
            "AllowCompletion" => Some(Self::AllowCompletion),
            seconds => seconds.parse().ok().map(Self::Seconds),
        }
    }
}
