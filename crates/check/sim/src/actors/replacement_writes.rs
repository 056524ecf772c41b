//! The server carries out what replacement controllers write, with every precondition.

use std::sync::Arc;

use lazaret_machine::{Outcome, Reply, Written};
use lazaret_model::{ClaimSource, ObjectKey, Pod, PodPhase, Text, Uid};
use lazaret_replacement::{EffectKind, Mark as PodMark, Policy, Record, Status};

use crate::{
    actors::{budgets::permits, workloads::SHARED},
    api::{Deleted, PodMetadata, PodNotes, Refused},
    coverage::Mark,
    mutant::Mutant,
    world::World,
};

impl World {
    pub(super) fn perform_replacement(&mut self, kind: &EffectKind, in_part: bool) -> Reply {
        match kind {
            EffectKind::SetStatus { policy, uid, version, status } => {
                self.write_replacement_status(policy, uid, version, status)
            }
            EffectKind::Release { version, owner, label, record } => {
                self.release_pod(version, owner, label, record).into()
            }
            // The pod is read before its copy is made.
            EffectKind::Copy { .. } if in_part => Outcome::Unknown.into(),
            EffectKind::Copy { name, gated, record } => self.copy_pod(name, *gated, record).into(),
            EffectKind::Ungate { pod, uid } => self.ungate_pod(pod, uid).into(),
            EffectKind::Evict { pod, uid } => self.evict_replaced(pod, uid),
            EffectKind::Delete { pod, uid } => self.delete_replaced(pod, uid).into(),
            EffectKind::Event(_) => Outcome::Done.into(),
        }
    }

    fn write_replacement_status(
        &mut self,
        policy: &ObjectKey,
        uid: &Uid,
        version: &Text,
        status: &Arc<Status>,
    ) -> Reply {
        let Some(stored) = self.replacements.policies.get(policy).cloned() else {
            return Outcome::Gone.into();
        };
        if stored.uid != *uid || stored.version != *version {
            self.coverage.hit(Mark::Conflict);
            return Outcome::Conflict.into();
        }
        self.coverage.hit(Mark::ReplacementStatus);
        if status.conditions.iter().any(|condition| {
            condition.kind == lazaret_replacement::BREAKER_TRIPPED
                && condition.status == lazaret_model::ConditionStatus::True
        }) {
            self.coverage.hit(Mark::ReplacementTripped);
        }
        let mut status = Arc::clone(status);
        if self.mutant == Some(Mutant::Unrecorded) {
            Arc::make_mut(&mut status).replacements.clear();
        }
        let version = self.put_replacement_policy(Policy { status, ..Policy::clone(&stored) });
        let written = Written { name: policy.name.clone(), uid: uid.clone(), version };
        Reply { written: Some(written), ..Outcome::Done.into() }
    }

    fn release_pod(&mut self, version: &Text, owner: &Uid, label: &Text, record: &Arc<Record>) -> Outcome {
        let Some(stored) = self.api.pods.get(&record.pod) else { return Outcome::Gone };
        let is_owned = stored.object.owner.as_ref().is_some_and(|there| there.uid == *owner);
        if stored.object.uid != record.uid || stored.version.to_string() != **version || !is_owned {
            self.coverage.hit(Mark::Conflict);
            return Outcome::Conflict;
        }
        self.coverage.hit(Mark::Released);
        let mark = PodMark::Released(Record::clone(record));
        let change = |metadata: &mut PodMetadata| {
            Arc::make_mut(&mut metadata.labels).remove(label);
            metadata.mark = Some(mark);
        };
        self.api.edit_metadata(&record.pod, &record.uid, change, |pod| pod.owner = None);
        Outcome::Done
    }

    fn copy_pod(&mut self, name: &Text, is_gated: bool, record: &Arc<Record>) -> Outcome {
        let key = ObjectKey::new(record.pod.namespace.clone(), name.clone());
        if let Some(there) = self.api.pods.get(&key) {
            let mark = self.api.pod_metadata(&there.object.uid).and_then(|metadata| metadata.mark.as_ref());
            let is_ours = matches!(mark, Some(PodMark::Copy(mark)) if mark.uid == record.uid);
            return if is_ours { Outcome::Done } else { Outcome::Conflict };
        }
        let stored = self.api.pods.get(&record.pod).filter(|stored| stored.object.uid == record.uid);
        let Some(old) = stored.map(|stored| Pod::clone(stored.object)) else { return Outcome::Gone };
        self.coverage.hit(if is_gated { Mark::Rebuilt } else { Mark::Copied });
        let metadata = self.api.pod_metadata(&old.uid).cloned().unwrap_or_default();
        let mark = Some(PodMark::Copy(Record::clone(record)));
        let mut metadata = PodMetadata { mark, is_gated, ..metadata };
        let workload = self.api.pods.number(&old.key).and_then(|of| self.workloads.number_of(of));
        if let Some(workload) = workload {
            self.label(&mut metadata, workload);
        }
        let uid = self.api.new_uid();
        let copy = copy_of(&old, key.clone(), uid.clone());
        let notes = PodNotes { metadata: vec![(0, metadata)], created: self.now, ..PodNotes::default() };
        self.api.note_pod(&uid, notes);
        // The name is free, so this cannot be refused.
        let _made = self.api.pods.create(&mut self.api.versions, copy);
        if let Some(workload) = workload {
            self.workloads.employ(self.api.pods.number(&key), workload);
        }
        Outcome::Done
    }

    fn ungate_pod(&mut self, key: &ObjectKey, uid: &Uid) -> Outcome {
        let is_there = self.api.edit_metadata(key, uid, |metadata| metadata.is_gated = false, |_| {});
        if is_there { Outcome::Done } else { Outcome::Gone }
    }

    /// Evicts as the status of a disruption budget permits. A pod that leaves already needs none.
    fn evict_replaced(&mut self, key: &ObjectKey, uid: &Uid) -> Reply {
        let stored = self.api.pods.get(key).filter(|stored| stored.object.uid == *uid);
        let staying = stored.map(|stored| stored.object).filter(|pod| pod.deleting_since.is_none());
        let budget = staying.and_then(|pod| self.budget_of(pod));
        if budget.is_some_and(|budget| !permits(budget)) {
            self.coverage.hit(Mark::ReplacementHeld);
            return Reply { why: Some("the budget permits none".into()), ..Outcome::Held.into() };
        }
        if staying.is_some() {
            self.note_disruption(key);
        }
        let outcome = self.delete_of(key, uid);
        if outcome == Outcome::Done {
            self.coverage.hit(Mark::ReplacementEvicted);
        }
        outcome.into()
    }

    fn delete_replaced(&mut self, key: &ObjectKey, uid: &Uid) -> Outcome {
        if self.mutant == Some(Mutant::KeepReplaced) {
            return Outcome::Done;
        }
        let outcome = self.delete_of(key, uid);
        if outcome == Outcome::Done {
            self.coverage.hit(Mark::Replaced);
        }
        outcome
    }

    fn delete_of(&mut self, key: &ObjectKey, uid: &Uid) -> Outcome {
        match self.api.delete_pod(self.now, key, Some(uid)) {
            Ok(Deleted::Begun | Deleted::Already) => Outcome::Done,
            Err(Refused::NotFound) => Outcome::Gone,
            Err(Refused::Conflict | Refused::Exists) => Outcome::Conflict,
        }
    }
}

/// A pod once more, under another name, as it was made.
fn copy_of(old: &Pod, key: ObjectKey, uid: Uid) -> Pod {
    let mut claims = old.claims.clone();
    for claim in claims.iter_mut().filter(|claim| claim.name != SHARED) {
        if let ClaimSource::Template { resolved, .. } = &mut claim.source {
            *resolved = None;
        }
    }
    Pod {
        key,
        uid,
        claims,
        node: None,
        phase: PodPhase::Pending,
        deleting_since: None,
        extended_claim: None,
        conditions: Vec::new(),
        evicted_by: None,
        ..old.clone()
    }
}
