//! Pods that leave only once there is room for their replacements, where a rule says `capacity: Wait`.

use lazaret_eviction::{Block, Options};

use crate::world::World;

/// Two nodes with two devices each; the pods use those of the first.
const FULL: &str = r#"
    class gpu cel=device.driver=="some-driver"
    node worker; node other zone=b
    slice worker d0 d1
    claim c0 class=gpu device=d0 for=p0:uid-p0; claim c1 class=gpu device=d1 for=p1:uid-p1
    pod p0 claim=c0 of=web:uid-web; pod p1 claim=c1 of=web:uid-web
"#;
const RULE: &str = "rule r pool=worker taint=k=v:NoExecute@0 roomy";

fn world(more: &str) -> World {
    let mut world = World::new(Options::default());
    world.apply(FULL);
    world.apply(more);
    world
}

fn gone(world: &World) -> Vec<String> {
    world.evicted_at.iter().map(|(at, pod)| format!("{at} {pod}")).collect()
}

fn kept(world: &World) -> u64 {
    world.machine.blocked()[Block::Capacity as usize]
}

fn rooms(world: &World) -> Vec<&str> {
    world.log.iter().filter(|line| line.split(' ').nth(1) == Some("room")).map(String::as_str).collect()
}

#[test]
fn nobody_leaves_before_there_is_room_and_the_status_says_so() {
    let mut world = world(RULE);
    world.run_until(15_000);
    assert_eq!((gone(&world), kept(&world)), (Vec::new(), 2));
    let said = world.log.iter().rfind(|line| line.contains(" blocked ")).unwrap();
    assert_eq!(
        said,
        "10s blocked r True Capacity: Capacity: 2 pods not evicted (default/p0, default/p1): no room for the replacement of pod default/p0: 1 node: every device of the node is in use; 1 node: request req-0 wants 1, 0 of 2 devices suitable (1 in use, 1 about to be used)."
    );
    let event = world.log.iter().find(|line| line.contains(" event r: Capacity: ")).unwrap();
    assert!(event.contains("no room for the replacement of pod default/p0: "), "{event}");
    world.apply("slice other on=other e0 e1");
    world.run_until(60_000);
    assert_eq!(world.evicted_at.len(), 2, "{:?}", world.log);
    assert!(world.evicted_at.iter().all(|(at, _)| *at <= 16_100), "{:?}", gone(&world));
    assert_eq!(kept(&world), 0);
    let event = world.log.iter().rfind(|line| line.contains(" blocked ")).unwrap();
    assert!(event.contains("blocked r False NotBlocked"), "{event}");
}

#[test]
fn room_is_promised_once() {
    let mut world = world(RULE);
    world.apply("slice other on=other e0");
    world.run_until(60_000);
    assert_eq!((world.evicted_at.len(), kept(&world)), (1, 1), "{:?}", world.log);
    assert_eq!(rooms(&world), ["0s room p0 other some-driver/other/e0"]);
    // Its replacement has it: the promise is kept, and there is still no room for the other.
    world.apply("pod- p0; claim- c0; claim c2 class=gpu device=other/e0 for=p2:uid-p2; pod p2 claim=c2 node=other of=web:uid-web");
    world.run_until(100_000);
    assert_eq!((world.evicted_at.len(), kept(&world), world.capacity.promised()), (1, 1, 0));
    world.apply("slice other on=other e0 e1");
    world.run_until(120_000);
    assert_eq!(world.evicted_at.len(), 2, "{:?}", world.log);
    assert_eq!(
        rooms(&world).last().unwrap().split(' ').skip(2).collect::<Vec<_>>(),
        ["p1", "other", "some-driver/other/e1"]
    );
}

/// A replacement that nobody makes does not keep room for ever.
#[test]
fn a_promise_that_nobody_uses_ends() {
    let mut world = world(RULE);
    world.apply("slice other on=other e0");
    world.run_until(10_000);
    world.apply("pod- p0; claim- c0");
    world.run_until(60_000);
    assert_eq!(world.evicted_at.len(), 1, "{:?}", gone(&world));
    world.run_until(140_000);
    assert_eq!(world.evicted_at.len(), 2, "{:?}", gone(&world));
}

#[test]
fn after_the_timeout_a_pod_leaves_all_the_same() {
    let mut world = world(&format!("{RULE} timeout=20"));
    world.run_until(60_000);
    assert_eq!(gone(&world), ["20000 p0", "20000 p1"]);
    assert_eq!(kept(&world), 0);
}

#[test]
fn the_deadline_of_evict_then_delete_ends_the_wait() {
    let mut world = world(&format!("{RULE} mode=EvictThenDelete deadline=7"));
    world.run_until(60_000);
    assert_eq!(gone(&world), ["7000 p0", "7000 p1"]);
    // Budgets are asked before anything is deleted past them, and none refuses.
    assert!(world.log.iter().any(|line| line.contains("evict by API p0")), "{:?}", world.log);
}

#[test]
fn a_node_that_is_tainted_or_not_selected_has_no_room() {
    let mut world = world("node other zone=b taint=gone=:NoSchedule; slice other on=other e0 e1");
    world.apply(RULE);
    world.run_until(5_000);
    assert_eq!((gone(&world), kept(&world)), (Vec::new(), 2));
    let said = world.log.iter().rfind(|line| line.contains(" blocked ")).unwrap();
    assert!(said.contains("1 node is tainted or not selected"), "{said}");
    world.apply("pod p0 claim=c0 of=web:uid-web select=zone=a; node other zone=b");
    world.run_until(60_000);
    assert_eq!((gone(&world).len(), kept(&world)), (1, 1));
    assert!(gone(&world)[0].ends_with(" p1"), "{:?}", gone(&world));
}

/// One of its two devices is tainted; it could have the other again.
#[test]
fn what_a_pod_gives_back_is_room_but_not_what_it_has_to_leave() {
    let mut world = World::new(Options::default());
    world.apply(
        r#"
        class gpu cel=device.driver=="some-driver"
        node worker; slice worker d0 d1 d2
        claim c0 class=gpu class=gpu device=d0 device=d1 for=p0:uid-p0 tolerate=k,Exists,NoExecute,5; pod p0 claim=c0
        rule r device=d0 taint=k=v:NoExecute@0 roomy
    "#,
    );
    world.run_until(60_000);
    assert_eq!(gone(&world), ["5000 p0"]);
    assert_eq!(rooms(&world), ["5s room p0 worker some-driver/worker/d1 some-driver/worker/d2"]);
}

#[test]
fn pods_that_wait_to_be_placed_take_their_room_before() {
    let mut world =
        world("claim c9 class=gpu; pod p9 claim=c9 node=- phase=Pending; slice other on=other e0");
    world.apply(RULE);
    world.run_until(60_000);
    assert_eq!((gone(&world), kept(&world)), (Vec::new(), 2));
    world.apply("pod- p9; claim- c9");
    world.run_until(63_000);
    assert_eq!(gone(&world).len(), 1);
}

#[test]
fn a_group_leaves_when_there_is_room_for_all_of_it() {
    let mut world = world("pod p0 claim=c0 with=gang; pod p1 claim=c1 with=gang; slice other on=other e0");
    world.apply(&format!("{RULE} together"));
    world.run_until(60_000);
    assert_eq!((gone(&world), kept(&world)), (Vec::new(), 2));
    world.apply("slice other on=other e0 e1");
    world.run_until(63_000);
    assert_eq!(world.evicted_at.len(), 2);
    assert_eq!(world.evicted_at[0].0, world.evicted_at[1].0, "in one go");
}

/// A taint that wants no room lets the pod go.
#[test]
fn another_taint_makes_a_pod_leave_without_room() {
    let mut world = world(&format!("{RULE}; rule s device=d1 taint=k2=v:NoExecute@0"));
    world.run_until(60_000);
    assert_eq!(gone(&world), ["0 p1"]);
}

#[test]
fn it_is_asked_once_a_second_at_most_however_often_something_changes() {
    let mut world = world(RULE);
    world.run_until(1_000);
    let before = world.questions;
    for step in 0..1_000 {
        world.now += 10;
        world.apply(&format!("node third n={step}"));
        world.work();
    }
    // Ten seconds, two pods.
    let asked = world.questions - before;
    assert!((10..=22).contains(&asked), "{asked} questions in ten seconds of changes");
    let before = world.questions;
    world.run_until(world.now + 120_000);
    let asked = world.questions - before;
    assert!(asked <= 12, "{asked} questions in two minutes without changes");
}

#[test]
fn a_new_leader_asks_again() {
    let mut world = world(RULE);
    world.run_until(5_000);
    world.hear(lazaret_eviction::Input::LostLeadership);
    assert_eq!(kept(&world), 0);
    world.apply("slice other on=other e0 e1");
    world.hear(lazaret_eviction::Input::BecameLeader);
    world.run_until(20_000);
    assert_eq!(world.evicted_at.len(), 2);
}
