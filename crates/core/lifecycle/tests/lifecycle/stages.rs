//! The stages of an incident, one after the other.

use lazaret_lifecycle::{Act, Effect, Input, Mode, Presence, Stage, Target};
use lazaret_model::{DeviceId, Text};

use crate::world::{MINUTE, SECOND, World, at, device, policy};

#[test]
fn a_device_is_drained_repaired_proven_and_brought_back() {
    let mut world = World::new(policy());
    world.is_used(true);
    world.signal("xid", "79", true);
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Draining), vec!["NoSchedule"]));
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Drain { .. })));
    world.pass(MINUTE);
    world.is_used(false);
    assert_eq!((world.stage(), world.repairs()), (Some(Stage::Repairing), vec!["reset"]));
    world.lower("xid");
    world.pass(MINUTE);
    world.repaired(0, 0, Ok(()));
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Probation), vec!["NoSchedule", "NoExecute"]));
    let incident = world.number();
    world.pass(40 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Probation), "its validation has not passed");
    world.hear(Input::Validated { incident, result: Ok(()) });
    assert_eq!((world.stage(), world.taints()), (None, vec![]));
    let last = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Record(incident) => Some(incident),
        _ => None,
    });
    let times = last.unwrap().times;
    let minutes = [times.detected, times.decided, times.drained, times.repaired, times.cleared];
    assert_eq!(minutes.map(|time| time.unwrap().as_millis() / MINUTE), [0, 0, 1, 2, 42]);
}

/// Usage is heard once, when the incident begins, and not again when its device is drained.
#[test]
fn whose_pods_used_the_device_is_known_before_it_is_drained() {
    let mut world = World::new(policy());
    for _ in 0..3 {
        world.signal("ecc", "", false);
    }
    assert_eq!(world.stage(), Some(Stage::Quarantined));
    world.is_used(true);
    world.signal("xid", "79", true);
    assert_eq!(world.stage(), Some(Stage::Draining));
    let recorded = world.effects.iter().rev().find_map(|effect| match effect {
        Effect::Record(incident) => Some(incident.cost.namespaces.clone()),
        _ => None,
    });
    assert_eq!(recorded, Some(vec!["default".into()]));
}

#[test]
fn what_was_counted_before_a_repair_is_no_flap_and_what_lasts_has_the_probation_to_end() {
    let mut policy = policy();
    policy.rules[1].target = Target::Drained;
    let mut world = World::new(policy);
    world.is_used(false);
    for _ in 0..3 {
        world.signal("ecc", "", true);
        world.lower("ecc");
    }
    assert_eq!(world.stage(), Some(Stage::Repairing));
    world.repaired(0, 0, Ok(()));
    world.pass(MINUTE);
    assert_eq!(
        world.stage(),
        Some(Stage::Probation),
        "three within ten minutes, all of them before the repair"
    );
    let incident = world.number();
    world.hear(Input::Validated { incident, result: Ok(()) });
    world.pass(30 * MINUTE);
    assert_eq!(world.stage(), None);

    world.signal("xid", "79", true);
    world.pass(MINUTE);
    world.repaired(0, 0, Ok(()));
    world.pass(29 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Probation), "the driver may be slow to take it back");
    world.pass(MINUTE);
    assert_eq!(
        world.stage(),
        Some(Stage::Abandoned),
        "it did not go away: a flap, as that it came back so soon"
    );
}

#[test]
fn a_short_interruption_does_not_begin_the_time_anew_and_a_long_one_does() {
    let mut world = World::new(policy());
    world.signal("hot", "", true);
    world.pass(90 * SECOND);
    world.lower("hot");
    world.pass(10 * SECOND);
    world.signal("hot", "", true);
    world.pass(20 * SECOND - 1);
    assert_eq!(world.stage(), None);
    world.pass(1);
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Suspect), vec!["None"]));

    let mut world = World::new(self::policy());
    world.signal("hot", "", true);
    world.pass(90 * SECOND);
    world.lower("hot");
    world.pass(3 * MINUTE);
    world.signal("hot", "", true);
    world.pass(119 * SECOND);
    assert_eq!(world.stage(), None);
    world.pass(SECOND);
    assert_eq!(world.stage(), Some(Stage::Suspect));
}

#[test]
fn repairs_go_on_until_none_is_left_and_a_person_decides() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "48", false);
    world.repaired(0, 0, Err("nvidia-smi failed".into()));
    world.pass(60 * MINUTE);
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::StopRepair { .. })), "too long");
    world.repaired(0, 0, Ok(()));
    assert_eq!(world.stage(), Some(Stage::Repairing), "an old answer counts for nothing");
    world.repaired(0, 1, Err("again".into()));
    world.repaired(1, 1, Err("and again".into()));
    assert_eq!(world.repairs(), ["reset", "reboot", "reset", "reboot"]);
    assert_eq!((world.stage(), world.taints()), (Some(Stage::Abandoned), vec!["NoSchedule", "NoExecute"]));
    world.pass(1_000 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Abandoned));
    let incident = world.number();
    let at = at(world.now);
    world.hear(Input::Person { incident, act: Act::Repaired, who: "jo".into(), why: "".into(), at });
    assert_eq!(world.stage(), Some(Stage::Probation));
}

#[test]
fn who_comes_back_in_vain_too_often_is_abandoned() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    for attempt in 0..2 {
        world.repaired(0, 0, Ok(()));
        assert_eq!(world.stage(), Some(Stage::Probation), "{attempt}");
        world.pass(MINUTE);
        world.signal("xid", "79", false);
    }
    assert_eq!(world.stage(), Some(Stage::Abandoned));
}

#[test]
fn a_policy_that_observes_does_nothing_to_devices() {
    let mut policy = policy();
    policy.mode = Mode::Observe;
    let mut world = World::new(policy);
    world.is_used(true);
    world.signal("xid", "79", false);
    assert_eq!(world.stage(), Some(Stage::Draining));
    world.pass(16 * MINUTE);
    assert_eq!(world.stage(), None);
    assert!(world.effects.iter().all(|effect| matches!(effect, Effect::Record(_))), "{:?}", world.effects);
}

#[test]
fn an_incident_follows_the_hardware_under_another_name() {
    let mut world = World::new(policy());
    world.is_used(true);
    world.signal("xid", "79", false);
    world.presence("gpu-0", Presence::Unpublished);
    world.hear(Input::DeviceGone(device("gpu-0")));
    let (id, hardware) = (device("gpu-7"), Some(Text::from("uuid-0")));
    world.hear(Input::Device { id: id.clone(), hardware, policies: vec!["p".into()] });
    assert!(world.machine.incidents().map(|one| &one.device).eq([&id]));
    let last = |of: &DeviceId| {
        world.effects.iter().rev().find_map(|effect| match effect {
            Effect::Taint { device, effects, .. } if device == of => Some(effects.to_vec()),
            _ => None,
        })
    };
    assert_eq!((last(&device("gpu-0")), last(&id)), (Some(vec![]), Some(vec!["NoSchedule"])));
}

#[test]
fn a_machine_that_is_given_the_incidents_goes_on_where_the_one_before_ended() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.repaired(0, 0, Err("no".into()));
    let found = world.machine.incidents().next().unwrap().clone();
    let mut other = World::empty(world.now);
    other.hear(Input::Policy(Box::new(policy())));
    other.hear(Input::Found(Box::new(found.clone())));
    assert_eq!((other.repairs(), other.taints()), (vec!["reboot"], vec!["NoSchedule", "NoExecute"]));
    other.pass(60 * MINUTE);
    assert_eq!(other.repairs(), ["reboot", "reset"], "its time is over as it would have been");
}
