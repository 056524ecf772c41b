//! A cluster that does what an API server would with what the machine wants done, and notices what must not happen.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part of it")]

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use lazaret_claims::{
    ChangeClaim, ClaimStep, CreateClaim, EffectKind, FINALIZER, Input, Outcome, SeenClaim, SetClaimNames,
    Template,
};
use lazaret_model::{
    Allocation, ClaimSource, Consumer, ObjectKey, Owner, Pod, PodClaim, PodPhase, ResourceClaim, Text,
    Timestamp, Uid,
};

#[derive(Clone, Debug, Default)]
pub struct StoredClaim {
    pub claim: ResourceClaim,
    pub version: u64,
    pub finalizers: Vec<Text>,
    pub entry: Option<Text>,
    pub awaiting: Option<Text>,
}

#[derive(Debug, Default)]
pub struct World {
    pub pods: BTreeMap<ObjectKey, Pod>,
    pub claims: BTreeMap<ObjectKey, StoredClaim>,
    pub templates: BTreeMap<ObjectKey, Template>,
    /// The news that the watches of pods, claims and templates have not delivered. Each keeps its order; one may be far behind another.
    pub news: [VecDeque<Input>; 3],
    pub writes: usize,
    /// Violations.
    pub wrong: Vec<String>,
    revision: u64,
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

pub fn direct(entry: &str, claim: &str) -> PodClaim {
    PodClaim { name: entry.into(), source: ClaimSource::Claim(claim.into()) }
}

pub fn templated(entry: &str, template: &str) -> PodClaim {
    PodClaim {
        name: entry.into(),
        source: ClaimSource::Template { template: template.into(), resolved: None },
    }
}

pub fn consumer(pod: &Pod) -> Consumer {
    Consumer {
        resource: "pods".into(),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
        ..Consumer::default()
    }
}

pub fn is_needed(pod: &Pod) -> bool {
    !pod.phase.is_finished() && (pod.deleting_since.is_none() || pod.node.is_some())
}

// === Acts of people, the scheduler and kubelets ===
impl World {
    pub fn add_template(&mut self, name: &str) {
        let template = Template { key: key(name), spec: "{\"devices\":{}}".into(), ..Template::default() };
        self.templates.insert(key(name), template.clone());
        self.tell(Input::Template(Arc::new(template)));
    }

    pub fn remove_template(&mut self, name: &str) {
        if self.templates.remove(&key(name)).is_some() {
            self.tell(Input::TemplateGone(key(name)));
        }
    }

    pub fn add_pod(&mut self, name: &str, claims: Vec<PodClaim>) {
        if !self.pods.contains_key(&key(name)) {
            self.revision += 1;
            let uid = format!("pod-{}", self.revision).into();
            self.put_pod(Pod { key: key(name), uid, claims, ..Pod::default() });
        }
    }

    pub fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(mut pod) = self.pods.get(&key(name)).cloned() {
            change(&mut pod);
            self.put_pod(pod);
        }
    }

    pub fn bind(&mut self, name: &str) {
        self.change_pod(name, |pod| {
            if pod.deleting_since.is_none() {
                pod.node = Some("node".into());
            }
        });
    }

    pub fn finish(&mut self, name: &str) {
        self.change_pod(name, |pod| {
            if pod.node.is_some() {
                pod.phase = PodPhase::Succeeded;
            }
        });
    }

    pub fn delete_pod(&mut self, name: &str) {
        self.change_pod(name, |pod| pod.deleting_since = Some(Timestamp::EPOCH));
    }

    pub fn remove_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(&key(name)) {
            self.tell(Input::PodGone { key: key(name), uid: pod.uid, last_told: true });
        }
    }

    pub fn add_claim(&mut self, name: &str) {
        if !self.claims.contains_key(&key(name)) {
            let claim = ResourceClaim { key: key(name), uid: self.new_uid(), ..ResourceClaim::default() };
            self.put_claim(StoredClaim { claim, ..StoredClaim::default() });
        }
    }

    /// The scheduler's first step of an allocation.
    pub fn protect(&mut self, claim: &ObjectKey) {
        if let Some(mut stored) = self.claims.get(claim).cloned()
            && !stored.claim.deleting
            && !stored.finalizers.iter().any(|name| *name == FINALIZER)
        {
            stored.finalizers.push(FINALIZER.into());
            self.put_claim(stored);
        }
    }

    /// The second: allocated, and reserved for a pod.
    pub fn allocate(&mut self, claim: &ObjectKey, pod: Option<&ObjectKey>) {
        self.protect(claim);
        let user = pod.and_then(|pod| self.pods.get(pod)).filter(|pod| is_needed(pod)).map(consumer);
        if let Some(mut stored) = self.claims.get(claim).cloned()
            && !stored.claim.deleting
        {
            stored.claim.allocation.get_or_insert_with(|| Arc::new(Allocation::default()));
            if let Some(user) = user
                && !stored.claim.reserved_for.contains(&user)
            {
                stored.claim.reserved_for.push(user);
            }
            self.put_claim(stored);
        }
    }

    pub fn delete_claim(&mut self, claim: &ObjectKey) {
        let Some(mut stored) = self.claims.get(claim).cloned() else { return };
        if stored.finalizers.is_empty() {
            self.claims.remove(claim);
            self.tell(Input::ClaimGone(claim.clone()));
        } else if !stored.claim.deleting {
            stored.claim.deleting = true;
            self.put_claim(stored);
        }
    }

    /// The first claim that was made for this entry of a pod.
    pub fn claim_of(&self, pod: &str, entry: &str) -> Option<ObjectKey> {
        let uid = &self.pods.get(&key(pod))?.uid;
        self.made_for(uid, entry).next().map(|stored| stored.claim.key.clone())
    }

    pub fn made_for<'a>(&'a self, pod: &'a Uid, entry: &'a str) -> impl Iterator<Item = &'a StoredClaim> {
        self.claims.values().filter(move |stored| {
            stored.claim.owner.as_ref().is_some_and(|owner| owner.uid == *pod)
                && stored.entry.as_ref().is_some_and(|name| name == entry)
        })
    }

    /// Everything, as lists tell it.
    pub fn list(&self) -> [Input; 3] {
        let templates = self.templates.values().cloned().map(Arc::new).collect();
        [
            Input::PodsListed(self.pods.values().cloned().map(Arc::new).collect()),
            Input::ClaimsListed(self.claims.values().map(seen).collect()),
            Input::TemplatesListed(templates),
        ]
    }

    fn tell(&mut self, news: Input) {
        let of_pods = matches!(news, Input::Pod(_) | Input::PodGone { .. });
        let of_claims = matches!(news, Input::Claim(_) | Input::ClaimGone(_));
        let watch = if of_pods { 0 } else { 2 - usize::from(of_claims) };
        self.news[watch].push_back(news);
    }

    fn new_uid(&mut self) -> Uid {
        self.revision += 1;
        format!("uid-{}", self.revision).into()
    }

    fn put_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.key.clone(), pod.clone());
        self.tell(Input::Pod(Arc::new(pod)));
    }

    pub fn put_claim(&mut self, mut stored: StoredClaim) {
        self.revision += 1;
        stored.version = self.revision;
        self.tell(Input::Claim(seen(&stored)));
        self.claims.insert(stored.claim.key.clone(), stored);
    }
}

// === The API server ===
impl World {
    /// Does at most `steps_max` steps of it.
    pub fn carry_out(&mut self, effect: &EffectKind, steps_max: usize) -> Outcome {
        match effect {
            EffectKind::CreateClaim(create) => self.create(create),
            EffectKind::SetClaimNames(write) => self.set_claim_names(write),
            EffectKind::ChangeClaim(change) => self.change(change, steps_max),
            EffectKind::Confirm(holder) => {
                let lives = self.pods.get(&holder.key).is_some_and(|pod| pod.uid == holder.uid);
                if lives { Outcome::Done } else { Outcome::Gone }
            }
            // No node of this world says what is prepared on it.
            EffectKind::ConfirmNode(_) => Outcome::Gone,
            EffectKind::AskNode(ask) => {
                self.wrong.push(format!("asked {}", ask.node));
                Outcome::Gone
            }
            EffectKind::Event(_) | EffectKind::ClaimEvent(_) => Outcome::Done,
        }
    }

    fn create(&mut self, create: &CreateClaim) -> Outcome {
        if let Some(there) = self.claims.get(&create.claim) {
            let ours = there.claim.owner.as_ref().is_some_and(|owner| owner.uid == create.holder.uid);
            return if ours { Outcome::Done } else { Outcome::Conflict };
        }
        self.writes += 1;
        let owner = Owner {
            kind: "Pod".into(),
            name: create.holder.key.name.clone(),
            uid: create.holder.uid.clone(),
            ..Owner::default()
        };
        let claim = ResourceClaim {
            key: create.claim.clone(),
            uid: self.new_uid(),
            owner: Some(owner),
            ..ResourceClaim::default()
        };
        let (entry, finalizers) = (Some(create.entry.clone()), vec![FINALIZER.into()]);
        self.put_claim(StoredClaim { claim, entry, finalizers, ..StoredClaim::default() });
        if self.made_for(&create.holder.uid, &create.entry).count() > 1 {
            self.wrong.push(format!("a second claim for {} of {}", create.entry, create.holder.key));
        }
        Outcome::Done
    }

    fn set_claim_names(&mut self, write: &SetClaimNames) -> Outcome {
        let holder = &write.holder;
        let Some(mut pod) = self.pods.get(&holder.key).filter(|pod| pod.uid == holder.uid).cloned() else {
            return Outcome::Gone;
        };
        self.writes += 1;
        for (entry, claim) in &write.names {
            for there in pod.claims.iter_mut().filter(|there| there.name == *entry) {
                if let ClaimSource::Template { resolved, .. } = &mut there.source {
                    *resolved = Some(Some(claim.clone()));
                }
            }
        }
        self.put_pod(pod);
        Outcome::Done
    }

    fn change(&mut self, change: &ChangeClaim, steps_max: usize) -> Outcome {
        let Some(stored) = self.claims.get(&change.claim).filter(|stored| stored.claim.uid == change.uid)
        else {
            return Outcome::Gone;
        };
        let mut version = change.version.to_string();
        if change.steps.is_empty() {
            self.wrong.push("a change without a step".to_owned());
        }
        let mut stored = stored.clone();
        for (done, step) in change.steps.iter().enumerate() {
            if done == steps_max {
                return Outcome::RetryLater;
            }
            if stored.version.to_string() != version {
                return Outcome::Conflict;
            }
            self.writes += 1;
            match step {
                ClaimStep::SetStatus { reserved_for, deallocate } => {
                    self.check_status(&stored, reserved_for, *deallocate);
                    stored.claim.reserved_for.clone_from(reserved_for);
                    if *deallocate {
                        stored.claim.allocation = None;
                    }
                    self.put_claim(stored.clone());
                }
                ClaimStep::SetFinalizers(finalizers) => {
                    if finalizers.is_empty() {
                        self.check_status(&stored, &[], true);
                    }
                    stored.finalizers.clone_from(finalizers);
                    self.put_claim(stored.clone());
                    if stored.claim.deleting && finalizers.is_empty() {
                        self.delete_claim(&change.claim);
                    }
                }
                ClaimStep::SetAwaiting(nodes) => {
                    stored.awaiting.clone_from(nodes);
                    self.put_claim(stored.clone());
                }
                ClaimStep::Delete => {
                    let owner = stored.claim.owner.as_ref().map(|owner| owner.uid.clone());
                    if self.pods.values().any(|pod| Some(&pod.uid) == owner.as_ref() && is_needed(pod)) {
                        self.wrong.push(format!("deleted {}, whose pod needs it", change.claim));
                    }
                    self.delete_claim(&change.claim);
                }
            }
            match self.claims.get(&change.claim) {
                Some(now) => stored = now.clone(),
                None => return Outcome::Done,
            }
            version = stored.version.to_string();
        }
        Outcome::Done
    }

    fn check_status(&mut self, stored: &StoredClaim, reserved_for: &[Consumer], deallocate: bool) {
        for user in &stored.claim.reserved_for {
            let needed = self.pods.values().any(|pod| pod.uid == user.uid && is_needed(pod));
            if needed && !reserved_for.contains(user) {
                self.wrong.push(format!("{} taken from {}", stored.claim.key, user.name));
            }
        }
        let grown = reserved_for.iter().any(|user| !stored.claim.reserved_for.contains(user));
        if grown && (stored.claim.deleting || stored.claim.allocation.is_none()) {
            self.wrong.push(format!("{} reserved though it cannot be used", stored.claim.key));
        }
        let released = reserved_for.is_empty() && !stored.claim.reserved_for.is_empty();
        if released && stored.claim.allocation.is_some() && !deallocate {
            self.wrong.push(format!("{} keeps what nobody uses", stored.claim.key));
        }
        if deallocate && !reserved_for.is_empty() {
            self.wrong.push(format!("{} deallocated in use", stored.claim.key));
        }
    }
}

pub fn seen(stored: &StoredClaim) -> SeenClaim {
    SeenClaim {
        claim: Arc::new(stored.claim.clone()),
        version: stored.version.to_string().into(),
        finalizers: stored.finalizers.clone(),
        entry: stored.entry.clone(),
        awaiting: stored.awaiting.clone(),
    }
}
