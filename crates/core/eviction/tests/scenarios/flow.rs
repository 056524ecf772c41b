//! Whole flows: the same end by other ways, failures, and what Kubernetes does otherwise.

use lazaret_eviction::{Input, Options, Outcome, Phase};

use crate::world::World;

const TAINTED: &str = "slice worker instance{k=v:NoExecute@0}";
const CLEAN: &str = "slice worker instance";
const CLAIM: &str = "claim my-claim device=instance owner=my-pod:1234 for=my-pod:1234";
const POD: &str = "pod my-pod uid=1234 claim=my-claim";
const RULE: &str = "rule evict driver=some-driver taint=k=v:NoExecute@0";

fn world() -> World {
    World::new(Options::default())
}

/// Applies events without anybody working in between, then runs for a day.
fn run(events: &[&str]) -> World {
    let mut world = world();
    events.iter().for_each(|event| world.apply(event));
    world.run_until(86_400_000);
    assert_eq!(world.plans(), world.recomputed());
    world
}

const EVICTED: [&str; 2] = ["0s evict my-pod", "0s event my-pod Marking"];

#[test]
fn eviction_initial_add_update_delete() {
    // All at once, as after a list.
    let mut initial = World::follower(Options::default());
    [TAINTED, CLAIM, POD].iter().for_each(|event| initial.apply(event));
    initial.hear(Input::BecameLeader);
    initial.run_until(86_400_000);
    assert_eq!(initial.log, EVICTED);

    assert_eq!(run(&[TAINTED, CLAIM, POD]).log, EVICTED);
    assert_eq!(run(&[CLEAN, CLAIM, POD, TAINTED]).log, EVICTED);
    // A newer generation hides the taint until it is gone.
    let hidden = "slice worker-new pool=worker gen=2 instance";
    assert_eq!(run(&[hidden, TAINTED, CLAIM, POD]).log, Vec::<String>::new());
    assert_eq!(run(&[hidden, TAINTED, CLAIM, POD, "slice- worker-new"]).log, EVICTED);
}

#[test]
fn device_taint_rule_immediate_delayed_slow() {
    for (seconds, at) in [("0", "20s"), ("30", "50s")] {
        let mut world = world();
        world.apply(&format!("rule evict driver=some-driver taint=k=v:None@0; {CLAIM} tolerate=k,Exists,NoExecute,{seconds}; {POD}"));
        world.run_until(20_000);
        world.apply("rule evict gen=2 driver=some-driver taint=k=v:NoExecute@20");
        world.run_until(100_000);
        let evicted = [
            format!("{at} evict my-pod"),
            "20s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.".to_owned(),
        ];
        let mut expected = vec![
            "0s status evict False NoEffect: 0 published devices selected. 1 allocated device selected. \
             1 pod would be evicted in 1 namespace if the effect was NoExecute."
                .to_owned(),
        ];
        expected.extend(if at == "20s" { evicted.to_vec() } else { evicted.iter().rev().cloned().collect() });
        expected.push(format!("{at} event my-pod Marking"));
        expected
            .push(format!("{at} status evict False Completed: 1 pod evicted since the rule was created."));
        assert_eq!(world.log, expected);
        // With the rule everything about it is forgotten.
        world.apply("rule- evict; pod- my-pod");
        assert_eq!(world.machine.sizes(), [0, 0, 0, 0]);
    }
    // A delete that takes three seconds: meanwhile the pod is pending.
    let mut world = world();
    world.apply(&format!("{RULE}; {CLAIM}; {POD}"));
    let evict = world.machine.poll_effect().unwrap();
    world.now = 3_000;
    world.work();
    assert_eq!(
        world.machine.pending().map(|plan| plan.phase).collect::<Vec<_>>(),
        [Phase::InFlight(evict.id)]
    );
    world.perform(evict);
    world.run_until(60_000);
    assert_eq!(
        world.log,
        [
            "3s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
            "3s evict my-pod 3000ms late",
            "3s event my-pod Marking",
            "3s status evict False Completed: 1 pod evicted since the rule was created.",
        ]
    );
}

#[test]
fn cancel_eviction_pod_deleted_slice_deleted() {
    for (gone, log) in [("pod- my-pod", &[][..]), ("slice- worker", &["10s event my-pod Cancelling"][..])] {
        let mut world = world();
        world.apply(&format!("{TAINTED}; {CLAIM} tolerate=k,Exists,NoExecute,60; {POD}"));
        world.run_until(10_000);
        world.apply(gone);
        world.run_until(1_000_000);
        assert_eq!(world.log, log);
        assert_eq!(world.machine.sizes(), [0, 0, 0, 0]);
    }
}

#[test]
fn parallel_pod_deletion() {
    let mut world = world();
    world.outcomes.insert("my-pod".into(), vec![Outcome::Gone]);
    world.apply(&format!("{RULE}; {TAINTED}; {CLAIM}; {POD}"));
    world.run_until(5_000);
    // Not tried again, not counted, not pending, no event.
    assert_eq!(
        world.log,
        [
            "0s evict my-pod Gone",
            "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
            "0s status evict False NotStarted: "
        ]
    );
    world.apply("pod- my-pod");
    world.run_until(100_000);
    assert_eq!(world.log.len(), 3);
}

#[test]
fn retry() {
    let mut world = world();
    world.outcomes.insert("my-pod".into(), vec![Outcome::RetryLater, Outcome::Conflict, Outcome::RetryLater]);
    world.apply(&format!("{TAINTED}; {CLAIM}; {POD}"));
    world.run_until(10_000);
    assert_eq!(
        world.log,
        [
            "0s evict my-pod RetryLater",
            "5ms evict my-pod 5ms late Conflict",
            "15ms evict my-pod 15ms late RetryLater",
            "35ms evict my-pod 35ms late",
            "35ms event my-pod Marking",
        ]
    );
}

/// As the benchmark of this name measures: the plan fills and empties within the call that says so.
#[test]
fn taint_untaint() {
    const PODS: usize = 20;
    let all = |taint: &str| (0..PODS).map(|at| format!(" d-{at}{taint}")).collect::<String>();
    let mut world = World::follower(Options::default());
    world.apply(&format!("slice worker{}", all("")));
    for at in 0..PODS {
        world.apply(&format!(
            "claim c-{at} device=d-{at} for=p-{at}:u-{at}; pod p-{at} uid=u-{at} claim=c-{at}"
        ));
    }
    for _ in 0..3 {
        world.apply(&format!("slice worker{}", all("{k=v:NoExecute@0}")));
        assert_eq!(world.machine.pending_len(), PODS);
        assert_eq!(world.plans(), world.recomputed());
        world.apply(&format!("slice worker{}", all("")));
        assert_eq!(world.machine.sizes(), [0, 0, 0, 0]);
    }
    for at in 0..PODS {
        world.apply(&format!("pod- p-{at}; claim- c-{at}"));
    }
    world.apply("slice- worker");
    assert_eq!((world.fleet.snapshot().pool_count(), world.fleet.claims().count()), (0, 0));
}

#[test]
fn unknown_outcomes_count_once() {
    for happened in [true, false] {
        let mut world = world();
        world.unknown_happens = happened;
        world.outcomes.insert("my-pod".into(), vec![Outcome::Unknown]);
        world.apply(&format!("{RULE}; {CLAIM}; {POD}"));
        world.run_until(60_000);
        assert_eq!(world.machine.tally("evict").unwrap().evicted, 1, "happened: {happened}");
        assert_eq!(world.evicted_at.len(), 1);
        world.apply("pod- my-pod");
        world.run_until(120_000);
        assert_eq!(world.machine.tally("evict").unwrap().evicted, 1);
        let last = world.log.last().unwrap();
        assert!(last.ends_with("False Completed: 1 pod evicted since the rule was created."), "{last}");
    }
    // Repeated acknowledgements and those of nothing at all change nothing.
    let mut world = world();
    world.apply(&format!("{RULE}; {CLAIM}; {POD}"));
    let evict = world.machine.poll_effect().unwrap();
    for outcome in [Outcome::Done, Outcome::Done, Outcome::Unknown, Outcome::RetryLater, Outcome::Gone] {
        world.hear(Input::Acknowledged { effect: evict.id, outcome });
    }
    assert_eq!(world.machine.tally("evict").unwrap().evicted, 1);
    assert_eq!(world.machine.pending_len(), 0);
}

#[test]
fn terminating_and_finished_pods_are_left_alone() {
    for how in ["terminating", "phase=Succeeded", "phase=Failed"] {
        let world = run(&[RULE, CLAIM, &format!("{POD} {how}")]);
        assert_eq!(world.log, ["0s status evict False NotStarted: "], "{how}");
    }
    // While waiting: no event either, and the status converges.
    for how in ["terminating", "phase=Succeeded"] {
        let mut world = world();
        world.apply(&format!("{RULE}; {CLAIM} tolerate=k,Exists,NoExecute,60; {POD}"));
        world.run_until(1_000);
        world.apply(&format!("{POD} {how}"));
        world.run_until(100_000);
        assert_eq!(world.log.len(), 2, "{how}: {:?}", world.log);
        assert_eq!(world.log[1], "1s status evict False NotStarted: ");
    }
}

#[test]
fn extended_resource_claims_evict_too() {
    let world = run(&[
        TAINTED,
        "claim ext device=instance extended owner=my-pod:1234 for=my-pod:1234",
        "pod my-pod uid=1234 extended=ext",
    ]);
    assert_eq!(world.log, EVICTED);
}

#[test]
fn tolerations_follow_the_documentation() {
    // An empty effect covers NoExecute; a huge number of seconds is for ever; a selector of nothing hits nobody.
    for toleration in [
        "k,Exists,-,-",
        "-,Exists,-,-",
        "k,Exists,NoExecute,9223372036854775807",
        "k=v,Equal,-,9300000000000000",
    ] {
        assert_eq!(run(&[TAINTED, &format!("{CLAIM} tolerate={toleration}"), POD]).log, Vec::<String>::new());
    }
    let nothing = run(&["rule evict nothing taint=k=v:NoExecute@0", CLAIM, POD]);
    assert_eq!(nothing.log, ["0s status evict False NotStarted: "]);
    // A taint that does not say when it was set counts from when it was seen.
    let mut world = world();
    world.now = 5_000;
    world.apply(&format!(
        "slice worker instance{{k=v:NoExecute}}; {CLAIM} tolerate=k,Exists,NoExecute,30; {POD}"
    ));
    world.run_until(100_000);
    assert_eq!(world.log, ["35s evict my-pod", "35s event my-pod Marking"]);
}

#[test]
fn an_allocation_that_differs_is_looked_at_again() {
    let mut world = world();
    world.apply(&format!(
        "slice worker instance{{k=v:NoExecute@0}} spare; {CLAIM} tolerate=k,Exists,NoExecute,60; {POD}"
    ));
    world.run_until(1_000);
    // Deallocated and allocated anew between two looks.
    world.apply("claim my-claim device=spare owner=my-pod:1234 for=my-pod:1234");
    world.run_until(1_000_000);
    assert_eq!(world.log, ["1s event my-pod Cancelling"]);
}

#[test]
fn a_rule_made_anew_under_the_same_name() {
    let mut world = world();
    world.apply(&format!("{RULE}; {CLAIM} tolerate=k,Exists,NoExecute,60; {POD}"));
    world.run_until(1_000);
    world.apply("rule evict uid=second driver=some-driver taint=k=v:NoExecute@10");
    world.run_until(200_000);
    let statuses: Vec<&String> = world.log.iter().filter(|line| line.contains("status")).collect();
    assert_eq!(
        statuses,
        [
            "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
            "1s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
            "70s status evict False Completed: 1 pod evicted since the rule was created.",
        ]
    );
    assert_eq!(world.machine.sizes(), [0, 0, 0, 1]);
}

#[test]
fn the_status_always_converges() {
    // Whatever makes the pending pod disappear, the condition becomes False.
    for gone in [
        "pod- my-pod",
        "claim- my-claim",
        "claim my-claim device=instance owner=my-pod:1234",
        "claim my-claim for=my-pod:1234",
    ] {
        let mut world = world();
        world.apply(&format!("{RULE}; {CLAIM} tolerate=k,Exists,NoExecute,600; {POD}"));
        world.run_until(1_000);
        world.apply(gone);
        world.run_until(20_000);
        assert_eq!(
            world.log.last().map(String::as_str),
            Some("1s status evict False NotStarted: "),
            "{gone}"
        );
    }
}

#[test]
fn a_failed_status_is_written_again() {
    let mut world = world();
    world.outcomes.insert(
        "evict".into(),
        vec![Outcome::RetryLater, Outcome::Unknown, Outcome::Conflict, Outcome::Gone],
    );
    world.apply(RULE);
    world.run_until(100_000);
    let at: Vec<&str> = world.log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(at, ["0s", "5ms", "15ms", "35ms", "75ms"]);
}

#[test]
fn the_preview_is_kept_current_but_not_written_all_the_time() {
    let mut world = world();
    world.apply(&format!("rule look driver=some-driver taint=k=v:None@0; {CLAIM}"));
    world.run_until(1_000);
    for i in 0..20 {
        world.apply(&format!("claim c-{i} device=d-{i} for=p-{i}:u-{i}; pod p-{i} uid=u-{i} claim=c-{i}"));
        world.run_until(1_000 + i * 100);
    }
    world.run_until(100_000);
    assert_eq!(
        world.log,
        [
            "0s status look False NoEffect: 0 published devices selected. 1 allocated device selected. \
             0 pods would be evicted in 0 different namespaces if the effect was NoExecute.",
            "10s status look False NoEffect: 0 published devices selected. 21 allocated devices selected. \
             20 pods would be evicted in 1 namespace if the effect was NoExecute.",
        ]
    );
}

#[test]
fn nobody_acts_without_the_lead() {
    let mut world = World::follower(Options::default());
    world.apply(&format!("{RULE}; {CLAIM}; {POD}"));
    assert_eq!(world.machine.poll_effect(), None);
    assert_eq!(world.machine.next_wake(), None);
    assert_eq!(world.machine.pending_len(), 1);
    world.hear(Input::BecameLeader);
    world.hear(Input::LostLeadership);
    assert_eq!(world.machine.poll_effect(), None);
    assert_eq!(world.machine.next_wake(), None);
    world.hear(Input::BecameLeader);
    world.run_until(1_000);
    assert_eq!(world.evicted_at, [(0, "my-pod".to_owned())]);
}

/// A machine that begins after the clock was set back by an hour: what was due stays due, what is tolerated has as long left as before, and
/// a taint that is meant for later still is.
#[test]
fn a_clock_that_was_set_back_makes_no_taint_younger() {
    let at = lazaret_model::Timestamp::from_secs;
    let set_back = lazaret_model::SetBack { from: at(10_000), to: at(6_400) };
    for (added, seconds, due) in
        [(9_990, 0, 6_400), (9_990, 30, 6_420), (6_300, 200, 6_500), (10_500, 0, 10_500)]
    {
        let mut world = World::follower(Options { set_back: Some(set_back), ..Options::default() });
        world.now = 6_400_000;
        world.apply(&format!(
            "slice worker instance{{k=v:NoExecute@{added}}}; {CLAIM} tolerate=k,Exists,NoExecute,{seconds}; {POD}"
        ));
        world.hear(Input::BecameLeader);
        world.run_until(20_000_000);
        assert!(world.log[0].starts_with(&format!("{due}s evict my-pod")), "{:?}", world.log);
    }
}
