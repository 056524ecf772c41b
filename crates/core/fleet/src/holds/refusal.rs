//! Why a guard holds what exceeds its limits, and the next step of a person.

use alloc::{format, string::String};

use lazaret_model::{
    ApproverRefusal, Author, ConfirmAbove, DeviceTaintRule, DisruptionGuard, Impact, ResourceSlicePatch,
    Review, TaintApproval,
};

/// An approval of what is held as it is now.
#[derive(Debug)]
pub(super) struct Approved<'a> {
    /// How much it reached then.
    seen: Impact,
    author: Author<'a>,
    by: Option<&'a str>,
}

impl<'a> Approved<'a> {
    pub(super) fn rule(rule: &'a DeviceTaintRule, trusts_user_names: bool) -> Option<Self> {
        let review = rule.review.as_deref()?;
        review.approval.as_ref().filter(|said| said.is_about(rule))?;
        Self::written(review, trusts_user_names)
    }

    pub(super) fn patch(patch: &'a ResourceSlicePatch, trusts_user_names: bool) -> Option<Self> {
        let review = patch.review.as_deref()?;
        review.approval.as_ref().filter(|said| said.is_about_patch(patch))?;
        Self::written(review, trusts_user_names)
    }

    fn written(review: &'a Review, trusts_user_names: bool) -> Option<Self> {
        let approval = review.approval.as_ref()?;
        let author = review.written_by.as_deref().filter(|_| trusts_user_names);
        Some(Self { seen: approval.seen, author: Author::User(author), by: approval.by.as_deref() })
    }

    pub(super) fn taint(approval: &'a TaintApproval, trusts_user_names: bool) -> Self {
        let by = approval.by.as_deref().filter(|_| trusts_user_names);
        Self { seen: approval.seen, author: Author::Driver, by }
    }
}

/// Why a guard holds what exceeds its limits, and the next step. `command`: the command that approves it. Nothing if it was approved.
pub(super) fn refusal(
    guard: &DisruptionGuard,
    confirm: &ConfirmAbove,
    impact: Impact,
    approved: Option<&Approved<'_>>,
    command: &str,
) -> Option<(&'static str, String)> {
    let name = &guard.name;
    let Some(approved) = approved else {
        let why = format!("DisruptionGuard {name} wants approval above {confirm}; {command}");
        return Some(("ApprovalRequired", why));
    };
    if !approved.seen.covers(impact) {
        let why = format!("the approval was for {} and has lapsed; {command}", approved.seen);
        return Some(("ApprovalLapsed", why));
    }
    let refusal = guard.approvers.refusal(approved.author, approved.by)?;
    let why = format!("{}; {}", refusal.words(name), next_step(refusal, approved.author, command));
    Some((refusal.name(), why))
}

fn next_step(refusal: ApproverRefusal<'_>, author: Author<'_>, command: &str) -> String {
    match (refusal, author) {
        (ApproverRefusal::Author(author), _) => format!("another user than {author} has to run {command}"),
        (ApproverRefusal::Program(_), _) => format!("a person has to run {command}"),
        (ApproverRefusal::Made(_), _) => format!(
            "write the spec of its DeviceHealthPolicy again and delete it, so that it is made again; then another user has to run {command}"
        ),
        (ApproverRefusal::Unknown, Author::User(_)) => {
            format!("write its spec again, then another user has to run {command}")
        }
        (ApproverRefusal::Unknown, Author::Driver) => {
            "nobody can approve it here: set approvers of the guard to Anyone, or raise its confirmAbove"
                .into()
        }
    }
}
