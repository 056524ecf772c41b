//! Quotas: runs [`lazaret_quota`] and writes the statuses that it decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_machine::{Machine as _, Turn};
use lazaret_model::{ObjectKey, Timestamp};
use lazaret_quota::{
    Amounts, Classes, Counted, DeviceClaim, Facts, Quota, QuotaChange, Quotas, SetStatus, Usage,
};
use lazaret_runtime::{
    CLAIMS, CLASSES, Call, EffectId, News, Object, PODS, Perform, Reply, Resource, ViewWish,
};
use lazaret_workloads::resource as kinds;
use serde_json::{Value, json};

use crate::{
    custom::CustomKinds,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    writer::Writer,
};

pub(crate) const NAME: &str = "resource-quota";

const QUOTAS: Resource = kinds::QUOTAS;
const DEFINITIONS: Resource = kinds::DEFINITIONS;

/// Resources that must be listed before it acts. Kinds that quotas count are followed while there are such quotas.
pub(crate) const RESOURCES: &[Resource] = &[QUOTAS];
/// Resources that it watches where they are served.
pub(crate) const OPTIONAL: &[Resource] = &[DEFINITIONS, CLASSES];

type Objects = BTreeMap<ObjectKey, Arc<Object>>;

/// The objects that the core has received, and those that are kept to pass them on again.
#[derive(Debug, Default)]
pub(crate) struct QuotaShell {
    /// Of quotas and definitions.
    ledger: Ledger,
    classes: Objects,
    custom: CustomKinds,
    /// The objects of the kinds that are followed: the core gets those in namespaces with a quota.
    objects: BTreeMap<Resource, Objects>,
    /// Claims for the extended resources of a pod, by the pod.
    extended: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Other kinds are counted than before, perhaps.
    needs_changed: bool,
    /// Other kinds are to be followed than before.
    follow: bool,
    now: Timestamp,
}

impl QuotaShell {
    pub(crate) fn agent() -> MachineAgent<Self> {
        let mut quotas = Quotas::default();
        for kind in kinds::KNOWN.iter().filter(|kind| kind.namespaced) {
            quotas.learn(kind.group, kind.plural);
        }
        MachineAgent::new(quotas, Self::default())
    }

    fn quota(&mut self, quotas: &mut Quotas, now: Timestamp, object: &Object) {
        let quota = match Quota::read_whole(object.json()) {
            Ok(quota) => quota,
            Err(error) => {
                object.cannot_be_read(&error, "what the quota said before");
                return;
            }
        };
        let told = quotas.set_quota(now, quota);
        if told == QuotaChange::First {
            self.tell_namespace(quotas, now, &object.key.namespace);
        }
        self.needs_changed |= told != QuotaChange::Same;
    }

    /// A quota or a definition is there, has changed, or has gone.
    fn change(&mut self, quotas: &mut Quotas, now: Timestamp, change: &Change) {
        let (new, old) = match change {
            Change::Set(resource, object) if *resource == QUOTAS => return self.quota(quotas, now, object),
            Change::Gone(resource, key, _) if *resource == QUOTAS => {
                self.needs_changed = true;
                return quotas.remove_quota(&key.namespace, &key.name);
            }
            Change::Set(_, definition) => self.custom.set(definition),
            Change::Gone(_, key, _) => (None, self.custom.remove(key)),
        };
        self.needs_changed |= new.is_some() || old.is_some();
        if let Some(old) = old.filter(|old| old.namespaced) {
            quotas.forget(now, old.group, old.plural);
            self.objects.remove(old);
        }
        if let Some(new) = new.filter(|new| new.namespaced) {
            quotas.learn(new.group, new.plural);
        }
    }

    fn class(&mut self, quotas: &mut Quotas, now: Timestamp, news: &News) {
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
        if classes != *quotas.classes() {
            quotas.set_classes(classes);
            self.needs_changed = true;
            // The usage of claims depends on classes.
            for object in self.objects.get(&CLAIMS).cloned().unwrap_or_default().values() {
                self.tell(quotas, now, CLAIMS, object);
            }
        }
    }

    fn object(&mut self, quotas: &mut Quotas, now: Timestamp, news: News) {
        match news {
            News::Listed(resource, objects, _) => {
                quotas.clear(now, resource.group, resource.plural);
                let all = objects.iter().map(|object| (object.key.clone(), Arc::clone(object))).collect();
                self.objects.insert(resource, all);
                objects.iter().for_each(|object| self.tell(quotas, now, resource, object));
                quotas.list(resource.group, resource.plural);
            }
            News::Set(resource, object) => {
                let Some(objects) = self.objects.get_mut(&resource) else { return };
                objects.insert(object.key.clone(), Arc::clone(&object));
                self.tell(quotas, now, resource, &object);
            }
            News::Gone(resource, object) => {
                let Some(objects) = self.objects.get_mut(&resource) else { return };
                objects.remove(&object.key);
                if let Some(kind) = Counted::of(resource.group, resource.plural) {
                    quotas.remove(now, &kind, &object.key.namespace, &object.key.name);
                }
                self.tell_claims_of(quotas, now, resource, &object.key);
            }
            // It is not served: no quota can count it.
            News::Barred(resource, _) => {
                self.objects.remove(&resource);
                quotas.forget(now, resource.group, resource.plural);
            }
        }
    }

    fn tell_namespace(&mut self, quotas: &mut Quotas, now: Timestamp, namespace: &str) {
        let from = ObjectKey::new(namespace, "");
        let mut inside = Vec::new();
        for (resource, objects) in &self.objects {
            let found = objects.range(from.clone()..).take_while(|(key, _)| &*key.namespace == namespace);
            inside.extend(found.map(|(_, object)| (*resource, Arc::clone(object))));
        }
        inside.iter().for_each(|(resource, object)| self.tell(quotas, now, *resource, object));
    }

    /// Tells the core what an object uses, if a quota is about its namespace.
    fn tell(&mut self, quotas: &mut Quotas, now: Timestamp, resource: Resource, object: &Arc<Object>) {
        let key = &object.key;
        if !quotas.tracks(&key.namespace) {
            return;
        }
        let Some(kind) = Counted::of(resource.group, resource.plural) else { return };
        let facts = match Facts::read(&kind, object.json()) {
            Ok(facts) => facts,
            Err(error) => {
                object.cannot_be_read(&error, "what it used of its quota before");
                return;
            }
        };
        let pod =
            if let Facts::DeviceClaim(claim) = &facts { self.pod_of(quotas, now, key, claim) } else { None };
        let usage = Usage::of(&kind, &facts, quotas.classes(), pod.as_ref());
        quotas.put(now, &kind, &key.namespace, &key.name, usage);
        self.tell_claims_of(quotas, now, resource, key);
    }

    /// A pod has changed or gone: what the claims for its extended resources use may be something else.
    fn tell_claims_of(&mut self, quotas: &mut Quotas, now: Timestamp, resource: Resource, pod: &ObjectKey) {
        if resource != PODS {
            return;
        }
        for claim in self.extended.get(pod).cloned().unwrap_or_default() {
            if let Some(object) = self.objects.get(&CLAIMS).and_then(|claims| claims.get(&claim)).cloned() {
                self.tell(quotas, now, CLAIMS, &object);
            }
        }
    }

    /// The usage of the pod for whose extended resources a claim was made. Of several such claims only one is the pod's: the one that it names,
    /// or the first.
    fn pod_of(
        &mut self,
        quotas: &Quotas,
        now: Timestamp,
        key: &ObjectKey,
        claim: &DeviceClaim,
    ) -> Option<Amounts> {
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
        Some(Usage::of(&kind, &facts, quotas.classes(), None).at(now))
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
    fn needs(&mut self, quotas: &mut Quotas, now: Timestamp) {
        let wanted = self.wanted(quotas);
        let known: Vec<Resource> = self.objects.keys().copied().collect();
        for resource in known.iter().filter(|known| **known != QUOTAS && !wanted.contains(known)) {
            self.objects.remove(resource);
            quotas.clear(now, resource.group, resource.plural);
        }
        self.follow = true;
    }

    /// The kinds that some quota counts.
    fn wanted(&self, quotas: &Quotas) -> Vec<Resource> {
        let find = |group: &str, plural: &str| {
            let known =
                kinds::KNOWN.iter().find(|kind| kind.plural == plural && kind.group == group).copied();
            known.or_else(|| self.custom.find(group, plural)).copied()
        };
        quotas.needs().into_iter().filter_map(|(group, plural)| find(group, plural)).collect()
    }
}

impl Shell for QuotaShell {
    type Machine = Quotas;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, quotas: &mut Quotas, now: Timestamp, news: News) {
        let about = news.resource();
        if about == CLASSES {
            self.class(quotas, now, &news);
        } else if about == DEFINITIONS || about == QUOTAS {
            let mut ledger = core::mem::take(&mut self.ledger);
            ledger.changes(news.clone(), |change| self.change(quotas, now, &change));
            self.ledger = ledger;
            // Quotas count quotas.
            let counts = self.objects.contains_key(&QUOTAS) || matches!(news, News::Listed(..));
            if about == QUOTAS && counts {
                self.object(quotas, now, news);
            }
        } else {
            self.object(quotas, now, news);
            return;
        }
        if core::mem::take(&mut self.needs_changed) {
            self.needs(quotas, now);
        }
    }

    fn follow(&mut self, quotas: &Quotas) -> Option<Vec<Resource>> {
        core::mem::take(&mut self.follow)
            .then(|| self.wanted(quotas).into_iter().filter(|resource| *resource != QUOTAS).collect())
    }

    fn think(&mut self, quotas: &mut Quotas, now: Timestamp) {
        self.now = now;
        quotas.think(now);
    }

    fn wants_view(&mut self, quotas: &mut Quotas) -> Option<ViewWish> {
        let (number, kinds) = quotas.wants_view(self.now)?;
        let of = |resource: &Resource| {
            kinds.iter().any(|(group, plural)| group == resource.group && plural == resource.plural)
        };
        Some(ViewWish { number, resources: self.objects.keys().filter(|known| of(known)).copied().collect() })
    }

    fn view_reached(&mut self, quotas: &mut Quotas, _now: Timestamp, number: u64) {
        quotas.view_reached(number);
    }

    /// The object in the answer is used before the watch delivers it.
    fn acknowledge(&mut self, quotas: &mut Quotas, now: Timestamp, effect: EffectId, reply: Reply) {
        if let Some(quota) = reply.object.as_ref().and_then(|text| Quota::read_whole(text).ok()) {
            quotas.set_quota(now, quota);
        }
        quotas.handle(now, &(), Turn::Acknowledged(effect, reply.into()));
    }
}

/// Writes statuses of quotas.
impl Perform<SetStatus> for Writer {
    /// The quota must be as it was: the object that was read has its version.
    async fn perform(&self, set: SetStatus) -> Reply {
        let mut quota: Value = serde_json::from_slice(&set.object).unwrap_or_default();
        let text = |amounts: &Amounts| -> BTreeMap<String, String> {
            amounts.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect()
        };
        quota["apiVersion"] = QUOTAS.api_version().into();
        quota["kind"] = QUOTAS.kind.into();
        quota["status"] = json!({"hard": text(&set.hard), "used": text(&set.used)});
        let call = Call::replace(&QUOTAS, &set.namespace, &set.name, "status", quota.to_string());
        self.send(call).await.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(resource: Resource, text: &str) -> Arc<Object> {
        Arc::new(Object::new(&resource, text).unwrap())
    }

    #[test]
    fn a_definition_that_a_list_leaves_out_is_gone_and_its_kind_is_not_followed() {
        let definition = r#"{"metadata":{"name":"notes.example.com","uid":"d"},"spec":{"group":"example.com","scope":"Namespaced",
            "names":{"plural":"notes","kind":"Note"},"versions":[{"name":"v1","served":true}]},
            "status":{"conditions":[{"type":"Established","status":"True"}]}}"#;
        let quota = r#"{"metadata":{"name":"q","namespace":"n","uid":"u","resourceVersion":"1"},
            "spec":{"hard":{"count/notes.example.com":"1"}}}"#;
        let (mut quotas, mut shell) = (Quotas::default(), QuotaShell::default());
        let mut followed = |resource, objects| {
            shell.hear(&mut quotas, Timestamp::EPOCH, News::Listed(resource, objects, 1));
            let followed = shell.follow(&quotas).unwrap_or_default();
            followed.into_iter().map(|resource| resource.plural).collect::<Vec<_>>()
        };
        assert!(followed(QUOTAS, vec![object(QUOTAS, quota)]).is_empty());
        assert_eq!(followed(DEFINITIONS, vec![object(DEFINITIONS, definition)]), ["notes"]);
        assert!(followed(DEFINITIONS, Vec::new()).is_empty());
        let notes = shell.custom.find("example.com", "notes");
        assert_eq!(notes, None, "it is not served any more");
    }
}
