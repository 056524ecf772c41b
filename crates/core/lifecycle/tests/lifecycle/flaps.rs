//! How often hardware came back in vain, counted over its incidents.

use lazaret_lifecycle::{
    Act, Count, Flaps, Input, Notice, Policy, Presence, Recovery, Stage, Stored, Target,
};

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, World, at, device, policy, rule},
};

/// Quarantined when hot, and back after 15 minutes of calm and 30 of probation; back in vain at most twice a day.
fn lemons() -> Policy {
    let recovery = Recovery {
        probation_ms: 30 * MINUTE,
        validates: false,
        validation_timeout_ms: 30 * MINUTE,
        flaps: Some(Flaps { at_most: 2, within_ms: 24 * 60 * MINUTE }),
    };
    let mut hot = rule("hot", r#"signal.key == "hot""#, Target::Quarantined);
    hot.count = None::<Count>;
    Policy { rules: vec![hot], steps: Vec::new(), recovery: Some(recovery), ..policy() }
}

fn fall_ill_and_recover(world: &mut World) -> Stage {
    world.signal("hot", "", false);
    let stage = world.stage().unwrap();
    world.pass(60 * MINUTE);
    stage
}

#[test]
fn hardware_that_comes_back_in_vain_too_often_is_given_up_in_whichever_incident() {
    let mut world = World::new(lemons());
    let stages: Vec<Stage> = (0..4).map(|_| fall_ill_and_recover(&mut world)).collect();
    assert_eq!(stages, [Stage::Quarantined, Stage::Quarantined, Stage::Quarantined, Stage::Abandoned]);
    assert_eq!(world.stage(), Some(Stage::Abandoned), "a person decides");
    let incident = world.recorded();
    assert_eq!((incident.serial, incident.flaps.len()), (4, 3));
    assert!(incident.timeline.last().unwrap().cause.contains("3 times in vain, 2 are permitted"));
}

#[test]
fn the_count_follows_the_hardware_to_another_name() {
    let mut world = World::new(lemons());
    for _ in 0..3 {
        fall_ill_and_recover(&mut world);
    }
    world.hear(Input::DeviceGone(device("gpu-0")));
    world.publish("gpu-9", "uuid-0");
    world.hear(Input::Raised(lazaret_lifecycle::Signal {
        device: device("gpu-9"),
        key: "hot".into(),
        value: "".into(),
        source: lazaret_lifecycle::Source::Taint,
        at: at(world.now),
        lasts: false,
        message: "".into(),
    }));
    assert_eq!(world.stage(), Some(Stage::Abandoned));
}

#[test]
fn old_returns_and_what_was_only_observed_do_not_count() {
    let mut world = World::new(lemons());
    for _ in 0..5 {
        assert_eq!(fall_ill_and_recover(&mut world), Stage::Quarantined);
        world.pass(24 * 60 * MINUTE);
    }
    let mut observed = World::new(Policy { mode: lazaret_lifecycle::Mode::Observe, ..lemons() });
    for _ in 0..5 {
        assert_eq!(fall_ill_and_recover(&mut observed), Stage::Quarantined);
    }
}

#[test]
fn a_person_who_repairs_it_resets_the_count() {
    let mut world = World::new(lemons());
    for _ in 0..4 {
        fall_ill_and_recover(&mut world);
    }
    let (incident, at) = (world.number(), at(world.now));
    world.hear(Input::Person { incident, act: Act::Repaired, who: "jo".into(), why: "".into(), at });
    world.pass(60 * MINUTE);
    assert_eq!(world.stage(), None);
    assert_eq!(fall_ill_and_recover(&mut world), Stage::Quarantined);
    assert_eq!(world.recorded().flaps.len(), 1);
}

/// Every incident has a leader of its own that knows nothing but what is stored.
#[test]
fn leaders_count_on_from_what_is_stored() {
    let (mut server, mut now) = (Server::default(), 0);
    let mut stages = Vec::new();
    for _ in 0..4 {
        let mut leader = Leader::begin(&server, now, lemons());
        leader.raise("gpu-0", "hot", "");
        leader.work(&mut server, |_| false);
        let open = |server: &Server| {
            let mut all = server.incidents.values();
            all.find(|stored| stored.incident.is_open()).map(|stored| stored.incident.stage)
        };
        stages.push(open(&server).unwrap());
        for _ in 0..60 {
            leader.now += MINUTE;
            leader.work(&mut server, |_| false);
        }
        now = leader.now;
    }
    assert_eq!(stages, [Stage::Quarantined, Stage::Quarantined, Stage::Quarantined, Stage::Abandoned]);
}

/// Incidents are kept for a shorter time than their flaps count.
#[test]
fn an_incident_is_kept_for_as_long_as_its_flaps_count() {
    let mut server = Server::default();
    let history = lazaret_lifecycle::History { keep_ms: MINUTE, incidents_max: 10 };
    let mut leader = Leader::begin_with(&server, 0, lemons(), history);
    leader.raise("gpu-0", "hot", "");
    for _ in 0..100 {
        leader.now += MINUTE;
        leader.work(&mut server, |_| false);
    }
    let stored: Vec<Stored> = server.incidents.values().cloned().collect();
    assert_eq!(stored.iter().map(|one| one.incident.stage).collect::<Vec<_>>(), [Stage::Cleared]);
    leader.now += 24 * 60 * MINUTE;
    leader.hear(Notice::Tick);
    let removed = core::iter::from_fn(|| leader.core.poll_effect())
        .any(|write| matches!(write.kind, lazaret_lifecycle::WriteKind::Remove(..)));
    assert!(removed);
}

#[test]
fn a_device_that_is_gone_from_the_start_counts_by_its_name() {
    let mut world = World::new(lemons());
    world.hear(Input::Device { id: device("gpu-0"), hardware: None, policies: vec!["p".into()] });
    world.presence("gpu-0", Presence::Published);
    let stages: Vec<Stage> = (0..4).map(|_| fall_ill_and_recover(&mut world)).collect();
    assert_eq!(stages[3], Stage::Abandoned);
}
