//! Agents, which run a core with its objects on a hub, and performers, which carry out the agents' effects.

use lazaret_machine::{Effect, EffectId, Wake};
use lazaret_model::{SetBack, Timestamp};

use crate::{News, Precedence, Reply, Resource};

/// A core with the objects it looks at. Everything here is quick and pure: no call waits for anything.
pub trait Agent: Send + 'static {
    /// One action that the agent requests from its performer.
    type Effect: Send + 'static;

    /// It begins on a clock that was set back while this process ran. Called before anything else.
    fn clock_set_back(&mut self, _set_back: SetBack) {}

    /// Takes note of news. Decides nothing yet: more may follow at once.
    fn hear(&mut self, now: Timestamp, news: News);

    /// The resources that it wants to hear of besides those that it was started with, when they are others than it said before. Of one that
    /// cannot be read it hears [`News::Barred`]. Nothing waits for them: an agent acts before they were read.
    fn follow(&mut self) -> Option<Vec<Resource>> {
        None
    }

    /// Decides, after some news or because time has passed. Also called for nothing.
    fn think(&mut self, now: Timestamp);

    /// From now on effects are wanted, or none are.
    fn lead(&mut self, now: Timestamp, leading: bool);

    /// Reports the outcome of an effect.
    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply);

    /// The next thing to be done, and the id to acknowledge it by.
    fn poll(&mut self) -> Option<Effect<Self::Effect>>;

    /// When it wants to think again if nothing happens before, and what for.
    fn wake(&self) -> Option<Wake>;

    /// It leads and wants to have heard of some resources as the server has them now, or later. Asked for after each thought while no such
    /// wish is open; [`Agent::view_reached`] grants it.
    fn wants_view(&mut self) -> Option<ViewWish> {
        None
    }

    /// All that the server had when this was wished has been heard.
    fn view_reached(&mut self, _now: Timestamp, _number: u64) {}

    /// The agent leads and is about to end: it begins no effect. Returns whether a write remains to be sent or is in flight; then it is asked again.
    fn final_writes(&mut self, _now: Timestamp) -> bool {
        false
    }
}

/// A view that an agent wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewWish {
    /// To grant it by.
    pub number: u64,
    /// Of which resources. Those that the agent does not listen to are left out.
    pub resources: Vec<Resource>,
}

/// Carries effects out.
pub trait Perform<E>: Send + Sync + 'static {
    /// Carries the effect out, and returns its outcome.
    fn perform(&self, effect: E) -> impl Future<Output = Reply> + Send;
}

/// How an agent is run.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions {
    /// For metrics and logs.
    pub name: &'static str,
    /// Effects in flight at once.
    pub in_flight_max: usize,
    /// Which other effects they go before.
    pub precedence: Precedence,
}
