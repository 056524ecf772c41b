//! The life of pods, in a world whose runtime and API check what is done to them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed"
)]

mod correlate;
mod ephemeral;
mod pressure;
mod random;
mod resize;
mod world;

use lazaret_pods::{
    Action, Amounts, ConditionKind, Input, Kind, Outcome, Phase, Probe, Restart, RestartRule, State,
};
use world::{World, container, pod};

fn waiting(world: &World, uid: &str, index: usize) -> &'static str {
    match &world.statuses[uid].main[index].state {
        State::Waiting { reason, .. } => reason,
        State::Running { .. } => "Running",
        State::Terminated { exit, .. } => exit.reason,
    }
}

#[test]
fn a_pod_runs_is_deleted_and_leaves_nothing() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    assert_eq!((world.phase("a"), world.running("a")), (Phase::Running, vec!["c".into()]));
    let status = &world.statuses["a"];
    assert!(status.conditions.iter().all(|condition| condition.is_true) && !status.ips.is_empty());
    world.delete("a", 30);
    world.pass(1_000);
    assert!(world.api.is_empty() && world.sandboxes.is_empty() && world.volumes.is_empty());
    assert!(world.machine.is_empty());
    for reason in ["Pulled", "Created", "Started", "Killing"] {
        assert_eq!(world.said(reason), 1, "{reason}");
    }
}

#[test]
fn what_nobody_waits_for_is_written_once() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    let mut writes = 0;
    while !world.pending.is_empty() {
        writes += usize::from(matches!(world.pending[0].1, Action::WriteStatus { .. }));
        world.perform(0, world::ActionResult::Works);
    }
    assert_eq!(writes, 1, "a pod that starts at once has one status");
}

/// The node controller marks pods of a node that it does not hear from as not ready, and leaves it to the node to take that back.
#[test]
fn a_condition_that_another_client_changed_is_written_again() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    let seen = |is_ready| {
        let mut view = pod("a", vec![container("c", Kind::Main)], Restart::Always);
        view.before.conditions = vec![(ConditionKind::Ready, is_ready, 0)];
        Input::Pod(view)
    };
    world.give(seen(true));
    assert_eq!(written(&mut world, 60_000), 0, "it is as it was written");
    world.give(seen(false));
    assert_eq!(written(&mut world, 4_000), 0, "it may be an older pod");
    assert_eq!(written(&mut world, 2_000), 1);
    world.give(seen(true));
    assert_eq!(written(&mut world, 60_000), 0);
    world.give(seen(false));
    world.give(seen(true));
    assert_eq!(written(&mut world, 60_000), 0, "it was an older pod");
    let mut writes = 0;
    for _ in 0..100 {
        world.give(seen(false));
        writes += written(&mut world, 100);
    }
    assert!((1..=2).contains(&writes), "two clients that insist do not write all the time: {writes}");
}

/// The statuses that are written within this time.
fn written(world: &mut World, ms: u64) -> usize {
    let before = world.written;
    world.pass(ms);
    world.written - before
}

#[test]
fn containers_are_started_again_by_policy_and_wait_between() {
    for (policy, code, is_again) in [
        (Restart::Always, 0, true),
        (Restart::Always, 1, true),
        (Restart::OnFailure, 0, false),
        (Restart::OnFailure, 1, true),
        (Restart::Never, 1, false),
        (Restart::Never, 0, false),
    ] {
        let mut world = World::new();
        world.add(pod("a", vec![container("c", Kind::Main)], policy));
        world.pass(1_000);
        world.exits("a", "c", code);
        world.pass(1_000);
        assert_eq!(world.is_running("a", "c"), is_again, "{policy:?} {code}");
        let expected = match (is_again, code) {
            (true, _) => Phase::Running,
            (false, 0) => Phase::Succeeded,
            (false, _) => Phase::Failed,
        };
        assert_eq!(world.phase("a"), expected, "{policy:?} {code}");
    }
}

/// 0 s, 10 s, 20 s, 40 s … 300 s after each end; at once again when it ran for more than ten minutes.
#[test]
fn a_container_that_crashes_waits_longer_and_longer() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    for pause_s in [0, 10, 20, 40, 80, 160, 300, 300] {
        world.exits("a", "c", 1);
        if pause_s > 0 {
            world.pass(pause_s * 1_000 - 500);
            assert!(!world.is_running("a", "c"), "{pause_s}");
            assert_eq!(waiting(&world, "a", 0), "CrashLoopBackOff");
            assert!(matches!(world.statuses["a"].main[0].last, Some(State::Terminated { .. })));
        }
        world.pass(1_000);
        assert!(world.is_running("a", "c"), "{pause_s}");
    }
    assert_eq!(world.statuses["a"].main[0].restarts, 8);
    world.pass(601_000);
    world.exits("a", "c", 1);
    world.pass(1_000);
    assert!(world.is_running("a", "c"), "it ran long enough");
    let kept = world.sandboxes["a"].containers.len();
    assert_eq!(kept, 2, "the newest and the one before it");
}

#[test]
fn a_rule_of_a_container_wins_over_the_policy() {
    let mut world = World::new();
    let rules = vec![RestartRule { is_in: true, codes: vec![42] }];
    let c =
        lazaret_pods::ContainerView { rules, restart: Some(Restart::Never), ..container("c", Kind::Main) };
    world.add(pod("a", vec![c], Restart::Always));
    world.pass(1_000);
    world.exits("a", "c", 42);
    world.pass(1_000);
    assert!(world.is_running("a", "c"));
    world.exits("a", "c", 1);
    world.pass(11_000);
    assert_eq!(world.phase("a"), Phase::Failed);
}

#[test]
fn init_containers_run_in_order_and_sidecars_outlive_the_others() {
    let mut world = World::new();
    let containers = vec![
        container("i1", Kind::Init),
        container("s1", Kind::Sidecar),
        container("s2", Kind::Sidecar),
        container("i2", Kind::Init),
        container("m", Kind::Main),
    ];
    world.add(pod("a", containers, Restart::Never));
    world.pass(1_000);
    assert_eq!(world.running("a"), ["i1"]);
    assert_eq!(world.phase("a"), Phase::Pending);
    world.exits("a", "i1", 0);
    world.pass(1_000);
    assert_eq!(world.running("a"), ["s1", "s2", "i2"]);
    world.exits("a", "i2", 0);
    world.pass(1_000);
    assert_eq!(world.running("a"), ["s1", "s2", "m"]);
    assert_eq!(world.phase("a"), Phase::Running);
    // A sidecar that ends is started again whatever the policy is.
    world.exits("a", "s1", 1);
    world.pass(1_000);
    assert!(world.is_running("a", "s1"));
    world.stops.clear();
    world.exits("a", "m", 0);
    world.pass(1_000);
    assert_eq!(world.stops, ["s2", "s1"], "the last first, and none at a time");
    assert_eq!(world.phase("a"), Phase::Succeeded);
}

#[test]
fn an_init_container_that_fails_ends_the_pod_or_is_tried_again() {
    for (policy, phase) in [(Restart::Never, Phase::Failed), (Restart::Always, Phase::Pending)] {
        let mut world = World::new();
        world.add(pod("a", vec![container("i", Kind::Init), container("m", Kind::Main)], policy));
        world.pass(1_000);
        world.exits("a", "i", 1);
        world.pass(1_000);
        assert_eq!(world.phase("a"), phase);
        assert_eq!(world.is_running("a", "i"), policy == Restart::Always);
        assert!(!world.is_running("a", "m"));
    }
}

#[test]
fn a_pod_waits_for_its_claims_and_gives_them_back_at_its_end() {
    let mut world = World::new();
    let mut view = pod("a", vec![container("c", Kind::Main)], Restart::Always);
    view.has_claims = true;
    world.api.insert("a".into(), view.clone());
    world.give(Input::Pod(view));
    world.pass(60_000);
    assert!(world.sandboxes.is_empty());
    world.prepared.insert("a".into());
    world.give(Input::ClaimsPrepared("a".into()));
    world.pass(1_000);
    assert!(world.is_running("a", "c"));
    world.delete("a", 30);
    while !world.pending.is_empty() {
        world.perform(0, world::ActionResult::Works);
    }
    assert!(
        world.releasing.contains("a") && world.api.contains_key("a"),
        "it stays until its claims are unprepared"
    );
    assert!(!world.phase("a").is_terminal());
    world.pass(1_000);
    assert!(world.api.is_empty() && world.prepared.is_empty());
}

#[test]
fn another_agent_finds_what_runs_and_starts_nothing_twice() {
    let mut world = World::new();
    let containers =
        vec![container("i", Kind::Init), container("s", Kind::Sidecar), container("m", Kind::Main)];
    world.add(pod("a", containers, Restart::Always));
    world.pass(1_000);
    world.exits("a", "i", 0);
    world.pass(1_000);
    world.exits("a", "m", 3);
    world.pass(1_000);
    let starts = world.starts.clone();
    world.restart();
    world.pass(120_000);
    assert_eq!(world.starts, starts, "nothing is started again");
    let main = &world.statuses["a"].main[0];
    assert_eq!((main.restarts, main.last.is_some()), (1, true));
    // A pod that was deleted from the API while no agent ran is stopped and removed.
    world.api.clear();
    world.restart();
    world.pass(60_000);
    assert!(world.sandboxes.is_empty() && world.volumes.is_empty() && world.machine.is_empty());
}

#[test]
fn a_sandbox_that_dies_is_made_anew_with_everything_in_it() {
    let mut world = World::new();
    world.add(pod("a", vec![container("i", Kind::Init), container("m", Kind::Main)], Restart::Always));
    world.pass(1_000);
    world.exits("a", "i", 0);
    world.pass(1_000);
    let id = world.sandboxes["a"].id.clone();
    world.kill_sandbox(&id);
    world.give(Input::Changed);
    world.pass(1_000);
    assert_ne!(world.sandboxes["a"].id, id);
    assert_eq!(world.running("a"), ["i"], "from the beginning");
    world.exits("a", "i", 0);
    world.pass(1_000);
    assert_eq!(world.running("a"), ["m"]);
    assert_eq!(world.statuses["a"].main[0].restarts, 1);
}

fn probe(failures: u32) -> Option<Probe> {
    Some(Probe { initial_delay_s: 0, period_s: 10, timeout_s: 1, successes: 1, failures, grace_s: None })
}

/// Answers the next probe, which must be the only thing that is asked for.
fn answer_probe(world: &mut World, is_success: bool) {
    while !world.pending.iter().any(|(_, action)| matches!(action, Action::Probe { .. })) {
        if world.pending.is_empty() {
            world.now = world.machine.wake().unwrap();
            world.tick();
        } else {
            world.perform(0, world::ActionResult::Works);
        }
    }
    let place = world.pending.iter().position(|(_, action)| matches!(action, Action::Probe { .. })).unwrap();
    let (id, _) = world.pending.remove(place);
    world.give(Input::Outcome(id, Outcome::Probed { is_success, message: "it says".into() }));
}

#[test]
fn readiness_follows_the_probe_and_liveness_starts_it_again() {
    let mut world = World::new();
    let mut c = container("c", Kind::Main);
    (c.readiness, c.has_pre_stop) = (probe(2), true);
    world.add(pod("a", vec![c], Restart::Always));
    let ready = |world: &World| world.statuses["a"].main[0].is_ready;
    for (is_success, expected) in [(false, false), (true, true), (false, true), (false, false), (true, true)]
    {
        answer_probe(&mut world, is_success);
        while !world.pending.is_empty() {
            world.perform(0, world::ActionResult::Works);
        }
        assert_eq!(ready(&world), expected);
    }
    let mut c = container("c", Kind::Main);
    c.liveness = probe(2);
    world.add(pod("b", vec![c], Restart::Always));
    world.delete("a", 0);
    world.settle();
    answer_probe(&mut world, false);
    assert_eq!(world.attempts[&("b".into(), "c".into())], 1);
    answer_probe(&mut world, false);
    while !world.pending.is_empty() {
        world.perform(0, world::ActionResult::Works);
    }
    assert_eq!(world.attempts[&("b".into(), "c".into())], 2, "started again");
    assert!(
        world.events.iter().any(|(_, text)| text == "Container c failed liveness probe, will be restarted")
    );
}

#[test]
fn a_container_has_started_when_its_startup_probe_says_so() {
    let mut world = World::new();
    let mut sidecar = container("s", Kind::Sidecar);
    sidecar.startup = probe(3);
    world.add(pod("a", vec![sidecar, container("m", Kind::Main)], Restart::Always));
    answer_probe(&mut world, false);
    assert_eq!(world.running("a"), ["s"], "the others wait");
    answer_probe(&mut world, true);
    world.pass(1_000);
    assert_eq!(world.running("a"), ["s", "m"]);
}

#[test]
fn an_image_that_cannot_be_pulled_is_tried_again_later_and_later() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    for pause_s in [10, 20, 40] {
        while !world.pending.iter().any(|(_, action)| matches!(action, Action::Pull { .. })) {
            world.perform(0, world::ActionResult::Works);
        }
        let place =
            world.pending.iter().position(|(_, action)| matches!(action, Action::Pull { .. })).unwrap();
        let (id, _) = world.pending.remove(place);
        let failed = Outcome::Failed { reason: "ErrImagePull", message: "no such image".into() };
        world.give(Input::Outcome(id, failed));
        world.now += 300;
        world.tick();
        world.settle();
        assert_eq!(waiting(&world, "a", 0), "ErrImagePull");
        world.pass(5_000);
        assert_eq!(waiting(&world, "a", 0), "ImagePullBackOff");
        world.now += pause_s * 1_000 - 5_300;
        world.tick();
    }
    world.pass(1_000);
    assert_eq!(world.phase("a"), Phase::Running);
}

/// An image that is there says nothing about a start that fails: the pauses grow all the same, and people hear of the image once.
#[test]
fn a_container_that_cannot_be_made_is_tried_again_later_and_later() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    let start =
        |world: &World| world.pending.iter().position(|(_, action)| matches!(action, Action::Start { .. }));
    let mut tried_at = Vec::new();
    while tried_at.len() < 8 {
        if let Some(place) = start(&world) {
            tried_at.push(world.now);
            world.perform(place, world::ActionResult::Fails);
        } else if world.pending.is_empty() {
            world.now += 100;
            world.tick();
        } else {
            world.perform(0, world::ActionResult::Works);
        }
    }
    let pauses: Vec<u64> = tried_at.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(world.said("Pulled"), 1);
}

#[test]
fn hooks_run_after_the_start_and_before_the_stop() {
    let mut world = World::new();
    let mut c = container("c", Kind::Main);
    (c.has_post_start, c.has_pre_stop) = (true, true);
    world.add(pod("a", vec![c], Restart::Always));
    while !world.pending.iter().any(|(_, action)| matches!(action, Action::PostStart { .. })) {
        world.perform(0, world::ActionResult::Works);
    }
    world.settle();
    assert!(world.statuses["a"].main[0].is_started);
    world.delete("a", 5);
    let (id, action) = world.pending.pop().unwrap();
    assert!(matches!(action, Action::PreStop { timeout_ms: 5_000, .. }), "{action:?}");
    world.now += 3_000;
    world.give(Input::Outcome(id, Outcome::Done));
    assert!(world.pending.iter().any(|(_, action)| matches!(action, Action::Stop { grace_ms: 2_000, .. })));
    world.pass(1_000);
    assert!(world.api.is_empty());
}

#[test]
fn a_shorter_grace_is_asked_for_again() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    world.delete("a", 30);
    let graces = |world: &World| {
        let stops = world.pending.iter().filter_map(|(_, action)| match action {
            Action::Stop { grace_ms, .. } => Some(*grace_ms),
            _ => None,
        });
        stops.collect::<Vec<_>>()
    };
    assert_eq!(graces(&world), [30_000]);
    world.delete("a", 3);
    assert_eq!(graces(&world), [30_000, 3_000]);
}

#[test]
fn a_pod_that_is_active_too_long_fails() {
    let mut world = World::new();
    let mut view = pod("a", vec![container("c", Kind::Main)], Restart::Always);
    view.deadline_s = Some(60);
    world.add(view);
    world.pass(59_000);
    assert_eq!(world.phase("a"), Phase::Running);
    world.pass(2_000);
    let status = &world.statuses["a"];
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("DeadlineExceeded")));
}

#[test]
fn a_node_takes_no_more_than_it_has() {
    let mut world = World::new();
    let asks = |uid: &str, cpu_milli| {
        let mut view = pod(uid, vec![container("c", Kind::Main)], Restart::Always);
        view.requests = Amounts { cpu_milli, ..Amounts::default() };
        view
    };
    world.add(asks("a", 3_000));
    world.add(asks("b", 1_500));
    world.add(asks("c", 1_000));
    world.pass(1_000);
    assert_eq!(
        [world.phase("a"), world.phase("b"), world.phase("c")],
        [Phase::Running, Phase::Failed, Phase::Running]
    );
    let refused = &world.statuses["b"];
    assert_eq!(refused.reason.as_deref(), Some("OutOfcpu"));
    let text = "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000";
    assert_eq!(refused.message.as_deref(), Some(text));
    assert!(!world.sandboxes.contains_key("b"));
}

#[test]
fn a_node_that_shuts_down_ends_its_pods() {
    let mut world = World::new();
    world.add(pod("a", vec![container("c", Kind::Main)], Restart::Always));
    world.pass(1_000);
    assert!(!world.machine.is_stopped());
    world.give(Input::Shutdown);
    world.pass(1_000);
    assert_eq!(world.statuses["a"].reason.as_deref(), Some("Terminated"));
    assert!(world.machine.is_stopped() && world.machine.running() == 0);
}
