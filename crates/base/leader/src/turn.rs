//! The loop of one agent: it leads behind a fence, sends what it may, and is begun anew when its agent was given up.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_machine::Wake;
use lazaret_model::Timestamp;

use crate::{Fence, FenceStep, InFlight, Precedence};

/// News heard before the agent thinks.
pub const BATCH_MAX: usize = 128;
/// Effects taken before the next news are heard: deciding takes time too.
pub const POLL_MAX: usize = 64;
/// An agent that ends has no longer than this for its last writes.
pub const FINAL_WRITES_MS_MAX: i64 = 3_000;
/// Effects of an agent that was given up are waited for this long; those that take longer are cut off.
pub const GIVEN_UP_MS: i64 = 30_000;
/// Effects in flight at once when the first ones are sent. Each that is answered makes room for one more, up to the agent's own limit: a few are
/// done while most are still being thought of, instead of all at about the same time.
const IN_FLIGHT_FIRST: usize = 2;
/// After this long without an effect the next ones are first ones again.
const REST_MS: i64 = 1_000;

/// How an agent is run.
#[derive(Clone, Copy, Debug)]
pub struct TurnOptions {
    /// Effects in flight at once.
    pub in_flight_max: usize,
    /// Which other effects go before its own.
    pub precedence: Precedence,
}

/// The next thing that the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<R> {
    /// Tell the agent whether effects are wanted.
    Lead(bool),
    /// Ask the server how far it is with these resources, or with all that the agent hears of. The answer is [`Turn::answered`] or
    /// [`Turn::unanswered`], with this number.
    Ask(u64, Option<Vec<R>>),
    /// Open the watches of these anew.
    Watch(Vec<R>),
    /// Read all there is of these.
    List(Vec<R>),
    /// Hand the agent the news that wait, and say [`Turn::heard`] once there are none.
    Hear,
    /// Tell the agent that it has the view of this number.
    Granted(u64),
    /// Nothing. Come again then, or when something has happened.
    Wait(Option<Timestamp>),
}

/// A view that an agent wants.
#[derive(Clone, Debug)]
struct View<R> {
    number: u64,
    resources: Vec<R>,
    fence: Fence<R>,
    question: Option<u64>,
}

/// The loop of one agent. Outlives the agent: what one agent did counts for the next.
#[derive(Debug)]
pub struct Turn<R> {
    options: TurnOptions,
    /// The term it is in, acting or not yet.
    term: Option<u64>,
    /// It does not act in this term before it has passed.
    fence: Option<Fence<R>>,
    /// The last question of the fence that was not answered.
    question: Option<u64>,
    questions: u64,
    view: Option<View<R>>,
    leading: bool,
    in_flight: usize,
    /// How many may be in flight now.
    room: usize,
    landed_at: Timestamp,
    /// The last try to send found no room, or a renewal that is late.
    is_full: bool,
    /// There was an agent before: what it did must be seen before anything is done.
    follows: bool,
}

impl<R: Copy + Ord> Turn<R> {
    /// For the first agent.
    #[must_use]
    pub fn new(now: Timestamp, options: TurnOptions) -> Self {
        Self {
            options,
            term: None,
            fence: None,
            question: None,
            questions: 0,
            view: None,
            leading: false,
            in_flight: 0,
            room: IN_FLIGHT_FIRST,
            landed_at: now,
            is_full: false,
            follows: false,
        }
    }

    /// Whether effects are wanted.
    #[must_use]
    pub const fn leads(&self) -> bool {
        self.leading
    }

    /// The term it is in, acting or not yet.
    #[must_use]
    pub const fn term(&self) -> Option<u64> {
        self.term
    }

    /// Effects that were sent and not answered.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many effects may be in flight now.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Leads if it may: it stands in a term, the agent has heard everything once, and it is past the fence. Called until it says
    /// [`Action::Wait`].
    pub fn stand(
        &mut self,
        now: Timestamp,
        standing: Option<u64>,
        is_rivalled: bool,
        is_synced: bool,
        reached: impl Fn(&R) -> Option<u64>,
    ) -> Action<R> {
        if standing != self.term {
            if self.leading {
                return self.lead(false);
            }
            let another_acted = is_rivalled || self.follows;
            self.term = standing;
            self.question = None;
            self.fence = (standing.is_some() && another_acted).then(Fence::default);
        }
        if standing.is_none() || self.leading || !is_synced {
            return Action::Wait(None);
        }
        let Some(fence) = &mut self.fence else { return self.lead(true) };
        match fence.next(now, reached) {
            FenceStep::Ask => {
                self.questions += 1;
                self.question = Some(self.questions);
                Action::Ask(self.questions, None)
            }
            // Nothing is done meanwhile, after a leader that may have been killed.
            FenceStep::Watch(lagging) => Action::Watch(lagging),
            FenceStep::List(lagging) => Action::List(lagging),
            FenceStep::Wait(until) => Action::Wait(until),
            FenceStep::Reached => Action::Hear,
        }
    }

    /// The agent has heard all news that waited when [`Turn::stand`] said [`Action::Hear`].
    pub fn heard(&mut self) {
        self.fence = None;
    }

    fn lead(&mut self, leads: bool) -> Action<R> {
        self.leading = leads;
        if !leads {
            self.view = None;
        }
        Action::Lead(leads)
    }

    /// Whether the agent may be asked for a view that it wants: it leads, and no wish is open.
    #[must_use]
    pub fn may_wish(&self) -> bool {
        self.leading && self.view.is_none()
    }

    /// The agent wants a view of these resources at least as new as now.
    pub fn wish(&mut self, number: u64, resources: Vec<R>) {
        if self.may_wish() {
            self.view = Some(View { number, resources, fence: Fence::patient(), question: None });
        }
    }

    /// Brings about the view that was wished for. Called until it says [`Action::Wait`]; after [`Action::Hear`], [`Turn::grant`].
    pub fn catch_up(&mut self, now: Timestamp, reached: impl Fn(&R) -> Option<u64>) -> Action<R> {
        let Some(view) = &mut self.view else { return Action::Wait(None) };
        match view.fence.next(now, reached) {
            FenceStep::Ask => {
                self.questions += 1;
                view.question = Some(self.questions);
                Action::Ask(self.questions, Some(view.resources.clone()))
            }
            FenceStep::Watch(lagging) => Action::Watch(lagging),
            FenceStep::List(lagging) => Action::List(lagging),
            FenceStep::Wait(until) => Action::Wait(until),
            FenceStep::Reached => Action::Hear,
        }
    }

    /// The agent has heard all news that waited when [`Turn::catch_up`] said [`Action::Hear`].
    pub fn grant(&mut self) -> Action<R> {
        self.view.take().map_or(Action::Wait(None), |view| Action::Granted(view.number))
    }

    /// The server is so far. An answer to a question that is not open any more says nothing.
    pub fn answered(&mut self, now: Timestamp, question: u64, goal: BTreeMap<R, u64>) {
        if let Some(fence) = self.asker(question) {
            fence.answered(now, goal);
        }
    }

    /// The server could not say.
    pub fn unanswered(&mut self, now: Timestamp, question: u64) {
        if let Some(fence) = self.asker(question) {
            fence.unanswered(now);
        }
    }

    /// The fence that asked, whose question is closed with this.
    fn asker(&mut self, question: u64) -> Option<&mut Fence<R>> {
        if self.question == Some(question) {
            self.question = None;
            return self.fence.as_mut();
        }
        let view = self.view.as_mut().filter(|view| view.question == Some(question))?;
        view.question = None;
        Some(&mut view.fence)
    }

    /// Begins to send, before the first [`Turn::may_take`]. After a rest the next effects are first ones again.
    pub fn begin_to_send(&mut self, now: Timestamp) {
        if self.in_flight == 0 && self.landed_at.plus_millis(REST_MS) < now {
            self.room = IN_FLIGHT_FIRST;
        }
        self.room = self.room.min(self.options.in_flight_max);
        self.is_full = false;
    }

    /// Whether the next effect may be taken from the agent; if so, ask [`Turn::may_send`]. Otherwise too many are in flight, or a renewal is late: the
    /// next answer or the next news of the lease says more. `lasting`: the term that lasts now. `others`: what is in flight in this process.
    #[must_use]
    pub fn may_take(&mut self, lasting: Option<u64>, others: InFlight) -> bool {
        // A renewal that is late: whether the lease is lost is said soon.
        let is_late = self.leading && lasting != self.term;
        self.is_full = is_late || self.in_flight >= self.options.precedence.room(others, self.room);
        !self.is_full
    }

    /// Whether the effect that was taken may be sent. If so, it is in flight; otherwise it is answered with [`EffectEnd::Withheld`](crate::EffectEnd::Withheld).
    #[must_use]
    pub fn may_send(&mut self, lasting: Option<u64>) -> bool {
        let may = self.leading && lasting == self.term;
        self.in_flight += usize::from(may);
        may
    }

    /// An effect that was sent has ended, whatever its fate.
    pub fn landed(&mut self, now: Timestamp) {
        self.landed_at = now;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.room += 1;
    }

    /// When to wake the agent. An agent that cannot send has no use for the time: the next effect that ends wakes it.
    #[must_use]
    pub fn wake(&self, wanted: Option<Wake>) -> Option<Wake> {
        wanted.filter(|_| self.leading && !self.is_full)
    }

    /// Whether an agent that ends may still write: it leads in a term that lasts, and it is not `end` yet.
    #[must_use]
    pub fn may_say_last_words(&self, now: Timestamp, end: Timestamp, lasting: Option<u64>) -> bool {
        self.leading && lasting == self.term && now < end
    }

    /// The agent ended, or it is given up: it panicked, or its clock was set. Its effects in flight are let end, for [`GIVEN_UP_MS`].
    pub fn give_up(&mut self) {
        (self.term, self.fence, self.question, self.view) = (None, None, None, None);
        (self.leading, self.is_full, self.follows) = (false, false, true);
    }

    /// Another agent begins. Effects that have not ended are cut off.
    pub fn begin_anew(&mut self, now: Timestamp) {
        (self.in_flight, self.room, self.landed_at) = (0, IN_FLIGHT_FIRST, now);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const OPTIONS: TurnOptions = TurnOptions { in_flight_max: 4, precedence: Precedence::Usual };
    const NONE: InFlight = [0; 3];

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn turn() -> Turn<&'static str> {
        Turn::new(at(0), OPTIONS)
    }

    /// How far the watch of pods is.
    fn pods(revision: u64) -> impl Fn(&&'static str) -> Option<u64> {
        move |_| Some(revision)
    }

    fn goal(revision: u64) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("pods", revision)])
    }

    /// Leads in this term.
    fn leader(term: u64) -> Turn<&'static str> {
        let mut turn = turn();
        assert_eq!(turn.stand(at(0), Some(term), false, true, pods(1)), Action::Lead(true));
        turn
    }

    #[test]
    fn an_agent_without_rivals_leads_as_soon_as_it_has_heard_everything() {
        let mut turn = turn();
        assert_eq!(turn.stand(at(0), Some(0), false, false, pods(1)), Action::Wait(None));
        assert_eq!(turn.stand(at(1), Some(0), false, true, pods(1)), Action::Lead(true));
        assert_eq!(turn.stand(at(1), Some(0), false, true, pods(1)), Action::Wait(None));
        assert!(turn.leads());
    }

    #[test]
    fn an_agent_with_rivals_leads_behind_a_fence_and_stops_with_its_term() {
        let mut turn = turn();
        let stand =
            |turn: &mut Turn<_>, ms, term, reached| turn.stand(at(ms), term, true, true, pods(reached));
        assert_eq!(stand(&mut turn, 0, None, 5), Action::Wait(None));
        assert_eq!(stand(&mut turn, 1, Some(1), 5), Action::Ask(1, None));
        assert_eq!(stand(&mut turn, 2, Some(1), 5), Action::Wait(None));
        turn.answered(at(3), 1, goal(7));
        assert_eq!(stand(&mut turn, 3, Some(1), 5), Action::Watch(vec!["pods"]));
        assert_eq!(stand(&mut turn, 4, Some(1), 7), Action::Hear);
        turn.heard();
        assert_eq!(stand(&mut turn, 4, Some(1), 7), Action::Lead(true));
        assert_eq!(stand(&mut turn, 5, None, 7), Action::Lead(false));
        assert_eq!(stand(&mut turn, 5, None, 7), Action::Wait(None));
        assert_eq!(stand(&mut turn, 6, Some(2), 7), Action::Ask(2, None), "each term has its own fence");
    }

    #[test]
    fn an_answer_to_a_question_of_an_earlier_term_says_nothing() {
        let mut turn = turn();
        assert_eq!(turn.stand(at(0), Some(1), true, true, pods(5)), Action::Ask(1, None));
        assert_eq!(turn.stand(at(1), Some(2), true, true, pods(5)), Action::Ask(2, None));
        turn.answered(at(2), 1, goal(5));
        assert_eq!(turn.stand(at(2), Some(2), true, true, pods(5)), Action::Wait(None));
        turn.unanswered(at(3), 2);
        assert_eq!(turn.stand(at(600), Some(2), true, true, pods(5)), Action::Ask(3, None));
    }

    #[test]
    fn a_late_renewal_pauses_and_the_same_term_goes_on() {
        let mut turn = leader(1);
        turn.begin_to_send(at(1));
        assert!(!turn.may_take(None, NONE), "nothing is taken while it is late");
        assert_eq!(turn.wake(Some(Wake::new(at(5), "it"))), None);
        assert_eq!(turn.stand(at(2), Some(1), true, true, pods(1)), Action::Wait(None), "nor given up");
        turn.begin_to_send(at(3));
        assert!(turn.may_take(Some(1), NONE));
        assert!(turn.may_send(Some(1)));
        assert_eq!(turn.wake(Some(Wake::new(at(5), "it"))), Some(Wake::new(at(5), "it")));
    }

    #[test]
    fn an_effect_that_was_taken_is_not_sent_without_the_term() {
        for lasting in [None, Some(2)] {
            let mut turn = leader(1);
            assert!(turn.may_take(Some(1), NONE));
            assert!(!turn.may_send(lasting), "{lasting:?}");
            assert_eq!(turn.in_flight(), 0);
        }
    }

    #[test]
    fn room_grows_with_each_answer_and_shrinks_after_a_rest() {
        let mut turn = leader(0);
        let send_all = |turn: &mut Turn<_>, ms, others| {
            turn.begin_to_send(at(ms));
            let mut sent = 0;
            while turn.may_take(Some(0), others) {
                assert!(turn.may_send(Some(0)));
                sent += 1;
            }
            sent
        };
        assert_eq!(send_all(&mut turn, 1, NONE), 2);
        turn.landed(at(2));
        assert_eq!(send_all(&mut turn, 2, NONE), 2, "one for the one that landed, and one more");
        (0..3).for_each(|_| turn.landed(at(3)));
        assert_eq!((send_all(&mut turn, 3, NONE), turn.in_flight()), (4, 4), "its own limit");
        (0..4).for_each(|_| turn.landed(at(4)));
        assert_eq!(send_all(&mut turn, 4, [9, 0, 0]), 2, "others go first");
        (0..2).for_each(|_| turn.landed(at(5)));
        assert_eq!(send_all(&mut turn, 2_000, NONE), 2, "the first after a rest");
    }

    #[test]
    fn a_view_is_granted_once_its_watches_are_as_far_as_the_server_was() {
        let mut turn = leader(0);
        assert!(turn.may_wish());
        turn.wish(7, vec!["pods"]);
        assert!(!turn.may_wish());
        assert_eq!(turn.catch_up(at(1), pods(5)), Action::Ask(1, Some(vec!["pods"])));
        turn.answered(at(2), 1, goal(6));
        assert_eq!(turn.catch_up(at(3), pods(5)), Action::Wait(Some(at(202))));
        assert_eq!(turn.catch_up(at(4), pods(6)), Action::Hear);
        assert_eq!(turn.grant(), Action::Granted(7));
        assert_eq!(turn.catch_up(at(5), pods(6)), Action::Wait(None));
        turn.wish(8, vec!["pods"]);
        assert_eq!(turn.stand(at(6), None, true, true, pods(6)), Action::Lead(false));
        assert_eq!(turn.catch_up(at(7), pods(9)), Action::Wait(None), "a follower wants no view");
    }

    #[test]
    fn the_next_agent_waits_for_what_the_last_one_did_though_it_has_no_rivals() {
        let mut turn = leader(0);
        assert!(turn.may_send(Some(0)));
        turn.give_up();
        assert_eq!((turn.in_flight(), turn.leads()), (1, false), "it is let end");
        turn.landed(at(10));
        turn.begin_anew(at(10));
        assert_eq!(turn.stand(at(11), Some(0), false, true, pods(1)), Action::Ask(1, None));
        turn.answered(at(12), 1, goal(1));
        assert_eq!(turn.stand(at(12), Some(0), false, true, pods(1)), Action::Hear);
    }

    #[test]
    fn last_words_end_with_the_term_and_with_the_time() {
        let turn = leader(3);
        let table = [(0, Some(3), true), (9, Some(3), true), (10, Some(3), false), (0, None, false)];
        for (now, lasting, may) in table {
            assert_eq!(turn.may_say_last_words(at(now), at(10), lasting), may, "{now} {lasting:?}");
        }
    }
}
