//! Does what the core decides, each with its preconditions.

use bytes::Bytes;
use lazaret_model::{ObjectKey, Text};
use lazaret_replacement::{EffectKind, Note, Record, Severity, Status, Subject};
use lazaret_runtime::{
    Call, CallError, Client, Outcome, PODS, PatchKind, Perform, REPLACEMENT_POLICIES, Reply,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{MARK, NAME, copy::copy, record, status};
use crate::{
    disrupt::eviction,
    event::{Event, Events},
};

#[derive(Debug)]
pub(crate) struct Executor {
    client: Client,
    events: Events,
}

impl Executor {
    pub(crate) fn new(client: Client, events: Events) -> Self {
        Self { client, events }
    }

    async fn set_status(&self, policy: &ObjectKey, uid: &str, version: &str, status: &Status) -> Reply {
        let body = json!({
            "metadata": {"uid": uid, "resourceVersion": version},
            "status": status::to_wire(status),
        });
        let (namespace, name) = (&policy.namespace, &policy.name);
        let kind = PatchKind::Merge;
        let call = Call::patch(&REPLACEMENT_POLICIES, namespace, name, "status", kind, body.to_string());
        reply(self.client.send(call).await)
    }

    async fn release(&self, version: &str, owner: &str, label: &str, of: &Record) -> Reply {
        let body = json!({"metadata": {
            "uid": &*of.uid,
            "resourceVersion": version,
            "ownerReferences": [{"$patch": "delete", "uid": owner}],
            "labels": {label: null, MARK: "released"},
            "annotations": {MARK: record::format(of)},
        }});
        let (namespace, name) = (&of.pod.namespace, &of.pod.name);
        let call = Call::patch(&PODS, namespace, name, "", PatchKind::Strategic, body.to_string());
        reply(self.client.send(call).await)
    }

    async fn copy(&self, name: &str, gated: bool, of: &Record) -> Reply {
        let namespace = &of.pod.namespace;
        let old = match self.client.send(Call::get(&PODS, namespace, &of.pod.name)).await {
            Ok(old) => old,
            Err(error) => return reply(Err(error)),
        };
        let old: Value = serde_json::from_slice(&old).unwrap_or_default();
        if old["metadata"]["uid"] != *of.uid {
            return Outcome::Gone.into();
        }
        let made =
            self.client.send(Call::create(&PODS, namespace, copy(&old, name, gated, of).to_string())).await;
        match made {
            Err(CallError::AlreadyExists(_)) => self.found_copy(name, of).await,
            made => reply(made),
        }
    }

    /// A pod of the copy's name is there: it is the copy, or somebody else's.
    async fn found_copy(&self, name: &str, of: &Record) -> Reply {
        match self.client.send(Call::get(&PODS, &of.pod.namespace, name)).await {
            Ok(found) => {
                let found: Value = serde_json::from_slice(&found).unwrap_or_default();
                let mark = found["metadata"]["annotations"][MARK].as_str().and_then(record::parse);
                if mark.is_some_and(|mark| mark.uid == of.uid) { Outcome::Done } else { Outcome::Conflict }
                    .into()
            }
            Err(error) => reply(Err(error)),
        }
    }

    async fn ungate(&self, pod: &ObjectKey, uid: &str) -> Reply {
        let body = json!({
            "metadata": {"uid": uid},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": MARK}]},
        });
        let kind = PatchKind::Strategic;
        reply(
            self.client.send(Call::patch(&PODS, &pod.namespace, &pod.name, "", kind, body.to_string())).await,
        )
    }

    async fn evict(&self, pod: &ObjectKey, uid: &str) -> Reply {
        reply(only_uid(self.client.send(eviction(&pod.namespace, &pod.name, uid, false)).await))
    }

    async fn delete(&self, pod: &ObjectKey, uid: &str) -> Reply {
        let options = json!({"preconditions": {"uid": uid}});
        let call = Call::delete(&PODS, &pod.namespace, &pod.name, options.to_string());
        reply(only_uid(self.client.send(call).await))
    }

    fn event(&self, note: &Note) -> Reply {
        let event = Event {
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
        };
        self.events.post(&event).into()
    }
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
                self.set_status(&policy, &uid, &version, &status).await
            }
            EffectKind::Release { version, owner, label, record } => {
                self.release(&version, &owner, &label, &record).await
            }
            EffectKind::Copy { name, gated, record } => self.copy(&name, gated, &record).await,
            EffectKind::Ungate { pod, uid } => self.ungate(&pod, &uid).await,
            EffectKind::Evict { pod, uid } => self.evict(&pod, &uid).await,
            EffectKind::Delete { pod, uid } => self.delete(&pod, &uid).await,
            EffectKind::Event(note) => self.event(&note),
        };
        match (reply.outcome, &reply.why) {
            (Outcome::Done, _) if !quiet => info!(%about, "{what}"),
            (Outcome::Refused, Some(why)) => warn!(%about, why, "refused to {what}"),
            _ => {}
        }
        reply
    }
}

/// Where the UID is the only precondition, a conflict means that this incarnation is gone.
fn only_uid(sent: Result<Bytes, CallError>) -> Result<Bytes, CallError> {
    match sent {
        Err(CallError::Conflict(why)) => Err(CallError::NotFound(why)),
        sent => sent,
    }
}

fn reply(sent: Result<Bytes, CallError>) -> Reply {
    // What is not permitted is reported, not only tried again.
    let is_forbidden = matches!(sent, Err(CallError::Forbidden(_)));
    let reply = Reply::from(sent);
    if is_forbidden { Reply { outcome: Outcome::Refused, ..reply } } else { reply }
}
