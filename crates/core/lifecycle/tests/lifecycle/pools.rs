//! Pools that stay incomplete.

use std::collections::BTreeMap;

use lazaret_lifecycle::{INCOMPLETE_MS, Input, PoolState, PoolWatch, Signal, Source, Target};
use lazaret_model::PoolId;
use proptest::prelude::*;

use crate::world::{MINUTE, World, at, device, policy, rule};

fn pool(name: &str) -> PoolId {
    PoolId { driver: "gpu.example.com".into(), pool: name.into() }
}

fn nobody(_: &PoolId) -> bool {
    false
}

#[test]
fn a_pool_that_is_incomplete_for_long_is_a_signal_until_it_is_complete() {
    let mut watch = PoolWatch::default();
    watch.see(at(0), &pool("a"), PoolState::Complete);
    watch.see(at(MINUTE), &pool("a"), PoolState::Incomplete);
    watch.see(at(2 * MINUTE), &pool("a"), PoolState::Incomplete);
    assert_eq!(watch.wake(), Some(at(MINUTE + INCOMPLETE_MS)), "what is told again does not begin anew");
    assert_eq!(watch.raise(at(MINUTE + INCOMPLETE_MS - 1), nobody), []);
    assert_eq!(watch.raise(at(MINUTE + INCOMPLETE_MS), nobody), [pool("a")]);
    assert_eq!((watch.raise(at(20 * MINUTE), nobody), watch.wake()), (vec![], None), "it is raised once");
    assert!(watch.is_raised(&pool("a")));
    assert!(watch.see(at(21 * MINUTE), &pool("a"), PoolState::Complete), "it is over");
    assert!(!watch.see(at(21 * MINUTE), &pool("a"), PoolState::Complete), "once");
}

#[test]
fn an_update_that_takes_less_is_none_and_the_time_begins_anew() {
    let mut watch = PoolWatch::default();
    for round in 0..10 {
        let begin = round * 6 * MINUTE;
        watch.see(at(begin), &pool("a"), PoolState::Incomplete);
        assert_eq!(watch.raise(at(begin + 4 * MINUTE), nobody), []);
        assert!(!watch.see(at(begin + 4 * MINUTE), &pool("a"), PoolState::Complete));
    }
    watch.see(at(100 * MINUTE), &pool("a"), PoolState::Incomplete);
    watch.see(at(101 * MINUTE), &pool("a"), PoolState::Gone);
    assert_eq!((watch.wake(), watch.raise(at(200 * MINUTE), nobody)), (None, vec![]), "a pool that is gone");
}

/// A machine that starts finds a pool incomplete: it may be so for a second, or for an hour.
#[test]
fn a_restart_waits_for_the_whole_time_unless_an_open_incident_is_about_it() {
    let found = |is_complete_first: bool, is_known: bool| {
        let mut watch = PoolWatch::default();
        if is_complete_first {
            watch.see(at(0), &pool("a"), PoolState::Complete);
        }
        watch.see(at(0), &pool("a"), PoolState::Incomplete);
        watch.raise(at(0), |_| is_known).len()
    };
    assert_eq!(found(false, false), 0);
    assert_eq!(found(false, true), 1);
    assert_eq!(found(true, true), 0, "it was complete a moment ago: an update is no trouble");
}

fn signal(value: &str) -> Signal {
    Signal {
        device: device("gpu-0"),
        key: "poolComplete".into(),
        value: value.into(),
        source: Source::Vanished,
        at: at(0),
        lasts: true,
        message: "".into(),
    }
}

#[test]
fn an_incident_is_about_the_signals_that_its_rule_means() {
    let mut policy = policy();
    policy.rules.push(rule(
        "torn",
        "signal.key == 'poolComplete' && signal.value == 'False'",
        Target::Suspect,
    ));
    let mut world = World::new(policy);
    assert!(!world.machine.is_about(&signal("False")), "there is no incident");
    world.hear(Input::Raised(signal("False")));
    assert!(world.machine.is_about(&signal("False")));
    assert!(!world.machine.is_about(&signal("True")));
    let mut other = World::new(crate::world::policy());
    other.signal("xid", "79", true);
    assert!(!other.machine.is_about(&signal("False")), "it was opened for something else");
}

proptest! {
    /// Against a list of everything that was seen, looked through each time.
    #[test]
    fn whatever_happens_exactly_the_pools_that_were_incomplete_for_long_are_raised(
        events in proptest::collection::vec((0..3usize, 0..3usize, 0..4 * MINUTE), 1..60),
    ) {
        let (mut watch, mut now) = (PoolWatch::default(), 0);
        let mut seen: BTreeMap<PoolId, Vec<(i64, PoolState)>> = BTreeMap::new();
        for (which, state, passes) in events {
            now += passes;
            let state = [PoolState::Complete, PoolState::Incomplete, PoolState::Gone][state];
            let id = pool(["a", "b", "c"][which]);
            let was_raised = watch.is_raised(&id);
            let is_over = watch.see(at(now), &id, state);
            prop_assert_eq!(is_over, was_raised && state != PoolState::Incomplete);
            seen.entry(id).or_default().push((now, state));
            watch.raise(at(now), nobody);
            for (id, states) in &seen {
                let incomplete = states.iter().rev().take_while(|(_, state)| *state == PoolState::Incomplete);
                let is_long = incomplete.last().is_some_and(|(since, _)| now - since >= INCOMPLETE_MS);
                prop_assert_eq!(watch.is_raised(id), is_long, "{:?} at {}", states, now);
            }
        }
    }
}
