//! A world around the scheduler itself: nodes with devices that have to be made ready, drivers that make them ready or
//! do not, pods that come and go, a claim controller, and an API server whose watches and answers take their time, each
//! its own. At rest no pod waits that could be placed, and nothing is in flight.
//!
//! No pod is tried again only because it has waited for long: whoever depends on that was forgotten.

mod check;
mod cluster;
mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_leader::{Demand, Fate, Precedence, Take, Turn, TurnOptions};
use lazaret_machine::Wake;
use lazaret_model::{ObjectKey, Timestamp};
use lazaret_scheduler::{Claim, Effect, EffectId, EffectKind, Input, Node, Options, Pod, Reply, Scheduler};

use crate::{Violation, queue::Queue, rng::Rng};

macro_rules! mutants {
    ($($(#[$doc:meta])* $mutant:ident = $name:literal,)*) => {
        /// A fault between the world and the scheduler.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PlacementMutant { $($(#[$doc])* $mutant,)* }
        impl PlacementMutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$mutant,)*];
            /// As on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$mutant => $name,)* }
            }
        }
    };
}
mutants! {
    /// The scheduler is not told that the devices of a claim were given back.
    UnseenRelease = "unseen-release",
    /// The answer to a write that gives devices back never comes.
    UnansweredRelease = "unanswered-release",
    /// The scheduler is not told what drivers say of devices.
    UnseenConditions = "unseen-conditions",
    /// The scheduler is not called when it asked to be.
    UncalledScheduler = "uncalled-scheduler",
    /// The scheduler does not see that a claim is allocated.
    UnseenAllocation = "unseen-allocation",
    /// The scheduler is not told that a node takes pods again.
    UnseenUncordon = "unseen-uncordon",
    /// The scheduler is not told that a pod is gone.
    UnseenDeparture = "unseen-departure",
}

/// The result of a seed.
#[derive(Debug)]
pub struct PlacementOutcome {
    /// The violation, if any.
    pub violation: Option<Violation>,
    /// Steps taken.
    pub steps: u64,
    /// How often devices were reported as broken.
    pub broken: u64,
    /// How often devices were given back by the scheduler.
    pub given_back: u64,
    /// Pods that were bound.
    pub bound: u64,
}

/// From outside nothing happens any more after this.
const HORIZON_MS: u64 = 120_000;
/// A world that is still busy this long after that will never rest: devices may take ten minutes to time out, twice.
const REST_MS_MAX: u64 = 3_600_000;
/// A world that does more than this is stuck in a loop.
const STEPS_MAX: u64 = 200_000;
/// The time after which a pod is tried again: never.
const FLUSH_MS: i64 = i64::MAX / 4;

/// As in the program.
const LOOP: TurnOptions = TurnOptions { in_flight_max: 256, precedence: Precedence::Usual };
/// The term of a process that has no rivals.
const TERM: Option<u64> = Some(0);
/// The instant of virtual time zero.
const START: Timestamp = Timestamp::from_millis(1_000_000_000);

/// Something that is going to happen.
#[derive(Debug)]
enum Step {
    /// Something from outside.
    Chance,
    /// Nothing happens from outside any more, and everything that was broken is mended.
    Rest,
    /// The watch of a kind delivers its next event.
    Deliver(Kind),
    /// A write reaches the server.
    Arrive(Box<Effect>),
    /// The answer reaches the scheduler.
    Answer(EffectId, Reply),
    /// The scheduler asked to be called.
    Call,
    /// A driver reports on the devices of a claim.
    Report(ObjectKey),
    /// The claim controller looks after the claims of a pod that is gone.
    CleanUp(ObjectKey),
}

/// A kind of object; each is watched on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Pods,
    Claims,
    Others,
}

#[derive(Debug)]
struct World {
    rng: Rng,
    mutant: Option<PlacementMutant>,
    now: u64,
    queue: Queue<Step>,
    resting: bool,
    scheduler: Scheduler,
    /// The loop that ships, for a process that has no rivals.
    turn: Turn<Kind>,
    /// When it is going to be called.
    called_at: BTreeSet<u64>,
    /// Effects that were given out and not answered.
    unanswered: BTreeSet<EffectId>,
    /// Events that a watch has not delivered yet.
    events: BTreeMap<Kind, VecDeque<Input>>,
    version: u64,
    pods: BTreeMap<ObjectKey, Pod>,
    claims: BTreeMap<ObjectKey, Claim>,
    nodes: Vec<Node>,
    /// Devices of each node that are tainted.
    tainted: BTreeSet<(usize, usize)>,
    made: u64,
    longest_lag_ms: u64,
    trace: bool,
    outcome: PlacementOutcome,
}

/// Runs the world of a seed to its end.
#[must_use]
pub fn run_placement(seed: u64, mutant: Option<PlacementMutant>) -> PlacementOutcome {
    run_placement_traced(seed, mutant, false)
}

/// The same, telling on standard error what happens.
#[must_use]
pub fn run_placement_traced(seed: u64, mutant: Option<PlacementMutant>, trace: bool) -> PlacementOutcome {
    let mut world = World::new(seed, mutant);
    world.trace = trace;
    world.run();
    world.outcome
}

impl World {
    fn new(seed: u64, mutant: Option<PlacementMutant>) -> Self {
        let mut rng = Rng::new(seed, 77);
        let options = Options {
            preemption: rng.chance(300),
            flush_ms: FLUSH_MS,
            binding_timeout_s: rng.pick(&[20, 60, 600]),
            ..Options::default()
        };
        let longest_lag_ms = rng.pick(&[0, 20, 400, 3_000]);
        let mut world = Self {
            rng,
            mutant,
            now: 0,
            queue: Queue::default(),
            resting: false,
            scheduler: Scheduler::new(options),
            turn: Turn::new(START, LOOP),
            called_at: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            events: BTreeMap::new(),
            version: 100,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            nodes: Vec::new(),
            tainted: BTreeSet::new(),
            made: 0,
            longest_lag_ms,
            trace: false,
            outcome: PlacementOutcome { violation: None, steps: 0, broken: 0, given_back: 0, bound: 0 },
        };
        world.populate();
        world
    }

    fn run(&mut self) {
        while self.outcome.violation.is_none() {
            let Some((at, step)) = self.queue.pop() else { return self.check_at_rest() };
            self.now = self.now.max(at);
            self.outcome.steps += 1;
            if self.now > HORIZON_MS + REST_MS_MAX || self.outcome.steps > STEPS_MAX {
                let sizes = self.scheduler.sizes();
                return self.violate("comes to rest", format!("{step:?} is planned; {sizes:?}"));
            }
            self.take(step);
            self.let_scheduler_work();
            self.check_devices();
        }
    }

    #[allow(clippy::print_stderr, reason = "only when a trace is asked for")]
    fn say(&self, text: core::fmt::Arguments<'_>) {
        if self.trace {
            eprintln!("{:>8}  {text}", self.now);
        }
    }

    fn take(&mut self, step: Step) {
        if !matches!(step, Step::Call | Step::Deliver(_)) {
            self.say(format_args!("{step:?}"));
        }
        match step {
            Step::Chance => self.chance(),
            Step::Rest => self.begin_rest(),
            Step::Deliver(kind) => {
                if let Some(input) = self.events.get_mut(&kind).and_then(VecDeque::pop_front) {
                    self.deliver(input);
                }
            }
            Step::Arrive(effect) => self.arrive(*effect),
            Step::Answer(effect, reply) => {
                self.unanswered.remove(&effect);
                self.turn.landed(self.wall());
                self.tell(Input::Acknowledged(effect, reply));
            }
            Step::Call => {
                self.called_at.remove(&self.now);
                self.tell(Input::Tick);
            }
            Step::Report(claim) => self.report(&claim),
            Step::CleanUp(pod) => self.clean_up(&pod),
        }
    }

    fn wall(&self) -> Timestamp {
        START.plus_millis(i64::try_from(self.now).unwrap_or(i64::MAX))
    }

    fn tell(&mut self, input: Input) {
        let now = self.wall();
        self.scheduler.handle(now, input);
    }

    /// Takes what the scheduler wants done, and notes when it wants to be called.
    fn let_scheduler_work(&mut self) {
        if self.turn.stand(self.wall(), TERM, false, true, |_| None) == Demand::Lead(true) {
            self.tell(Input::BecameLeader);
        }
        self.turn.begin_to_send(self.wall());
        while self.turn.may_take(TERM, [0, self.turn.in_flight(), 0]) == Take::One {
            let Some(effect) = self.scheduler.poll_effect() else { break };
            if !self.turn.may_send(TERM) {
                self.tell(Input::Acknowledged(effect.id, Reply::of(Fate::Withheld.outcome())));
            } else if matches!(effect.kind, EffectKind::Event(_)) {
                self.turn.landed(self.wall());
            } else {
                self.unanswered.insert(effect.id);
                self.push_soon(Step::Arrive(Box::new(effect)));
            }
        }
        let wanted = self.scheduler.next_wake().map(|wake| Wake::new(wake.at, "it asked"));
        let Some(wake) = self.turn.wake(wanted) else { return };
        let wait = wake.at.as_millis().saturating_sub(self.wall().as_millis());
        let at = self.now + u64::try_from(wait).unwrap_or(0);
        // Far away is where waiting pods are tried again for no reason.
        if at > HORIZON_MS + 2 * REST_MS_MAX || self.mutant == Some(PlacementMutant::UncalledScheduler) {
            return;
        }
        if self.called_at.insert(at) {
            self.queue.push(at, Step::Call);
        }
    }

    fn push_soon(&mut self, step: Step) {
        let delay = self.rng.below(self.longest_lag_ms + 1);
        self.queue.push(self.now + delay, step);
    }

    fn violate(&mut self, invariant: &'static str, detail: String) {
        let at = self.now;
        self.outcome.violation.get_or_insert(Violation { invariant, detail, at });
    }
}
