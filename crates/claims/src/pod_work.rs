//! What a pod lacks: claims made from templates, and their names in its status.

use alloc::{format, sync::Arc, vec::Vec};

use lazaret_model::{ClaimSource, ObjectKey, Pod, Text, Timestamp};

use crate::{
    Claims,
    effect::{CreateClaim, EVENT_REASON, EffectKind, PodEvent, SetPodClaims, WakeReason},
    flights::Flight,
    input::SeenClaim,
    names::{claim_name, generate_name},
    queue::Item,
    standing::wants_claims,
    tables::PodWork,
};

/// More names than this are not tried before the next pause.
const NAMES_MAX: u32 = 16;

/// What one entry of a pod comes to.
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

/// What a pod comes to.
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
    pub(crate) fn look_at_pod(&mut self, now: Timestamp, key: &ObjectKey) {
        let Some(slot) = self.tables.pods.get_mut(key) else { return };
        if !wants_claims(&slot.pod) {
            slot.work = None;
            return;
        }
        if let Some(work) = &slot.work {
            if work.pending > 0 {
                return;
            }
            if let Some(at) = work.setback.hold(now) {
                self.later(at, WakeReason::Retry, Item::Pod(key.clone()));
                return;
            }
        }
        let pod = slot.pod.clone();
        let mut plan = self.plan_pod(now, &pod);
        if let Some(obstacle) = plan.obstacle {
            self.complain(&pod, obstacle);
        } else if !plan.create.is_empty() {
            plan.create.into_iter().for_each(|create| self.create_claim(&pod, create));
        } else {
            plan.names.sort_unstable();
            self.write_names(now, &pod, plan.names, plan.recheck);
        }
    }

    fn plan_pod(&self, now: Timestamp, pod: &Pod) -> Plan {
        let mut plan = Plan::default();
        for entry in &pod.claims {
            match self.answer(now, pod, &entry.name, &entry.source) {
                Answer::Nothing => {}
                Answer::Has(claim) => plan.names.push((entry.name.clone(), claim)),
                Answer::Made(claim, until) => {
                    plan.names.push((entry.name.clone(), claim));
                    plan.recheck = Some(plan.recheck.map_or(until, |at| at.min(until)));
                }
                Answer::Lacks { claim, template } => {
                    let key = ObjectKey { namespace: pod.key.namespace.clone(), name: template };
                    let Some(template) = self.tables.templates.get(&key) else {
                        let text = format!("PodResourceClaim {}: no template {:?}", entry.name, &*key.name);
                        plan.obstacle.get_or_insert(text.into());
                        continue;
                    };
                    plan.create.push(CreateClaim {
                        claim: ObjectKey { namespace: pod.key.namespace.clone(), name: claim },
                        generate_name: generate_name(&pod.key.name, &entry.name).into(),
                        pod: pod.key.name.clone(),
                        owner: pod.uid.clone(),
                        entry: entry.name.clone(),
                        template: Arc::clone(template),
                    });
                }
                Answer::Unknown => {
                    let text =
                        format!("PodResourceClaim {}: names neither a claim nor a template", entry.name);
                    plan.obstacle.get_or_insert(text.into());
                }
            }
        }
        plan
    }

    fn answer(&self, now: Timestamp, pod: &Pod, entry: &Text, source: &ClaimSource) -> Answer {
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
        let work = self.tables.pods.get(&pod.key).and_then(|slot| slot.work.as_deref());
        let made = work.and_then(|work| work.made.iter().find(|(made_for, ..)| made_for == entry));
        if let Some((_, claim, until)) = made
            && *until > now
        {
            return Answer::Made(claim.clone(), *until);
        }
        let taken = work.map_or(0, |work| work.taken);
        let claim = match recorded {
            // What the pod's status says stays true.
            Some(recorded) if taken == 0 => recorded.clone(),
            Some(_) | None => self.free_name(pod, entry, taken),
        };
        Answer::Lacks { claim, template: template.clone() }
    }

    fn claim(&self, pod: &Pod, name: &Text) -> Option<&SeenClaim> {
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        self.tables.claims.get(&key).map(|slot| &slot.seen)
    }

    /// A claim that was made for this entry by somebody who did not get to write the pod's status.
    fn made_earlier(&self, pod: &Pod, entry: &Text) -> Option<Text> {
        let mut claims = self.tables.claims_of_pod.of(&pod.key);
        let found = claims.find(|key| {
            let seen = self.tables.claims.get(key).map(|slot| &slot.seen);
            seen.is_some_and(|seen| seen.is_owned_by(&pod.uid) && seen.entry.as_ref() == Some(entry))
        });
        found.map(|key| key.name)
    }

    fn free_name(&self, pod: &Pod, entry: &Text, taken: u32) -> Text {
        let name = |attempt| Text::from(claim_name(&pod.key.name, &pod.uid, entry, attempt));
        let mut attempts = taken..taken.saturating_add(NAMES_MAX);
        let free = attempts.find_map(|attempt| {
            let name = name(attempt);
            self.claim(pod, &name).is_none_or(|seen| seen.is_owned_by(&pod.uid)).then_some(name)
        });
        free.unwrap_or_else(|| name(taken))
    }

    fn create_claim(&mut self, pod: &Pod, create: CreateClaim) {
        let flight = Flight::Create {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            entry: create.entry.clone(),
            claim: create.claim.name.clone(),
            admin_access: create.template.admin_access,
        };
        self.flights.launch(flight, EffectKind::CreateClaim(create));
        if let Some(work) = self.work_on(&pod.key) {
            work.pending += 1;
        }
    }

    fn write_names(
        &mut self,
        now: Timestamp,
        pod: &Pod,
        names: Vec<(Text, Text)>,
        recheck: Option<Timestamp>,
    ) {
        let item = Item::Pod(pod.key.clone());
        if is_recorded(pod, &names) {
            match recheck {
                Some(at) => self.later(at, WakeReason::Recheck, item),
                None => {
                    if let Some(slot) = self.tables.pods.get_mut(&pod.key) {
                        slot.work = None;
                    }
                }
            }
            return;
        }
        let until = now.plus_millis(self.options.recheck_ms);
        let Some(work) = self.work_on(&pod.key) else { return };
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
        let flight = Flight::PodClaims { pod: pod.key.clone(), uid: pod.uid.clone() };
        let write = SetPodClaims { pod: pod.key.clone(), uid: pod.uid.clone(), names };
        self.flights.launch(flight, EffectKind::SetPodClaims(write));
    }

    /// Says what is missing, once; when it comes, the pod is looked at again.
    fn complain(&mut self, pod: &Pod, message: Text) {
        let Some(work) = self.work_on(&pod.key) else { return };
        if !core::mem::replace(&mut work.complained, true) {
            self.announce(pod, message);
        }
    }

    pub(crate) fn announce(&mut self, pod: &Pod, message: Text) {
        let (pod, uid) = (pod.key.clone(), pod.uid.clone());
        let event = PodEvent { pod, uid, reason: EVENT_REASON, message };
        self.flights.announce(event, self.options.events_queued_max);
    }

    /// A claim is gone: that it was made is no longer to be believed.
    pub(crate) fn forget_made(&mut self, seen: &SeenClaim) {
        let Some((pod, _)) = seen.owning_pod() else { return };
        let key = ObjectKey { namespace: seen.claim.key.namespace.clone(), name: pod.clone() };
        if let Some(slot) = self.tables.pods.get_mut(&key)
            && let Some(work) = &mut slot.work
        {
            work.made.retain(|(_, claim, _)| *claim != seen.claim.key.name);
        }
    }

    fn work_on(&mut self, pod: &ObjectKey) -> Option<&mut PodWork> {
        Some(&mut **self.tables.pods.get_mut(pod)?.work.get_or_insert_default())
    }
}

/// Whether the pod's status says just this of its entries.
fn is_recorded(pod: &Pod, names: &[(Text, Text)]) -> bool {
    names.iter().all(|(entry, claim)| {
        pod.claims.iter().any(|there| match &there.source {
            ClaimSource::Template { resolved: Some(Some(recorded)), .. } => {
                there.name == *entry && recorded == claim
            }
            ClaimSource::Template { .. } | ClaimSource::Claim(_) | ClaimSource::Unknown => false,
        })
    })
}
