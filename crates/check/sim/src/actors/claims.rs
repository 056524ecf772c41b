//! The claim controller: the core that ships, and the server's handling of its writes. The specs of claims.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_claims::{
    ChangeClaim, ClaimStep, Claims, CreateClaim, EffectKind, Holder, HolderKind, Input, Options,
    SetClaimNames, Template,
};
use lazaret_leader::{Precedence, TurnOptions};
use lazaret_machine::{Outcome, Reply, Turn};
use lazaret_model::{
    AllocationMode, ClaimSource, ClaimSpec, DeviceRequest, ObjectKey, Owner, Pod, PodPhase, Quantity,
    Request, RequestKind, ResourceClaim, Text, Timestamp,
};

use crate::{
    actors::{
        news::{Event, Progress, listed},
        nodes::NodeWrite,
        part::{Agent, Crew, Part, PartStep},
        workloads::{Workloads, group_owner},
    },
    api::{Api, ClaimNotes, Kind},
    coverage::Mark,
    mutant::Mutant,
    palette,
    world::{Step, World},
};

/// The specs of claims: equal claims share one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Specs {
    /// By class and number of tolerations. Some numbers mean the same.
    by_number: BTreeMap<(usize, u32), Arc<ClaimSpec>>,
    distinct: Vec<Arc<ClaimSpec>>,
}

impl Specs {
    /// A claim for one device of a class, or for a share of one of the fabric's.
    pub(crate) fn new_claim(
        &mut self,
        key: ObjectKey,
        uid: Text,
        class: &str,
        tolerations: u32,
    ) -> ResourceClaim {
        let of = (palette::class_number(class), tolerations);
        let distinct = &mut self.distinct;
        let spec = self.by_number.entry(of).or_insert_with(|| {
            let spec = new_spec(class, tolerations);
            if let Some(known) = distinct.iter().find(|known| ***known == spec) {
                return Arc::clone(known);
            }
            distinct.push(Arc::new(spec));
            distinct[distinct.len() - 1].clone()
        });
        ResourceClaim { key, uid, spec: Arc::clone(spec), ..ResourceClaim::default() }
    }
}

fn new_spec(class: &str, tolerations: u32) -> ClaimSpec {
    let request = DeviceRequest {
        class: class.into(),
        mode: AllocationMode::Exact(1),
        tolerations: palette::tolerations(tolerations),
        capacity: (class == palette::FABRIC)
            .then(|| vec![(palette::BANDWIDTH.into(), Quantity::from_i64(1 + i64::from(tolerations % 4)))]),
        ..DeviceRequest::default()
    };
    ClaimSpec {
        requests: vec![Request { name: "r".into(), kind: RequestKind::Exactly(request) }],
        ..ClaimSpec::default()
    }
}

/// The one request of a claim.
pub(crate) fn request_of(claim: &ResourceClaim) -> Option<&DeviceRequest> {
    match claim.spec.requests.first().map(|request| &request.kind)? {
        RequestKind::Exactly(request) => Some(request),
        RequestKind::FirstAvailable(_) | RequestKind::Unknown => None,
    }
}

/// How much of a device's bandwidth a claim asks for; `None`: the whole device.
pub(crate) fn share_of(claim: &ResourceClaim) -> Option<i64> {
    request_of(claim)?.capacity.as_ref()?.first()?.1.as_i64()
}

/// Says in a pod what the claims of its entries are called.
pub(crate) fn resolve<'a>(pod: &mut Pod, extended: bool, made: impl Iterator<Item = (&'a Text, &'a Text)>) {
    for (entry, name) in made {
        if extended {
            pod.extended_claim = Some(name.clone());
            continue;
        }
        for claim in pod.claims.iter_mut().filter(|claim| claim.name == *entry) {
            if let ClaimSource::Template { resolved, .. } = &mut claim.source {
                *resolved = Some(Some(name.clone()));
            }
        }
    }
}

/// The owner that a pod is of its claims.
pub(crate) fn owner(pod: &Pod) -> Owner {
    Owner {
        group: palette::word(""),
        kind: palette::word("Pod"),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
    }
}

impl Part for Claims {
    const LOOP: TurnOptions = TurnOptions { in_flight_max: 128, precedence: Precedence::Usual };

    fn begin() -> Self {
        Self::new(Options { groups: true, ..Options::default() })
    }

    fn crew(world: &mut World) -> &mut Crew<Self> {
        &mut world.claims
    }

    fn step(step: PartStep<EffectKind>) -> Step {
        Step::Claims(Box::new(step))
    }

    fn hear(world: &mut World, number: usize, now: Timestamp) {
        world.claims_hear(number, now);
    }

    fn lead(&mut self, now: Timestamp, leads: bool) {
        if leads {
            self.handle(now, Input::Synced);
        }
        self.handle(now, Turn::leads(leads).into());
    }

    fn is_event(kind: &EffectKind) -> bool {
        matches!(kind, EffectKind::Event(_) | EffectKind::ClaimEvent(_))
    }

    /// A name that a claim has belongs to the pod, unless it is found to belong to another.
    fn may_conflict(kind: &EffectKind) -> bool {
        !matches!(kind, EffectKind::CreateClaim(_))
    }

    fn perform(world: &mut World, kind: &EffectKind, in_part: bool) -> Reply {
        let outcome = match kind {
            EffectKind::CreateClaim(create) => world.create_claim(create),
            EffectKind::SetClaimNames(write) => world.set_claim_names(write),
            EffectKind::ChangeClaim(change) => world.change_claim(change, in_part),
            EffectKind::Confirm(holder) => world.confirm(holder),
            EffectKind::ConfirmNode(node) => world.confirm_node(node),
            EffectKind::AskNode(ask) => world.ask_node(ask),
            EffectKind::Event(_) | EffectKind::ClaimEvent(_) => Outcome::Done,
        };
        outcome.into()
    }
}

impl World {
    /// Passes on the events of a process's watches since its agent's last turn; a new agent gets the first lists of the watches.
    fn claims_hear(&mut self, number: usize, now: Timestamp) {
        let Self { claims, clients, api, reports, workloads, mutant, .. } = self;
        let (gaps, view) = (&clients[number].gaps, &clients[number].view);
        let Agent { core, progress, .. } = &mut claims.agents[number];
        let progress = progress.get_or_insert_with(|| {
            let heard = gaps.began;
            let pods = listed(&api.pods, heard[Kind::Pod as usize]);
            begin_with(core, now, api, workloads, &pods, heard[Kind::Claim as usize]);
            let seen = reports.by_node.values().filter(|_| *mutant != Some(Mutant::NoNodes));
            seen.for_each(|report| core.handle(now, Input::Node(Arc::clone(report))));
            Progress { heard, pods, reports: reports.log.len(), ..Progress::default() }
        });
        let to = view.position(Kind::Pod);
        let from = core::mem::replace(&mut progress.heard[Kind::Pod as usize], to);
        for Event { place, is_after_gap } in gaps.events(&api.pods, from, to) {
            hear_of_pod(core, now, api, progress, place, is_after_gap, *mutant);
        }
        let to = view.position(Kind::Claim);
        let from = core::mem::replace(&mut progress.heard[Kind::Claim as usize], to);
        for Event { place, .. } in gaps.events(&api.claims, from, to) {
            let logged = &api.claims.log()[place];
            if logged.object.is_none() && *mutant == Some(Mutant::ForgottenUsers) {
                let before = (0..place).rev().find(|at| api.claims.log()[*at].number == logged.number);
                if let Some(mut seen) = before.and_then(|at| api.seen_claim(at)) {
                    Arc::make_mut(&mut seen.claim).reserved_for.clear();
                    core.handle(now, Input::Claim(seen));
                }
            }
            core.handle(
                now,
                match api.seen_claim(place) {
                    Some(seen) => Input::Claim(seen),
                    None => Input::ClaimGone(api.claims.key(logged.number).clone()),
                },
            );
        }
        let to = reports.told[number].max(progress.reports);
        let from = core::mem::replace(&mut progress.reports, to);
        for NodeWrite { name, report } in reports.events(number, from, to) {
            match report {
                _ if *mutant == Some(Mutant::NoNodes) => {}
                None if *mutant == Some(Mutant::UnseenNodeLoss) => {}
                Some(mut report) if *mutant == Some(Mutant::ImaginedAnswers) => {
                    let asked = report.awaiting.iter().filter(|one| api.claims.get(&one.claim).is_none());
                    let answered: Vec<_> = asked.map(|one| one.uid.clone()).collect();
                    Arc::make_mut(&mut report).unprepared.extend(answered);
                    core.handle(now, Input::Node(report));
                }
                Some(report) => core.handle(now, Input::Node(report)),
                None => core.handle(now, Input::NodeGone(name)),
            }
        }
    }

    /// Tells a machine of all that there is.
    pub(crate) fn tell_all_claims(&self, core: &mut Claims, now: Timestamp) {
        let (pods, claims) = (self.api.pods.live().clone(), self.api.claims.log().len());
        begin_with(core, now, &self.api, &self.workloads, &pods, claims);
        for report in self.reports.by_node.values() {
            core.handle(now, Input::Node(Arc::clone(report)));
        }
    }

    fn create_claim(&mut self, create: &CreateClaim) -> Outcome {
        if let Some(stored) = self.api.claims.get(&create.claim) {
            let is_ours = stored.object.owner.as_ref().is_some_and(|owner| owner.uid == create.holder.uid);
            return if is_ours { Outcome::Done } else { Outcome::Conflict };
        }
        self.check_only_claim(create);
        let at = self.api.pods.number(&create.holder.key);
        let tolerations = at.and_then(|at| self.shape_of(at)).map_or(0, |shape| shape.tolerations);
        let uid = self.api.new_uid();
        let class = &create.template.key.name;
        let mut claim = self.workloads.specs.new_claim(create.claim.clone(), uid, class, tolerations);
        let Holder { kind, key, uid } = &create.holder;
        claim.owner = Some(match kind {
            HolderKind::Pod => Owner {
                group: palette::word(""),
                kind: palette::word("Pod"),
                name: key.name.clone(),
                uid: uid.clone(),
            },
            HolderKind::Group => group_owner(&key.name),
        });
        self.config.enlarge(&mut claim);
        let notes = ClaimNotes { is_protected: true, entry: Some(create.entry.clone()), awaiting: None };
        self.api.put_claim(claim, notes);
        Outcome::Done
    }

    fn set_claim_names(&mut self, write: &SetClaimNames) -> Outcome {
        let Holder { kind, key, uid } = &write.holder;
        if *kind == HolderKind::Group {
            self.violate("a group keeps its claim", format!("{key} is given {:?}", write.names));
        }
        let names = write.names.iter().map(|(entry, claim)| (entry, claim));
        let is_there = self.api.edit_pod(key, uid, |pod| resolve(pod, false, names));
        if is_there { Outcome::Done } else { Outcome::Gone }
    }

    /// Each step is a write of its own, on the version that the one before left.
    fn change_claim(&mut self, change: &ChangeClaim, in_part: bool) -> Outcome {
        let mut version = change.version.parse().unwrap_or(0);
        for step in change.steps.iter().take(if in_part { 1 } else { usize::MAX }) {
            let Some(stored) = self.api.claims.get(&change.claim) else { return Outcome::Gone };
            if stored.object.uid != change.uid {
                return Outcome::Gone;
            }
            if stored.version != version {
                self.coverage.hit(Mark::Conflict);
                return Outcome::Conflict;
            }
            let mut claim = ResourceClaim::clone(stored.object);
            let mut notes = self.api.notes_of(&claim);
            self.check_claim_step(&claim, step);
            match step {
                ClaimStep::SetStatus { reserved_for, deallocate } => {
                    claim.reserved_for.clone_from(reserved_for);
                    if *deallocate {
                        claim.allocation = None;
                    }
                }
                ClaimStep::SetFinalizers(left) => notes.is_protected = !left.is_empty(),
                ClaimStep::SetAwaiting(nodes) => notes.awaiting.clone_from(nodes),
                ClaimStep::Delete => claim.deleting = true,
            }
            if claim.deleting && !notes.is_protected {
                self.api.claims.remove(&mut self.api.versions, &change.claim);
                return Outcome::Done;
            }
            version = self.api.put_claim(claim, notes);
        }
        Outcome::Done
    }

    /// Whether somebody who has claims is there.
    fn confirm(&self, holder: &Holder) -> Outcome {
        let is_there = match holder.kind {
            HolderKind::Pod => {
                self.api.pods.get(&holder.key).is_some_and(|stored| stored.object.uid == holder.uid)
            }
            // A group lives as long as its workload: for ever.
            HolderKind::Group => true,
        };
        if is_there { Outcome::Done } else { Outcome::Gone }
    }

    /// The claims that a pod lacks, each with the entry of the pod that it is for.
    pub(crate) fn new_claims(
        &mut self,
        pod: &Pod,
        extended: bool,
        tolerations: u32,
    ) -> Vec<(Text, ResourceClaim)> {
        let entries = pod.claims.iter().filter_map(|entry| match &entry.source {
            ClaimSource::Template { template, resolved: None } => {
                Some((entry.name.clone(), template.clone()))
            }
            ClaimSource::Template { .. } | ClaimSource::Claim(_) | ClaimSource::Unknown => None,
        });
        let entries: Vec<(Text, Text)> = if extended {
            vec![(palette::word("extended"), palette::word(palette::CLASSES[0]))]
        } else {
            entries.collect()
        };
        let new = entries.into_iter().map(|(entry, class)| {
            let key = ObjectKey {
                namespace: pod.key.namespace.clone(),
                name: palette::text(format_args!("{}-{entry}", pod.key.name)),
            };
            let uid = self.api.new_uid();
            let mut claim = self.workloads.specs.new_claim(key, uid, &class, tolerations);
            claim.owner = Some(owner(pod));
            claim.extended_resource = extended;
            (entry, claim)
        });
        new.collect()
    }
}

/// A new machine gets the first lists of the watches.
fn begin_with(
    core: &mut Claims,
    now: Timestamp,
    api: &Api,
    workloads: &Workloads,
    pods: &[u32],
    claims: usize,
) {
    for namespace in palette::NAMESPACES {
        for class in palette::CLASSES.into_iter().chain([palette::FABRIC]) {
            let key = ObjectKey::new(namespace, class);
            core.handle(now, Input::Template(Arc::new(Template { key, ..Template::default() })));
        }
    }
    workloads.groups().for_each(|group| core.handle(now, Input::Group(Arc::new(group))));
    let found = pods.iter().filter_map(|place| api.pods.written(*place));
    core.handle(now, Input::PodsListed(found.map(|stored| Arc::clone(stored.object)).collect()));
    let found = listed(&api.claims, claims).into_iter().filter(|place| *place != 0);
    let found = found.filter_map(|place| api.seen_claim(place as usize - 1));
    core.handle(now, Input::ClaimsListed(found.collect()));
}

/// A pod was written or removed at this place of the log.
fn hear_of_pod(
    core: &mut Claims,
    now: Timestamp,
    api: &Api,
    progress: &mut Progress,
    place: usize,
    is_after_gap: bool,
    mutant: Option<Mutant>,
) {
    let logged = &api.pods.log()[place];
    let number = logged.number as usize;
    progress.pods.resize(progress.pods.len().max(number + 1), 0);
    let after = if logged.object.is_some() { u32::try_from(place + 1).unwrap_or(u32::MAX) } else { 0 };
    let before = api.pods.written(core::mem::replace(&mut progress.pods[number], after));
    let before = before.map(|stored| Arc::clone(stored.object));
    if let Some(pod) = before
        && logged.object.as_ref().is_none_or(|now| now.uid != pod.uid)
    {
        if mutant == Some(Mutant::AllEnded) {
            core.handle(now, Input::Pod(Arc::new(Pod { phase: PodPhase::Failed, ..Pod::clone(&pod) })));
        }
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        core.handle(now, Input::PodGone { key, uid, last_told: !is_after_gap });
    }
    if let Some(pod) = &logged.object {
        core.handle(now, Input::Pod(Arc::clone(pod)));
    }
}
