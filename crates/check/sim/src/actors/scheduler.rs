//! The scheduler: the core that ships, and pods as it sees them.

use std::sync::Arc;

use hashbrown::HashMap;
use lazaret_allocator::Features;
use lazaret_leader::{Precedence, TurnOptions};
use lazaret_machine::{Outcome, Reply};
use lazaret_model::{Pod, Text, Timestamp, Uid};
use lazaret_scheduler::{
    Amounts, Container, EffectKind, Extended, Options, PodSpec, Role, Scheduler, Unscheduled,
};
use rustc_hash::FxBuildHasher;

use crate::{
    actors::{
        crowd,
        part::{Crew, Part, PartStep},
    },
    mutant::Mutant,
    scenario::Config,
    world::{Step, World},
};

/// The resource that a device of the first class stands in for.
const EXTENDED: &str = "deviceclass.resource.kubernetes.io/gpu";
/// Pods wait for something to happen, and for nothing else: one that is forgotten waits for ever.
const FLUSH_MS: i64 = i64::MAX / 4;

/// The specs of pods, and the statuses of those that wait.
#[derive(Debug)]
pub(crate) struct Placing {
    plain: Arc<PodSpec>,
    extended: Arc<PodSpec>,
    /// In worlds in which pods take room.
    crowd: crowd::Specs,
    pub(super) waiting: HashMap<Uid, Unscheduled, FxBuildHasher>,
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
    pub(super) fn pod(
        &self,
        config: &Config,
        pod: &Pod,
        place: usize,
        is_extended: bool,
    ) -> lazaret_scheduler::Pod {
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

    const IS_BOUNDED: bool = true;

    /// A release takes a claim from a pod that is about to be bound, the name of a claim replaces that of a newer one, and a binding may find its pod
    /// without claims: the next scheduler waits until they have ended. An allocation may be held up for longer, on the way or by the server.
    fn may_outlive_its_sender(kind: &EffectKind, in_bounds: bool) -> bool {
        match kind {
            EffectKind::Bind(_) | EffectKind::ReleaseClaim(_) | EffectKind::SetExtendedClaim(_) => in_bounds,
            EffectKind::ReserveClaim(_)
            | EffectKind::CreateExtendedClaim(_)
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
