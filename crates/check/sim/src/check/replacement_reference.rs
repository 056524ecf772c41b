//! The reference for replacement: which pods and policies a process had been told of, the taints around a pod, and which of them a policy minds. It shares
//! the plain objects with the machine under test, and none of its decisions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};
use lazaret_replacement::{Cause, Mark as PodMark, Origin, Plan, Pod, Policy, Record, Spec, TaintOption};
use lazaret_workloads::resource;

use crate::{
    actors::{replacement::Replacer, replacement_hear::replica_set, replacement_policies::node_of},
    api::Kind,
    reference,
    world::World,
};

/// A taint around a pod.
pub(super) struct Around {
    pub(super) cause: Cause,
    /// When it was set, if it says so.
    pub(super) added: Option<Timestamp>,
}

/// A taint that a policy minds.
pub(super) struct Minded {
    pub(super) around: Around,
    /// How long it may be there, in seconds.
    pub(super) secs: i64,
    /// From when on the pod may be replaced; `None`: the taint does not say since when it is there.
    pub(super) after: Option<Timestamp>,
}

impl World {
    pub(super) fn replacer(&self, number: usize) -> &Replacer {
        &self.replacers.agents[number].core
    }

    /// The pods of a process's view, as replacement sees them.
    pub(super) fn replaceable_pods(&self, number: usize) -> Vec<Pod> {
        let places = self.seen(number).pods().map(|pod| pod.place as usize - 1);
        places.filter_map(|place| self.replaceable(place)).collect()
    }

    pub(super) fn replaceable_pod(&self, number: usize, key: &ObjectKey, uid: &Uid) -> Option<Pod> {
        let seen = self.seen(number).pod(key).filter(|pod| pod.uid == *uid)?;
        self.replaceable(seen.place as usize - 1)
    }

    /// Whether a pod is there and was not asked to leave, by what the server has.
    pub(super) fn stays(&self, key: &ObjectKey, uid: &Uid) -> bool {
        let stored = self.api.pods.get(key).filter(|stored| stored.object.uid == *uid);
        stored.is_some_and(|stored| {
            stored.object.deleting_since.is_none() && !stored.object.phase.is_finished()
        })
    }

    /// The policies of a namespace that are in effect, as far as a controller has heard.
    pub(super) fn active_policies(&self, number: usize, namespace: &Text) -> Vec<(Arc<Policy>, Arc<Spec>)> {
        let known = self.replacements.known(self.replacer(number).policies);
        let here = known.into_values().filter(|policy| policy.key.namespace == *namespace);
        here.filter_map(|policy| Some((Arc::clone(policy), Arc::clone(policy.spec.as_ref().ok()?))))
            .filter(|(_, spec)| spec.enabled)
            .collect()
    }

    /// The taints around a pod in the view of a process. The same words twice are one taint, as old as the older.
    fn around(&self, number: usize, pod: &Pod) -> Vec<Around> {
        let seen = self.seen(number);
        let mut around = Vec::new();
        let position = self.clients[number].view.position(Kind::Node);
        let of_pod = pod.node.as_ref().and_then(|node| self.api.nodes.number(node));
        let node = self.api.nodes.log()[..position].iter().rev().find(|logged| Some(logged.number) == of_pod);
        let taints = node.and_then(|logged| logged.object.as_deref()).map(|node| node_of(node).taints);
        for taint in taints.into_iter().flatten() {
            let place = pod.node.clone().unwrap_or_default();
            let (key, value, effect) = (taint.key, taint.value, taint.effect);
            let cause = Cause { origin: Origin::Node, place, key, value, effect };
            around.push(Around { cause, added: taint.time_added });
        }
        let Some(pod) = seen.pod(&pod.key) else { return around };
        for (_, device) in reference::claims(seen, pod).flat_map(|claim| seen.results(claim)) {
            for found in reference::taints(seen, device) {
                let cause = Cause {
                    origin: Origin::Device,
                    place: device.id.to_string().into(),
                    key: found.taint.key.clone(),
                    value: found.taint.value.clone(),
                    effect: found.taint.effect.name().into(),
                };
                around.push(Around { cause, added: found.taint.time_added });
            }
        }
        around.sort_by(|a, b| {
            (&a.cause, a.added.is_none(), a.added).cmp(&(&b.cause, b.added.is_none(), b.added))
        });
        around.dedup_by(|b, a| a.cause == b.cause);
        around
    }

    /// Those that a policy minds.
    pub(super) fn minded(&self, number: usize, spec: &Spec, pod: &Pod) -> Vec<Minded> {
        let minded = self.around(number, pod).into_iter().filter_map(|around| {
            let options = match around.cause.origin {
                Origin::Node => &spec.node_options,
                Origin::Device => &spec.device_options,
            };
            let secs = option_for(options, &around.cause)?.secs.saturating_add(spec.replacement_secs);
            let after = around.added.map(|added| added.max(pod.created).plus_secs(secs));
            Some(Minded { around, secs, after })
        });
        minded.collect()
    }

    /// The pods of a policy, in the fault domain of this node if it counts by them, that are being replaced: those that the controller knows of, and
    /// those whose marks its process has been told of.
    pub(super) fn under_way(
        &self,
        number: usize,
        policy: &ObjectKey,
        spec: &Spec,
        node: &Text,
    ) -> BTreeSet<Uid> {
        let mut all: BTreeSet<Uid> = self.replacer(number).core.in_flight().cloned().collect();
        for pod in self.replaceable_pods(number) {
            if matches!(pod.mark, Some(PodMark::Released(_))) && self.stays(&pod.key, &pod.uid) {
                all.insert(pod.uid);
            }
        }
        all.retain(|uid| {
            let Some(record) = self.replacements.records.get(uid) else { return false };
            let is_counted = record.counted_by.contains(&policy.name) || {
                let pod = self.replaceable_pod(number, &record.pod, uid).filter(is_subject);
                pod.is_some_and(|pod| spec.selector.matches(&pod.labels))
            };
            record.pod.namespace == policy.namespace
                && is_counted
                && (spec.fault_domain_key.is_none()
                    || self.may_share_domain(number, spec, &record.node, node))
        });
        all
    }

    /// The fault domain of a node in the view of a process; `None`: the Node is gone, and its label with it.
    fn domain(&self, number: usize, spec: &Spec, node: &Text) -> Option<Text> {
        let node = node_of(self.seen(number).node(node)?);
        Some(
            spec.fault_domain_key.as_ref().and_then(|key| node.labels.get(key)).unwrap_or(&node.name).clone(),
        )
    }

    /// Whether two nodes may be in one fault domain.
    fn may_share_domain(&self, number: usize, spec: &Spec, one: &Text, other: &Text) -> bool {
        let [one, other] = [one, other].map(|node| self.domain(number, spec, node));
        one.is_none() || other.is_none() || one == other
    }

    /// How many fault domains of a policy are tainted, and how many there are. `None`: a pod has just been deleted, and the news of it are on their
    /// way.
    pub(super) fn domains(&self, number: usize, spec: &Spec, namespace: &Text) -> Option<(usize, usize)> {
        let mut domains: BTreeMap<Text, bool> = BTreeMap::new();
        for pod in self.replaceable_pods(number) {
            if pod.key.namespace != *namespace || !is_subject(&pod) || !spec.selector.matches(&pod.labels) {
                continue;
            }
            if !self.stays(&pod.key, &pod.uid) {
                return None;
            }
            let node = pod.node.clone().unwrap_or_default();
            let is_tainted = !self.minded(number, spec, &pod).is_empty();
            let domain = self.domain(number, spec, &node).unwrap_or(node);
            *domains.entry(domain).or_default() |= is_tainted;
        }
        Some((domains.values().filter(|tainted| **tainted).count(), domains.len()))
    }

    /// Why nothing does yet what a pod did, if so, by the view of a process.
    pub(super) fn is_unserved(&self, number: usize, record: &Record) -> Option<String> {
        let owner = match &record.plan {
            Plan::Copy { name } | Plan::Rebuild { name } => {
                let key = ObjectKey::new(record.pod.namespace.clone(), name.clone());
                let place = self.seen(number).pod(&key).map(|pod| pod.place as usize - 1);
                let copy = place.and_then(|place| self.replaceable(place));
                let serves = copy.as_ref().is_some_and(serves);
                return (!serves).then(|| format!("its copy is {copy:?}"));
            }
            Plan::Release { owner, .. } | Plan::Evict { owner } => owner,
        };
        if owner.kind == "StatefulSet" {
            let place = self.seen(number).pod(&record.pod).map(|pod| pod.place as usize - 1);
            let new = place.and_then(|place| self.replaceable(place)).filter(|pod| pod.uid != record.uid);
            let serves = new.as_ref().is_some_and(serves);
            return (!serves).then(|| format!("the next pod of its name is {new:?}"));
        }
        // Of a job it is not known whose place a pod took.
        if owner.kind != "ReplicaSet" {
            return Some(format!("{} may start none", owner.name));
        }
        let heard = self.replacers.agents[number].progress.as_ref().map_or(0, |progress| progress.objects);
        let sets = self.api.objects.listed(&resource::REPLICA_SETS, heard);
        let set = sets.iter().filter_map(replica_set).find(|set| set.uid == owner.uid);
        // One that is gone starts none.
        let wanted = set?.replicas as usize;
        let is_its = |pod: &&Pod| pod.owner.as_ref().is_some_and(|of| of.uid == owner.uid) && serves(pod);
        let serving = self.replaceable_pods(number).iter().filter(is_its).count();
        let is_waited_for = |other: &&Record| {
            let is_younger = (other.started, &other.uid) > (record.started, &record.uid);
            let is_its = matches!(&other.plan, Plan::Release { owner: of, .. } | Plan::Evict { owner: of } if of.uid == owner.uid);
            let pod = self.replaceable_pod(number, &other.pod, &other.uid);
            let is_owned = |pod: &Pod| pod.owner.as_ref().is_some_and(|of| of.uid == owner.uid);
            is_younger && is_its && pod.is_none_or(|pod| pod.deleting || !is_owned(&pod))
        };
        // A new pod is that of the oldest. The one that an older replacement waits for may be among those that lack.
        let others = self.replacer(number).core.in_flight();
        let others = others.filter_map(|uid| self.replacements.records.get(uid)).filter(is_waited_for);
        let all = serving + others.count() + record.lacking as usize;
        (all < wanted).then(|| format!("{all} of {wanted} serve"))
    }
}

/// Whether a pod is one that policies look after.
pub(super) fn is_subject(pod: &Pod) -> bool {
    pod.node.is_some() && !pod.finished && !pod.deleting
}

/// Whether a pod does what the one before it did.
fn serves(pod: &Pod) -> bool {
    (pod.ready && !pod.deleting) || pod.succeeded
}

/// The fault domain of a node.
/// The option for a taint: that of its key, if it is for its effect; the one for all others if none has its key.
fn option_for<'a>(options: &'a [TaintOption], cause: &Cause) -> Option<&'a TaintOption> {
    let own = options.iter().find(|option| option.key == cause.key);
    let option = own.or_else(|| options.iter().find(|option| option.key == "*"));
    option.filter(|option| option.effect.as_ref().is_none_or(|effect| *effect == cause.effect))
}
