//! How a pod is made to leave: the condition first, so that whoever sees it go can read why; both only for one incarnation.

use lazaret_api::{EVICTION_MARK, eviction_mark_to_text};
use lazaret_model::{Condition, ConditionStatus, EvictionMark, ObjectKey, Uid};
use lazaret_runtime::{Call, CallError, Outcome, PODS, PatchKind};
use memchr::memmem;
use serde_json::json;

use crate::{
    wire,
    writer::{Writer, done_or_gone},
};

/// How a pod is made to leave, and what it is marked with before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disruption<'a> {
    pub(crate) pod: &'a ObjectKey,
    pub(crate) uid: &'a Uid,
    /// Why it goes, for people.
    pub(crate) condition: &'a Condition,
    /// Which rules it is counted for, where that has to survive.
    pub(crate) mark: Option<&'a EvictionMark>,
}

impl Disruption<'_> {
    /// Marks the pod and deletes it. [`Outcome::Gone`] when there is nothing left to do.
    pub(crate) async fn delete(&self, writer: &Writer) -> Result<Outcome, CallError> {
        if self.mark(writer, self.condition).await? == Outcome::Gone {
            return Ok(Outcome::Gone);
        }
        let options = json!({"preconditions": {"uid": &**self.uid}});
        let call = Call::delete(&PODS, &self.pod.namespace, &self.pod.name, options.to_string());
        done_or_gone(writer.send_to_one(call).await)
    }

    /// Marks the pod and evicts it, as disruption budgets permit: [`CallError::Budget`] when they do not.
    pub(crate) async fn evict(&self, writer: &Writer) -> Result<Outcome, CallError> {
        // A pod that stays must not say that it goes, so the budget is asked first.
        if done_or_gone(writer.send_to_one(self.eviction(true)).await)? == Outcome::Gone
            || self.mark(writer, self.condition).await? == Outcome::Gone
        {
            return Ok(Outcome::Gone);
        }
        match done_or_gone(writer.send_to_one(self.eviction(false)).await) {
            Ok(Outcome::Done) => {
                // The eviction API wrote its own words over ours. That they are lost is no failure: the annotation is there.
                let _ = self.mark(writer, self.condition).await;
                Ok(Outcome::Done)
            }
            Err(error @ CallError::Budget(_)) => {
                let stays = Condition { status: ConditionStatus::False, ..self.condition.clone() };
                let _ = self.mark(writer, &stays).await;
                Err(error)
            }
            other => other,
        }
    }

    fn eviction(&self, dry_run: bool) -> Call {
        eviction(&self.pod.namespace, &self.pod.name, self.uid, dry_run)
    }

    /// Writes the condition and the mark. [`Outcome::Gone`]: the pod is terminating already, or gone.
    async fn mark(&self, writer: &Writer, condition: &Condition) -> Result<Outcome, CallError> {
        let mut body =
            json!({"metadata": {"uid": &**self.uid}, "status": {"conditions": [wire::condition(condition)]}});
        if let Some(mark) = self.mark.filter(|mark| !mark.rules.is_empty()) {
            // Annotations can be written with the status of a pod, here as in Kubernetes.
            body["metadata"]["annotations"] = json!({EVICTION_MARK: eviction_mark_to_text(mark)});
        }
        let ObjectKey { namespace, name } = self.pod;
        let call = Call::patch(&PODS, namespace, name, "status", PatchKind::Strategic, body.to_string());
        let marked = match writer.send_to_one(call).await {
            Ok(marked) => marked,
            Err(CallError::NotFound(_)) => return Ok(Outcome::Gone),
            Err(error) => return Err(error),
        };
        // Few are, and an object need not be read for it that does not name the field.
        let terminating = memmem::find(&marked, b"\"deletionTimestamp\"").is_some()
            && wire::metadata(&marked).is_some_and(|metadata| metadata.deletion_timestamp.is_some());
        Ok(if terminating { Outcome::Gone } else { Outcome::Done })
    }
}

/// Evicts a pod of this UID, as disruption budgets permit; a dry run only asks them.
pub(crate) fn eviction(namespace: &str, name: &str, uid: &str, dry_run: bool) -> Call {
    let mut body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    });
    if dry_run {
        body["deleteOptions"]["dryRun"] = json!(["All"]);
    }
    Call::create_under(&PODS, namespace, name, "eviction", body.to_string())
}
