//! The claims that a pod or group lacks: those made from templates, and their names in its status.

use alloc::{format, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{ClaimSource, ObjectKey, PodClaim, Text, Timestamp};

use crate::{
    Claims,
    effect::{CreateClaim, EVENT_REASON, EffectKind, HolderEvent, SetClaimNames, WakeReason},
    flights::Flight,
    holder::{Holder, HolderKind, Needy},
    input::SeenClaim,
    names::{claim_name, generate_name},
    queue::Item,
    tables::Work,
};

/// More names than this are not tried before the next pause.
const NAMES_MAX: u32 = 16;

/// The result for one entry.
enum Answer {
    /// There is nothing to do for it, and nothing of it in the status.
    Nothing,
    /// It has this claim.
    Has(Text),
    /// It has this claim, though that has not been seen; to be believed until then.
    Made(Text, Timestamp),
    /// It has no claim; this one is to be made from that template.
    Lacks { claim: Text, template: Text },
    /// It cannot be helped.
    Unknown,
}

/// The result for a pod or group.
#[derive(Default)]
struct Plan {
    /// Entry and claim.
    names: Vec<(Text, Text)>,
    create: Vec<CreateClaim>,
    /// Why some entry gets nothing.
    obstacle: Option<Text>,
    /// When something is not believed in any more.
    recheck: Option<Timestamp>,
}

impl Claims {
    pub(crate) fn look_at_holder(&mut self, now: Timestamp, kind: HolderKind, key: &ObjectKey) {
        let Some(needy) = self.tables.needy(kind, key) else { return };
        let Some((_, work)) =
            invariant!(self.tables.work_mut(kind, key), "a holder that needs claims has work")
        else {
            return;
        };
        if !needy.wants_claims() {
            *work = None;
            return;
        }
        if let Some(work) = work {
            if work.pending > 0 {
                return;
            }
            if let Some(at) = work.setback.hold(now) {
                self.later(at, WakeReason::Retry, Item::Holder(kind, key.clone()));
                return;
            }
        }
        let holder = needy.holder();
        let mut plan = self.plan(now, &needy, &holder);
        if let Some(obstacle) = plan.obstacle {
            self.complain(&holder, obstacle);
        } else if !plan.create.is_empty() {
            plan.create.into_iter().for_each(|create| self.create_claim(&holder, create));
        } else {
            plan.names.sort_unstable();
            self.write_names(now, &needy, &holder, plan.names, plan.recheck);
        }
    }

    fn plan(&self, now: Timestamp, needy: &Needy, holder: &Holder) -> Plan {
        let mut plan = Plan::default();
        for entry in needy.entries() {
            let of_group = match needy {
                Needy::Pod(pod) if pod.group.is_some() => match self.group_of(pod) {
                    Some(group) => group.shared(entry).map(|own| (Holder::from(group), own)),
                    // It is not known which of its entries are the group's.
                    None => return Plan::default(),
                },
                Needy::Pod(_) | Needy::Group(_) => None,
            };
            let answer = match of_group {
                Some((group, own)) => self.answer_by_group(holder, &group, entry, own),
                None => self.answer(now, holder, entry),
            };
            match answer {
                Answer::Nothing => {}
                Answer::Has(claim) => plan.names.push((entry.name.clone(), claim)),
                Answer::Made(claim, until) => {
                    plan.names.push((entry.name.clone(), claim));
                    plan.recheck = Some(plan.recheck.map_or(until, |at| at.min(until)));
                }
                Answer::Lacks { claim, template } => {
                    let key = ObjectKey { namespace: holder.key.namespace.clone(), name: template };
                    let Some(template) = self.tables.templates.get(&key) else {
                        let text =
                            format!("{} {}: no template {:?}", holder.kind.entry(), entry.name, &*key.name);
                        plan.obstacle.get_or_insert(text.into());
                        continue;
                    };
                    plan.create.push(CreateClaim {
                        claim: ObjectKey { namespace: holder.key.namespace.clone(), name: claim },
                        generate_name: generate_name(&holder.key.name, &entry.name).into(),
                        holder: holder.clone(),
                        entry: entry.name.clone(),
                        template: Arc::clone(template).into(),
                    });
                }
                Answer::Unknown => {
                    let text = format!(
                        "{} {}: names neither a claim nor a template",
                        holder.kind.entry(),
                        entry.name
                    );
                    plan.obstacle.get_or_insert(text.into());
                }
            }
        }
        plan
    }

    /// The result for an entry of a pod that its group has too: the group's claim, once it exists.
    fn answer_by_group(&self, pod: &Holder, group: &Holder, entry: &PodClaim, own: &PodClaim) -> Answer {
        match &own.source {
            ClaimSource::Claim(_) => return Answer::Nothing,
            ClaimSource::Unknown => return Answer::Unknown,
            ClaimSource::Template { .. } => {}
        }
        let known = [entry.claim(), own.claim()].into_iter().flatten();
        let mut held = known.filter(|name| self.claim(pod, name).is_some_and(|seen| seen.is_held_by(group)));
        let found = held.next().cloned().or_else(|| self.made_earlier(group, &entry.name));
        found.map_or(Answer::Nothing, Answer::Has)
    }

    fn answer(&self, now: Timestamp, pod: &Holder, entry: &PodClaim) -> Answer {
        let (entry, source) = (&entry.name, &entry.source);
        let (template, recorded) = match source {
            ClaimSource::Claim(_) | ClaimSource::Template { resolved: Some(None), .. } => {
                return Answer::Nothing;
            }
            ClaimSource::Unknown => return Answer::Unknown,
            ClaimSource::Template { template, resolved } => {
                (template, resolved.as_ref().and_then(Option::as_ref))
            }
        };
        // If it is somebody else's by now, it stays so until it goes: the pod may be using it.
        if let Some(recorded) = recorded
            && self.claim(pod, recorded).is_some()
        {
            return Answer::Has(recorded.clone());
        }
        if let Some(orphan) = self.made_earlier(pod, entry) {
            return Answer::Has(orphan);
        }
        let work = self.tables.work(pod.kind, &pod.key);
        let made = work.and_then(|work| work.made.iter().find(|(made_for, ..)| made_for == entry));
        if let Some((_, claim, until)) = made
            && *until > now
        {
            return Answer::Made(claim.clone(), *until);
        }
        let taken = work.map_or(0, |work| work.taken);
        let claim = match recorded {
            // The name in the pod's status stays valid.
            Some(recorded) if taken == 0 => recorded.clone(),
            Some(_) | None => self.free_name(pod, entry, taken),
        };
        Answer::Lacks { claim, template: template.clone() }
    }

    fn claim(&self, pod: &Holder, name: &Text) -> Option<&SeenClaim> {
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        self.tables.claims.get(&key).map(|slot| &slot.seen)
    }

    /// A claim that was made for this entry by somebody who did not get to write the status.
    fn made_earlier(&self, pod: &Holder, entry: &Text) -> Option<Text> {
        let mut claims = self.tables.claims_of(pod.kind).of(&pod.key);
        let found = claims.find(|key| {
            let seen = self.tables.claims.get(key).map(|slot| &slot.seen);
            seen.is_some_and(|seen| seen.is_held_by(pod) && seen.entry.as_ref() == Some(entry))
        });
        found.map(|key| key.name)
    }

    fn free_name(&self, pod: &Holder, entry: &Text, taken: u32) -> Text {
        let name = |attempt| Text::from(claim_name(&pod.key.name, &pod.uid, entry, attempt));
        let mut attempts = taken..taken.saturating_add(NAMES_MAX);
        let free = attempts.find_map(|attempt| {
            let name = name(attempt);
            self.claim(pod, &name).is_none_or(|seen| seen.is_held_by(pod)).then_some(name)
        });
        free.unwrap_or_else(|| name(taken))
    }

    fn create_claim(&mut self, pod: &Holder, create: CreateClaim) {
        let flight = Flight::Create {
            holder: pod.clone(),
            entry: create.entry.clone(),
            claim: create.claim.name.clone(),
            admin_access: create.template.admin_access,
        };
        self.flights.launch(flight, EffectKind::CreateClaim(create));
        if let Some(work) = self.work_on(pod) {
            work.pending += 1;
        }
    }

    fn write_names(
        &mut self,
        now: Timestamp,
        needy: &Needy,
        holder: &Holder,
        names: Vec<(Text, Text)>,
        recheck: Option<Timestamp>,
    ) {
        let item = Item::Holder(holder.kind, holder.key.clone());
        if is_recorded(needy.entries(), &names) {
            match recheck {
                Some(at) => self.later(at, WakeReason::Recheck, item),
                None => {
                    if let Some((_, work)) = self.tables.work_mut(holder.kind, &holder.key) {
                        *work = None;
                    }
                }
            }
            return;
        }
        let until = now.plus_millis(self.options.recheck_ms);
        let Some(work) = invariant!(self.work_on(holder), "a holder that is looked at has work") else {
            return;
        };
        if let Some((written, until)) = &work.written
            && *written == names
            && *until > now
        {
            let at = *until;
            self.later(at, WakeReason::Recheck, item);
            return;
        }
        work.pending += 1;
        work.setback.not_before = None;
        work.complained = false;
        work.written = Some((names.clone(), until));
        let write = SetClaimNames { holder: holder.clone(), names };
        self.flights.launch(Flight::Names(holder.clone()), EffectKind::SetClaimNames(write));
    }

    /// Says what is missing, once; when it comes, the holder is looked at again.
    fn complain(&mut self, holder: &Holder, message: Text) {
        let Some(work) = invariant!(self.work_on(holder), "a holder that is looked at has work") else {
            return;
        };
        if !core::mem::replace(&mut work.complained, true) {
            self.announce(holder, message);
        }
    }

    pub(crate) fn announce(&mut self, holder: &Holder, message: Text) {
        let event = HolderEvent { holder: holder.clone(), reason: EVENT_REASON, message };
        self.flights.announce(EffectKind::Event(event), self.options.events_queued_max);
    }

    /// A claim is gone: that it was made is no longer to be believed.
    pub(crate) fn forget_made(&mut self, seen: &SeenClaim) {
        let Some(owner) = seen.holder() else { return };
        if let Some((_, Some(work))) = self.tables.work_mut(owner.kind, &owner.key) {
            work.made.retain(|(_, claim, _)| *claim != seen.claim.key.name);
        }
    }

    fn work_on(&mut self, holder: &Holder) -> Option<&mut Work> {
        let (_, work) = self.tables.work_mut(holder.kind, &holder.key)?;
        Some(&mut **work.get_or_insert_default())
    }
}

/// Whether the status says just this of the entries.
fn is_recorded(entries: &[PodClaim], names: &[(Text, Text)]) -> bool {
    names.iter().all(|(entry, claim)| {
        entries.iter().any(|there| match &there.source {
            ClaimSource::Template { resolved: Some(Some(recorded)), .. } => {
                there.name == *entry && recorded == claim
            }
            ClaimSource::Template { .. } | ClaimSource::Claim(_) | ClaimSource::Unknown => false,
        })
    })
}
