//! The scheduler: the core that ships, and what the server makes of its writes.

use std::sync::Arc;

use hashbrown::HashMap;
use lazaret_allocator::Features;
use lazaret_leader::{Precedence, TurnOptions};
use lazaret_machine::{Outcome, Reply, Written};
use lazaret_model::{
    Allocation, Node, NodeReport, ObjectKey, Pod, RequestKind, ResourceClaim, Text, Timestamp, Toleration,
    Uid,
};
use lazaret_scheduler::{
    Amounts, Bind, Container, CreateExtendedClaim, DeleteExtendedClaim, EffectKind, Extended, Input, Options,
    PodSpec, ReleaseClaim, ReserveClaim, Role, Scheduler, SetPodCondition, Unscheduled,
};
use rustc_hash::FxBuildHasher;

use crate::{
    actors::{
        binding::Readiness,
        claims::request_of,
        cordons::{UNSCHEDULABLE, is_cordoned},
        crowd,
        known_nodes::KnownNodes,
        news::{Event, Gaps, Progress, listed},
        nodes::Reports,
        part::{Agent, Crew, Part, PartStep},
        workloads::Workloads,
    },
    api::{Api, ClaimNotes, GATE, Kind, Refused, Resource, Table},
    coverage::Mark,
    mutant::Mutant,
    palette,
    scenario::Config,
    world::{Step, World},
};

/// The resource that a device of the first class stands in for.
const EXTENDED: &str = "deviceclass.resource.kubernetes.io/gpu";
/// Pods wait for something to happen, and for nothing else: one that is forgotten waits for ever.
const FLUSH_MS: i64 = i64::MAX / 4;
/// More than any world has.
const PODS_MAX: i64 = 1_000_000;

/// The specs of pods, and the statuses of those that wait.
#[derive(Debug)]
pub(crate) struct Placing {
    plain: Arc<PodSpec>,
    extended: Arc<PodSpec>,
    /// In worlds in which pods take room.
    crowd: crowd::Specs,
    waiting: HashMap<Uid, Unscheduled, FxBuildHasher>,
    /// By pod: the nodes for which pods were made to leave, each with the place in the log from which on it is so.
    pub(super) nominated: HashMap<Uid, Vec<(usize, Option<Text>)>, FxBuildHasher>,
}

impl Placing {
    pub(crate) fn new(config: &Config) -> Self {
        let mut requests = Amounts::default();
        requests.set_other(&EXTENDED.into(), 1);
        let asked = (EXTENDED.into(), Extended { amount: 1, place: 0 });
        let container =
            Container { name: "main".into(), index: 0, role: Role::Main, extended: [asked].into() };
        let plain = PodSpec::default();
        let extended = PodSpec { requests, containers: vec![container], ..PodSpec::default() };
        Self {
            crowd: crowd::Specs::new(config, [&plain, &extended]),
            plain: Arc::new(plain),
            extended: Arc::new(extended),
            waiting: HashMap::default(),
            nominated: HashMap::default(),
        }
    }

    /// A pod that was written at this place of the log, as the scheduler sees it.
    fn pod(&self, config: &Config, pod: &Pod, place: usize, is_extended: bool) -> lazaret_scheduler::Pod {
        let spec = self.crowd.of(config, &pod.uid, is_extended);
        let nominated = self.nominated.get(&pod.uid).map_or(&[][..], Vec::as_slice);
        let nominated = nominated.iter().rev().find(|(since, _)| *since <= place);
        lazaret_scheduler::Pod {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            owner: pod.owner.clone(),
            node: pod.node.clone(),
            phase: pod.phase,
            deleting: pod.deleting_since.is_some(),
            created: pod.created.unwrap_or(Timestamp::EPOCH),
            unscheduled: self.waiting.get(&pod.uid).cloned(),
            claims: pod.claims.clone(),
            extended_claim: pod.extended_claim.clone(),
            group: pod.group.clone(),
            nominated: nominated.and_then(|(_, node)| node.clone()),
            spec: Arc::clone(spec.unwrap_or(if is_extended { &self.extended } else { &self.plain })),
            ..lazaret_scheduler::Pod::default()
        }
    }
}

fn options() -> Options {
    Options { features: Features::all(), flush_ms: FLUSH_MS, ..Options::default() }
}

impl Part for Scheduler {
    const LOOP: TurnOptions = TurnOptions { in_flight_max: 256, precedence: Precedence::Usual };

    fn begin() -> Self {
        Self::new(options())
    }

    fn begin_in(config: &Config) -> Self {
        match i64::from(config.binding) {
            0 => Self::begin(),
            binding_timeout_s => Self::new(Options { binding_timeout_s, ..options() }),
        }
    }

    fn is_called(mutant: Option<Mutant>) -> bool {
        mutant != Some(Mutant::UncalledScheduler)
    }

    fn is_answered(mutant: Option<Mutant>, kind: &EffectKind) -> bool {
        let releases = matches!(kind, EffectKind::ReleaseClaim(release) if release.deallocate);
        !(releases && mutant == Some(Mutant::UnansweredRelease))
    }

    fn crew(world: &mut World) -> &mut Crew<Self> {
        &mut world.schedulers
    }

    fn step(step: PartStep<EffectKind>) -> Step {
        Step::Scheduler(Box::new(step))
    }

    fn hear(world: &mut World, number: usize, now: Timestamp) {
        world.scheduler_hears(number, now);
    }

    fn is_event(kind: &EffectKind) -> bool {
        matches!(kind, EffectKind::Event(_))
    }

    fn decisions_made(&self) -> u64 {
        self.decisions()
    }

    fn check(world: &mut World, number: usize, kind: &EffectKind, is_new: bool) {
        match kind {
            EffectKind::ReserveClaim(reserve) => world.check_given(number, reserve, is_new),
            EffectKind::CreateExtendedClaim(create) => world.note_blocked(number, &create.owner.uid, is_new),
            EffectKind::Bind(bind) => {
                world.note_sent(number, bind);
                world.check_node_is_there(number, bind, is_new);
                world.check_made_ready(bind, is_new);
            }
            EffectKind::Evict(evict) => world.check_preempted(number, evict, is_new),
            EffectKind::ReleaseClaim(_)
            | EffectKind::DeleteExtendedClaim(_)
            | EffectKind::SetExtendedClaim(_)
            | EffectKind::SetNodeAllocatable(_)
            | EffectKind::SetPodCondition(_)
            | EffectKind::ChangeClassicClaim(_)
            | EffectKind::Event(_) => {}
        }
    }

    /// The next scheduler does not know of a write that its predecessor sent and that is not written. An allocation that arrives later gives a device
    /// twice; a release takes a claim from a pod that is about to be bound; the name of a claim replaces that of a newer one; and a binding may find its
    /// pod without claims. No precondition of a claim or a pod prevents that, and the one scheduler that knows of it waits 30 seconds.
    fn may_outlive_its_sender(kind: &EffectKind) -> bool {
        match kind {
            EffectKind::ReserveClaim(reserve) => reserve.allocation.is_none(),
            EffectKind::Bind(_) | EffectKind::ReleaseClaim(_) | EffectKind::SetExtendedClaim(_) => false,
            EffectKind::CreateExtendedClaim(_)
            | EffectKind::DeleteExtendedClaim(_)
            | EffectKind::SetNodeAllocatable(_)
            | EffectKind::SetPodCondition(_)
            | EffectKind::Evict(_)
            | EffectKind::ChangeClassicClaim(_)
            | EffectKind::Event(_) => true,
        }
    }

    fn perform(world: &mut World, kind: &EffectKind, in_part: bool) -> Reply {
        match kind {
            EffectKind::ReserveClaim(reserve) => world.reserve_claim(reserve, in_part),
            EffectKind::ReleaseClaim(release) => world.release_claim(release),
            EffectKind::CreateExtendedClaim(create) => world.create_extended_claim(create),
            EffectKind::DeleteExtendedClaim(delete) => world.delete_extended_claim(delete, in_part).into(),
            EffectKind::SetExtendedClaim(set) => {
                let name = set.claim.clone();
                let is_there = world.api.edit_pod(&set.pod, &set.uid, |pod| pod.extended_claim = Some(name));
                if is_there { Outcome::Done.into() } else { Outcome::Gone.into() }
            }
            EffectKind::Bind(bind) => world.bind(bind).into(),
            EffectKind::SetPodCondition(set) => world.say_why(set).into(),
            EffectKind::Evict(evict) => world.preempt(evict).into(),
            // They are not switched on.
            EffectKind::SetNodeAllocatable(_) | EffectKind::ChangeClassicClaim(_) => {
                world.violate("the scheduler does what it is set up for", format!("{kind:?}"));
                Outcome::Gone.into()
            }
            EffectKind::Event(_) => Outcome::Done.into(),
        }
    }
}

impl World {
    /// An agent hears what the watches of its process have told since it last heard; one that has just begun hears what they began with.
    fn scheduler_hears(&mut self, number: usize, now: Timestamp) {
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

    fn reserve_claim(&mut self, reserve: &ReserveClaim, in_part: bool) -> Reply {
        let mut version = reserve.version;
        let found = match self.claim_to_write(&reserve.claim, &reserve.uid, version) {
            Ok(found) => found,
            Err(outcome) => return outcome.into(),
        };
        if reserve.add_finalizer {
            let notes = ClaimNotes { is_protected: true, ..self.api.notes_of(&found) };
            version = self.api.put_claim(ResourceClaim::clone(&found), notes);
            if in_part {
                return Outcome::Unknown.into();
            }
        }
        let mut claim = ResourceClaim::clone(&found);
        if let Some(allocation) = &reserve.allocation {
            if claim.allocation.is_some() || claim.deleting {
                return Outcome::Refused.into();
            }
            claim.allocation = Some(match self.mutant {
                Some(Mutant::NoBrake) => Arc::new(tolerating_as_asked(&claim, allocation)),
                Some(_) | None => Arc::clone(allocation),
            });
            if allocation.results.iter().any(|result| result.share_id.is_some()) {
                self.coverage.hit(Mark::Shared);
            }
        }
        if claim.allocation.is_none() {
            // Only a claim that is allocated can be reserved.
            return Outcome::Refused.into();
        }
        let is_reserved = self.mutant != Some(Mutant::UnwrittenReservation);
        for user in reserve.reserve_for.iter().filter(|_| is_reserved) {
            if !claim.reserved_for.contains(user) {
                claim.reserved_for.push(user.clone());
            }
        }
        let uid = claim.uid.clone();
        match self.api.allocate(version, claim) {
            Ok(version) => written(&reserve.claim.name, &uid, version),
            Err(Refused::NotFound) => Outcome::Gone.into(),
            Err(Refused::Conflict | Refused::Exists) => Outcome::Conflict.into(),
        }
    }

    fn claim_to_write(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: u64,
    ) -> Result<Arc<ResourceClaim>, Outcome> {
        let stored = self.api.claims.get(key).filter(|stored| stored.object.uid == *uid);
        let Some(stored) = stored else { return Err(Outcome::Gone) };
        if stored.version != version {
            self.coverage.hit(Mark::Conflict);
            return Err(Outcome::Conflict);
        }
        Ok(Arc::clone(stored.object))
    }

    fn release_claim(&mut self, release: &ReleaseClaim) -> Reply {
        let found = match self.claim_to_write(&release.claim, &release.uid, release.version) {
            Ok(found) => found,
            Err(outcome) => return outcome.into(),
        };
        self.check_released(&found, release);
        self.note_timeout(&found, release);
        let mut claim = ResourceClaim::clone(&found);
        claim.reserved_for.retain(|user| Some(&user.uid) != release.consumer.as_ref());
        if release.deallocate {
            self.coverage.hit(Mark::GivenBack);
            // A pod of a group that was removed by force may still have them. The claim controller asks its node then, and the scheduler keeps them from
            // others until it has answered.
            if found.reserved_for.iter().all(|user| user.resource == "pods") {
                self.check_given_back(&claim);
            }
            claim.allocation = None;
            claim.reserved_for.clear();
        }
        let version = self.api.claims.put(&mut self.api.versions, claim);
        written(&release.claim.name, &release.uid, version)
    }

    /// The finalizer goes first, by a write of its own.
    fn delete_extended_claim(&mut self, delete: &DeleteExtendedClaim, in_part: bool) -> Outcome {
        let stored = self.api.claims.get(&delete.claim).map(|stored| Arc::clone(stored.object));
        let Some(claim) = stored.filter(|claim| claim.uid == delete.uid) else { return Outcome::Gone };
        self.check_given_back(&claim);
        // The last finalizer of a claim that is being deleted ends it.
        if in_part && !claim.deleting {
            let notes = ClaimNotes { is_protected: false, ..self.api.notes_of(&claim) };
            self.api.put_claim(ResourceClaim::clone(&claim), notes);
            return Outcome::Unknown;
        }
        self.api.claims.remove(&mut self.api.versions, &delete.claim);
        if in_part { Outcome::Unknown } else { Outcome::Done }
    }

    fn create_extended_claim(&mut self, create: &CreateExtendedClaim) -> Reply {
        let uid = self.api.new_uid();
        let name = palette::text(format_args!("{}{uid}", create.generate_name));
        let claim = ResourceClaim {
            key: ObjectKey { namespace: create.pod.namespace.clone(), name: name.clone() },
            uid: uid.clone(),
            owner: Some(create.owner.clone()),
            extended_resource: true,
            spec: Arc::clone(&create.spec),
            ..ResourceClaim::default()
        };
        let notes = ClaimNotes { is_protected: true, ..ClaimNotes::default() };
        let version = self.api.put_claim(claim, notes);
        self.coverage.hit(Mark::ExtendedMade);
        written(&name, &uid, version)
    }

    fn bind(&mut self, bind: &Bind) -> Outcome {
        let stored = self.api.pods.get(&bind.pod).filter(|stored| stored.object.uid == bind.uid);
        let Some(pod) = stored.map(|stored| stored.object) else { return Outcome::Gone };
        if pod.node.is_some() || pod.deleting_since.is_some() {
            return Outcome::Conflict;
        }
        self.api.edit_pod(&bind.pod, &bind.uid, |pod| pod.node = Some(bind.node.clone()));
        self.placing.waiting.remove(&bind.uid);
        self.coverage.hit(Mark::Scheduled);
        if self.api.nodes.get(&bind.node).is_none() {
            self.coverage.hit(Mark::BoundToNothing);
        }
        self.check_bound(bind);
        self.check_fits(bind);
        Outcome::Done
    }

    /// The condition of a pod that waits is for people. No core of these worlds reads it, so the pod is not written.
    fn say_why(&mut self, set: &SetPodCondition) -> Outcome {
        if self.api.pods.get(&set.pod).is_none_or(|stored| stored.object.uid != set.uid) {
            return Outcome::Gone;
        }
        self.coverage.hit(Mark::Unschedulable);
        self.nominate(set);
        let said = Unscheduled { reason: set.reason.into(), message: set.message.clone() };
        self.placing.waiting.insert(set.uid.clone(), said);
        Outcome::Done
    }
}

fn written(name: &Text, uid: &Uid, version: u64) -> Reply {
    let written = Written { name: name.clone(), uid: uid.clone(), version: version.to_string().into() };
    Reply { outcome: Outcome::Done, why: None, written: Some(written) }
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

/// An allocation of a mutant, with the tolerations that the claim has.
fn tolerating_as_asked(claim: &ResourceClaim, allocation: &Allocation) -> Allocation {
    let mut allocation = allocation.clone();
    let asked = request_of(claim).map_or(&[][..], |request| &request.tolerations);
    allocation.results.iter_mut().for_each(|result| result.tolerations = asked.to_vec());
    allocation
}

/// The way in which an agent gets news.
struct SchedulerInputs<'a> {
    core: &'a mut Scheduler,
    now: Timestamp,
    api: &'a Api,
    gaps: &'a Gaps,
    placing: &'a Placing,
    readiness: &'a Readiness,
    workloads: &'a Workloads,
    config: &'a Config,
    reports: &'a Reports,
    /// The nodes as it has heard of them.
    nodes: KnownNodes,
    mutant: Option<Mutant>,
}

impl SchedulerInputs<'_> {
    fn tell(&mut self, input: Input) {
        self.core.handle(self.now, input);
    }

    fn hear_node(&mut self, report: &Arc<NodeReport>) {
        if let Some(node) = self.nodes.report(report) {
            self.tell_node(node);
        }
    }

    fn tell_node(&mut self, mut node: Arc<lazaret_scheduler::Node>) {
        if self.mutant == Some(Mutant::UnseenQuestions) {
            Arc::make_mut(&mut node).awaiting.clear();
        }
        self.tell(Input::Node(node));
    }

    /// The first list of nodes: they are passed on with their reports.
    fn list_nodes(&mut self) {
        for place in listed(&self.api.nodes, self.gaps.began[Kind::Node as usize]) {
            if let Some(stored) = self.api.nodes.written(place) {
                self.set_node(stored.object, place as usize - 1);
            }
        }
    }

    /// A Node was written at this place of the log. One whose name was used again is gone first.
    fn set_node(&mut self, facts: &Arc<Node>, place: usize) {
        let uid = self.reports.uid_at(&facts.name, place);
        let unschedulable = is_cordoned(facts) && self.mutant != Some(Mutant::UnseenCordon);
        let cpu_milli = self.config.node_cpu_milli();
        let is_another = self.nodes.set(&facts.name, uid, |node| {
            node.facts = Arc::clone(facts);
            node.unschedulable = unschedulable;
            node.taints = facts.taints.iter().filter(|taint| taint.key != UNSCHEDULABLE).cloned().collect();
            (node.pods_max, node.allocatable.cpu_milli) = (PODS_MAX, cpu_milli);
        });
        if is_another {
            self.tell_node_gone(&facts.name);
        }
    }

    fn tell_node_gone(&mut self, name: &Text) {
        if self.mutant != Some(Mutant::GhostNode) {
            self.tell(Input::NodeGone(name.clone()));
        }
    }

    /// The nodes that were written from here to there.
    fn follow_nodes(&mut self, from: usize, to: usize) {
        let api = self.api;
        for Event { place, .. } in self.gaps.events(&api.nodes, from, to) {
            let logged = &api.nodes.log()[place];
            let Some(facts) = &logged.object else {
                let name = api.nodes.key(logged.number);
                if self.nodes.remove(name) {
                    self.tell_node_gone(name);
                }
                continue;
            };
            if self.mutant == Some(Mutant::UnseenUncordon) && !is_cordoned(facts) {
                continue;
            }
            self.set_node(facts, place);
            self.nodes.get(&facts.name).into_iter().for_each(|node| self.tell_node(node));
        }
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
