//! The objects as they were told, with where the work on each stands.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use hashbrown::HashMap;
use lazaret_model::{ClaimSource, ObjectKey, Pod, Text, Timestamp};
use rustc_hash::FxBuildHasher;

use crate::{
    counters::{Census, Source},
    effect::ClaimStep,
    input::{SeenClaim, Template},
    links::Links,
    options::Options,
    standing::is_pod,
};

/// Attempts in a row that failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setback {
    pub(crate) failures: u32,
    pub(crate) not_before: Option<Timestamp>,
    /// What was refused was out of date: with the next news it may be tried at once.
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

    fn hear_news(&mut self) {
        if self.until_news {
            *self = Self { failures: self.failures, ..Self::default() };
        }
    }
}

/// A pod.
#[derive(Debug)]
pub(crate) struct PodSlot {
    pub(crate) pod: Arc<Pod>,
    /// Only while something is under way, or done and not seen yet.
    pub(crate) work: Option<Box<PodWork>>,
}

/// Where the work on a pod stands.
#[derive(Debug, Default)]
pub(crate) struct PodWork {
    /// Effects under way.
    pub(crate) pending: u32,
    /// Entry, claim, and until when it is believed in without having been seen.
    pub(crate) made: Vec<(Text, Text, Timestamp)>,
    /// What was last written, and until when it is believed in without having been seen.
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
    /// A change is under way.
    pub(crate) in_flight: bool,
    /// What is being done or was done last, and until when it is believed in without having been seen. If what is seen
    /// asks for the end of it, that is an echo.
    pub(crate) plan: Option<(Vec<ClaimStep>, Timestamp)>,
    pub(crate) setback: Setback,
}

/// All objects. As large as the cluster: one entry a pod, claim and template, each sharing the object it was told.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) pods: HashMap<ObjectKey, PodSlot, FxBuildHasher>,
    pub(crate) claims: HashMap<ObjectKey, ClaimSlot, FxBuildHasher>,
    pub(crate) templates: HashMap<ObjectKey, Arc<Template>, FxBuildHasher>,
    /// From a pod to the claims that it owns or that are reserved for it.
    pub(crate) claims_of_pod: Links,
    /// From a claim to the pods that name it.
    pub(crate) pods_of_claim: Links,
    /// From a template to the pods that name it.
    pub(crate) pods_of_template: Links,
    pub(crate) census: Census,
}

impl Tables {
    /// What was there before is handed back.
    pub(crate) fn put_pod(&mut self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        let before = self.pods.get(&pod.key).map(|slot| slot.pod.clone());
        if let Some(before) = &before {
            self.unlink_pod(before);
        }
        each_template(&pod, |template| {
            self.pods_of_template.add(&pod.key.namespace, template, &pod.key.name);
        });
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

    /// What was there before is handed back.
    pub(crate) fn put_claim(&mut self, seen: SeenClaim) -> Option<SeenClaim> {
        let before = self.claims.get(&seen.claim.key).map(|slot| slot.seen.clone());
        if let Some(before) = &before {
            self.unlink_claim(before);
        }
        each_pod(&seen, |pod| {
            self.claims_of_pod.add(&seen.claim.key.namespace, pod, &seen.claim.key.name);
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
        each_template(pod, |template| self.pods_of_template.remove(namespace, template, name));
        each_claim(pod, |claim| self.pods_of_claim.remove(namespace, claim, name));
    }

    fn unlink_claim(&mut self, seen: &SeenClaim) {
        let (namespace, name) = (&seen.claim.key.namespace, &seen.claim.key.name);
        each_pod(seen, |pod| self.claims_of_pod.remove(namespace, pod, name));
        self.census.remove(census_row(seen));
    }
}

/// The claim that an entry of a pod stands for, as far as the pod knows.
pub(crate) fn named_claim(source: &ClaimSource) -> Option<&Text> {
    match source {
        ClaimSource::Claim(name) | ClaimSource::Template { resolved: Some(Some(name)), .. } => Some(name),
        ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => None,
    }
}

fn each_claim(pod: &Pod, mut then: impl FnMut(&Text)) {
    pod.claims.iter().filter_map(|entry| named_claim(&entry.source)).for_each(&mut then);
    pod.extended_claim.iter().for_each(then);
}

fn each_template(pod: &Pod, mut then: impl FnMut(&Text)) {
    for entry in &pod.claims {
        if let ClaimSource::Template { template, .. } = &entry.source {
            then(template);
        }
    }
}

fn each_pod(seen: &SeenClaim, mut then: impl FnMut(&Text)) {
    if let Some((pod, _)) = seen.owning_pod() {
        then(pod);
    }
    for consumer in &seen.claim.reserved_for {
        if is_pod(consumer) {
            then(&consumer.name);
        }
    }
}

fn census_row(seen: &SeenClaim) -> (bool, bool, Source) {
    (seen.claim.allocation.is_some(), seen.admin_access(), seen.source())
}
