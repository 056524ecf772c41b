//! Rules that need approval: how much a rule reaches, above what a guard wants approval, and what was approved.

use core::fmt;

use crate::{DeviceTaintRule, Share, Text, Uid, named};

/// The author of a rule's spec, recorded by the server. A rule that has it takes effect once its condition `Held` is False.
pub const WRITTEN_BY: &str = "lazaret.dev/written-by";
/// The approver of a rule, recorded by the server.
pub const APPROVED_BY: &str = "lazaret.dev/approved-by";
/// The approval: a spec of a rule, and how much it reached.
pub const APPROVAL: &str = "lazaret.dev/approval";

/// Which request of a client a rule was made by, with how much that request reaches.
pub const REQUEST: &str = "lazaret.dev/request";

/// How much a rule reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Impact {
    /// Pods that it evicts, or would.
    pub pods: u64,
    /// Namespaces of those pods.
    pub namespaces: u64,
    /// Devices that it taints, or would.
    pub devices: u64,
}

impl Impact {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            pods: self.pods.max(other.pods),
            namespaces: self.namespaces.max(other.namespaces),
            devices: self.devices.max(other.devices),
        }
    }
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, namespaces, devices } = *self;
        let several = |count: u64| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{pods} pod{} in {namespaces} namespace{} on {devices} device{}",
            several(pods),
            several(namespaces),
            several(devices)
        )
    }
}

/// A rule that reaches more than this has no effect before it is approved. An absent field is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConfirmAbove {
    /// Pods.
    pub pods: Option<u64>,
    /// Namespaces.
    pub namespaces: Option<u64>,
    /// Devices: a number, or a part of all that the guard selects.
    pub devices: Option<Share>,
}

impl ConfirmAbove {
    /// Whether a rule reaches more than this, where the guard selects `devices_total` devices in all.
    #[must_use]
    pub fn is_exceeded_by(&self, impact: Impact, devices_total: u64) -> bool {
        self.pods.is_some_and(|most| impact.pods > most)
            || self.namespaces.is_some_and(|most| impact.namespaces > most)
            || self.devices.is_some_and(|most| impact.devices > most.of(devices_total))
    }
}

/// Its limits, for people: `10 pods, 2 namespaces, 10% of devices`.
impl fmt::Display for ConfirmAbove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (limit, unit) in [(self.pods, "pods"), (self.namespaces, "namespaces")] {
            if let Some(limit) = limit {
                write!(f, "{separator}{limit} {unit}")?;
                separator = ", ";
            }
        }
        match self.devices {
            Some(Share::Count(count)) => write!(f, "{separator}{count} devices"),
            Some(Share::Percent(percent)) => write!(f, "{separator}{percent}% of devices"),
            None => Ok(()),
        }
    }
}

named! {
    /// The users who may approve a rule.
    #[derive(Default)]
    pub enum Approvers {
        /// Any user who may write the rule.
        #[default]
        Anyone,
        /// Not the user who wrote it.
        Different,
    }
}

/// An approval of a rule as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Approval {
    /// The incarnation of the rule.
    pub uid: Uid,
    /// The spec that was approved.
    pub generation: i64,
    /// How much the rule reached.
    pub seen: Impact,
    /// The approver, recorded by the server.
    pub by: Option<Text>,
    /// The request that was approved with all of its rules.
    pub request: Option<Text>,
    /// The subject of a rule of a request: see [`DeviceTaintRule::subject`].
    pub subject: Option<Text>,
}

/// A request of a client that made several rules. They are counted, and approved, as one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuleRequest {
    /// The same for all rules of a request, and for no others.
    pub id: Text,
    /// Rules that keep new pods off will evict, too.
    pub evicts: bool,
    /// How much the client has seen it to reach: counted until all of its rules are there.
    pub declared: Impact,
}

impl Approval {
    /// Whether it is about this spec of this rule.
    #[must_use]
    pub fn is_about(&self, rule: &DeviceTaintRule) -> bool {
        self.uid == rule.uid && (self.generation == rule.generation || self.is_about_request_of(rule))
    }

    /// Whether the request that a rule was made by was approved, and the rule is about the same devices and the same taint. Its effect may
    /// have changed since: a drain keeps new pods off before it evicts.
    fn is_about_request_of(&self, rule: &DeviceTaintRule) -> bool {
        let request = rule.review.as_ref().and_then(|review| review.request.as_ref());
        request.is_some_and(|request| {
            request.evicts && self.request.as_ref() == Some(&request.id) && self.subject == rule.subject()
        })
    }

    /// Whether a rule that reaches this much now is still what was approved: it has grown by no more than a tenth.
    #[must_use]
    pub fn covers(&self, impact: Impact) -> bool {
        let within = |now: u64, seen: u64| now.saturating_mul(10) <= seen.saturating_mul(11);
        within(impact.pods, self.seen.pods)
            && within(impact.namespaces, self.seen.namespaces)
            && within(impact.devices, self.seen.devices)
    }
}

/// The author and the approval of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Review {
    /// The rule has no effect before its status says that it is not held.
    pub is_required: bool,
    /// The author of its spec, recorded by the server.
    pub written_by: Option<Text>,
    /// The last approval.
    pub approval: Option<Approval>,
    /// The request that it was made by, in the client's words.
    pub request: Option<RuleRequest>,
}
