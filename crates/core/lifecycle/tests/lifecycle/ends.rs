//! Every stage has an end: a validation that does not end, a policy that is gone, a verdict that a guard held.

use lazaret_lifecycle::{
    Act, Child, ChildKind, ChildTarget, HeldReason, Incident, Input, Limit, Mode, Notice, Policy, Selected,
    Stage, WriteKind,
};

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, World, at, device, policy},
};

fn repaired(world: &mut World) {
    let (incident, at) = (world.number(), at(world.now));
    world.hear(Input::Person { incident, act: Act::Repaired, who: "jo".into(), why: "".into(), at });
}

fn last_cause(world: &World) -> String {
    world
        .machine
        .incidents()
        .next()
        .and_then(|one| one.timeline.last())
        .map_or_else(String::new, |entry| entry.cause.to_string())
}

#[test]
fn a_validation_that_does_not_end_has_failed_when_its_time_is_over() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.repaired(0, 0, Ok(()));
    world.pass(60 * MINUTE - 1);
    assert_eq!(world.stage(), Some(Stage::Probation));
    world.is_used(true);
    world.pass(1);
    assert_eq!(world.stage(), Some(Stage::Draining), "a flap");
    assert_eq!(last_cause(&world), "validation failed: it took too long");
}

#[test]
fn a_person_has_a_device_in_probation_prove_itself_again() {
    let mut world = World::new(policy());
    world.is_used(false);
    world.signal("xid", "79", false);
    world.repaired(0, 0, Ok(()));
    world.pass(59 * MINUTE);
    let tries = world.machine.incidents().next().unwrap().tries;
    repaired(&mut world);
    world.pass(59 * MINUTE);
    let incident = world.machine.incidents().next().unwrap();
    assert_eq!((incident.stage, incident.tries), (Stage::Probation, tries + 1));
}

fn incident(server: &Server) -> &Incident {
    &server.incidents.values().next().unwrap().incident
}

/// The namespace of a Job is missing, or its image: the reason is in the timeline.
#[test]
fn what_was_in_the_way_of_a_task_is_said_when_its_time_is_over() {
    let mut server = Server::default();
    let mut leader = Leader::begin(&server, 0, policy());
    leader.raise("gpu-0", "xid", "79");
    let fails = |kind: &WriteKind| matches!(kind, WriteKind::Run { .. });
    leader.work(&mut server, fails);
    let (device, namespaces) = (device("gpu-0"), Vec::new());
    leader.hear(Notice::Core(Input::InUse { device, is_used: false, namespaces, stays: "".into() }));
    leader.work(&mut server, fails);
    let why = "as repair: namespaces \"gone\" not found";
    leader.hear(Notice::Obstructed(incident(&server).task_name(), why.into()));
    leader.work(&mut server, fails);
    leader.now += 10 * MINUTE;
    leader.work(&mut server, fails);
    let said = incident(&server).timeline.last().unwrap().cause.clone();
    assert_eq!(&*said, format!("repair reset failed: it took too long: {why}"));
    assert_eq!(&*incident(&server).waits_for, "repair reboot", "that of another task is none of this one");
}

#[test]
fn without_its_policy_every_stage_is_ended_by_a_person() {
    let stages = [Stage::Quarantined, Stage::Draining, Stage::Repairing, Stage::Probation, Stage::Abandoned];
    for wanted in stages {
        let mut world = World::new(policy());
        world.is_used(true);
        if wanted == Stage::Quarantined {
            (0..3).for_each(|_| world.signal("ecc", "", false));
        } else {
            world.signal("xid", "79", false);
        }
        if matches!(wanted, Stage::Repairing | Stage::Probation) {
            world.is_used(false);
        }
        if wanted == Stage::Probation {
            world.repaired(0, 0, Ok(()));
        }
        let (incident, at) = (world.number(), at(world.now));
        if wanted == Stage::Abandoned {
            world.hear(Input::Person { incident, act: Act::Abandon, who: "jo".into(), why: "".into(), at });
        }
        assert_eq!(world.stage(), Some(wanted));
        world.hear(Input::PolicyGone("p".into()));
        world.pass(1_000 * MINUTE);
        assert_eq!(world.stage(), Some(wanted), "nobody knows whether it is well");
        repaired(&mut world);
        assert_eq!((world.stage(), world.taints()), (None, vec!["NoSchedule"; 0]), "{wanted:?}");
    }
}

#[test]
fn another_policy_that_demands_as_much_goes_on_without_the_first() {
    let mut world = World::new(policy());
    world.hear(Input::Policy(Box::new(Policy { name: "q".into(), ..policy() })));
    let (id, policies) = (device("gpu-0"), vec!["p".into(), "q".into()]);
    world.hear(Input::Device { id, hardware: Some("uuid-0".into()), policies });
    world.signal("xid", "79", true);
    assert_eq!(&*world.machine.incidents().next().unwrap().policy, "p");
    world.hear(Input::PolicyGone("p".into()));
    let incident = world.machine.incidents().next().unwrap();
    assert_eq!((&*incident.policy, incident.stage), ("q", Stage::Draining));
}

fn paused(world: &mut World, is_paused: bool) {
    let stop = (HeldReason::Paused, "DisruptionGuard g is paused: played".into());
    world.hear(Input::Limits(vec![Limit {
        guard: "g".into(),
        selects: Selected::All,
        counts: "devices",
        window_seconds: 0,
        permitted: None,
        total: 1,
        out: [].into(),
        unnamed: 0,
        stops: is_paused.then_some(stop),
    }]));
}

#[test]
fn what_a_guard_held_is_carried_out_however_calm_the_device_is_by_then() {
    let mut world = World::new(policy());
    world.is_used(true);
    paused(&mut world, true);
    world.signal("xid", "79", false);
    world.pass(100 * MINUTE);
    assert_eq!(world.stage(), Some(Stage::Suspect));
    assert_eq!(&*world.machine.incidents().next().unwrap().waits_for, "DisruptionGuard g is paused: played");
    paused(&mut world, false);
    assert_eq!(world.stage(), Some(Stage::Draining));
}

#[test]
fn a_person_ends_what_a_guard_holds_and_so_does_a_policy_that_only_observes() {
    let mut world = World::new(policy());
    paused(&mut world, true);
    world.signal("xid", "79", false);
    repaired(&mut world);
    assert_eq!(world.stage(), Some(Stage::Probation), "it has to prove itself");

    let mut world = World::new(policy());
    paused(&mut world, true);
    world.signal("xid", "79", false);
    world.pass(MINUTE);
    world.hear(Input::Policy(Box::new(Policy { mode: Mode::Observe, ..policy() })));
    world.pass(100 * MINUTE);
    assert_eq!(world.stage(), None);
}

#[test]
fn the_jobs_of_an_incident_keep_their_names_until_no_late_request_makes_them_again() {
    let mut server = Server::default();
    let mut leader = Leader::begin(&server, 0, policy());
    leader.raise("gpu-0", "xid", "79");
    let (device, namespaces) = (device("gpu-0"), Vec::new());
    leader.hear(Notice::Core(Input::InUse { device, is_used: false, namespaces, stays: "".into() }));
    let jobs = |server: &Server| {
        server
            .children
            .values()
            .filter(|child| child.target.kind() == ChildKind::Job)
            .cloned()
            .collect::<Vec<_>>()
    };
    for _ in 0..2 {
        leader.work(&mut server, |_| false);
        for job in jobs(&server) {
            let done = Child { target: ChildTarget::Job { result: Some(Ok(())) }, ..job.clone() };
            server.children.insert((ChildKind::Job, job.name), done);
        }
        leader.see(&server);
    }
    leader.work(&mut server, |_| false);
    leader.now += 31 * MINUTE;
    leader.work(&mut server, |_| false);
    let incident = &server.incidents.values().next().unwrap().incident;
    assert_eq!(incident.stage, Stage::Cleared);
    assert_eq!((server.tainted().len(), jobs(&server).len()), (0, 2), "their names are taken");
    assert!(leader.core.next_wake().is_some_and(|wake| wake.at <= at(leader.now + MINUTE)));
    leader.now += MINUTE;
    leader.work(&mut server, |_| false);
    assert_eq!(jobs(&server), []);
}
