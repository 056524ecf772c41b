//! The view that a new leader waits for: at least as new as the moment it got the lease. An agent that leads may want the same of some
//! resources: a view at least as new as the moment it asked.
//!
//! Before that moment another leader acted, and a watch may not have delivered it yet. A leader that acts on the older view repeats
//! writes that were done, or that are no longer wanted. So a leader asks the server, once it has the lease, how far it is with
//! each resource, and begins when its watches have come that far. A watch of something that does not change says nothing for
//! long; those that lag are opened anew such that the server has to say how far they are, and if that does not help, all
//! is read again.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_model::Timestamp;

/// How long to wait for watches that were hurried, or after a question that got no answer.
const PATIENCE_MS: i64 = 5_000;
const ASK_AGAIN_MS: i64 = 500;
/// How long [`Fence::patient`] waits for watches to come that far by themselves before it hurries them.
const GRACE_MS: i64 = 200;
/// How often it hurries them before it reads all there is. A Kubernetes API server hears from its store how far that is every five seconds:
/// the first bookmark of a resource that does not change may be older than the question.
const PATIENT_WATCHES: u32 = 3;

/// Where a new leader stands.
#[derive(Clone, Debug)]
pub struct Fence<R> {
    /// How far the server was when it was asked.
    goal: Option<BTreeMap<R, u64>>,
    asked: bool,
    not_before: Option<Timestamp>,
    /// How often watches were hurried, and how often they are again before everything is read.
    hurried: u32,
    more_watches: u32,
    grace_ms: i64,
}

/// The next step of a fence.
#[derive(Debug, PartialEq, Eq)]
pub enum FenceStep<R> {
    /// Ask the server how far it is; the answer is [`Fence::answered`] or [`Fence::unanswered`].
    Ask,
    /// Open the watches of these anew.
    Watch(Vec<R>),
    /// Read all there is of these.
    List(Vec<R>),
    /// Look again then, or when there is news.
    Wait(Option<Timestamp>),
    /// All that was written before is among the news handed out or waiting. Once those that wait are heard, lead.
    Reached,
}

impl<R> Default for Fence<R> {
    fn default() -> Self {
        Self { goal: None, asked: false, not_before: None, hurried: 0, more_watches: 0, grace_ms: 0 }
    }
}

impl<R: Copy + Ord> Fence<R> {
    /// For an agent that leads already: most watches come as far as the server was within a few milliseconds, and none of them is opened anew
    /// before they had the time.
    #[must_use]
    pub fn patient() -> Self {
        Self { grace_ms: GRACE_MS, more_watches: PATIENT_WATCHES - 1, ..Self::default() }
    }

    /// The server is so far.
    pub fn answered(&mut self, now: Timestamp, goal: BTreeMap<R, u64>) {
        self.goal = Some(goal);
        self.not_before = (self.grace_ms > 0).then(|| now.plus_millis(self.grace_ms));
    }

    /// The server could not say.
    pub fn unanswered(&mut self, now: Timestamp) {
        self.asked = false;
        self.not_before = Some(now.plus_millis(ASK_AGAIN_MS));
    }

    /// The next step, given how far each resource is here.
    pub fn next(&mut self, now: Timestamp, reached: impl Fn(&R) -> Option<u64>) -> FenceStep<R> {
        // A clock that was set back must not make it wait for longer.
        let paused = self.not_before.filter(|at| *at > now && *at <= now.plus_millis(PATIENCE_MS));
        let Some(goal) = &self.goal else {
            if self.asked || paused.is_some() {
                return FenceStep::Wait(paused);
            }
            self.asked = true;
            return FenceStep::Ask;
        };
        let lagging: Vec<R> = goal
            .iter()
            .filter(|(resource, goal)| reached(resource).is_none_or(|revision| revision < **goal))
            .map(|(resource, _)| *resource)
            .collect();
        if lagging.is_empty() {
            return FenceStep::Reached;
        }
        if paused.is_some() {
            return FenceStep::Wait(paused);
        }
        self.not_before = Some(now.plus_millis(PATIENCE_MS));
        self.hurried = self.hurried.saturating_add(1);
        if self.hurried > 1 + self.more_watches {
            FenceStep::List(lagging)
        } else {
            FenceStep::Watch(lagging)
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const PODS: &str = "pods";
    const RULES: &str = "rules";

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    /// A view that has come so far with pods and rules; nought: it has not listed them.
    fn view(pods: u64, rules: u64) -> impl Fn(&&'static str) -> Option<u64> {
        move |resource| Some(if *resource == PODS { pods } else { rules }).filter(|revision| *revision > 0)
    }

    fn goal(pods: u64, rules: u64) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([(PODS, pods), (RULES, rules)])
    }

    #[test]
    fn a_view_that_is_new_enough_is_enough() {
        let mut fence = Fence::default();
        assert_eq!(fence.next(at(0), view(9, 9)), FenceStep::Ask, "however far it is, it cannot know");
        assert_eq!(fence.next(at(1), view(9, 9)), FenceStep::Wait(None));
        fence.answered(at(0), goal(9, 7));
        assert_eq!(fence.next(at(2), view(9, 9)), FenceStep::Reached);
    }

    #[test]
    fn what_lags_is_watched_anew_and_then_read_again() {
        let mut fence = Fence::default();
        assert_eq!(fence.next(at(0), view(5, 9)), FenceStep::Ask);
        fence.answered(at(0), goal(9, 9));
        assert_eq!(fence.next(at(10), view(5, 9)), FenceStep::Watch(vec![PODS]));
        assert_eq!(fence.next(at(20), view(8, 9)), FenceStep::Wait(Some(at(5_010))));
        assert_eq!(fence.next(at(5_010), view(8, 9)), FenceStep::List(vec![PODS]));
        assert_eq!(fence.next(at(6_000), view(8, 9)), FenceStep::Wait(Some(at(10_010))));
        assert_eq!(fence.next(at(10_010), view(8, 9)), FenceStep::List(vec![PODS]), "until it helps");
        assert_eq!(fence.next(at(10_011), view(12, 10)), FenceStep::Reached);
    }

    #[test]
    fn a_patient_fence_lets_watches_come_by_themselves_first() {
        let mut fence = Fence::patient();
        assert_eq!(fence.next(at(0), view(5, 9)), FenceStep::Ask);
        fence.answered(at(10), goal(9, 9));
        assert_eq!(fence.next(at(11), view(5, 9)), FenceStep::Wait(Some(at(210))));
        assert_eq!(fence.next(at(210), view(5, 9)), FenceStep::Watch(vec![PODS]));
        assert_eq!(fence.next(at(211), view(9, 9)), FenceStep::Reached);
        assert_eq!(fence.next(at(5_210), view(8, 9)), FenceStep::Watch(vec![PODS]));
        assert_eq!(fence.next(at(10_210), view(8, 9)), FenceStep::Watch(vec![PODS]));
        assert_eq!(fence.next(at(15_210), view(8, 9)), FenceStep::List(vec![PODS]));
    }

    #[test]
    fn what_was_never_read_lags() {
        let mut fence = Fence::default();
        assert_eq!(fence.next(at(0), view(0, 9)), FenceStep::Ask);
        fence.answered(at(0), goal(0, 9));
        assert_eq!(fence.next(at(1), view(0, 9)), FenceStep::Watch(vec![PODS]));
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_again() {
        let mut fence = Fence::default();
        assert_eq!(fence.next(at(0), view(9, 9)), FenceStep::Ask);
        fence.unanswered(at(100));
        assert_eq!(fence.next(at(100), view(9, 9)), FenceStep::Wait(Some(at(600))));
        assert_eq!(fence.next(at(600), view(9, 9)), FenceStep::Ask);
        fence.unanswered(at(700));
        assert_eq!(fence.next(at(-9_000_000), view(9, 9)), FenceStep::Ask, "a clock that was set back");
    }
}
