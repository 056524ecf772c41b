//! The parts that every core is made of.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, VecDeque};

use lazaret_machine::{
    Backoff, Contents, Effect, EffectId, Flights, LabelSelector, Labels, Recent, Resource, Retry, Wake,
};
use lazaret_model::{Operator, Requirement, Text, Timestamp};
use proptest::prelude::*;

#[test]
fn pauses_double_up_to_the_longest() {
    let backoff = Backoff::new(5, 1_000_000);
    let pauses = [0, 1, 2, 3, 18, 19, u32::MAX].map(|failures| backoff.after(failures));
    assert_eq!(pauses, [5, 5, 10, 20, 655_360, 1_000_000, 1_000_000]);
    assert_eq!(Backoff::new(i64::MAX, i64::MAX).after(u32::MAX), i64::MAX, "saturates");
    assert_eq!(Backoff::new(5, -1).after(3), 0, "no pause is negative");
}

#[test]
fn a_retry_waits_longer_each_time() {
    let (backoff, now) = (Backoff::new(100, 1_000), Timestamp::from_secs(1));
    let mut retry = Retry::default();
    assert!(retry.is_over(now));
    let mut until = Vec::new();
    for _ in 0..5 {
        retry.fail(now, backoff);
        until.push(retry.until().unwrap().as_millis() - now.as_millis());
    }
    assert_eq!(until, [100, 200, 400, 800, 1_000]);
    assert!(!retry.is_over(now.plus_millis(999)) && retry.is_over(now.plus_millis(1_000)));
    retry.try_now();
    assert!(retry.is_over(now));
    retry.fail(now, backoff);
    assert_eq!(retry.until(), Some(now.plus_millis(1_000)), "failures count on");
}

#[test]
fn a_recent_set_forgets_the_oldest() {
    let mut last_two = Recent::new(2);
    assert!(last_two.is_empty());
    assert!(last_two.insert("a"));
    assert!(!last_two.insert("a"));
    assert!(last_two.insert("b") && last_two.insert("c"));
    assert_eq!(["a", "b", "c"].map(|name| last_two.contains(&name)), [false, true, true]);
    last_two.remove(&"c");
    assert!(last_two.insert("d"));
    assert_eq!(["b", "c", "d"].map(|name| last_two.contains(&name)), [true, false, true]);
    last_two.clear();
    assert!(last_two.is_empty() && !last_two.contains(&"d"));
}

#[test]
fn the_contents_of_an_effect_are_not_shown() {
    let mut effect = Effect { id: EffectId(1), kind: ("pod", Contents::from(String::from("secret"))) };
    assert_eq!(format!("{effect:?}"), r#"Effect { id: EffectId(1), kind: ("pod", …) }"#);
    effect.kind.1.push('s');
    assert_eq!(effect.kind.1.len(), 7);
}

#[test]
fn the_first_wake_is_the_earliest_with_its_reason() {
    let at = Timestamp::from_secs;
    let wakes = [Some(Wake::new(at(3), "late")), None, Some(Wake::new(at(2), "early"))];
    assert_eq!(Wake::first(wakes), Some(Wake::new(at(2), "early")));
    assert_eq!(Wake::<&str>::first([None, None]), None);
    assert_eq!(Wake::first([Some(Wake::now("work")), wakes[0]]).map(|wake| wake.why), Some("work"));
}

#[test]
fn selectors_hold_by_operator() {
    let labels: Labels = [("app".into(), "web".into())].into();
    for (key, operator, values, expected) in [
        ("app", Operator::In, vec!["web", "db"], true),
        ("app", Operator::In, vec!["db"], false),
        ("tier", Operator::In, vec!["db"], false),
        ("app", Operator::NotIn, vec!["web"], false),
        ("tier", Operator::NotIn, vec!["web"], true),
        ("app", Operator::Exists, vec![], true),
        ("tier", Operator::Exists, vec![], false),
        ("app", Operator::DoesNotExist, vec![], false),
        ("tier", Operator::DoesNotExist, vec![], true),
        ("app", Operator::Gt, vec!["1"], false),
        ("app", Operator::Unknown("Like".into()), vec!["web"], false),
    ] {
        let values = values.into_iter().map(Text::from).collect();
        let requirement = Requirement { key: key.into(), operator, values };
        let selector = LabelSelector { requirements: vec![requirement.clone()] };
        assert_eq!(selector.matches(&labels), expected, "{requirement:?}");
    }
    let mut selector = LabelSelector::default();
    assert!(selector.is_empty() && selector.matches(&Labels::new()), "nothing is required");
    selector.require("app", "web");
    assert!(selector.matches(&labels));
    selector.require("tier", "db");
    assert!(!selector.matches(&labels), "all requirements hold, or none is matched");
}

#[test]
fn paths_and_versions_of_resources() {
    let pods = Resource { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };
    let nodes = Resource { plural: "nodes", kind: "Node", namespaced: false, ..pods };
    let sets = Resource { group: "apps", plural: "replicasets", kind: "ReplicaSet", ..pods };
    let rows = [
        (pods.path("", "", ""), "/api/v1/pods"),
        (pods.path("a", "b", "status"), "/api/v1/namespaces/a/pods/b/status"),
        (nodes.path("", "n", ""), "/api/v1/nodes/n"),
        (sets.path("a", "", ""), "/apis/apps/v1/namespaces/a/replicasets"),
        (pods.api_version(), "v1"),
        (sets.api_version(), "apps/v1"),
    ];
    for (text, wanted) in rows {
        assert_eq!(text, wanted);
    }
    assert!(sets.is("apps/v1beta2", "ReplicaSet") && pods.is("v1", "Pod"));
    assert!(!sets.is("v1", "ReplicaSet") && !sets.is("apps/v1", "Deployment"));
}

const EVENTS_MAX: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    Launch,
    Send,
    Announce,
    Take,
    Land(u64),
    Update(u64),
    Withdraw(u64),
    WithdrawWaiting,
    Abandon,
    AbandonUntaken,
}

fn step() -> impl Strategy<Value = Step> {
    let ids = || 1_u64..24;
    prop_oneof![
        6 => Just(Step::Launch),
        1 => Just(Step::Send),
        4 => Just(Step::Announce),
        6 => Just(Step::Take),
        5 => ids().prop_map(Step::Land),
        3 => ids().prop_map(Step::Update),
        3 => ids().prop_map(Step::Withdraw),
        1 => Just(Step::WithdrawWaiting),
        1 => Just(Step::Abandon),
        1 => Just(Step::AbandonUntaken),
    ]
}

/// The same as plain lists, looked through from end to end.
#[derive(Default)]
struct Reference {
    last: u64,
    waiting: VecDeque<(u64, bool)>,
    in_flight: BTreeMap<u64, u64>,
    updates: BTreeMap<u64, u64>,
}

impl Reference {
    fn new_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// An effect is its id, plus 100 for each time that it was brought up to date.
    fn kind(&self, id: u64) -> u64 {
        id + 100 * self.updates.get(&id).copied().unwrap_or(0)
    }
}

proptest! {
    /// Every effect is given out once and in order, acknowledged once, and never after it was withdrawn.
    #[test]
    fn flights_are_as_plain_lists_are(steps in proptest::collection::vec(step(), 0..80)) {
        let (mut flights, mut reference) = (Flights::<u64, u64>::default(), Reference::default());
        for step in steps {
            match step {
                Step::Launch => {
                    let id = reference.new_id();
                    reference.waiting.push_back((id, false));
                    reference.in_flight.insert(id, id * 10);
                    prop_assert_eq!(flights.launch(id * 10, id), EffectId(id));
                }
                Step::Send => {
                    let id = reference.new_id();
                    reference.in_flight.insert(id, id * 10);
                    prop_assert_eq!(flights.send(id * 10, id), Effect { id: EffectId(id), kind: id });
                }
                Step::Announce => {
                    let events = reference.waiting.iter().filter(|(_, is_event)| *is_event).count();
                    flights.announce(reference.last + 1, EVENTS_MAX);
                    if events < EVENTS_MAX {
                        let id = reference.new_id();
                        reference.waiting.push_back((id, true));
                    }
                }
                Step::Take => {
                    let next = reference.waiting.pop_front();
                    let wanted = next.map(|(id, _)| Effect { id: EffectId(id), kind: reference.kind(id) });
                    prop_assert_eq!(flights.take(), wanted);
                }
                Step::Land(id) => prop_assert_eq!(flights.land(EffectId(id)), reference.in_flight.remove(&id)),
                Step::Update(id) => {
                    let is_waiting = reference.waiting.iter().any(|(waiting, _)| *waiting == id);
                    let kind = flights.waiting_mut(EffectId(id));
                    prop_assert_eq!(kind.is_some(), is_waiting);
                    if let Some(kind) = kind {
                        *kind += 100;
                        *reference.updates.entry(id).or_default() += 1;
                    }
                }
                Step::Withdraw(id) => {
                    let flight = reference.in_flight.remove(&id);
                    if flight.is_some() {
                        reference.waiting.retain(|(waiting, _)| *waiting != id);
                    }
                    prop_assert_eq!(flights.withdraw(EffectId(id)), flight);
                }
                Step::WithdrawWaiting => {
                    let taken_back: Vec<u64> = reference.waiting.drain(..).map(|(id, _)| id).collect();
                    reference.in_flight.retain(|id, _| !taken_back.contains(id));
                    let ids: Vec<u64> = flights.withdraw_waiting().into_iter().map(|id| id.0).collect();
                    prop_assert_eq!(ids, taken_back);
                }
                Step::Abandon => {
                    reference.waiting.clear();
                    let left: Vec<u64> = core::mem::take(&mut reference.in_flight).into_values().collect();
                    prop_assert_eq!(flights.abandon(), left);
                }
                Step::AbandonUntaken => {
                    let before: Vec<u64> = reference.in_flight.values().copied().collect();
                    let untaken: Vec<u64> = reference.waiting.drain(..).map(|(id, _)| id).collect();
                    reference.in_flight.retain(|id, _| !untaken.contains(id));
                    reference.in_flight.values_mut().for_each(|flight| *flight += 1);
                    let mut asked = Vec::new();
                    flights.abandon_except(|was_taken, flight| {
                        asked.push(flight);
                        was_taken.then_some(flight + 1)
                    });
                    prop_assert_eq!(asked, before);
                }
            }
            prop_assert!(flights.all().into_iter().eq(reference.in_flight.values()));
            prop_assert!(flights.waiting().map(|(id, kind)| (id.0, *kind)).eq(reference.waiting.iter().map(|(id, _)| (*id, reference.kind(*id)))));
            for id in 1..=reference.last {
                let is_waiting = reference.waiting.iter().any(|(waiting, _)| *waiting == id);
                prop_assert_eq!(flights.is_waiting(EffectId(id)), is_waiting);
                prop_assert_eq!(flights.get(EffectId(id)), reference.in_flight.get(&id));
                prop_assert_eq!(flights.get_mut(EffectId(id)).copied(), reference.in_flight.get(&id).copied());
            }
            prop_assert_eq!((flights.len(), flights.is_empty()), (reference.in_flight.len(), reference.in_flight.is_empty()));
        }
    }
}
