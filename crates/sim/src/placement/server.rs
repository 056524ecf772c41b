//! The API server of the world: it carries effects out under their preconditions, and tells what changed.

use std::sync::Arc;

use lazaret_machine::Outcome;
use lazaret_model::{ObjectKey, Uid};
use lazaret_scheduler::{Claim, Effect, EffectKind, Input, Pod, Reply, Unscheduled, Written};

use super::{Kind, PlacementMutant as Mutant, Step, World};

/// Per mille of writes that fail while faults last.
const FAULTS_PERMILLE: u64 = 80;

impl World {
    /// Something changed: the watch of its kind will tell, in order.
    pub(super) fn happened(&mut self, kind: Kind, input: Input) {
        self.events.entry(kind).or_default().push_back(input);
        self.push_soon(Step::Deliver(kind));
    }

    pub(super) fn deliver(&mut self, input: Input) {
        self.say(format_args!("{input:?}"));
        if let Some(input) = self.distorted(input) {
            self.tell(input);
        }
    }

    fn distorted(&self, input: Input) -> Option<Input> {
        match (self.mutant, input) {
            // A claim that was allocated once has the finalizer.
            (Some(Mutant::UnseenRelease), Input::Claim(claim))
                if claim.claim.allocation.is_none() && claim.has_finalizer =>
            {
                None
            }
            (Some(Mutant::UnseenAllocation), Input::Claim(claim)) if claim.claim.allocation.is_some() => {
                let mut unseen = Claim::clone(&claim);
                Arc::make_mut(&mut unseen.claim).allocation = None;
                Some(Input::Claim(Arc::new(unseen)))
            }
            (Some(Mutant::UnseenConditions), Input::Claim(claim)) => {
                Some(Input::Claim(Arc::new(Claim { devices: Vec::new(), ..Claim::clone(&claim) })))
            }
            (Some(Mutant::UnseenUncordon), Input::Node(node)) if !node.unschedulable => None,
            (Some(Mutant::UnseenDeparture), Input::PodGone(_)) => None,
            (_, input) => Some(input),
        }
    }

    /// A write reaches the server; its answer may be faster or slower than the watch.
    pub(super) fn arrive(&mut self, effect: Effect) {
        let fails = !self.resting && self.rng.chance(FAULTS_PERMILLE);
        let outcome = if fails {
            self.rng.pick(&[Outcome::Conflict, Outcome::RetryLater, Outcome::Unknown])
        } else {
            Outcome::Done
        };
        let reply = match outcome {
            Outcome::Done => self.carry_out(&effect.kind),
            Outcome::Unknown => {
                if self.rng.chance(500) {
                    self.carry_out(&effect.kind);
                }
                Reply::of(Outcome::Unknown)
            }
            Outcome::Gone | Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater => {
                Reply::of(outcome)
            }
        };
        let releases = matches!(&effect.kind, EffectKind::ReleaseClaim(release) if release.deallocate);
        if releases && self.mutant == Some(Mutant::UnansweredRelease) {
            return;
        }
        self.push_soon(Step::Answer(effect.id, reply));
    }

    fn carry_out(&mut self, kind: &EffectKind) -> Reply {
        match kind {
            EffectKind::ReserveClaim(reserve) => {
                let (key, allocates) = (reserve.claim.clone(), reserve.allocation.is_some());
                let is_bare =
                    |claim: &Claim| claim.claim.allocation.is_none() && claim.version == reserve.version;
                if !allocates && self.claims.get(&key).is_some_and(is_bare) {
                    // Refused as invalid, which helps nobody to try again.
                    return Reply::of(Outcome::RetryLater);
                }
                let reply = self.write_claim(&reserve.claim, &reserve.uid, reserve.version, |claim| {
                    let inner = Arc::make_mut(&mut claim.claim);
                    if let Some(allocation) = &reserve.allocation {
                        inner.allocation = Some(Arc::clone(allocation));
                    }
                    inner.reserved_for.extend(reserve.reserve_for.iter().cloned());
                    claim.has_finalizer |= reserve.add_finalizer;
                });
                if allocates && reply.outcome == Outcome::Done {
                    self.devices_given(&key);
                }
                reply
            }
            EffectKind::ReleaseClaim(release) => {
                let reply = self.write_claim(&release.claim, &release.uid, release.version, |claim| {
                    let inner = Arc::make_mut(&mut claim.claim);
                    inner.reserved_for.retain(|user| Some(&user.uid) != release.consumer.as_ref());
                    if release.deallocate {
                        inner.allocation = None;
                        inner.reserved_for.clear();
                        claim.devices.clear();
                    }
                });
                self.outcome.given_back += u64::from(release.deallocate && reply.outcome == Outcome::Done);
                reply
            }
            EffectKind::Bind(bind) => {
                let reply = self.write_pod(&bind.pod, &bind.uid, |pod| {
                    pod.node.is_none() && {
                        pod.node = Some(bind.node.clone());
                        true
                    }
                });
                if reply.outcome == Outcome::Done {
                    self.outcome.bound += 1;
                    self.check_bound(&bind.pod);
                }
                reply
            }
            EffectKind::SetPodCondition(set) => self.write_pod(&set.pod, &set.uid, |pod| {
                pod.unscheduled =
                    Some(Unscheduled { reason: set.reason.into(), message: set.message.clone() });
                if let Some(node) = &set.nominated {
                    pod.nominated = (!node.is_empty()).then(|| node.clone());
                }
                true
            }),
            EffectKind::Evict(evict) => {
                if self.pods.get(&evict.victim).is_none_or(|pod| pod.uid != evict.uid) {
                    return Reply::of(Outcome::Gone);
                }
                self.forget_pod(&evict.victim);
                Reply::of(Outcome::Done)
            }
            // No pod of this world asks for extended resources.
            EffectKind::CreateExtendedClaim(_)
            | EffectKind::DeleteExtendedClaim(_)
            | EffectKind::SetExtendedClaim(_)
            | EffectKind::SetNodeAllocatable(_)
            | EffectKind::ChangeClassicClaim(_)
            | EffectKind::Event(_) => Reply::of(Outcome::Gone),
        }
    }

    /// A writer other than the scheduler changes a claim.
    pub(super) fn edit_claim(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut Claim)) {
        if let Some(claim) = self.claims.get_mut(key) {
            edit(claim);
            self.version += 1;
            claim.version = self.version;
            let news = Input::Claim(Arc::new(claim.clone()));
            self.happened(Kind::Claims, news);
        }
    }

    fn write_claim(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: u64,
        edit: impl FnOnce(&mut Claim),
    ) -> Reply {
        match self.claims.get(key) {
            Some(claim) if claim.claim.uid == *uid && claim.version == version => {}
            Some(claim) if claim.claim.uid == *uid => return Reply::of(Outcome::Conflict),
            Some(_) | None => return Reply::of(Outcome::Gone),
        }
        self.edit_claim(key, edit);
        let written = Written { name: key.name.clone(), uid: uid.clone(), version: self.version };
        Reply { outcome: Outcome::Done, written: Some(written) }
    }

    fn write_pod(&mut self, key: &ObjectKey, uid: &Uid, edit: impl FnOnce(&mut Pod) -> bool) -> Reply {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.uid == *uid) else {
            return Reply::of(Outcome::Gone);
        };
        if !edit(pod) {
            return Reply::of(Outcome::Conflict);
        }
        let news = Input::Pod(Arc::new(pod.clone()));
        self.happened(Kind::Pods, news);
        Reply::of(Outcome::Done)
    }
}
