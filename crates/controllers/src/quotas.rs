//! Quotas: runs [`lazaret_quota`] and writes the statuses that it decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_model::{ObjectKey, Timestamp};
use lazaret_quota::{Amounts, Classes, Counted, DeviceClaim, Facts, Quota, Quotas, SetStatus, Told, Usage};
use lazaret_runtime::{
    Agent, CLAIMS, CLASSES, Call, Client, Effect, EffectId, News, Object, Outcome, PODS, Perform, Reply,
    Resource, ViewWish, Wake,
};
use lazaret_workloads::resource as kinds;
use serde_json::{Value, json};
use tracing::warn;

use crate::custom::CustomKinds;

/// What it calls itself.
pub(crate) const NAME: &str = "resource-quota";

const QUOTAS: Resource = kinds::QUOTAS;
const DEFINITIONS: Resource = kinds::DEFINITIONS;

/// What it must hear of before it does anything. Kinds that quotas count are followed while there are such quotas.
pub(crate) const RESOURCES: &[Resource] = &[QUOTAS];
/// What it hears of besides, as far as it is served.
pub(crate) const OPTIONAL: &[Resource] = &[DEFINITIONS, CLASSES];

type Objects = BTreeMap<ObjectKey, Arc<Object>>;

/// The core with what it has been told.
#[derive(Debug)]
pub(crate) struct QuotaAgent {
    quotas: Quotas,
    stored: Objects,
    classes: Objects,
    custom: CustomKinds,
    /// The objects of the kinds that are followed: the core is told of those in namespaces with a quota.
    objects: BTreeMap<Resource, Objects>,
    /// Claims for the extended resources of a pod, by the pod.
    extended: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Other kinds are counted than before, perhaps.
    needs_changed: bool,
    /// Other kinds are to be followed than before.
    follow: bool,
    now: Timestamp,
}

impl QuotaAgent {
    pub(crate) fn new() -> Self {
        let mut quotas = Quotas::default();
        for kind in kinds::KNOWN.iter().filter(|kind| kind.namespaced) {
            quotas.learn(kind.group, kind.plural);
        }
        Self {
            quotas,
            stored: Objects::new(),
            classes: Objects::new(),
            custom: CustomKinds::default(),
            objects: BTreeMap::new(),
            extended: BTreeMap::new(),
            needs_changed: false,
            follow: false,
            now: Timestamp::EPOCH,
        }
    }

    fn quota(&mut self, now: Timestamp, object: &Arc<Object>) {
        let quota = match Quota::read(object.json()) {
            Ok(quota) => quota,
            Err(error) => {
                warn!(quota = %object.key, %error, "a quota cannot be read");
                return;
            }
        };
        self.stored.insert(object.key.clone(), Arc::clone(object));
        match self.quotas.set_quota(now, quota) {
            Told::First => {
                self.tell_namespace(now, &object.key.namespace);
                self.needs_changed = true;
            }
            Told::Changed => self.needs_changed = true,
            Told::Same => {}
        }
    }

    fn quota_gone(&mut self, key: &ObjectKey) {
        self.stored.remove(key);
        self.needs_changed = true;
        self.quotas.remove_quota(&key.namespace, &key.name);
    }

    fn quotas_listed(&mut self, now: Timestamp, objects: &[Arc<Object>]) {
        let there: BTreeSet<&ObjectKey> = objects.iter().map(|object| &object.key).collect();
        let gone: Vec<ObjectKey> = self.stored.keys().filter(|key| !there.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.quota_gone(key));
        objects.iter().for_each(|object| self.quota(now, object));
    }

    /// A definition is there, has changed, or has gone: the kinds that can be counted are others perhaps.
    fn define(&mut self, now: Timestamp, news: &News) {
        let mut changes = Vec::new();
        match news {
            News::Listed(_, objects, _) => {
                changes.extend(objects.iter().map(|object| self.custom.set(object)))
            }
            News::Set(_, object) => changes.push(self.custom.set(object)),
            News::Gone(_, object) => changes.push((None, self.custom.remove(&object.key))),
            News::Barred(..) => {}
        }
        for (new, old) in changes {
            self.needs_changed |= new.is_some() || old.is_some();
            if let Some(old) = old.filter(|old| old.namespaced) {
                self.quotas.forget(now, old.group, old.plural);
                self.objects.remove(old);
            }
            if let Some(new) = new.filter(|new| new.namespaced) {
                self.quotas.learn(new.group, new.plural);
            }
        }
    }

    fn class(&mut self, now: Timestamp, news: &News) {
        match news {
            News::Listed(_, objects, _) => {
                self.classes =
                    objects.iter().map(|object| (object.key.clone(), Arc::clone(object))).collect();
            }
            News::Set(_, object) => {
                self.classes.insert(object.key.clone(), Arc::clone(object));
            }
            News::Gone(_, object) => {
                self.classes.remove(&object.key);
            }
            News::Barred(..) => {}
        }
        let mut classes = Classes::default();
        for (key, object) in &self.classes {
            let class: Value = serde_json::from_slice(object.json()).unwrap_or_default();
            classes.add(&key.name, class["spec"]["extendedResourceName"].as_str());
        }
        if classes != *self.quotas.classes() {
            self.quotas.set_classes(classes);
            self.needs_changed = true;
            // What claims use depends on them.
            for object in self.objects.get(&CLAIMS).cloned().unwrap_or_default().values() {
                self.tell(now, CLAIMS, object);
            }
        }
    }

    fn object(&mut self, now: Timestamp, news: News) {
        match news {
            News::Listed(resource, objects, _) => {
                self.quotas.clear(now, resource.group, resource.plural);
                let all = objects.iter().map(|object| (object.key.clone(), Arc::clone(object))).collect();
                self.objects.insert(resource, all);
                objects.iter().for_each(|object| self.tell(now, resource, object));
                self.quotas.list(resource.group, resource.plural);
            }
            News::Set(resource, object) => {
                let Some(objects) = self.objects.get_mut(&resource) else { return };
                objects.insert(object.key.clone(), Arc::clone(&object));
                self.tell(now, resource, &object);
            }
            News::Gone(resource, object) => {
                let Some(objects) = self.objects.get_mut(&resource) else { return };
                objects.remove(&object.key);
                if let Some(kind) = Counted::of(resource.group, resource.plural) {
                    self.quotas.remove(now, &kind, &object.key.namespace, &object.key.name);
                }
                self.tell_claims_of(now, resource, &object.key);
            }
            // It is not served: no quota can count it.
            News::Barred(resource, _) => {
                self.objects.remove(&resource);
                self.quotas.forget(now, resource.group, resource.plural);
            }
        }
    }

    fn tell_namespace(&mut self, now: Timestamp, namespace: &str) {
        let from = ObjectKey::new(namespace, "");
        let mut inside = Vec::new();
        for (resource, objects) in &self.objects {
            let found = objects.range(from.clone()..).take_while(|(key, _)| &*key.namespace == namespace);
            inside.extend(found.map(|(_, object)| (*resource, Arc::clone(object))));
        }
        inside.iter().for_each(|(resource, object)| self.tell(now, *resource, object));
    }

    /// Tells the core what an object uses, if a quota is about its namespace.
    fn tell(&mut self, now: Timestamp, resource: Resource, object: &Arc<Object>) {
        let key = &object.key;
        if !self.quotas.tracks(&key.namespace) {
            return;
        }
        let Some(kind) = Counted::of(resource.group, resource.plural) else { return };
        let facts = match Facts::read(&kind, object.json()) {
            Ok(facts) => facts,
            Err(error) => {
                warn!(kind = resource.kind, key = %key, %error, "an object cannot be read and is not counted");
                return;
            }
        };
        let pod = if let Facts::DeviceClaim(claim) = &facts { self.pod_of(now, key, claim) } else { None };
        let usage = Usage::of(&kind, &facts, self.quotas.classes(), pod.as_ref());
        self.quotas.put(now, &kind, &key.namespace, &key.name, usage);
        self.tell_claims_of(now, resource, key);
    }

    /// A pod has changed or gone: what the claims for its extended resources use may be something else.
    fn tell_claims_of(&mut self, now: Timestamp, resource: Resource, pod: &ObjectKey) {
        if resource != PODS {
            return;
        }
        for claim in self.extended.get(pod).cloned().unwrap_or_default() {
            if let Some(object) = self.objects.get(&CLAIMS).and_then(|claims| claims.get(&claim)).cloned() {
                self.tell(now, CLAIMS, &object);
            }
        }
    }

    /// What the pod uses for whose extended resources a claim was made. Of several such claims only one is the pod's: the one that it names,
    /// or the first.
    fn pod_of(&mut self, now: Timestamp, key: &ObjectKey, claim: &DeviceClaim) -> Option<Amounts> {
        let (name, uid) = claim.extended_for()?;
        let pod = ObjectKey::new(&*key.namespace, name);
        self.extended.entry(pod.clone()).or_default().insert(key.clone());
        let found = self.objects.get(&PODS)?.get(&pod).filter(|found| &*found.uid == uid)?;
        let status: Value = serde_json::from_slice(found.json()).ok()?;
        match status["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str() {
            Some(named) if named != claim.name() => return None,
            None if self.has_earlier_claim(&pod, claim) => return None,
            Some(_) | None => {}
        }
        let kind = Counted::of(PODS.group, PODS.plural)?;
        let facts = Facts::read(&kind, found.json()).ok()?;
        Some(Usage::of(&kind, &facts, self.quotas.classes(), None).at(now))
    }

    fn has_earlier_claim(&self, pod: &ObjectKey, claim: &DeviceClaim) -> bool {
        let claims = self.objects.get(&CLAIMS);
        self.extended.get(pod).into_iter().flatten().any(|key| {
            let other = claims.and_then(|claims| claims.get(key));
            let other = other.and_then(|other| serde_json::from_slice::<DeviceClaim>(other.json()).ok());
            other.is_some_and(|other| other.extended_for() == claim.extended_for() && other.is_before(claim))
        })
    }

    /// Follows what quotas count now, and forgets what none does any more.
    fn needs(&mut self, now: Timestamp) {
        let wanted = self.wanted();
        let known: Vec<Resource> = self.objects.keys().copied().collect();
        for resource in known.iter().filter(|known| **known != QUOTAS && !wanted.contains(known)) {
            self.objects.remove(resource);
            self.quotas.clear(now, resource.group, resource.plural);
        }
        self.follow = true;
    }

    /// The kinds that some quota counts.
    fn wanted(&self) -> Vec<Resource> {
        let find = |group: &str, plural: &str| {
            let known =
                kinds::KNOWN.iter().find(|kind| kind.plural == plural && kind.group == group).copied();
            known.or_else(|| self.custom.find(group, plural)).copied()
        };
        self.quotas.needs().into_iter().filter_map(|(group, plural)| find(group, plural)).collect()
    }
}

impl Agent for QuotaAgent {
    type Effect = Write;

    fn hear(&mut self, now: Timestamp, news: News) {
        let about = news.resource();
        if about == DEFINITIONS {
            self.define(now, &news);
        } else if about == CLASSES {
            self.class(now, &news);
        } else if about == QUOTAS {
            match &news {
                News::Listed(_, objects, _) => self.quotas_listed(now, objects),
                News::Set(_, object) => self.quota(now, object),
                News::Gone(_, object) => self.quota_gone(&object.key),
                News::Barred(..) => {}
            }
            // Quotas count quotas.
            if self.objects.contains_key(&QUOTAS) || matches!(news, News::Listed(..)) {
                self.object(now, news);
            }
        } else {
            self.object(now, news);
            return;
        }
        if core::mem::take(&mut self.needs_changed) {
            self.needs(now);
        }
    }

    fn follow(&mut self) -> Option<Vec<Resource>> {
        core::mem::take(&mut self.follow)
            .then(|| self.wanted().into_iter().filter(|resource| *resource != QUOTAS).collect())
    }

    fn think(&mut self, now: Timestamp) {
        self.now = now;
        self.quotas.think(now);
    }

    fn lead(&mut self, _now: Timestamp, leading: bool) {
        if !leading {
            self.quotas.abandon();
        }
    }

    fn wants_view(&mut self) -> Option<ViewWish> {
        let (number, kinds) = self.quotas.wants_view(self.now)?;
        let of = |resource: &Resource| {
            kinds.iter().any(|(group, plural)| group == resource.group && plural == resource.plural)
        };
        Some(ViewWish { number, resources: self.objects.keys().filter(|known| of(known)).copied().collect() })
    }

    fn view_reached(&mut self, _now: Timestamp, number: u64) {
        self.quotas.view_reached(number);
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        if let Some(quota) = reply.object.and_then(|text| Quota::read(&text).ok()) {
            self.quotas.set_quota(now, quota);
        }
        self.quotas.acknowledge(now, effect, reply.outcome);
    }

    fn poll(&mut self) -> Option<Effect<Write>> {
        loop {
            let Effect { id, kind: set } = self.quotas.poll_effect()?;
            let key = ObjectKey::new(set.namespace.as_str(), set.name.as_str());
            let stored = self.stored.get(&key);
            match stored.filter(|stored| *stored.resource_version == set.resource_version) {
                Some(stored) => return Some(Effect { id, kind: Write::new(key, stored, &set) }),
                None => self.quotas.acknowledge(self.now, id, Outcome::Conflict),
            }
        }
    }

    fn wake(&self) -> Option<Wake> {
        self.quotas.next_wake()
    }
}

/// The status of a quota, to be written if the quota is still as it was.
#[derive(Debug)]
pub(crate) struct Write {
    key: ObjectKey,
    body: String,
}

impl Write {
    fn new(key: ObjectKey, stored: &Object, set: &SetStatus) -> Self {
        let mut quota: Value = serde_json::from_slice(stored.json()).unwrap_or_default();
        let text = |amounts: &Amounts| -> BTreeMap<String, String> {
            amounts.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect()
        };
        quota["apiVersion"] = QUOTAS.api_version().into();
        quota["kind"] = QUOTAS.kind.into();
        quota["status"] = json!({"hard": text(&set.hard), "used": text(&set.used)});
        Self { key, body: quota.to_string() }
    }
}

/// Writes statuses of quotas.
#[derive(Debug)]
pub(crate) struct Executor {
    client: Client,
}

impl Executor {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Perform<Write> for Executor {
    async fn perform(&self, write: Write) -> Reply {
        let Write { key, body } = write;
        let call = Call::replace(&QUOTAS, &key.namespace, &key.name, "status", body);
        self.client.send(call).await.into()
    }
}
