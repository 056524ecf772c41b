//! The outcomes of effects.

use alloc::format;

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    Claims,
    effect::{EffectId, Outcome},
    flights::Flight,
    holder::Holder,
    queue::Item,
    tables::Work,
};

impl Claims {
    pub(crate) fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome, why: Option<Text>) {
        match self.flights.land(id) {
            Some(Flight::Create { holder, entry, claim, admin_access }) => {
                self.count_create(outcome, admin_access);
                self.made(now, &holder, (entry, claim), outcome, why);
            }
            Some(Flight::Names(holder)) => self.wrote_names(now, &holder, outcome),
            Some(Flight::Claim { claim, uid, version, deallocates, reserves, deletes }) => {
                if outcome == Outcome::Done {
                    self.counters.reservations_written += u64::from(reserves);
                    self.counters.deallocated += u64::from(deallocates);
                    self.counters.deleted += u64::from(deletes);
                }
                self.changed(now, &claim, (&uid, &version), outcome);
            }
            Some(Flight::Confirm(holder)) => self.confirmed(now, &holder, outcome),
            Some(Flight::Silence { node, gone }) => self.confirmed_node(now, (node, gone), outcome),
            Some(Flight::Node { node, uid }) => self.asked(now, &node, &uid, outcome),
            None => {}
        }
    }

    fn count_create(&mut self, outcome: Outcome, admin_access: bool) {
        let counters = &mut self.counters;
        let (all, admin) = match outcome {
            Outcome::Done => (&mut counters.created, &mut counters.created_admin),
            Outcome::Gone
            | Outcome::Conflict
            | Outcome::Refused
            | Outcome::Held
            | Outcome::RetryLater
            | Outcome::Unknown => (&mut counters.create_failed, &mut counters.create_failed_admin),
        };
        *all += 1;
        *admin += u64::from(admin_access);
    }

    fn made(
        &mut self,
        now: Timestamp,
        holder: &Holder,
        (entry, claim): (Text, Text),
        outcome: Outcome,
        why: Option<Text>,
    ) {
        let options = self.options.clone();
        let Some(work) = self.landed(holder) else { return };
        match outcome {
            Outcome::Done => {
                work.made.retain(|(made_for, ..)| *made_for != entry);
                work.made.push((entry.clone(), claim, now.plus_millis(options.recheck_ms)));
            }
            Outcome::Conflict => {
                work.taken = work.taken.saturating_add(1);
                work.setback.fail(now, &options);
            }
            Outcome::Gone | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                work.setback.fail(now, &options);
            }
        }
        let failed = outcome != Outcome::Done && outcome != Outcome::Conflict;
        if let Some(why) = why
            && failed
        {
            let entry = format!("{} {entry}: create ResourceClaim: {why}", holder.kind.entry());
            self.announce(holder, entry.into());
        }
        self.touch(Item::Holder(holder.kind, holder.key.clone()));
    }

    fn wrote_names(&mut self, now: Timestamp, holder: &Holder, outcome: Outcome) {
        let options = self.options.clone();
        self.counters.pods_written += u64::from(outcome == Outcome::Done);
        let Some(work) = self.landed(holder) else { return };
        match outcome {
            // That it is gone will be heard, or it is asked again after a while.
            Outcome::Done | Outcome::Gone => work.setback = Default::default(),
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                work.written = None;
                work.setback.fail(now, &options);
            }
        }
        self.touch(Item::Holder(holder.kind, holder.key.clone()));
    }

    /// The work of which one effect is no longer in flight, if that incarnation still wants it.
    fn landed(&mut self, holder: &Holder) -> Option<&mut Work> {
        let (uid, work) = self.tables.work_mut(holder.kind, &holder.key)?;
        let work = work.as_deref_mut().filter(|_| *uid == holder.uid)?;
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
            Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                slot.plan = None;
                slot.setback.fail(now, &self.options);
            }
        }
        self.touch(Item::Claim(claim.clone()));
    }

    fn confirmed(&mut self, now: Timestamp, holder: &Holder, outcome: Outcome) {
        let uid = &holder.uid;
        match outcome {
            Outcome::Done => self.confirmations.lives(uid, now.plus_millis(self.options.recheck_ms)),
            Outcome::Gone => self.confirmations.is_gone(uid),
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                let options = &self.options;
                self.confirmations.failed(uid, now, |failures| options.retry_ms(failures));
            }
        }
        self.touch_claims_of(holder.kind, &holder.key);
    }
}
