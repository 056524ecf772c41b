//! The replacement controller: the core that ships, with a fleet of its own, as in the program.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_fleet::Fleet;
use lazaret_leader::{Precedence, TurnOptions};
use lazaret_machine::{Effect, Machine, Reply, Turn, Wake};
use lazaret_model::{DisruptionGuard, Timestamp, Uid};
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
    /// The guards that its process has heard of.
    pub(crate) guards: Vec<Arc<DisruptionGuard>>,
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
            // It must know all that there is before it is asked to act on it.
            self.core.think(now, &self.fleet);
        }
        let before: BTreeSet<Uid> = self.core.in_flight().cloned().collect();
        self.core.handle(now, &self.fleet, turn);
        self.begun = self.core.in_flight().filter(|uid| !before.contains(*uid)).cloned().collect();
    }

    fn poll_effect(&mut self) -> Option<Effect<EffectKind>> {
        self.core.poll_effect()
    }

    fn next_wake(&self) -> Option<Wake> {
        self.core.next_wake().filter(|_| self.mutant != Some(Mutant::LostTimer))
    }
}

impl Part for Replacer {
    const LOOP: TurnOptions = TurnOptions { in_flight_max: 64, precedence: Precedence::Urgent };

    fn begin() -> Self {
        Self {
            core: Replacement::new(Options { trusts_user_names: true, ..Options::default() }),
            fleet: Fleet::new(),
            policies: 0,
            leads: false,
            mutant: None,
            guards: Vec::new(),
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

    fn check(world: &mut World, number: usize, kind: &EffectKind, _is_new: bool) {
        world.check_replacement(number, kind);
    }

    fn perform(world: &mut World, kind: &EffectKind, in_part: bool) -> Reply {
        world.perform_replacement(kind, in_part)
    }
}
