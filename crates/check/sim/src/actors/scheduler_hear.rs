//! The inputs of schedulers, by the watches of their process.

use std::sync::Arc;

use lazaret_model::{RequestKind, ResourceClaim, Timestamp, Toleration};
use lazaret_scheduler::{Input, Scheduler};

use crate::{
    actors::{
        binding::Readiness,
        known_nodes::KnownNodes,
        news::{Event, Gaps, Progress, listed},
        nodes::Reports,
        part::Agent,
        scheduler::Placing,
        workloads::Workloads,
    },
    api::{Api, GATE, Kind, Resource, Table},
    mutant::Mutant,
    scenario::Config,
    world::World,
};

impl World {
    /// An agent hears what the watches of its process have told since it last heard; one that has just begun hears what they began with.
    pub(super) fn scheduler_hears(&mut self, number: usize, now: Timestamp) {
        let Self { schedulers, clients, api, reports, workloads, placing, readiness, config, mutant, .. } =
            self;
        let (gaps, view) = (&clients[number].gaps, &clients[number].view);
        let Agent { core, progress, .. } = &mut schedulers.agents[number];
        let nodes =
            progress.as_mut().map(|progress| core::mem::take(&mut progress.nodes)).unwrap_or_default();
        let mut ear = SchedulerInputs {
            core,
            now,
            api,
            gaps,
            placing,
            readiness,
            workloads,
            config,
            reports,
            nodes,
            mutant: *mutant,
        };
        let progress = progress.get_or_insert_with(|| {
            ear.list_nodes();
            reports.by_node.values().for_each(|report| ear.hear_node(report));
            ear.begin(reports.log.len())
        });
        ear.hear(progress, Kind::ALL.map(|kind| view.position(kind)));
        let to = reports.told[number].max(progress.reports);
        let from = core::mem::replace(&mut progress.reports, to);
        for write in reports.events(number, from, to) {
            // Whether it is there is what the watch of Nodes says.
            write.report.iter().for_each(|report| ear.hear_node(report));
        }
        progress.nodes = ear.nodes;
    }
}

/// The way in which an agent gets news.
pub(super) struct SchedulerInputs<'a> {
    pub(super) core: &'a mut Scheduler,
    pub(super) now: Timestamp,
    pub(super) api: &'a Api,
    pub(super) gaps: &'a Gaps,
    pub(super) placing: &'a Placing,
    pub(super) readiness: &'a Readiness,
    pub(super) workloads: &'a Workloads,
    pub(super) config: &'a Config,
    pub(super) reports: &'a Reports,
    /// The nodes as it has heard of them.
    pub(super) nodes: KnownNodes,
    pub(super) mutant: Option<Mutant>,
}

impl SchedulerInputs<'_> {
    pub(super) fn tell(&mut self, input: Input) {
        self.core.handle(self.now, input);
    }

    /// Tells the first lists of the watches.
    fn begin(&mut self, reports: usize) -> Progress {
        let (api, heard) = (self.api, self.gaps.began);
        self.workloads.groups().for_each(|group| self.tell(Input::Group(Arc::new(group))));
        self.list(&api.classes, heard[Kind::Class as usize]);
        self.list(&api.slices, heard[Kind::Slice as usize]);
        self.list(&api.patches, heard[Kind::Patch as usize]);
        self.list(&api.rules, heard[Kind::Rule as usize]);
        for place in listed(&api.claims, heard[Kind::Claim as usize]) {
            self.hear_claim(place);
        }
        let pods = listed(&api.pods, heard[Kind::Pod as usize]);
        pods.iter().for_each(|place| self.hear_pod(*place));
        Progress { heard, pods, reports, ..Progress::default() }
    }

    fn list<T: Resource>(&mut self, table: &Table<T>, length: usize) {
        for place in listed(table, length) {
            if let Some(stored) = table.written(place) {
                self.hear_of_fleet(T::found(Arc::clone(stored.object)));
            }
        }
    }

    fn hear_of_fleet(&mut self, mut input: lazaret_fleet::Input) {
        if let (lazaret_fleet::Input::Slice(slice), Some(Mutant::IgnoreConditions)) =
            (&mut input, self.mutant)
        {
            for device in &mut Arc::make_mut(slice).devices {
                (device.binding_conditions, device.binding_failure_conditions) = (None, None);
            }
        }
        let is_blind = self.mutant == Some(Mutant::BlindScheduler);
        if !(is_blind && matches!(input, lazaret_fleet::Input::Rule(_))) {
            self.tell(Input::Fleet(input));
        }
    }

    /// The claim that was written at the place before this one, if one was.
    fn hear_claim(&mut self, place: u32) {
        let Some(at) = (place as usize).checked_sub(1) else { return };
        let Some(seen) = self.api.seen_claim(at) else { return };
        let mut claim = seen.claim;
        let mut devices = self.readiness.statuses_at(&claim.uid, at);
        match self.mutant {
            Some(Mutant::DoubleAllocation) => Arc::make_mut(&mut claim).allocation = None,
            Some(Mutant::NoBrake) => tolerate_for_ever(Arc::make_mut(&mut claim)),
            Some(Mutant::UnseenConditions) => devices.clear(),
            Some(Mutant::UnseenDeallocation) if claim.allocation.is_none() && self.was_allocated(at) => {
                return;
            }
            Some(_) | None => {}
        }
        let version = self.api.claims.log()[at].version;
        let has_finalizer = !seen.finalizers.is_empty();
        let claim = lazaret_scheduler::Claim { claim, version, has_finalizer, devices };
        self.tell(Input::Claim(Arc::new(claim)));
    }

    /// Whether the claim that was written at this place of the log was allocated before.
    fn was_allocated(&self, at: usize) -> bool {
        let log = self.api.claims.log();
        let before = log[..at].iter().rev().find(|before| before.number == log[at].number);
        before.and_then(|before| before.object.as_ref()).is_some_and(|claim| claim.allocation.is_some())
    }

    /// The pod that was written at the place before this one, if one was.
    fn hear_pod(&mut self, place: u32) {
        let Some(at) = (place as usize).checked_sub(1) else { return };
        let logged = &self.api.pods.log()[at];
        let Some(pod) = &logged.object else { return };
        let is_extended = self.workloads.shape(logged.number).is_some_and(|shape| shape.extended);
        let mut seen = self.placing.pod(self.config, pod, at, is_extended);
        if self.api.pod_metadata_at(&pod.uid, at).is_some_and(|metadata| metadata.is_gated) {
            Arc::make_mut(&mut seen.spec).gates = vec![GATE.into()];
        }
        match self.mutant {
            Some(Mutant::UnseenBinding) if pod.node.is_some() => {
                return self.tell(Input::PodGone(pod.key.clone()));
            }
            Some(Mutant::IgnoreRequests) => Arc::make_mut(&mut seen.spec).requests.cpu_milli = 0,
            Some(Mutant::InflatedPriority) if pod.node.is_none() => {
                Arc::make_mut(&mut seen.spec).priority += 1
            }
            Some(_) | None => {}
        }
        self.tell(Input::Pod(Arc::new(seen)));
    }

    /// Everything up to here.
    fn hear(&mut self, progress: &mut Progress, to: [usize; Kind::ALL.len()]) {
        let from = core::mem::replace(&mut progress.heard, to);
        let api = self.api;
        self.follow(&api.classes, from, to);
        self.follow(&api.slices, from, to);
        self.follow(&api.patches, from, to);
        self.follow(&api.rules, from, to);
        let range = |kind: Kind| (from[kind as usize], to[kind as usize]);
        let (begin, end) = range(Kind::Node);
        self.follow_nodes(begin, end);
        let (begin, end) = range(Kind::Claim);
        for Event { place, .. } in self.gaps.events(&api.claims, begin, end) {
            match &api.claims.log()[place] {
                logged if logged.object.is_some() => {
                    self.hear_claim(u32::try_from(place + 1).unwrap_or(u32::MAX));
                }
                _ if self.mutant == Some(Mutant::UnseenRelease) => {}
                logged => self.tell(Input::ClaimGone(api.claims.key(logged.number).clone())),
            }
        }
        let (begin, end) = range(Kind::Pod);
        for Event { place, .. } in self.gaps.events(&api.pods, begin, end) {
            match &api.pods.log()[place] {
                logged if logged.object.is_some() => {
                    self.hear_pod(u32::try_from(place + 1).unwrap_or(u32::MAX));
                }
                _ if self.mutant == Some(Mutant::UnseenDeparture) => {}
                logged => self.tell(Input::PodGone(api.pods.key(logged.number).clone())),
            }
        }
    }

    fn follow<T: Resource>(
        &mut self,
        table: &Table<T>,
        from: [usize; Kind::ALL.len()],
        to: [usize; Kind::ALL.len()],
    ) {
        let kind = T::KIND as usize;
        for Event { place, .. } in self.gaps.events(table, from[kind], to[kind]) {
            let logged = &table.log()[place];
            self.hear_of_fleet(match &logged.object {
                Some(object) => T::found(Arc::clone(object)),
                None => T::gone(table.key(logged.number).clone()),
            });
        }
    }
}

/// A mutant takes the end from every toleration of a claim.
fn tolerate_for_ever(claim: &mut ResourceClaim) {
    let endless = |tolerations: &mut Vec<Toleration>| {
        tolerations.iter_mut().for_each(|toleration| toleration.seconds = None);
    };
    for request in &mut Arc::make_mut(&mut claim.spec).requests {
        if let RequestKind::Exactly(request) = &mut request.kind {
            endless(&mut request.tolerations);
        }
    }
    if let Some(allocation) = &mut claim.allocation {
        let results = &mut Arc::make_mut(allocation).results;
        results.iter_mut().for_each(|result| endless(&mut result.tolerations));
    }
}
