//! Does what the core decides, each with its preconditions.

use bytes::Bytes;
use lazaret_model::{ObjectKey, Text};
use lazaret_replacement::{EffectKind, Mark, Note, Record, Severity, Status, Subject};
use lazaret_runtime::{
    Call, CallError, Object, Outcome, PODS, PatchKind, Perform, REPLACEMENT_POLICIES, Reply,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{MARK, NAME, copy::copy, mark, record, status};
use crate::{disrupt::eviction, event::Event, proof::Proofs, writer::Writer};

async fn set_status(writer: &Writer, policy: &ObjectKey, uid: &str, version: &str, status: &Status) -> Reply {
    let body = json!({
        "metadata": {"uid": uid, "resourceVersion": version},
        "status": status::to_wire(status),
    });
    let (namespace, name) = (&policy.namespace, &policy.name);
    let kind = PatchKind::Merge;
    let call = Call::patch(&REPLACEMENT_POLICIES, namespace, name, "status", kind, body.to_string());
    reply(writer.send(call).await)
}

async fn release(
    Executor { writer, proofs }: &Executor,
    version: &str,
    owner: &str,
    label: &str,
    of: &Record,
) -> Reply {
    let body = json!({"metadata": {
        "uid": &*of.uid,
        "resourceVersion": version,
        "ownerReferences": [{"$patch": "delete", "uid": owner}],
        "labels": {label: null, MARK: "released"},
        "annotations": {MARK: record::format(of), mark::PROOF: mark::of_released(proofs, of)},
    }});
    let (namespace, name) = (&of.pod.namespace, &of.pod.name);
    let call = Call::patch(&PODS, namespace, name, "", PatchKind::Strategic, body.to_string());
    reply(writer.send(call).await)
}

async fn copy_pod(Executor { writer, proofs }: &Executor, name: &str, gated: bool, of: &Record) -> Reply {
    let namespace = &of.pod.namespace;
    let old = match writer.send(Call::get(&PODS, namespace, &of.pod.name)).await {
        Ok(old) => old,
        Err(error) => return reply(Err(error)),
    };
    let old: Value = match serde_json::from_slice(&old) {
        Ok(old) => old,
        Err(error) => return reply(Err(CallError::Unavailable(error.to_string()))),
    };
    if old["metadata"]["uid"] != *of.uid {
        return Outcome::Gone.into();
    }
    let is_the_copy = |found: &[u8]| {
        let Ok(found) = Object::new(&PODS, found) else { return false };
        let Ok(text) = serde_json::from_slice::<Value>(found.json()) else { return false };
        let mark = text["metadata"]["annotations"][MARK].as_str();
        let mark = mark.and_then(|mark| mark::read(proofs, &found, mark));
        matches!(mark, Some(Mark::Copy(mark)) if mark.uid == of.uid)
    };
    let proof = mark::of_copy(proofs, name, of);
    let create = Call::create(&PODS, namespace, copy(&old, name, gated, of, proof).to_string());
    let made = writer.make(create, Call::get(&PODS, namespace, name), is_the_copy).await;
    made.transpose().map_or_else(|| Outcome::RetryLater.into(), reply)
}

async fn ungate(writer: &Writer, pod: &ObjectKey, uid: &str) -> Reply {
    let body = json!({
        "metadata": {"uid": uid},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": MARK}]},
    });
    let kind = PatchKind::Strategic;
    reply(writer.send(Call::patch(&PODS, &pod.namespace, &pod.name, "", kind, body.to_string())).await)
}

async fn evict(writer: &Writer, pod: &ObjectKey, uid: &str) -> Reply {
    reply(writer.send_to_one(eviction(&pod.namespace, &pod.name, uid, false)).await)
}

async fn delete(writer: &Writer, pod: &ObjectKey, uid: &str) -> Reply {
    let options = json!({"preconditions": {"uid": uid}});
    let call = Call::delete(&PODS, &pod.namespace, &pod.name, options.to_string());
    reply(writer.send_to_one(call).await)
}

fn event(note: &Note) -> Event<'_> {
    Event {
        about: match note.about {
            Subject::Pod => PODS,
            Subject::Policy => REPLACEMENT_POLICIES,
        },
        key: &note.key,
        uid: &note.uid,
        severity: match note.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        },
        reason: note.reason,
        action: "Replacing",
        message: &note.message,
        component: NAME,
    }
}

/// Writes for replacements.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    pub(super) writer: Writer,
    pub(super) proofs: Proofs,
}

impl Perform<EffectKind> for Executor {
    async fn perform(&self, effect: EffectKind) -> Reply {
        let (what, about): (&str, Text) = match &effect {
            EffectKind::SetStatus { policy, .. } => {
                ("write the status of a policy", policy.to_string().into())
            }
            EffectKind::Release { record, .. } => ("release a pod", record.pod.to_string().into()),
            EffectKind::Copy { record, .. } => ("copy a pod", record.pod.to_string().into()),
            EffectKind::Ungate { pod, .. } => ("let a copy start", pod.to_string().into()),
            EffectKind::Evict { pod, .. } => ("evict a pod", pod.to_string().into()),
            EffectKind::Delete { pod, .. } => ("delete a pod that was replaced", pod.to_string().into()),
            EffectKind::Event(note) => ("post an event", note.key.to_string().into()),
        };
        let quiet = matches!(effect, EffectKind::SetStatus { .. } | EffectKind::Event(_));
        let reply = match effect {
            EffectKind::SetStatus { policy, uid, version, status } => {
                set_status(&self.writer, &policy, &uid, &version, &status).await
            }
            EffectKind::Release { version, owner, label, record } => {
                release(self, &version, &owner, &label, &record).await
            }
            EffectKind::Copy { name, gated, record } => copy_pod(self, &name, gated, &record).await,
            EffectKind::Ungate { pod, uid } => ungate(&self.writer, &pod, &uid).await,
            EffectKind::Evict { pod, uid } => evict(&self.writer, &pod, &uid).await,
            EffectKind::Delete { pod, uid } => delete(&self.writer, &pod, &uid).await,
            EffectKind::Event(note) => self.writer.post(&event(&note)),
        };
        match (reply.outcome, &reply.why) {
            (Outcome::Done, _) if !quiet => info!(%about, "{what}"),
            (Outcome::Refused, Some(why)) => warn!(%about, why, "refused to {what}"),
            _ => {}
        }
        reply
    }
}

fn reply(sent: Result<Bytes, CallError>) -> Reply {
    // A write that is forbidden is reported, not only retried.
    let is_forbidden = matches!(sent, Err(CallError::Forbidden(_)));
    let reply = Reply::from(sent);
    if is_forbidden { Reply { outcome: Outcome::Refused, ..reply } } else { reply }
}
