//! The objects as they were told, with where the work on each stands.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_model::{ClaimSource, ObjectKey, Pod, PodClaim, PodGroup, Text, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

use crate::{
    counters::{Census, Source},
    effect::ClaimStep,
    holder::{HolderKind, Needy},
    input::{SeenClaim, Template},
    links::Links,
    options::Options,
};

/// Attempts in a row that failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setback {
    pub(crate) failures: u32,
    pub(crate) not_before: Option<Timestamp>,
    /// The refused write was based on an old version: it may be tried again with the next news.
    pub(crate) until_news: bool,
}

impl Setback {
    /// When to try, if not now.
    pub(crate) fn hold(&self, now: Timestamp) -> Option<Timestamp> {
        self.not_before.filter(|at| *at > now)
    }

    pub(crate) fn fail(&mut self, now: Timestamp, options: &Options) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now.plus_millis(options.retry_ms(self.failures)));
        self.until_news = false;
    }

    pub(crate) fn wait_for_news(&mut self, now: Timestamp, options: &Options) {
        self.not_before = Some(now.plus_millis(options.recheck_ms));
        self.until_news = true;
    }

    pub(crate) fn hear_news(&mut self) {
        if self.until_news {
            *self = Self { failures: self.failures, ..Self::default() };
        }
    }
}

/// A pod.
#[derive(Debug)]
pub(crate) struct PodSlot {
    pub(crate) pod: Arc<Pod>,
    /// Only while something is in flight, or done and not seen yet.
    pub(crate) work: Option<Box<Work>>,
}

/// A group of pods.
#[derive(Debug)]
pub(crate) struct GroupSlot {
    pub(crate) group: Arc<PodGroup>,
    /// Only while something is in flight, or done and not seen yet.
    pub(crate) work: Option<Box<Work>>,
}

/// Where the work on the claims of a pod or group stands.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Effects in flight.
    pub(crate) pending: u32,
    /// Entry, claim, and until when it is believed in without having been seen.
    pub(crate) made: Vec<(Text, Text, Timestamp)>,
    /// The last write, and until when it is assumed without having been seen.
    pub(crate) written: Option<(Vec<(Text, Text)>, Timestamp)>,
    /// Names that turned out to be taken.
    pub(crate) taken: u32,
    /// An event has said what is missing.
    pub(crate) complained: bool,
    pub(crate) setback: Setback,
}

/// A claim.
#[derive(Debug)]
pub(crate) struct ClaimSlot {
    pub(crate) seen: SeenClaim,
    /// A change is in flight.
    pub(crate) in_flight: bool,
    /// The steps in flight or done last, and until when they are assumed without having been seen. If a seen version asks for the last of them, that
    /// is an echo.
    pub(crate) plan: Option<(Vec<ClaimStep>, Timestamp)>,
    pub(crate) setback: Setback,
}

/// All objects. As large as the cluster: one entry for each pod, group, claim and template, which shares the object.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) pods: HashMap<ObjectKey, PodSlot, FxBuildHasher>,
    pub(crate) groups: HashMap<ObjectKey, GroupSlot, FxBuildHasher>,
    pub(crate) claims: HashMap<ObjectKey, ClaimSlot, FxBuildHasher>,
    pub(crate) templates: HashMap<ObjectKey, Arc<Template>, FxBuildHasher>,
    /// From a pod to the claims that it owns or that are reserved for it.
    pub(crate) claims_of_pod: Links,
    /// The same of groups.
    pub(crate) claims_of_group: Links,
    /// From a group to its pods.
    pub(crate) pods_of_group: Links,
    /// From a claim to the pods that name it.
    pub(crate) pods_of_claim: Links,
    /// From a template to the pods that name it.
    pub(crate) pods_of_template: Links,
    /// From a template to the groups that name it.
    pub(crate) groups_of_template: Links,
    pub(crate) census: Census,
}

impl Tables {
    /// Returns the previous version.
    pub(crate) fn put_pod(&mut self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        let before = self.pods.get(&pod.key).map(|slot| slot.pod.clone());
        if let Some(before) = &before {
            self.unlink_pod(before);
        }
        each_template(&pod.claims, |template| {
            self.pods_of_template.add(&pod.key.namespace, template, &pod.key.name);
        });
        if let Some(group) = &pod.group {
            self.pods_of_group.add(&pod.key.namespace, group, &pod.key.name);
        }
        each_claim(&pod, |claim| self.pods_of_claim.add(&pod.key.namespace, claim, &pod.key.name));
        match self.pods.get_mut(&pod.key) {
            Some(slot) if slot.pod.uid == pod.uid => slot.pod = pod,
            Some(_) | None => {
                self.pods.insert(pod.key.clone(), PodSlot { pod, work: None });
            }
        }
        before
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) -> Option<Arc<Pod>> {
        let slot = self.pods.remove(key)?;
        self.unlink_pod(&slot.pod);
        Some(slot.pod)
    }

    /// Returns the previous version.
    pub(crate) fn put_group(&mut self, group: Arc<PodGroup>) -> Option<Arc<PodGroup>> {
        let before = self.groups.get(&group.key).map(|slot| slot.group.clone());
        if let Some(before) = &before {
            self.unlink_group(before);
        }
        each_template(&group.claims, |template| {
            self.groups_of_template.add(&group.key.namespace, template, &group.key.name);
        });
        match self.groups.get_mut(&group.key) {
            Some(slot) if slot.group.uid == group.uid => slot.group = group,
            Some(_) | None => {
                self.groups.insert(group.key.clone(), GroupSlot { group, work: None });
            }
        }
        before
    }

    pub(crate) fn remove_group(&mut self, key: &ObjectKey) {
        if let Some(slot) = self.groups.remove(key) {
            self.unlink_group(&slot.group);
        }
    }

    /// The pod or group that has this name now.
    pub(crate) fn needy(&self, kind: HolderKind, key: &ObjectKey) -> Option<Needy> {
        match kind {
            HolderKind::Pod => self.pods.get(key).map(|slot| Needy::Pod(slot.pod.clone())),
            HolderKind::Group => self.groups.get(key).map(|slot| Needy::Group(slot.group.clone())),
        }
    }

    /// The work on the pod or group that has this name now, and its UID.
    pub(crate) fn work_mut(
        &mut self,
        kind: HolderKind,
        key: &ObjectKey,
    ) -> Option<(&Uid, &mut Option<Box<Work>>)> {
        match kind {
            HolderKind::Pod => self.pods.get_mut(key).map(|slot| (&slot.pod.uid, &mut slot.work)),
            HolderKind::Group => self.groups.get_mut(key).map(|slot| (&slot.group.uid, &mut slot.work)),
        }
    }

    pub(crate) fn work(&self, kind: HolderKind, key: &ObjectKey) -> Option<&Work> {
        match kind {
            HolderKind::Pod => self.pods.get(key).and_then(|slot| slot.work.as_deref()),
            HolderKind::Group => self.groups.get(key).and_then(|slot| slot.work.as_deref()),
        }
    }

    /// The claims that somebody owns or that are reserved for it.
    pub(crate) fn claims_of(&self, kind: HolderKind) -> &Links {
        match kind {
            HolderKind::Pod => &self.claims_of_pod,
            HolderKind::Group => &self.claims_of_group,
        }
    }

    /// Returns the previous version.
    pub(crate) fn put_claim(&mut self, seen: SeenClaim) -> Option<SeenClaim> {
        let before = self.claims.get(&seen.claim.key).map(|slot| slot.seen.clone());
        if let Some(before) = &before {
            self.unlink_claim(before);
        }
        each_holder(&seen, |kind, holder| {
            self.claims_of_mut(kind).add(&seen.claim.key.namespace, holder, &seen.claim.key.name);
        });
        self.census.add(census_row(&seen));
        match self.claims.get_mut(&seen.claim.key) {
            Some(slot) if slot.seen.claim.uid == seen.claim.uid => {
                if slot.seen.version != seen.version {
                    slot.setback.hear_news();
                }
                slot.seen = seen;
            }
            Some(_) | None => {
                let (in_flight, plan, setback) = Default::default();
                let key = seen.claim.key.clone();
                self.claims.insert(key, ClaimSlot { seen, in_flight, plan, setback });
            }
        }
        before
    }

    pub(crate) fn remove_claim(&mut self, key: &ObjectKey) -> Option<SeenClaim> {
        let slot = self.claims.remove(key)?;
        self.unlink_claim(&slot.seen);
        Some(slot.seen)
    }

    fn unlink_pod(&mut self, pod: &Pod) {
        let (namespace, name) = (&pod.key.namespace, &pod.key.name);
        each_template(&pod.claims, |template| self.pods_of_template.remove(namespace, template, name));
        if let Some(group) = &pod.group {
            self.pods_of_group.remove(namespace, group, name);
        }
        each_claim(pod, |claim| self.pods_of_claim.remove(namespace, claim, name));
    }

    fn unlink_group(&mut self, group: &PodGroup) {
        let (namespace, name) = (&group.key.namespace, &group.key.name);
        each_template(&group.claims, |template| self.groups_of_template.remove(namespace, template, name));
    }

    fn claims_of_mut(&mut self, kind: HolderKind) -> &mut Links {
        match kind {
            HolderKind::Pod => &mut self.claims_of_pod,
            HolderKind::Group => &mut self.claims_of_group,
        }
    }

    fn unlink_claim(&mut self, seen: &SeenClaim) {
        let (namespace, name) = (&seen.claim.key.namespace, &seen.claim.key.name);
        each_holder(seen, |kind, holder| self.claims_of_mut(kind).remove(namespace, holder, name));
        self.census.remove(census_row(seen));
    }
}

fn each_claim(pod: &Pod, mut then: impl FnMut(&Text)) {
    pod.claims.iter().filter_map(PodClaim::claim).for_each(&mut then);
    pod.extended_claim.iter().for_each(then);
}

fn each_template(entries: &[PodClaim], mut then: impl FnMut(&Text)) {
    for entry in entries {
        if let ClaimSource::Template { template, .. } = &entry.source {
            then(template);
        }
    }
}

fn each_holder(seen: &SeenClaim, mut then: impl FnMut(HolderKind, &Text)) {
    if let Some(owner) = seen.holder() {
        then(owner.kind, &owner.key.name);
    }
    for consumer in &seen.claim.reserved_for {
        if let Some(kind) = HolderKind::of(consumer) {
            then(kind, &consumer.name);
        }
    }
}

fn census_row(seen: &SeenClaim) -> (bool, bool, Source) {
    (seen.claim.allocation.is_some(), seen.admin_access(), seen.source())
}
