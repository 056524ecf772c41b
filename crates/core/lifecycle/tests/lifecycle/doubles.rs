//! Two open incidents of one device: one is closed, and what its policies demanded is done in the other.

use lazaret_lifecycle::{
    Demand, Incident, Input, Limit, Mode, Policy, Presence, Selected, Signal, Source, Stage, Step, Target,
};

use crate::world::{MINUTE, World, at, device, policy, rule};

fn named(name: &str, rules: &[(&str, Target)]) -> Policy {
    let rules =
        rules.iter().map(|(key, target)| rule(key, &format!("signal.key == '{key}'"), *target)).collect();
    let step = Step { name: format!("step of {name}").into(), timeout_ms: 10 * MINUTE, is_request: false };
    Policy { name: name.into(), rules, steps: vec![step], ..policy() }
}

/// Two devices that policies a, b and c select: gpu-7 is published with the identity of gpu-0.
fn twins() -> World {
    let mut world = World::empty(0);
    let (mild, fatal) = (Target::Quarantined, Target::Drained);
    for name in ["a", "b", "c"] {
        let rules = [(format!("mild-{name}"), mild), (format!("fatal-{name}"), fatal)];
        let rules: Vec<(&str, Target)> = rules.iter().map(|(key, target)| (&**key, *target)).collect();
        world.hear(Input::Policy(Box::new(named(name, &rules))));
    }
    for name in ["gpu-0", "gpu-7"] {
        let policies = ["a", "b", "c"].map(Into::into).into();
        world.hear(Input::Device { id: device(name), hardware: Some("uuid-0".into()), policies });
        world.presence(name, Presence::Published);
    }
    world
}

fn signal(world: &mut World, name: &str, key: &str) {
    let signal = Signal {
        device: device(name),
        key: key.into(),
        value: "".into(),
        source: Source::Taint,
        at: at(world.now),
        lasts: false,
        message: "".into(),
    };
    world.hear(Input::Raised(signal));
}

/// The incident that is left when the name gpu-0 goes.
fn left(world: &mut World) -> Incident {
    world.presence("gpu-0", Presence::Unpublished);
    let open: Vec<Incident> = world.machine.incidents().cloned().collect();
    let [left] = &open[..] else { panic!("{open:?}") };
    assert_eq!(left.device, device("gpu-7"));
    left.clone()
}

fn demands(incident: &Incident) -> Vec<&str> {
    let open = incident.demands.iter().filter(|demand: &&Demand| !demand.is_met);
    open.map(|demand| &*demand.policy).collect()
}

#[test]
fn the_demands_of_both_are_demands_of_the_one_that_is_left() {
    let mut world = twins();
    for key in ["fatal-a", "fatal-b"] {
        signal(&mut world, "gpu-0", key);
    }
    signal(&mut world, "gpu-7", "fatal-c");
    let left = left(&mut world);
    let mut all = demands(&left);
    all.push(&*left.policy);
    all.sort_unstable();
    assert_eq!((all, left.stage), (vec!["a", "b", "c"], Stage::Draining));
    assert!(left.waits_for.contains("DeviceHealthPolicy"), "{}", left.waits_for);
}

#[test]
fn the_next_leader_that_finds_two_merges_them_as_well() {
    let mut world = twins();
    signal(&mut world, "gpu-0", "fatal-a");
    signal(&mut world, "gpu-7", "fatal-c");
    let mut found: Vec<Incident> = world.machine.incidents().cloned().collect();
    found[0].device = device("gpu-7");
    for order in [[0, 1], [1, 0]] {
        let mut next = twins();
        next.hear(Input::Begin);
        order.into_iter().for_each(|one| next.hear(Input::Found(Box::new(found[one].clone()))));
        let open: Vec<&Incident> = next.machine.incidents().collect();
        assert_eq!(open.len(), 1);
        let mut all = demands(open[0]);
        all.push(&*open[0].policy);
        all.sort_unstable();
        assert_eq!(all, ["a", "c"], "{order:?}");
    }
}

#[test]
fn the_one_that_is_left_goes_as_far_as_the_worse_verdict_wants() {
    let mut world = twins();
    signal(&mut world, "gpu-0", "mild-a");
    world.pass(1);
    signal(&mut world, "gpu-7", "fatal-c");
    let left = left(&mut world);
    assert_eq!((&*left.policy, left.stage), ("c", Stage::Draining));
    assert_eq!(world.taints_of("gpu-7"), ["NoSchedule"]);
}

/// Of the policy that governs both only one is repaired.
#[test]
fn what_was_not_repaired_under_one_name_is_repaired_under_the_other() {
    let mut world = twins();
    world.hear(Input::InUse {
        device: device("gpu-0"),
        is_used: false,
        namespaces: Vec::new(),
        stays: "".into(),
    });
    signal(&mut world, "gpu-0", "fatal-a");
    let number = world.number();
    world.hear(Input::Idle { incident: number });
    world.repaired(0, 0, Ok(()));
    assert_eq!(world.stage(), Some(Stage::Probation));
    signal(&mut world, "gpu-7", "fatal-a");
    let left = left(&mut world);
    assert_eq!((&*left.policy, left.stage), ("a", Stage::Draining));
}

#[test]
fn a_guard_that_held_what_is_closed_holds_what_is_left() {
    let mut world = twins();
    let limit = |permitted| Limit {
        guard: "g".into(),
        selects: Selected::All,
        counts: "devices",
        window_seconds: 0,
        permitted: Some(permitted),
        total: 2,
        out: [].into(),
        unnamed: 0,
        stops: None,
    };
    world.hear(Input::Limits(vec![limit(0)]));
    signal(&mut world, "gpu-0", "mild-a");
    signal(&mut world, "gpu-7", "fatal-c");
    let one = left(&mut world);
    let held = one.held.unwrap();
    assert_eq!((one.stage, &*held.policy, held.stage), (Stage::Suspect, "c", Stage::Draining));
    world.hear(Input::Limits(vec![limit(1)]));
    assert_eq!(world.stage(), Some(Stage::Draining));
}

#[test]
fn a_policy_that_only_observes_or_is_gone_demands_nothing_of_the_one_that_is_left() {
    for ends in [true, false] {
        let mut world = twins();
        signal(&mut world, "gpu-0", "fatal-a");
        signal(&mut world, "gpu-7", "fatal-c");
        if ends {
            world.hear(Input::PolicyGone("c".into()));
        } else {
            let observes = Policy { mode: Mode::Observe, ..named("c", &[("fatal-c", Target::Drained)]) };
            world.hear(Input::Policy(Box::new(observes)));
        }
        let left = left(&mut world);
        assert_eq!((&*left.policy, demands(&left)), ("a", vec![]), "{ends}");
    }
}
