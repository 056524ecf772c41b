//! A replacement in flight, and the state kept about each policy and each pod while leading.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::EffectId,
    finding::{Cause, Finding},
    record::Record,
    status::Status,
};

/// A replacement in flight. Its next step follows from the objects; this holds only the facts that they do not have.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) record: Arc<Record>,
    /// This leader has written it into the policy's status: something may be done.
    pub(crate) recorded: bool,
    /// The owner's pods when it began; `None` after a restart.
    pub(crate) before: Option<BTreeSet<Uid>>,
    /// The pod that takes its place, once it is there.
    pub(crate) bound: Option<(ObjectKey, Uid)>,
    /// A copy was seen: if it is gone, a user deleted it.
    pub(crate) had_copy: bool,
    /// The eviction was accepted; the news of it may still be on its way.
    pub(crate) evicted: bool,
    /// Its place is taken; it is being deleted.
    pub(crate) relieved: bool,
    /// The event that it began was written.
    pub(crate) announced: bool,
    /// It was not Ready in time.
    pub(crate) overdue: bool,
    /// Since when neither the old pod nor a new one is there.
    pub(crate) alone_since: Option<Timestamp>,
    /// The step that is being done.
    pub(crate) step: Option<EffectId>,
    /// Until when an unconfirmed step may have been done: it is not given up before.
    pub(crate) unsure_until: Timestamp,
    /// Nothing is done before.
    pub(crate) not_before: Timestamp,
    pub(crate) failures: u32,
    /// The condition that it waits for.
    pub(crate) note: Text,
}

impl Flight {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self {
            record,
            recorded: false,
            before: None,
            bound: None,
            had_copy: false,
            evicted: false,
            relieved: false,
            announced: false,
            overdue: false,
            alone_since: None,
            step: None,
            unsure_until: Timestamp::from_millis(i64::MIN),
            not_before: Timestamp::from_millis(i64::MIN),
            failures: 0,
            note: Text::default(),
        }
    }

    pub(crate) fn policy(&self) -> ObjectKey {
        ObjectKey::new(self.record.pod.namespace.clone(), self.record.policy.clone())
    }

    /// Whether a step may have been done that this leader never heard of: its answer was lost, or a leader before sent it.
    pub(crate) fn may_have_begun(&self) -> bool {
        self.before.is_none() || self.unsure_until > Timestamp::from_millis(i64::MIN)
    }

    /// The name of what takes its place, as far as it is known.
    pub(crate) fn replacement(&self) -> Option<Text> {
        match &self.bound {
            Some((key, _)) => Some(key.name.clone()),
            None => self.record.plan.copy().filter(|_| self.had_copy).cloned(),
        }
    }
}

/// A taint around a pod.
#[derive(Debug)]
pub(crate) struct SeenTaint {
    pub(crate) cause: Cause,
    /// Since when it counts.
    pub(crate) since: Timestamp,
    /// The taint says when it was set. One that no longer does is another taint.
    pub(crate) dated: bool,
}

/// A policy that looks after a pod.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) policy: ObjectKey,
    /// The pod's fault domain, as this policy sees it.
    pub(crate) domain: Text,
    /// The pod is counted as due.
    pub(crate) due: bool,
}

/// A pod that a policy looks after.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) uid: Uid,
    /// The policies that look after it.
    pub(crate) selected: Vec<Selected>,
    /// Every taint around it.
    pub(crate) seen: Vec<SeenTaint>,
    /// The taints that count against it, the earliest first.
    pub(crate) findings: Vec<Finding>,
    /// Up to when its findings have been announced.
    pub(crate) looked: Timestamp,
    /// When to look again.
    pub(crate) timer: Option<Timestamp>,
}

impl Watch {
    /// When it may first be replaced.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.findings.first().map(|finding| finding.after)
    }

    pub(crate) fn due_at_for(&self, policy: &Text) -> Option<Timestamp> {
        self.findings.iter().find(|finding| finding.policy == *policy).map(|finding| finding.after)
    }
}

/// Counts and replacements of one policy.
#[derive(Debug, Default)]
pub(crate) struct ReplacementTracker {
    pub(crate) selected: u64,
    /// Its pods that are marked to be replaced.
    pub(crate) due: u64,
    /// Its pods by fault domain: all, and those with a finding.
    pub(crate) domains: BTreeMap<Text, (u32, u32)>,
    pub(crate) domains_tainted: u64,
    /// Its pods with findings, by when they may be replaced.
    pub(crate) due_at: BTreeSet<(Timestamp, ObjectKey)>,
    pub(crate) tripped: bool,
    pub(crate) replaced: u64,
    pub(crate) overdue: u64,
    /// The message of the last refused effect.
    pub(crate) refusal: Option<Text>,
    /// Its status may have to be written.
    pub(crate) dirty: bool,
    /// A replacement waits to be recorded.
    pub(crate) urgent: bool,
    pub(crate) writing: Option<(EffectId, Arc<Status>)>,
    pub(crate) not_before: Timestamp,
    pub(crate) failures: u32,
}

impl ReplacementTracker {
    /// Goes on counting where the status ended.
    pub(crate) fn resume(status: &Status) -> Self {
        Self {
            replaced: status.totals.replaced,
            overdue: status.totals.overdue,
            tripped: status
                .condition(crate::status::BREAKER_TRIPPED)
                .is_some_and(|condition| condition.status == lazaret_model::ConditionStatus::True),
            dirty: true,
            not_before: Timestamp::from_millis(i64::MIN),
            ..Self::default()
        }
    }
}
