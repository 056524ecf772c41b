//! How fast pods leave: the matrix that the enhancement's text asks for, and what else can happen to a pace.

use lazaret_eviction::{Input, Options, Outcome, PaceKey};
use proptest::prelude::*;

use crate::world::World;

/// This many pods, each with a device of its own in `pool`.
fn pods(world: &mut World, pool: &str, count: usize, more: &str) {
    for i in 0..count {
        let name = format!("{pool}-{i}");
        world.apply(&format!(
            "claim {name} device={pool}/dev-{i} for={name}:u-{name} {more}; pod {name} uid=u-{name} claim={name}"
        ));
    }
}

fn rule(name: &str, pool: &str, at: i64, rate: &str) -> String {
    let pool = if pool.is_empty() { String::new() } else { format!("pool={pool}") };
    format!("rule {name} driver=some-driver {pool} taint={name}=v:NoExecute@{at}{rate}")
}

/// When pods whose name begins so were evicted.
fn times(world: &World, prefix: &str) -> Vec<i64> {
    world.evicted_at.iter().filter(|(_, pod)| pod.starts_with(prefix)).map(|(at, _)| *at).collect()
}

/// `burst` at `start`, then one each `step`.
fn paced(count: usize, start: i64, burst: usize, step: i64) -> Vec<i64> {
    (0..count).map(|i| start + step * i64::try_from(i.saturating_sub(burst - 1)).unwrap()).collect()
}

/// A leader since long before anything is tainted.
fn world(options: Options) -> World {
    let mut world = World::new(options);
    world.now = 100_000;
    world
}

#[test]
fn one_set_of_pods_and_one_taint() {
    for (rate, step) in [("~1", 1_000), ("~5", 200), ("~100", 10)] {
        let mut world = world(Options::default());
        pods(&mut world, "a", 30, "");
        world.apply(&rule("slow", "", 100, rate));
        world.run_until(200_000);
        assert_eq!(times(&world, "a"), paced(30, 100_000, 10, step), "{rate}");
    }
}

#[test]
fn one_set_of_pods_and_several_taints_of_different_rates() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 60, "");
    for (name, rate) in [("slow", "~1"), ("fast", "~20"), ("middling", "~5")] {
        world.apply(&rule(name, "", 100, rate));
    }
    world.run_until(200_000);
    // The highest rate, not the sum.
    assert_eq!(times(&world, "a"), paced(60, 100_000, 10, 50));
}

#[test]
fn different_sets_of_pods_and_several_taints_of_different_rates() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 30, "");
    pods(&mut world, "b", 30, "");
    world.apply(&rule("slow", "a", 100, "~2"));
    world.apply(&rule("fast", "b", 100, "~10"));
    world.run_until(200_000);
    assert_eq!(times(&world, "a"), paced(30, 100_000, 10, 500));
    assert_eq!(times(&world, "b"), paced(30, 100_000, 10, 100));

    // A third set that both hit goes at the higher rate; what the slow one alone hits goes at its own.
    let mut world = self::world(Options::default());
    pods(&mut world, "both", 40, "");
    pods(&mut world, "alone", 12, "");
    world.apply(&rule("fast", "both", 100, "~10"));
    world.apply(&rule("slow", "", 100, "~1"));
    world.run_until(200_000);
    assert_eq!(times(&world, "both"), paced(40, 100_000, 10, 100));
    let alone = times(&world, "alone");
    assert_eq!(alone.len(), 12);
    // The slow rule's permits were used up by pods that the fast one let go: its own wait until those are gone.
    assert!(alone[0] >= 103_000 && alone.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{alone:?}");
}

#[test]
fn default_and_explicit_rates() {
    let with_default = Options { default_evictions_per_second: Some(10), ..Options::default() };
    for (options, rate, expected) in [
        (with_default.clone(), "", paced(25, 100_000, 10, 100)),
        (with_default, "~50", paced(25, 100_000, 10, 20)),
        // As in Kubernetes: what names no pace has none.
        (Options::default(), "", vec![100_000; 25]),
        (Options { burst: 3, ..Options::default() }, "~4", paced(25, 100_000, 3, 250)),
    ] {
        let mut world = world(options);
        pods(&mut world, "a", 25, "");
        world.apply(&rule("evict", "", 100, rate));
        world.run_until(200_000);
        assert_eq!(times(&world, "a"), expected);
    }
}

#[test]
fn rates_and_tolerations() {
    let mut world = world(Options::default());
    pods(&mut world, "now", 15, "");
    pods(&mut world, "soon", 15, "tolerate=evict,Exists,NoExecute,30");
    pods(&mut world, "never", 5, "tolerate=evict,Exists,NoExecute,-");
    world.apply(&rule("evict", "", 100, "~5"));
    world.run_until(200_000);
    assert_eq!(times(&world, "now"), paced(15, 100_000, 10, 200));
    // The bucket is full again when the others are due.
    assert_eq!(times(&world, "soon"), paced(15, 130_000, 10, 200));
    assert_eq!(times(&world, "never"), Vec::<i64>::new());
    // A cause that is not due yet does not lend its rate.
    let mut world = self::world(Options::default());
    pods(&mut world, "a", 15, "tolerate=later,Exists,NoExecute,3");
    world.apply(&rule("later", "", 100, "~1000"));
    world.apply(&rule("now", "", 100, "~1"));
    world.run_until(200_000);
    let mut expected = paced(13, 100_000, 10, 1_000);
    expected.extend([103_000, 103_000]);
    assert_eq!(times(&world, "a"), expected);
}

#[test]
fn without_a_pace_beats_any_pace() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 40, "");
    world.apply(&rule("slow", "", 100, "~1"));
    world.run_until(101_500);
    assert_eq!(times(&world, "a").len(), 11);
    world.apply(&rule("at-once", "", 101, ""));
    world.run_until(101_500);
    assert_eq!(times(&world, "a").len(), 40);
}

#[test]
fn a_changed_rate_counts_at_once() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 30, "");
    world.apply(&rule("evict", "", 100, "~1"));
    world.run_until(102_500);
    assert_eq!(times(&world, "a").len(), 12);
    world.apply(&rule("evict", "", 100, "~10"));
    world.run_until(103_000);
    // Half a permit had flowed in at the old rate; the rest comes at the new one.
    assert_eq!(times(&world, "a")[12..], [102_550, 102_650, 102_750, 102_850, 102_950]);
    // Zero stops, and going on does not start with a burst.
    world.apply(&rule("evict", "", 100, "~0"));
    world.run_until(150_000);
    assert_eq!(times(&world, "a").len(), 17);
    world.apply(&rule("evict", "", 100, "~1"));
    world.run_until(151_000);
    assert_eq!(times(&world, "a").len(), 18);
}

#[test]
fn a_mistaken_rule_can_be_taken_back_in_time() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 1_000, "");
    world.apply(&rule("mistake", "", 100, "~10"));
    world.run_until(105_000);
    world.apply("rule- mistake");
    world.run_until(300_000);
    assert_eq!(world.evicted_at.len(), 60);
    assert_eq!(world.machine.pending_len(), 0);
    assert_eq!(world.log.iter().filter(|line| line.contains("Cancelling")).count(), 940);
}

#[test]
fn taints_in_slices_have_a_pace_for_each_pool() {
    let mut world = world(Options::default());
    let devices = |pool: &str| {
        let devices: Vec<String> = (0..20).map(|i| format!("dev-{i}{{hot=yes:NoExecute@100~2}}")).collect();
        format!("slice {pool} {}", devices.join(" "))
    };
    for pool in ["a", "b"] {
        pods(&mut world, pool, 20, "");
        world.apply(&devices(pool));
    }
    world.run_until(200_000);
    for pool in ["a", "b"] {
        assert_eq!(times(&world, pool), paced(20, 100_000, 10, 500));
    }
}

/// A taint that stays as it is keeps its pace when its driver publishes the slice again.
#[test]
fn a_slice_that_is_published_again_brings_no_new_burst() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 20, "");
    let devices: Vec<String> = (0..20).map(|i| format!("dev-{i}{{hot=yes:NoExecute@100~2}}")).collect();
    world.apply(&format!("slice a {}", devices.join(" ")));
    world.run_until(101_000);
    assert_eq!(times(&world, "a").len(), 12);
    world.apply(&format!("slice a {} spare", devices.join(" ")));
    world.run_until(200_000);
    assert_eq!(times(&world, "a"), paced(20, 100_000, 10, 500));
}

#[test]
fn a_ceiling_over_all() {
    let mut world = world(Options { global_per_second: Some(4), ..Options::default() });
    for pool in ["a", "b", "c"] {
        pods(&mut world, pool, 10, "");
        world.apply(&rule(&format!("rule-{pool}"), pool, 100, "~100"));
    }
    world.run_until(200_000);
    assert_eq!(times(&world, ""), paced(30, 100_000, 10, 250));
}

#[test]
fn idle_paces_are_forgotten() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 12, "");
    world.apply(&rule("evict", "", 100, "~10"));
    world.run_until(100_300);
    assert_eq!(world.machine.sizes()[1..3], [0, 1]);
    world.now = 101_500;
    world.hear(Input::Tick);
    assert_eq!(world.machine.sizes()[1..3], [0, 0]);
}

#[test]
fn permits_of_failed_evictions_come_back() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 12, "");
    for i in 0..12 {
        world.outcomes.insert(format!("a-{i}"), vec![Outcome::RetryLater]);
    }
    world.apply(&rule("evict", "", 100, "~1"));
    world.run_until(103_000);
    let done = times(&world, "a");
    assert_eq!(done.len(), 12);
    assert_within(&done, 10, 1);
}

#[test]
fn a_new_leader_does_not_start_with_a_burst() {
    let mut first = world(Options::default());
    pods(&mut first, "a", 40, "");
    first.apply(&rule("evict", "", 100, "~2"));
    first.run_until(101_000);
    assert_eq!(first.evicted_at.len(), 12);
    // The second has seen it all, but not done it.
    let mut second = World::follower(Options::default());
    second.now = 101_000;
    first.objects.values().for_each(|input| second.feed(input.clone()));
    second.hear(Input::BecameLeader);
    second.run_until(104_000);
    let all: Vec<i64> = first.evicted_at.iter().chain(&second.evicted_at).map(|(at, _)| *at).collect();
    assert_eq!(all.len(), 18);
    assert_within(&all, 10, 2);
    // Nor does it for a rule that it hears of late.
    let mut third = World::follower(Options::default());
    third.now = 104_000;
    third.hear(Input::BecameLeader);
    second.objects.values().for_each(|input| third.feed(input.clone()));
    third.run_until(107_000);
    let all: Vec<i64> = all.into_iter().chain(third.evicted_at.iter().map(|(at, _)| *at)).collect();
    assert_eq!(all.len(), 24);
    assert_within(&all, 10, 2);
    // A taint that is set under its own lead has a burst again.
    third.now = 110_000;
    pods(&mut third, "b", 15, "");
    third.apply(&rule("other", "b", 110, "~1"));
    third.run_until(110_000);
    assert_eq!(times(&third, "b").len(), 10);
}

#[test]
fn a_clock_set_back_does_not_stop_it() {
    let mut world = world(Options::default());
    pods(&mut world, "a", 20, "");
    world.apply(&rule("evict", "", 50, "~1"));
    world.run_until(102_000);
    assert_eq!(world.evicted_at.len(), 12);
    world.now = 60_000;
    world.hear(Input::Tick);
    world.run_until(70_000);
    assert_eq!(world.evicted_at.len(), 20);
}

/// In any window at most the burst and what flows in.
fn assert_within(times: &[i64], burst: i64, rate: i64) {
    for (i, from) in times.iter().enumerate() {
        for (count, to) in (1..).zip(&times[i..]) {
            assert!(count * 1_000 <= burst * 1_000 + rate * (to - from), "{count} from {from} to {to}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Rule { name: usize, pool: usize, rate: Option<u32> },
    NoRule { name: usize },
    Pods { pool: usize, count: usize, seconds: Option<u32> },
    Fail { pool: usize, outcome: Outcome },
    Lead,
    Wait { ms: i64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![Just(Outcome::RetryLater), Just(Outcome::Conflict), Just(Outcome::Gone)];
    let step = prop_oneof![
        3 => (0..3_usize, 0..3_usize, proptest::option::of(1..20_u32)).prop_map(|(name, pool, rate)| Step::Rule { name, pool, rate }),
        1 => (0..3_usize).prop_map(|name| Step::NoRule { name }),
        4 => (0..3_usize, 1..25_usize, proptest::option::of(0..5_u32)).prop_map(|(pool, count, seconds)| Step::Pods { pool, count, seconds }),
        1 => (0..3_usize, outcome).prop_map(|(pool, outcome)| Step::Fail { pool, outcome }),
        1 => Just(Step::Lead),
        3 => (0..4_000_i64).prop_map(|ms| Step::Wait { ms }),
    ];
    proptest::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Whatever happens, also a new leadership: each pace keeps to its burst and the highest rate it ever had; all that
    /// remains pending tolerates or is paused; and the plans are what a fresh machine would make.
    #[test]
    fn no_pace_is_ever_exceeded(steps in steps()) {
        let mut world = world(Options::default());
        let mut made = 0;
        let mut top = [0_u32; 3];
        for step in steps {
            match step {
                Step::Rule { name, pool, rate } => {
                    let rate_text = rate.map_or(String::new(), |rate| format!("~{rate}"));
                    top[name] = top[name].max(rate.unwrap_or(0));
                    let at = world.now / 1_000;
                    world.apply(&rule(&format!("rule-{name}"), &format!("p{pool}"), at, &rate_text));
                }
                Step::NoRule { name } => world.apply(&format!("rule- rule-{name}")),
                Step::Pods { pool, count, seconds } => for _ in 0..count {
                    made += 1;
                    let tolerate = seconds.map_or(String::new(), |s| format!("tolerate=-,Exists,NoExecute,{s}"));
                    world.apply(&format!(
                        "claim c-{made} device=p{pool}/dev-{made} for=p{pool}-{made}:u-{made} {tolerate}; \
                         pod p{pool}-{made} uid=u-{made} claim=c-{made}"
                    ));
                },
                Step::Fail { pool, outcome } => { world.outcomes.insert(format!("p{pool}-{made}"), vec![outcome]); }
                Step::Lead => { world.hear(Input::LostLeadership); world.hear(Input::BecameLeader); }
                Step::Wait { ms } => world.run_until(world.now + ms),
            }
            world.work();
            let mut fresh = world.recomputed();
            // A pod that was found gone is known to be leaving by the one machine alone.
            if !world.log.iter().any(|line| line.ends_with("Gone")) {
                prop_assert_eq!(world.plans(), std::mem::take(&mut fresh));
            }
        }
        for (name, rate) in (0..).zip(top) {
            let key = PaceKey::Rule(format!("uid-rule-{name}").as_str().into());
            let granted: Vec<i64> = world.granted.iter().filter(|(_, by)| by.as_ref() == Some(&key)).map(|(at, _)| *at).collect();
            assert_within(&granted, 10, i64::from(rate));
        }
        world.run_until(world.now + 1_000_000);
        prop_assert_eq!(world.machine.pending_len(), 0);
    }
}
