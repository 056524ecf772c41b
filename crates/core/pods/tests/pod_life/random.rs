//! Random pods, outcomes and crashes: what must never happen does not, and what is wanted runs in the end.

use lazaret_pods::{FoundPhase, Input, Kind, PodView, Restart, Signal, State};
use proptest::prelude::*;

use crate::world::{ActionResult, World, container, pod};

const PODS: u8 = 4;
const EPHEMERAL_MAX: usize = 3;

fn view(number: u8, shape: u8) -> PodView {
    let restart = [Restart::Always, Restart::OnFailure, Restart::Never][usize::from(shape % 3)];
    let mut containers = match shape / 3 % 4 {
        0 => vec![],
        1 => vec![container("i1", Kind::Init), container("i2", Kind::Init)],
        2 => {
            vec![container("s1", Kind::Sidecar), container("i1", Kind::Init), container("s2", Kind::Sidecar)]
        }
        _ => vec![container("s1", Kind::Sidecar)],
    };
    containers.push(container("m1", Kind::Main));
    if shape & 64 != 0 {
        containers.push(container("m2", Kind::Main));
    }
    for container in &mut containers {
        (container.has_pre_stop, container.has_post_start) = (shape & 16 != 0, shape & 32 != 0);
    }
    PodView { has_claims: shape & 128 != 0, ..pod(&format!("p{number}"), containers, restart) }
}

/// One step: `what` chooses, the others say with what.
fn step(world: &mut World, made: &mut u8, what: u8, which: u8, how: u8) {
    let uids: Vec<String> = world.api.keys().cloned().collect();
    let uid = uids.get(usize::from(which) % uids.len().max(1)).cloned();
    match what % 16 {
        0 if uids.len() < usize::from(PODS) => {
            *made += 1;
            world.add(view(*made, how));
        }
        1 => uid.into_iter().for_each(|uid| world.delete(&uid, u64::from(how % 40))),
        2 if how.is_multiple_of(4) => uid.into_iter().for_each(|uid| world.force(&uid)),
        3 if how.is_multiple_of(4) => world.restart(),
        4 => {
            let Some(uid) = uid else { return };
            let running = world.running(&uid);
            if let Some(name) = running.get(usize::from(how / 4) % running.len().max(1)) {
                world.exits(&uid, name, i32::from(how.is_multiple_of(4)));
            }
        }
        5 if how.is_multiple_of(8) => {
            let Some(sandbox) = uid.and_then(|uid| world.sandboxes.get(&uid)) else { return };
            let id = sandbox.id.clone();
            world.kill_sandbox(&id);
            world.give(Input::Changed);
        }
        6 => {
            if let Some(uid) = world.releasing.first().cloned() {
                world.release(&uid);
            }
        }
        7 => {
            world.now += u64::from(how) * 100;
            world.tick();
        }
        8 if how.is_multiple_of(16) => {
            let available = if how & 16 == 0 { 1 } else { 1 << 30 };
            world.level(Signal::MemoryAvailable).available = available;
        }
        9 if how.is_multiple_of(8) => {
            let Some(uid) = uid else { return };
            let added = world.api[&uid].containers.iter().filter(|one| one.kind == Kind::Ephemeral).count();
            if added < EPHEMERAL_MAX {
                world.debug(&uid, &format!("e{added}"));
            }
        }
        _ if !world.pending.is_empty() => {
            let luck = match how % 8 {
                0 => ActionResult::Fails,
                1 => ActionResult::FailsAfterwards,
                _ => ActionResult::Works,
            };
            let place = usize::from(which) % world.pending.len();
            world.perform(place, luck);
        }
        _ => {}
    }
}

/// With all luck, and with time, everything is as it should be.
fn check_at_rest(world: &mut World) {
    world.level(Signal::MemoryAvailable).available = 1 << 30;
    world.give(Input::Changed);
    world.pass(900_000);
    assert_eq!(world.machine.pressure().count(), 0);
    for (uid, view) in world.api.clone() {
        assert!(view.deletion_grace_s.is_none(), "{uid} is not gone although it was deleted");
        let status = &world.statuses[&uid];
        let sandbox = world.sandboxes.get(&uid);
        if status.phase.is_terminal() {
            let is_evicted = status.reason.as_deref() == Some("Evicted");
            assert!(is_evicted || view.restart != Restart::Always, "{uid} is to run for ever");
            assert!(
                world.running(&uid).is_empty()
                    && !world.volumes.contains(&uid)
                    && !world.prepared.contains(&uid)
            );
            continue;
        }
        let newest = |name: &str| {
            let all = sandbox.into_iter().flat_map(|sandbox| &sandbox.containers);
            all.filter(|container| container.name == name).max_by_key(|container| container.attempt)
        };
        let is_done = |name: &str| match newest(name).map(|container| &container.phase) {
            Some(FoundPhase::Exited(exit)) => exit.code == 0,
            _ => false,
        };
        // Init containers of this world run until the test ends them.
        let waits_for = view
            .containers
            .iter()
            .position(|container| container.kind == Kind::Init && world.is_running(&uid, &container.name));
        let wanted = &view.containers[..waits_for.map_or(view.containers.len(), |place| place + 1)];
        for container in wanted.iter().filter(|container| container.kind != Kind::Init || waits_for.is_some())
        {
            let runs = world.is_running(&uid, &container.name);
            let is_past = container.kind == Kind::Init && is_done(&container.name);
            let shown = status.init.iter().chain(&status.main).chain(&status.ephemeral);
            let shown = shown.clone().find(|shown| shown.name == container.name).unwrap();
            let has_ended = match &shown.state {
                State::Terminated { .. } if container.kind == Kind::Ephemeral => true,
                State::Terminated { exit, .. } => match view.restart {
                    Restart::Always => false,
                    Restart::OnFailure => exit.code == 0,
                    Restart::Never => true,
                },
                State::Waiting { .. } | State::Running { .. } => false,
            };
            assert!(runs || is_past || has_ended, "{uid}/{} does not run: {status:?}", container.name);
        }
    }
    let uids: Vec<String> = world.api.keys().cloned().collect();
    uids.iter().for_each(|uid| world.delete(uid, 1));
    world.pass(900_000);
    assert!(world.api.is_empty(), "pods are left: {:?}", world.api.keys());
    assert!(
        world.sandboxes.is_empty() && world.volumes.is_empty(),
        "{:?} {:?}",
        world.sandboxes,
        world.volumes
    );
    assert!(world.machine.is_empty() && world.prepared.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_runs_twice_too_early_or_too_late_and_nothing_is_left(
        steps in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..400),
    ) {
        let mut world = World::new();
        world.settle();
        let mut made = 0;
        for (what, which, how) in steps {
            step(&mut world, &mut made, what, which, how);
        }
        check_at_rest(&mut world);
    }
}
