//! Carries out effects, with every precondition.

use std::sync::Arc;

use lazaret_machine::Written;
use lazaret_model::{ObjectKey, Timestamp, Uid};
use lazaret_replacement::{EffectKind, Mark, Outcome, Pod, Reply};

use crate::api::{Api, Changed};

impl Api {
    pub(crate) fn delete(&mut self, now: Timestamp, key: &ObjectKey, uid: &Uid) -> Reply {
        let Some(mut live) = self.pods.get(key).filter(|live| live.pod.uid == *uid).cloned() else {
            return Outcome::Gone.into();
        };
        if !live.pod.deleting {
            (live.pod.deleting, live.pod.ready) = (true, false);
            live.turns = Some(now.plus_secs(self.gone_secs));
            self.put(live);
        }
        Outcome::Done.into()
    }

    /// Does what the machine asks for, with every precondition.
    pub(crate) fn perform(&mut self, now: Timestamp, effect: &EffectKind) -> Reply {
        match effect {
            EffectKind::SetStatus { policy, uid, version, status } => {
                let Some(mut found) = self.policies.get(policy).cloned() else { return Outcome::Gone.into() };
                if found.uid != *uid || found.version != *version {
                    return Outcome::Conflict.into();
                }
                found.version = self.next_version();
                found.status = status.clone();
                self.log.push(Changed::Policy(policy.clone()));
                let version = found.version.clone();
                self.policies.insert(policy.clone(), found);
                Reply { written: Some(Written { version, ..Written::default() }), ..Outcome::Done.into() }
            }
            EffectKind::Release { version, owner, label, record } => {
                let Some(mut live) = self.pods.get(&record.pod).cloned() else { return Outcome::Gone.into() };
                if live.pod.uid != record.uid {
                    return Outcome::Gone.into();
                }
                let owned = live.pod.owner.as_ref().is_some_and(|there| there.uid == *owner);
                if live.pod.version != *version || !owned {
                    return Outcome::Conflict.into();
                }
                live.pod.owner = None;
                Arc::make_mut(&mut live.pod.labels).remove(label);
                live.pod.mark = Some(Mark::Released((**record).clone()));
                self.put(live);
                Outcome::Done.into()
            }
            EffectKind::Copy { name, gated, record } => {
                let key = ObjectKey::new(record.pod.namespace.clone(), name.clone());
                if let Some(there) = self.pods.get(&key) {
                    let ours = matches!(&there.pod.mark, Some(Mark::Copy(mark)) if mark.uid == record.uid);
                    return if ours { Outcome::Done.into() } else { Outcome::Conflict.into() };
                }
                let Some(old) = self.pods.get(&record.pod).filter(|live| live.pod.uid == record.uid) else {
                    return Outcome::Gone.into();
                };
                let mark = Some(Mark::Copy((**record).clone()));
                let (labels, pinned) = (old.pod.labels.clone(), old.pod.pinned);
                self.create(now, Pod { key, labels, pinned, gated: *gated, mark, ..Pod::default() });
                Outcome::Done.into()
            }
            EffectKind::Ungate { pod, uid } => {
                let Some(mut live) = self.pods.get(pod).filter(|live| live.pod.uid == *uid).cloned() else {
                    return Outcome::Gone.into();
                };
                live.pod.gated = false;
                self.put(live);
                Outcome::Done.into()
            }
            // A pod that leaves already needs no budget, as in Kubernetes.
            EffectKind::Evict { pod, uid } if self.pods.get(pod).is_some_and(|live| live.pod.deleting) => {
                self.delete(now, pod, uid)
            }
            EffectKind::Evict { pod, uid } => match &mut self.budget {
                Some(0) => Reply { why: Some("the budget permits none".into()), ..Outcome::Held.into() },
                budget => {
                    if let Some(left) = budget {
                        *left -= 1;
                    }
                    self.delete(now, pod, uid)
                }
            },
            EffectKind::Delete { pod, uid } => self.delete(now, pod, uid),
            EffectKind::Event(note) => {
                self.notes.push(note.clone());
                Outcome::Done.into()
            }
        }
    }
}
