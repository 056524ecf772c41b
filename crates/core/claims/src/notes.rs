//! How the machine takes in objects, and the items that it queues because of them.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Pod, PodClaim, PodGroup, Timestamp, Uid};

use crate::{
    Claims,
    holder::{Holder, HolderKind},
    input::{Input, SeenClaim, Template},
    queue::Item,
    standing::is_done,
};

impl Claims {
    pub(crate) fn take_note(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Pod(pod) => self.see_pod(pod),
            Input::PodGone { key, uid, last_told } => self.miss_pod(&key, &uid, last_told),
            Input::Group(group) => self.see_group(group),
            Input::GroupGone { key, uid } => self.miss_group(&key, &uid),
            Input::Claim(seen) => self.see_claim(seen),
            Input::ClaimGone(key) => self.miss_claim(&key),
            Input::Node(report) => self.see_node(report),
            Input::NodeGone(name) => self.miss_node(&name),
            Input::Template(template) => self.see_template(template),
            Input::TemplateGone(key) => drop(self.tables.templates.remove(&key)),
            Input::PodsListed(pods) => self.list_pods(pods),
            Input::ClaimsListed(claims) => self.list_claims(claims),
            Input::TemplatesListed(templates) => self.list_templates(templates),
            Input::Synced => self.synced = true,
            Input::Acknowledged { effect, outcome, why } => self.acknowledge(now, effect, outcome, why),
            Input::Tick => {}
            Input::BecameLeader => self.leads = true,
            Input::LostLeadership => self.leads = false,
        }
    }

    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees the order")]
    fn list_pods(&mut self, pods: Vec<Arc<Pod>>) {
        let there: BTreeSet<&Uid> = pods.iter().map(|pod| &pod.uid).collect();
        let known = self.tables.pods.values().map(|slot| &slot.pod);
        let gone =
            known.filter(|pod| !there.contains(&pod.uid)).map(|pod| (pod.key.clone(), pod.uid.clone()));
        let gone: BTreeSet<(ObjectKey, Uid)> = gone.collect();
        gone.iter().for_each(|(key, uid)| self.miss_pod(key, uid, false));
        pods.into_iter().for_each(|pod| self.see_pod(pod));
    }

    #[allow(clippy::disallowed_methods, reason = "sorted before anybody sees the order")]
    fn list_claims(&mut self, claims: Vec<SeenClaim>) {
        let there: BTreeSet<&ObjectKey> = claims.iter().map(|seen| &seen.claim.key).collect();
        let known = self.tables.claims.keys();
        let gone: BTreeSet<ObjectKey> = known.filter(|key| !there.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.miss_claim(key));
        claims.into_iter().for_each(|seen| self.see_claim(seen));
    }

    fn list_templates(&mut self, templates: Vec<Arc<Template>>) {
        let there: BTreeSet<ObjectKey> = templates.iter().map(|template| template.key.clone()).collect();
        self.tables.templates.retain(|key, _| there.contains(key));
        templates.into_iter().for_each(|template| self.see_template(template));
    }

    fn see_pod(&mut self, pod: Arc<Pod>) {
        if self.confirmations.gone.contains(&pod.uid) {
            // Its last states say how it ended.
            if self.tables.pods.get(&pod.key).is_some_and(|slot| slot.pod.uid == pod.uid) {
                self.tables.put_pod(pod);
            }
            return;
        }
        self.confirmations.seen(&pod.uid);
        let before = self.tables.put_pod(pod.clone());
        if before.is_some_and(|before| is_same(&before, &pod)) {
            return;
        }
        if !pod.claims.is_empty() {
            self.touch(Item::Holder(HolderKind::Pod, pod.key.clone()));
        }
        self.touch_claims_of(HolderKind::Pod, &pod.key);
        for name in pod.claims.iter().filter_map(PodClaim::claim) {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            self.touch(Item::Claim(key));
        }
    }

    fn see_group(&mut self, group: Arc<PodGroup>) {
        if self.confirmations.gone.contains(&group.uid) {
            return;
        }
        self.confirmations.seen(&group.uid);
        let before = self.tables.put_group(group.clone());
        if before.is_some_and(|before| before == group) {
            return;
        }
        self.touch(Item::Holder(HolderKind::Group, group.key.clone()));
        self.touch_claims_of(HolderKind::Group, &group.key);
        self.touch_pods_of_group(&group.key);
    }

    fn miss_group(&mut self, key: &ObjectKey, uid: &Uid) {
        self.confirmations.is_gone(uid);
        if self.tables.groups.get(key).is_some_and(|slot| slot.group.uid == *uid) {
            self.tables.remove_group(key);
        }
        self.touch_claims_of(HolderKind::Group, key);
    }

    /// Pods get the names of their group's claims.
    fn touch_pods_of_group(&mut self, group: &ObjectKey) {
        let pods: Vec<ObjectKey> = self.tables.pods_of_group.of(group).collect();
        pods.into_iter().for_each(|pod| self.touch(Item::Holder(HolderKind::Pod, pod)));
    }

    fn miss_pod(&mut self, key: &ObjectKey, uid: &Uid, last_told: bool) {
        self.confirmations.is_gone(uid);
        if self.tables.pods.get(key).is_some_and(|slot| slot.pod.uid == *uid) {
            self.note_how_it_ended(key, last_told);
            self.tables.remove_pod(key);
        }
        self.touch_claims_of(HolderKind::Pod, key);
    }

    fn see_claim(&mut self, seen: SeenClaim) {
        let key = seen.claim.key.clone();
        if let Some(slot) = self.tables.claims.get(&key)
            && slot.seen.claim.uid == seen.claim.uid
            && is_older(&seen.version, &slot.seen.version)
        {
            return;
        }
        let before = self.tables.put_claim(seen.clone());
        if let Some(before) = before.as_ref().filter(|before| !is_kept(before, &seen)) {
            self.claim_let_go(before, Some(&seen));
        }
        self.touch(Item::Claim(key));
        let same = before.is_some_and(|before| {
            before.claim.uid == seen.claim.uid
                && before.claim.owner == seen.claim.owner
                && before.entry == seen.entry
        });
        if !same {
            self.touch_holders_of(&seen);
        }
    }

    fn miss_claim(&mut self, key: &ObjectKey) {
        if let Some(seen) = self.tables.remove_claim(key) {
            self.forget_made(&seen);
            self.claim_let_go(&seen, None);
            self.touch_holders_of(&seen);
        }
    }

    /// Looks at whoever names or owns a claim.
    fn touch_holders_of(&mut self, seen: &SeenClaim) {
        let pods: Vec<ObjectKey> = self.tables.pods_of_claim.of(&seen.claim.key).collect();
        pods.into_iter().for_each(|pod| self.touch(Item::Holder(HolderKind::Pod, pod)));
        if let Some(Holder { kind, key, .. }) = seen.holder() {
            if kind == HolderKind::Group {
                self.touch_pods_of_group(&key);
            }
            self.touch(Item::Holder(kind, key));
        }
    }

    fn see_template(&mut self, template: Arc<Template>) {
        let key = template.key.clone();
        if self.tables.templates.insert(key.clone(), template).is_none() {
            let pods: Vec<ObjectKey> = self.tables.pods_of_template.of(&key).collect();
            pods.into_iter().for_each(|pod| self.touch(Item::Holder(HolderKind::Pod, pod)));
            let groups: Vec<ObjectKey> = self.tables.groups_of_template.of(&key).collect();
            groups.into_iter().for_each(|group| self.touch(Item::Holder(HolderKind::Group, group)));
        }
    }
}

/// Whether nothing changed that matters here.
fn is_same(before: &Pod, now: &Pod) -> bool {
    before.uid == now.uid
        && before.node.is_some() == now.node.is_some()
        && before.deleting_since.is_some() == now.deleting_since.is_some()
        && is_done(before) == is_done(now)
        && before.group == now.group
        && before.claims == now.claims
        && before.extended_claim == now.extended_claim
}

/// Whether a claim still has the allocation that it had, if any.
fn is_kept(before: &SeenClaim, now: &SeenClaim) -> bool {
    before.claim.allocation.is_none() || (before.claim.uid == now.claim.uid && now.claim.allocation.is_some())
}

/// Versions of one object are numbers that grow; of others nothing is said.
fn is_older(this: &str, that: &str) -> bool {
    match (this.parse::<u64>(), that.parse::<u64>()) {
        (Ok(this), Ok(that)) => this < that,
        (Err(_), _) | (_, Err(_)) => false,
    }
}
