//! Rules that need approval: how much a rule reaches, above what a guard wants approval, and what was approved.

use alloc::{format, string::String};
use core::fmt;

use crate::{DeviceTaintRule, Impact, ResourceSlicePatch, Share, Text, Uid, named};

/// The author of a rule's spec, recorded by the server. A rule that has it takes effect once its condition `Held` is False.
pub const WRITTEN_BY: &str = "lazaret.dev/written-by";
/// The approver of a rule, recorded by the server.
pub const APPROVED_BY: &str = "lazaret.dev/approved-by";
/// The approval: a spec of a rule, and how much it reached.
pub const APPROVAL: &str = "lazaret.dev/approval";

/// Which request of a client a rule was made by, with how much that request reaches.
pub const REQUEST: &str = "lazaret.dev/request";

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

/// The author of what is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author<'a> {
    /// A user, where the server recorded who.
    User(Option<&'a str>),
    /// A driver, which publishes devices with an account of a program.
    Driver,
}

/// Why an approval does not count where a guard wants that of another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApproverRefusal<'a> {
    /// The author gave it.
    Author(&'a str),
    /// The account of a program gave it, where that of a person is wanted.
    Program(&'a str),
    /// A controller made what is approved, for an author that the server does not know: any approver may be that author.
    Made(&'a str),
    /// The server does not say who wrote or who approved it.
    Unknown,
}

impl Approvers {
    /// Why an approval by a user does not count, if it does not. Controllers and commands go by this alone.
    #[must_use]
    pub fn refusal<'a>(self, author: Author<'a>, by: Option<&'a str>) -> Option<ApproverRefusal<'a>> {
        if self == Self::Anyone {
            return None;
        }
        let named = |name: Option<&'a str>| name.filter(|name| !name.is_empty());
        let author = match author {
            Author::User(author) => Author::User(named(author)),
            Author::Driver => Author::Driver,
        };
        match (author, named(by)) {
            (Author::User(Some(author)), _) if is_controller(author) => Some(ApproverRefusal::Made(author)),
            (_, None) | (Author::User(None), _) => Some(ApproverRefusal::Unknown),
            // No person stands behind the name.
            (_, Some(by)) if is_controller(by) => Some(ApproverRefusal::Program(by)),
            (Author::User(Some(author)), Some(by)) => {
                (author == by).then_some(ApproverRefusal::Author(author))
            }
            (Author::Driver, Some(by)) => is_program(by).then_some(ApproverRefusal::Program(by)),
        }
    }
}

/// Whether a user name is that of a controller of Lazaret's own server.
fn is_controller(user: &str) -> bool {
    user.strip_prefix("system:lazaret").is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Whether a user name is that of a program: drivers and controllers have no others.
fn is_program(user: &str) -> bool {
    ["system:serviceaccount:", "system:node:"].iter().any(|prefix| user.starts_with(prefix))
}

impl ApproverRefusal<'_> {
    /// The reason in conditions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Author(_) | Self::Program(_) => "ApproverNotDifferent",
            Self::Made(_) | Self::Unknown => "ApproverUnknown",
        }
    }

    /// The same for people.
    #[must_use]
    pub fn words(self, guard: &str) -> String {
        match self {
            Self::Author(author) => {
                format!("DisruptionGuard {guard} wants approval by another user than {author}, who wrote it")
            }
            Self::Program(by) => format!(
                "DisruptionGuard {guard} wants approval by a person, and {by} is the account of a program"
            ),
            Self::Made(by) => format!(
                "DisruptionGuard {guard} wants approval by another user than its author, and {by} made it for an author whom this server does not know"
            ),
            Self::Unknown => format!(
                "DisruptionGuard {guard} wants approval by another user, and this server does not say who wrote and who approved it"
            ),
        }
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

    /// Whether it is about this spec of this patch.
    #[must_use]
    pub fn is_about_patch(&self, patch: &ResourceSlicePatch) -> bool {
        self.uid == patch.uid && self.generation == patch.generation
    }

    /// Whether the request that a rule was made by was approved, and the rule is about the same devices and the same taint. Its effect may
    /// have changed since: a drain keeps new pods off before it evicts.
    fn is_about_request_of(&self, rule: &DeviceTaintRule) -> bool {
        let request = rule.review.as_ref().and_then(|review| review.request.as_ref());
        request.is_some_and(|request| {
            request.evicts && self.request.as_ref() == Some(&request.id) && self.subject == rule.subject()
        })
    }

    /// Whether a rule that reaches this much now is still what was approved.
    #[must_use]
    pub fn covers(&self, impact: Impact) -> bool {
        self.seen.covers(impact)
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
