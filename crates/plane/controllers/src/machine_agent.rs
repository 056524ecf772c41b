//! The agent of every core that is a [`Machine`]: what differs is its shell.

use lazaret_machine::{Machine, Turn};
use lazaret_model::{SetBack, Timestamp};
use lazaret_runtime::{Agent, Effect, EffectId, News, Reply, Resource, ViewWish, Wake};

/// The shell of a machine: holds the objects that the machine reads, and turns news into its inputs.
pub(crate) trait Shell: Send + 'static {
    type Machine: Machine<Kind: Send + 'static> + Send + 'static;

    /// The objects that the machine reads.
    fn view(&self) -> &<Self::Machine as Machine>::View;

    /// Turns news into inputs of the machine.
    fn hear(&mut self, machine: &mut Self::Machine, now: Timestamp, news: News);

    /// The machine begins on a clock that was set back while this process ran.
    fn clock_set_back(&mut self, _machine: &mut Self::Machine, _set_back: SetBack) {}

    /// The resources to hear of besides, when they are others than before.
    fn follow(&mut self, _machine: &Self::Machine) -> Option<Vec<Resource>> {
        None
    }

    /// After some news, or because time has passed.
    fn think(&mut self, machine: &mut Self::Machine, now: Timestamp) {
        machine.handle(now, self.view(), Turn::Tick.into());
    }

    /// Effects are wanted from now on, for all that was heard has been told; or none are.
    fn lead(&mut self, machine: &mut Self::Machine, now: Timestamp, leads: bool) {
        machine.handle(now, self.view(), Turn::leads(leads).into());
    }

    /// The part of an answer that the machine gets. Most have no use for the object that was written.
    fn reply(reply: Reply) -> lazaret_machine::Reply {
        reply.into()
    }

    /// An effect was carried out, or was not.
    fn acknowledge(&mut self, machine: &mut Self::Machine, now: Timestamp, effect: EffectId, reply: Reply) {
        machine.handle(now, self.view(), Turn::Acknowledged(effect, Self::reply(reply)).into());
    }

    /// When to think again.
    fn wake(&self, machine: &Self::Machine) -> Option<Wake> {
        machine.next_wake().map(lazaret_machine::Wake::in_words)
    }

    /// A view that the machine wants.
    fn wants_view(&mut self, _machine: &mut Self::Machine) -> Option<ViewWish> {
        None
    }

    /// It has that view.
    fn view_reached(&mut self, _machine: &mut Self::Machine, _now: Timestamp, _number: u64) {}

    /// It is about to end, and leads. Whether something is to be written yet, or is in flight.
    fn final_writes(&mut self, _machine: &mut Self::Machine, _now: Timestamp) -> bool {
        false
    }
}

/// A machine in its shell.
#[derive(Debug)]
pub(crate) struct MachineAgent<S: Shell> {
    machine: S::Machine,
    shell: S,
}

impl<S: Shell> MachineAgent<S> {
    pub(crate) fn new(machine: S::Machine, shell: S) -> Self {
        Self { machine, shell }
    }

    pub(crate) fn machine(&self) -> &S::Machine {
        &self.machine
    }
}

impl<S: Shell> Agent for MachineAgent<S> {
    type Effect = <S::Machine as Machine>::Kind;

    fn clock_set_back(&mut self, set_back: SetBack) {
        self.shell.clock_set_back(&mut self.machine, set_back);
    }

    fn hear(&mut self, now: Timestamp, news: News) {
        self.shell.hear(&mut self.machine, now, news);
    }

    fn follow(&mut self) -> Option<Vec<Resource>> {
        self.shell.follow(&self.machine)
    }

    fn think(&mut self, now: Timestamp) {
        self.shell.think(&mut self.machine, now);
    }

    fn lead(&mut self, now: Timestamp, leads: bool) {
        self.shell.lead(&mut self.machine, now, leads);
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.shell.acknowledge(&mut self.machine, now, effect, reply);
    }

    fn poll(&mut self) -> Option<Effect<Self::Effect>> {
        self.machine.poll_effect()
    }

    fn wake(&self) -> Option<Wake> {
        self.shell.wake(&self.machine)
    }

    fn wants_view(&mut self) -> Option<ViewWish> {
        self.shell.wants_view(&mut self.machine)
    }

    fn view_reached(&mut self, now: Timestamp, number: u64) {
        self.shell.view_reached(&mut self.machine, now, number);
    }

    fn final_writes(&mut self, now: Timestamp) -> bool {
        self.shell.final_writes(&mut self.machine, now)
    }
}
