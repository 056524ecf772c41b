//! The news that a replacement controller gets from the watches of its process.

use std::sync::Arc;

use lazaret_fleet::Input as Told;
use lazaret_machine::LabelSelector;
use lazaret_model::{ClaimSource, DeviceTaintRule, ObjectKey, PodPhase, ResourceSlice};
use lazaret_replacement::{Input, Pod, Policy, ReplicaSet, Status};
use lazaret_workloads::{Object, resource};

use crate::{
    actors::{
        news::{Event, Gaps, Progress, listed},
        part::{Agent, Part as _},
        replacement::Replacer,
        replacement_policies::{NAMES, Replacements, node_of},
    },
    api::{Api, Kind, Resource, Table},
    mutant::Mutant,
    view::log_length,
    world::World,
};

impl World {
    /// An agent hears what the watches of its process have told since it last heard; one that has just begun hears what they began with.
    pub(super) fn replacement_hears(&mut self, number: usize) {
        let Self { replacers, clients, api, watches, replacements, mutant, controllers, .. } = self;
        let (gaps, view) = (&clients[number].gaps, &clients[number].view);
        let Agent { core, progress, .. } = &mut replacers.agents[number];
        core.mutant = *mutant;
        if core.guards != controllers[number].guards {
            core.guards.clone_from(&controllers[number].guards);
            let mut guards = core.guards.clone();
            match core.mutant {
                Some(Mutant::UnguardedReplacement) => guards.clear(),
                Some(Mutant::UnapprovedReplacement) => {
                    guards.iter_mut().for_each(|guard| Arc::make_mut(guard).confirm_above = None);
                }
                Some(_) | None => {}
            }
            core.core.tell(Input::Guards(guards));
        }
        let mut ear = SchedulerInputs { core, api, gaps };
        let progress = progress.get_or_insert_with(|| ear.begin(gaps.began, watches.began(number)));
        ear.hear(progress, Kind::ALL.map(|kind| view.position(kind)));
        let objects = watches.told(number).max(progress.objects);
        ear.hear_sets(core::mem::replace(&mut progress.objects, objects), objects);
        // A new leader has read all policies.
        let to = if ear.core.leads { replacements.told[number] } else { replacements.log.len() };
        ear.hear_policies(replacements, to);
    }

    /// A machine that was told all that there is.
    pub(crate) fn fresh_replacer(&self) -> Replacer {
        let mut core = Replacer::begin();
        // It would begin what others do not, if it alone saw the limit.
        core.mutant = self.mutant.filter(|mutant| *mutant == Mutant::IgnoreDomains);
        let gaps = Gaps::default();
        let mut ear = SchedulerInputs { core: &mut core, api: &self.api, gaps: &gaps };
        ear.begin(Kind::ALL.map(|kind| log_length(&self.api, kind)), self.api.objects.log().len());
        ear.hear_policies(&self.replacements, self.replacements.log.len());
        core
    }

    /// The pod that was written at this place of the log, as replacement sees it.
    pub(crate) fn replaceable(&self, place: usize) -> Option<Pod> {
        pod_at(&self.api, place)
    }
}

/// The pod that was written at this place of the log.
fn pod_at(api: &Api, place: usize) -> Option<Pod> {
    let logged = &api.pods.log()[place];
    let pod = logged.object.as_ref()?;
    let metadata = api.pod_metadata_at(&pod.uid, place)?;
    Some(Pod {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
        version: logged.version.to_string().into(),
        labels: Arc::clone(&metadata.labels),
        node: pod.node.clone(),
        owner: pod.owner.clone(),
        created: api.created(&pod.uid),
        ready: pod.phase == PodPhase::Running,
        finished: pod.phase.is_finished(),
        succeeded: pod.phase == PodPhase::Succeeded,
        deleting: pod.deleting_since.is_some(),
        pinned: pod.claims.iter().any(|claim| matches!(claim.source, ClaimSource::Claim(_))),
        gated: metadata.is_gated,
        mirror: false,
        mark: metadata.mark.clone(),
    })
}

/// A ReplicaSet as replacement sees it.
pub(crate) fn replica_set(object: &Object) -> Option<ReplicaSet> {
    let Object::ReplicaSet(set) = object else { return None };
    let spec = &set.spec;
    let mut selector = LabelSelector::default();
    for (name, value) in spec.selector.match_labels.iter().flatten() {
        selector.require(&**name, &**value);
    }
    let key = object.key();
    Some(ReplicaSet {
        key: ObjectKey::new(&*key.namespace, &*key.name),
        uid: object.uid().into(),
        replicas: spec.replicas.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(1),
        selector,
    })
}

/// The way in which an agent gets news.
struct SchedulerInputs<'a> {
    core: &'a mut Replacer,
    api: &'a Api,
    gaps: &'a Gaps,
}

impl SchedulerInputs<'_> {
    /// Tells the first lists of the watches.
    fn begin(&mut self, heard: [usize; Kind::ALL.len()], objects: usize) -> Progress {
        let api = self.api;
        for set in api.objects.listed(&resource::REPLICA_SETS, objects).iter().filter_map(replica_set) {
            self.core.core.tell(Input::ReplicaSet(Arc::new(set)));
        }
        self.list(&api.classes, heard);
        self.list(&api.slices, heard);
        self.list(&api.patches, heard);
        self.list(&api.rules, heard);
        self.list(&api.nodes, heard);
        self.list(&api.claims, heard);
        self.list(&api.pods, heard);
        Progress { heard, objects, ..Progress::default() }
    }

    fn list<T: Resource>(&mut self, table: &Table<T>, heard: [usize; Kind::ALL.len()]) {
        for place in listed(table, heard[T::KIND as usize]) {
            if let Some(place) = (place as usize).checked_sub(1) {
                self.found(table, place);
            }
        }
    }

    /// Everything up to here.
    fn hear(&mut self, progress: &mut Progress, to: [usize; Kind::ALL.len()]) {
        let from = core::mem::replace(&mut progress.heard, to);
        let api = self.api;
        self.follow(&api.classes, from, to);
        self.follow(&api.slices, from, to);
        self.follow(&api.patches, from, to);
        self.follow(&api.rules, from, to);
        self.follow(&api.nodes, from, to);
        self.follow(&api.claims, from, to);
        self.follow(&api.pods, from, to);
    }

    fn follow<T: Resource>(
        &mut self,
        table: &Table<T>,
        from: [usize; Kind::ALL.len()],
        to: [usize; Kind::ALL.len()],
    ) {
        let kind = T::KIND as usize;
        for Event { place, .. } in self.gaps.events(table, from[kind], to[kind]) {
            self.found(table, place);
        }
    }

    /// An object was written, or removed, at this place of the log.
    fn found<T: Resource>(&mut self, table: &Table<T>, place: usize) {
        let logged = &table.log()[place];
        let told = match &logged.object {
            Some(object) => T::found(Arc::clone(object)),
            None => T::gone(table.key(logged.number).clone()),
        };
        match &told {
            Told::Pod(_) => {
                if let Some(mut pod) = pod_at(self.api, place) {
                    if self.core.mutant == Some(Mutant::UnprovenMarks) && pod.mark.is_none() {
                        let metadata = self.api.pod_metadata_at(&pod.uid, place);
                        pod.mark = metadata.and_then(|metadata| metadata.forged.clone());
                    }
                    self.hear_pod(pod);
                }
            }
            Told::PodGone(key) => self.core.core.tell(Input::PodGone(key.clone())),
            Told::Node(node) if self.core.mutant == Some(Mutant::Relentless) && node.taints.is_empty() => {}
            Told::Node(node) => self.core.core.tell(Input::Node(Arc::new(node_of(node)))),
            Told::NodeGone(name) => self.core.core.tell(Input::NodeGone(name.clone())),
            Told::Slice(_)
            | Told::SliceGone(_)
            | Told::Rule(_)
            | Told::RuleGone(_)
            | Told::Patch(_)
            | Told::PatchGone(_)
            | Told::Class(_)
            | Told::ClassGone(_)
            | Told::Claim(_)
            | Told::ClaimGone(_) => {}
        }
        if let Some(told) = distort(self.core.mutant, told) {
            self.core.fleet.apply(told);
        }
    }

    fn hear_pod(&mut self, mut pod: Pod) {
        match self.core.mutant {
            Some(Mutant::ForgetReplacements) if !self.core.leads => pod.mark = None,
            Some(Mutant::HastyReplacement) => pod.ready = true,
            Some(_) | None => {}
        }
        self.core.core.tell(Input::Pod(Arc::new(pod)));
    }

    /// ReplicaSets were written or removed.
    fn hear_sets(&mut self, from: usize, to: usize) {
        let log = &self.api.objects.log()[from..to];
        for logged in log.iter().filter(|logged| *logged.resource == resource::REPLICA_SETS) {
            let key = ObjectKey::new(&*logged.key.namespace, &*logged.key.name);
            self.core.core.tell(match logged.object.as_ref().and_then(replica_set) {
                Some(set) => Input::ReplicaSet(Arc::new(set)),
                None => Input::ReplicaSetGone(key),
            });
        }
    }

    fn hear_policies(&mut self, replacements: &Replacements, to: usize) {
        let from = self.core.policies.min(to);
        self.core.policies = self.core.policies.max(to);
        for (key, policy) in &replacements.log[from..to] {
            self.core.core.tell(match policy {
                Some(policy) => Input::Policy(distort_policy(self.core, policy)),
                None => Input::PolicyGone(ObjectKey::clone(key)),
            });
        }
    }
}

/// A policy as a mutant passes it on.
fn distort_policy(core: &Replacer, policy: &Arc<Policy>) -> Arc<Policy> {
    let mut policy = Arc::clone(policy);
    if core.mutant.is_none() {
        return policy;
    }
    let is_of_second = policy.key.name == NAMES[1];
    match (core.mutant, &mut Arc::make_mut(&mut policy).spec) {
        (Some(Mutant::OneLimit), Ok(spec)) if is_of_second => {
            Arc::make_mut(spec).max_concurrent = u32::MAX;
        }
        (Some(Mutant::IgnoreDomains), Ok(spec)) => Arc::make_mut(spec).max_domains_tainted = None,
        (Some(_) | None, _) => {}
    }
    if core.mutant == Some(Mutant::ForgetReplacements) && !core.leads {
        let policy = Arc::make_mut(&mut policy);
        policy.status = Arc::new(Status { replacements: Vec::new(), ..Status::clone(&policy.status) });
    }
    policy
}

/// The event as a mutant passes it on to the fleet; `None`: it is lost.
fn distort(mutant: Option<Mutant>, told: Told) -> Option<Told> {
    Some(match (mutant, told) {
        (Some(Mutant::Relentless), Told::RuleGone(_)) => return None,
        (Some(Mutant::Relentless), Told::Slice(slice))
            if slice.devices.iter().all(|one| one.taints.is_empty()) =>
        {
            return None;
        }
        (Some(Mutant::NoTimes), Told::Slice(slice)) => {
            let mut slice = ResourceSlice::clone(&slice);
            let taints = slice.devices.iter_mut().flat_map(|device| &mut device.taints);
            taints.for_each(|taint| taint.time_added = None);
            Told::Slice(Arc::new(slice))
        }
        (Some(Mutant::NoTimes), Told::Rule(rule)) => {
            let mut rule = DeviceTaintRule::clone(&rule);
            rule.taint.time_added = None;
            Told::Rule(Arc::new(rule))
        }
        (_, told) => told,
    })
}
