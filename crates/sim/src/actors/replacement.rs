//! The replacement controller: the core that ships, with a fleet of its own, as in the program.

use std::collections::{BTreeSet, VecDeque};

use lazaret_fleet::Fleet;
use lazaret_leader::{Precedence, TurnOptions};
use lazaret_machine::{Effect, Machine, Reply, Turn, Wake};
use lazaret_model::{Timestamp, Uid};
use lazaret_replacement::{EffectKind, Options, Replacement};

use crate::{
    actors::part::{Crew, Part, PartStep},
    mutant::Mutant,
    world::{Step, World},
};

/// The core and its fleet.
#[derive(Debug)]
pub(crate) struct Replacer {
    pub(crate) core: Replacement,
    pub(super) fleet: Fleet,
    /// How much it has heard of the log of policies.
    pub(crate) policies: usize,
    pub(super) leads: bool,
    pub(super) mutant: Option<Mutant>,
    /// Times that it decided.
    turns: u64,
    /// Effects that were not taken yet, each with the turn in which it was decided.
    waiting: VecDeque<(u64, Effect<EffectKind>)>,
    /// Effects that were taken in the turn in which they were decided.
    taken_at_once: u64,
    /// The pods whose replacement began in the last turn.
    pub(crate) begun: BTreeSet<Uid>,
}

impl Machine for Replacer {
    type View = ();
    type Input<'a> = Turn;
    type Kind = EffectKind;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, (): &(), turn: Turn) {
        let now = if self.mutant == Some(Mutant::ReplaceEarly) { now.plus_secs(1) } else { now };
        let changes = self.fleet.take_changes();
        self.core.tell_devices(&self.fleet, &changes);
        if matches!(turn, Turn::BecameLeader | Turn::LostLeadership) {
            self.leads = turn == Turn::BecameLeader;
            self.waiting.clear();
            // It must know all that there is before it is asked to act on it.
            self.core.think(now, &self.fleet);
        }
        self.turns += 1;
        let before: BTreeSet<Uid> = self.core.in_flight().cloned().collect();
        self.core.handle(now, &self.fleet, turn);
        self.begun = self.core.in_flight().filter(|uid| !before.contains(*uid)).cloned().collect();
        while let Some(effect) = self.core.poll_effect() {
            self.waiting.push_back((self.turns, effect));
        }
    }

    fn poll_effect(&mut self) -> Option<Effect<EffectKind>> {
        let (turn, effect) = self.waiting.pop_front()?;
        self.taken_at_once += u64::from(turn == self.turns);
        Some(effect)
    }

    fn next_wake(&self) -> Option<Wake> {
        self.core.next_wake().filter(|_| self.mutant != Some(Mutant::LostTimer))
    }
}

impl Part for Replacer {
    const LOOP: TurnOptions = TurnOptions { in_flight_max: 64, precedence: Precedence::Urgent };

    fn begin() -> Self {
        Self {
            core: Replacement::new(Options::default()),
            fleet: Fleet::new(),
            policies: 0,
            leads: false,
            mutant: None,
            turns: 0,
            waiting: VecDeque::new(),
            taken_at_once: 0,
            begun: BTreeSet::new(),
        }
    }

    fn crew(world: &mut World) -> &mut Crew<Self> {
        &mut world.replacers
    }

    fn step(step: PartStep<EffectKind>) -> Step {
        Step::Replacer(Box::new(step))
    }

    fn ask(world: &mut World, number: usize) {
        world.watches.ask(number, &world.api);
    }

    fn is_past_fence(world: &World, number: usize) -> bool {
        world.watches.is_past_fence(number)
    }

    fn hear(world: &mut World, number: usize, _: Timestamp) {
        world.replacement_hears(number);
    }

    fn is_event(kind: &EffectKind) -> bool {
        matches!(kind, EffectKind::Event(_))
    }

    fn decisions_made(&self) -> u64 {
        self.taken_at_once
    }

    fn check(world: &mut World, number: usize, kind: &EffectKind, is_new: bool) {
        world.check_replacement(number, kind, is_new);
    }

    fn perform(world: &mut World, kind: &EffectKind, in_part: bool) -> Reply {
        world.perform_replacement(kind, in_part)
    }
}
