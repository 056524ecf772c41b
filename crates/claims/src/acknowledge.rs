//! What became of the effects.

use alloc::format;

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    Claims,
    effect::{EffectId, Outcome},
    flights::Flight,
    queue::Item,
    tables::PodWork,
};

impl Claims {
    pub(crate) fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome, why: Option<Text>) {
        match self.flights.land(id) {
            Some(Flight::Create { pod, uid, entry, claim, admin_access }) => {
                self.count_create(outcome, admin_access);
                self.made(now, &pod, &uid, (entry, claim), outcome, why);
            }
            Some(Flight::PodClaims { pod, uid }) => self.wrote_names(now, &pod, &uid, outcome),
            Some(Flight::Claim { claim, uid, version, deallocates, reserves, deletes }) => {
                if outcome == Outcome::Done {
                    self.counters.reservations_written += u64::from(reserves);
                    self.counters.deallocated += u64::from(deallocates);
                    self.counters.deleted += u64::from(deletes);
                }
                self.changed(now, &claim, (&uid, &version), outcome);
            }
            Some(Flight::Confirm { pod, uid }) => self.confirmed(now, &pod, &uid, outcome),
            None => {}
        }
    }

    fn count_create(&mut self, outcome: Outcome, admin_access: bool) {
        let counters = &mut self.counters;
        let (all, admin) = match outcome {
            Outcome::Done => (&mut counters.created, &mut counters.created_admin),
            Outcome::Gone | Outcome::Conflict | Outcome::RetryLater | Outcome::Unknown => {
                (&mut counters.create_failed, &mut counters.create_failed_admin)
            }
        };
        *all += 1;
        *admin += u64::from(admin_access);
    }

    fn made(
        &mut self,
        now: Timestamp,
        pod: &ObjectKey,
        uid: &Uid,
        (entry, claim): (Text, Text),
        outcome: Outcome,
        why: Option<Text>,
    ) {
        let options = self.options.clone();
        let Some(work) = self.landed(pod, uid) else { return };
        match outcome {
            Outcome::Done => {
                work.made.retain(|(made_for, ..)| *made_for != entry);
                work.made.push((entry.clone(), claim, now.plus_millis(options.recheck_ms)));
            }
            Outcome::Conflict => {
                work.taken = work.taken.saturating_add(1);
                work.setback.fail(now, &options);
            }
            Outcome::Gone | Outcome::RetryLater | Outcome::Unknown => work.setback.fail(now, &options),
        }
        let failed = outcome != Outcome::Done && outcome != Outcome::Conflict;
        if let Some(why) = why
            && failed
            && let Some(pod) = self.tables.pods.get(pod).map(|slot| slot.pod.clone())
        {
            self.announce(&pod, format!("PodResourceClaim {entry}: create ResourceClaim: {why}").into());
        }
        self.touch(Item::Pod(pod.clone()));
    }

    fn wrote_names(&mut self, now: Timestamp, pod: &ObjectKey, uid: &Uid, outcome: Outcome) {
        let options = self.options.clone();
        self.counters.pods_written += u64::from(outcome == Outcome::Done);
        let Some(work) = self.landed(pod, uid) else { return };
        match outcome {
            // That the pod is gone will be heard, or it is asked again after a while.
            Outcome::Done | Outcome::Gone => work.setback = Default::default(),
            Outcome::Conflict | Outcome::RetryLater | Outcome::Unknown => {
                work.written = None;
                work.setback.fail(now, &options);
            }
        }
        self.touch(Item::Pod(pod.clone()));
    }

    /// The work on a pod of which one effect is no longer under way, if that incarnation still wants it.
    fn landed(&mut self, pod: &ObjectKey, uid: &Uid) -> Option<&mut PodWork> {
        let slot = self.tables.pods.get_mut(pod).filter(|slot| slot.pod.uid == *uid)?;
        let work = slot.work.as_deref_mut()?;
        work.pending = work.pending.saturating_sub(1);
        Some(work)
    }

    fn changed(
        &mut self,
        now: Timestamp,
        claim: &ObjectKey,
        (uid, version): (&Uid, &Text),
        outcome: Outcome,
    ) {
        let Some(slot) = self.tables.claims.get_mut(claim).filter(|slot| slot.seen.claim.uid == *uid) else {
            return;
        };
        slot.in_flight = false;
        match outcome {
            // That it is gone will be heard, or it is looked at again after a while.
            Outcome::Done | Outcome::Gone => slot.setback = Default::default(),
            Outcome::Conflict => {
                slot.plan = None;
                if slot.seen.version == *version {
                    slot.setback.wait_for_news(now, &self.options);
                }
            }
            Outcome::RetryLater | Outcome::Unknown => {
                slot.plan = None;
                slot.setback.fail(now, &self.options);
            }
        }
        self.touch(Item::Claim(claim.clone()));
    }

    fn confirmed(&mut self, now: Timestamp, pod: &ObjectKey, uid: &Uid, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.hearsay.lives(uid, now.plus_millis(self.options.recheck_ms)),
            Outcome::Gone => self.hearsay.is_gone(uid),
            Outcome::Conflict | Outcome::RetryLater | Outcome::Unknown => {
                let options = &self.options;
                self.hearsay.failed(uid, now, |failures| options.retry_ms(failures));
            }
        }
        self.touch_claims_of(pod);
    }
}
