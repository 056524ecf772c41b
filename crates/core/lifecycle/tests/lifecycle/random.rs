//! Whatever happens, in any order.

use lazaret_lifecycle::{Act, Effect, Input, Lifecycle, Stage};
use proptest::prelude::*;

use crate::world::{MINUTE, World, at, device, policy};

#[derive(Clone, Debug)]
enum Event {
    Signal(usize, bool),
    Lower(usize),
    Used(bool),
    Repaired(bool),
    Validated(bool),
    Person(usize),
    Pass(i64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4usize, any::<bool>()).prop_map(|(key, lasts)| Event::Signal(key, lasts)),
        3 => (0..4usize).prop_map(Event::Lower),
        2 => any::<bool>().prop_map(Event::Used),
        2 => any::<bool>().prop_map(Event::Repaired),
        2 => any::<bool>().prop_map(Event::Validated),
        1 => (0..3usize).prop_map(Event::Person),
        4 => (1..40 * MINUTE).prop_map(Event::Pass),
        1 => Just(Event::Restart),
    ]
}

const KEYS: [(&str, &str); 4] = [("xid", "79"), ("ecc", ""), ("hot", ""), ("other", "")];

/// Which stage may follow which, without a person.
fn may_follow(before: Stage, after: Stage) -> bool {
    match before {
        Stage::Suspect => true,
        Stage::Quarantined => !matches!(after, Stage::Suspect | Stage::Repairing),
        Stage::Draining => !matches!(after, Stage::Suspect | Stage::Quarantined | Stage::Probation),
        Stage::Repairing => matches!(after, Stage::Repairing | Stage::Probation | Stage::Abandoned),
        Stage::Probation => {
            matches!(after, Stage::Probation | Stage::Draining | Stage::Cleared | Stage::Abandoned)
        }
        Stage::Abandoned => after == Stage::Abandoned,
        Stage::Cleared => false,
    }
}

proptest! {
    #[test]
    fn whatever_happens_no_stage_is_skipped_backwards_and_at_rest_all_is_explained(
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut world = World::new(policy());
        let mut shown: Option<Stage> = None;
        let mut by_person = false;
        for event in events {
            let from = world.effects.len();
            let number = world.machine.incidents().next().map(|incident| incident.number);
            match event {
                Event::Signal(key, lasts) => world.signal(KEYS[key].0, KEYS[key].1, lasts),
                Event::Lower(key) => world.lower(KEYS[key].0),
                Event::Used(is_used) => world.is_used(is_used),
                Event::Repaired(well) => if let Some((step, attempt)) = world.repair_now() {
                    world.repaired(step, attempt, if well { Ok(()) } else { Err("no".into()) });
                },
                Event::Validated(well) => if let Some(incident) = number {
                    world.hear(Input::Validated { incident, result: if well { Ok(()) } else { Err("no".into()) } });
                },
                Event::Person(act) => if let Some(incident) = number {
                    by_person = true;
                    let act = [Act::Acknowledge, Act::Repaired, Act::Abandon][act];
                    let at = at(world.now);
                    world.hear(Input::Person { incident, act, who: "jo".into(), why: "".into(), at });
                },
                Event::Pass(millis) => world.pass(millis),
                Event::Restart => {
                    let found: Vec<_> = world.machine.incidents().cloned().collect();
                    world.machine = Lifecycle::default();
                    world.hear(Input::Policy(Box::new(policy())));
                    for incident in found {
                        world.hear(Input::Found(Box::new(incident)));
                    }
                    let id = device("gpu-0");
                    world.hear(Input::Device { id, hardware: Some("uuid-0".into()), policies: vec!["p".into()] });
                }
            }
            for effect in &world.effects[from..] {
                if let Effect::Record(incident) = effect {
                    if let Some(before) = shown {
                        prop_assert!(by_person || may_follow(before, incident.stage), "{before:?} {incident:?}");
                    }
                    shown = Some(incident.stage).filter(|stage| *stage != Stage::Cleared);
                    prop_assert!(incident.timeline.len() <= lazaret_lifecycle::TIMELINE_MAX);
                    prop_assert!(incident.stage == Stage::Cleared || !incident.waits_for.is_empty());
                }
            }
            by_person = false;
            prop_assert!(world.machine.incidents().count() <= 1);
            // The device has the taints of its stage, and none without an incident.
            let expected: &[&str] = match world.stage() {
                None => &[],
                Some(Stage::Suspect) => &["None"],
                Some(Stage::Quarantined | Stage::Draining) => &["NoSchedule"],
                Some(_) => &["NoSchedule", "NoExecute"],
            };
            prop_assert_eq!(world.taints(), expected);
        }
    }
}
