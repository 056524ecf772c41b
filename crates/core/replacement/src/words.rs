//! The texts of events.

use alloc::format;

use lazaret_model::{Text, Timestamp};

use crate::{
    effect::{Note, Severity, Subject},
    finding::Finding,
    objects::Pod,
    record::{Plan, Record},
};

fn about_pod(pod: &Pod, reason: &'static str, message: alloc::string::String) -> Note {
    Note {
        about: Subject::Pod,
        key: pod.key.clone(),
        uid: pod.uid.clone(),
        severity: Severity::Normal,
        reason,
        message: message.into(),
    }
}

fn secs(from: Timestamp, to: Timestamp) -> i64 {
    to.millis_since(from).max(0) / 1_000
}

pub(crate) fn detected(pod: &Pod, finding: &Finding) -> Note {
    let Finding { cause, policy, since, due, .. } = finding;
    let when = if *due == Timestamp::NEVER {
        alloc::string::String::from("never, as the policy says")
    } else {
        format!("{} s after it was set", secs(*since, *due))
    };
    let message = format!("{cause}: to be marked for replacement {when} (TaintReplacementPolicy {policy})");
    about_pod(pod, cause.origin.detected(), message)
}

pub(crate) fn replacing(pod: &Pod, finding: &Finding) -> Note {
    let Finding { cause, policy, due, after, .. } = finding;
    let wait = secs(*due, *after);
    let message =
        format!("{cause}: to be replaced {wait} s from when it was due (TaintReplacementPolicy {policy})");
    about_pod(pod, cause.origin.replacing(), message)
}

/// The text about a replacement that has begun.
pub(crate) fn begun(record: &Record) -> alloc::string::String {
    let cause = &record.cause;
    match &record.plan {
        Plan::Release { owner, .. } => {
            format!("{cause}: released from {} {}, which starts another first", owner.kind, owner.name)
        }
        Plan::Copy { name } => format!("{cause}: its copy {name} starts first"),
        Plan::Evict { owner } => format!("{cause}: evicted, {} {} starts another", owner.kind, owner.name),
        Plan::Rebuild { name } => format!("{cause}: evicted, its copy {name} starts when it is gone"),
    }
}

/// How it ended, for people. A stateful set gives the old name to the new pod.
pub(crate) fn replaced(record: &Record, new: &Text) -> alloc::string::String {
    if new.is_empty() {
        alloc::string::String::from("gone; its owner wants no other")
    } else if *new == record.pod.name {
        format!("replaced by a new pod of the same name, {new}")
    } else {
        format!("replaced by {new}")
    }
}

/// An event about the pod of a record, and the same about its policy.
pub(crate) fn about_record(
    record: &Record,
    policy_uid: Option<&lazaret_model::Uid>,
    severity: Severity,
    reason: &'static str,
    message: &str,
) -> impl Iterator<Item = Note> {
    let pod = Note {
        about: Subject::Pod,
        key: record.pod.clone(),
        uid: record.uid.clone(),
        severity,
        reason,
        message: message.into(),
    };
    let policy = policy_uid.map(|uid| Note {
        about: Subject::Policy,
        key: lazaret_model::ObjectKey::new(record.pod.namespace.clone(), record.policy.clone()),
        uid: uid.clone(),
        severity,
        reason,
        message: format!("Pod {}: {message}", record.pod.name).into(),
    });
    [Some(pod), policy].into_iter().flatten()
}
