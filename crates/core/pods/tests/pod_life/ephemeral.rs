//! Containers that are added to a pod that is there.

use lazaret_pods::{Kind, Phase, Restart, State};

use crate::world::{World, container, pod};

#[test]
fn an_ephemeral_container_runs_once_and_nothing_waits_for_it() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    world.debug("a", "debugger");
    world.pass(1_000);
    assert_eq!(world.running("a"), ["c", "debugger"]);
    let status = &world.statuses["a"];
    assert_eq!((status.main.len(), status.ephemeral.len()), (1, 1));
    assert!(matches!(status.ephemeral[0].state, State::Running { .. }));
    assert!(status.conditions.iter().all(|condition| condition.is_true), "the pod is as ready as before");

    world.exits("a", "debugger", 3);
    world.pass(700_000);
    assert_eq!(world.running("a"), ["c"], "it is not started again");
    assert!(
        matches!(&world.statuses["a"].ephemeral[0].state, State::Terminated { exit, .. } if exit.code == 3)
    );
    world.restart();
    world.pass(700_000);
    assert_eq!(world.starts, ["c", "debugger"], "another agent does not start it either");
    world.debug("a", "second");
    world.pass(1_000);
    assert_eq!(world.running("a"), ["c", "second"]);
    world.delete("a", 30);
    world.pass(10_000);
    assert!(world.machine.is_empty() && world.api.is_empty());
}

/// A user who debugs a pod that hangs in an init container needs it then.
#[test]
fn an_ephemeral_container_runs_beside_an_init_container() {
    let mut world = World::new();
    world.add(pod("a", vec![container("i", Kind::Init), container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    world.debug("a", "debugger");
    world.pass(1_000);
    assert_eq!(world.running("a"), ["i", "debugger"]);
    assert_eq!(world.phase("a"), Phase::Pending);
    world.restart();
    world.pass(1_000);
    assert_eq!(world.running("a"), ["i", "debugger"], "the init container is not taken for done");
    world.exits("a", "i", 0);
    world.pass(1_000);
    assert_eq!(world.running("a"), ["debugger", "c"]);
}

#[test]
fn a_pod_ends_although_an_ephemeral_container_runs() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Never));
    world.pass(1_000);
    world.debug("a", "debugger");
    world.pass(1_000);
    world.exits("a", "c", 0);
    world.pass(5_000);
    assert_eq!(world.phase("a"), Phase::Succeeded);
    assert!(world.running("a").is_empty());
}

/// A container of a lost sandbox has ended, also for agents that start later.
#[test]
fn an_ephemeral_container_that_is_lost_has_ended_for_every_agent() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    world.debug("a", "debugger");
    world.pass(1_000);
    // No agent runs while the runtime loses everything.
    world.sandboxes.clear();
    for _ in 0..2 {
        world.restart();
        world.pass(700_000);
        let state = &world.statuses["a"].ephemeral[0].state;
        assert!(matches!(state, State::Terminated { exit, .. } if exit.code == 137), "{state:?}");
        assert_eq!(world.running("a"), ["c"]);
    }
    assert_eq!(world.starts, ["c", "debugger", "c"]);
}
