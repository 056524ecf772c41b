//! Claims: resolved, shared, released, waited for.

use std::sync::Arc;

use lazaret_fleet as fleet;
use lazaret_model::*;
use lazaret_scheduler::{Claim, DeviceStatus, EffectKind, Input, Node, Options, Outcome, Reply};

use crate::world::{DRIVER, World, claim, node, pod, slice};

fn templated(name: &str, resolved: Option<Option<&str>>) -> lazaret_scheduler::Pod {
    let source =
        ClaimSource::Template { template: "t".into(), resolved: resolved.map(|name| name.map(Text::from)) };
    lazaret_scheduler::Pod { claims: vec![PodClaim { name: "e".into(), source }], ..pod(name, 100, &[]) }
}

#[test]
fn claims_that_are_not_as_they_must_be() {
    let owned = |owner: &str| {
        let owner = Owner { kind: "Pod".into(), name: "p".into(), uid: owner.into(), ..Owner::default() };
        ResourceClaim { owner: Some(owner), ..claim("c", 1) }
    };
    let of_class = |class: &str| {
        let mut claim = claim("c", 1);
        if let RequestKind::Exactly(request) = &mut Arc::make_mut(&mut claim.spec).requests[0].kind {
            request.class = class.into();
        }
        claim
    };
    for (pod, claims, expected) in [
        (pod("p", 100, &["c"]), vec![], "resourceclaim \"c\" not found"),
        (templated("p", Some(None)), vec![], ""),
        (templated("p", Some(Some("c"))), vec![owned("uid-p")], ""),
        (
            templated("p", Some(Some("c"))),
            vec![owned("other")],
            "resourceclaim \"c\" was not created for this pod",
        ),
        (
            pod("p", 100, &["c"]),
            vec![ResourceClaim { deleting: true, ..claim("c", 1) }],
            "resourceclaim \"c\" is being deleted",
        ),
        (
            pod("p", 100, &["c"]),
            vec![of_class("fpga")],
            "resourceclaim \"c\" asks for the device class \"fpga\", which does not exist",
        ),
    ] {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 1);
        claims.into_iter().for_each(|claim| world.add_claim(claim));
        world.add_pod(pod);
        world.settle();
        assert_eq!(world.message_of("p"), expected);
        assert_eq!(world.node_of("p").is_some(), expected.is_empty(), "{expected}");
    }
}

#[test]
fn a_claim_that_is_about_to_be_made_is_waited_for_in_silence() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 1);
    world.add_pod(templated("p", None));
    world.settle();
    assert_eq!(world.log, []);
    world.pass(3_000);
    assert_eq!(
        world.message_of("p"),
        "waiting for the claim of pod entry \"e\" to be made from its template",
        "it lasts too long"
    );

    let owner = Owner { kind: "Pod".into(), name: "p".into(), uid: "uid-p".into(), ..Owner::default() };
    world.add_claim(ResourceClaim { owner: Some(owner), ..claim("c", 1) });
    let mut seen = templated("p", Some(Some("c")));
    seen.unscheduled = world.pods[&seen.key].unscheduled.clone();
    world.add_pod(seen);
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn while_claims_of_others_are_being_made_a_late_one_is_waited_for_in_silence() {
    let late = "waiting for the claim of pod entry \"e\" to be made from its template";
    // Claims are made every 2 s until then, or pods come that have one.
    let cases = [(0, 3_000), (8_000, 12_000), (100_000, 30_000)];
    for ((last, told_at), made) in cases.into_iter().flat_map(|case| [(case, true), (case, false)]) {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 1);
        world.add_claim(claim("c", 1));
        world.add_pod(templated("p", None));
        world.settle();
        let mut elapsed = 0;
        while world.message_of("p").is_empty() {
            if elapsed > 0 && elapsed <= last && elapsed % 2_000 == 0 {
                if made {
                    world.add_claim(claim(&format!("c-{elapsed}"), 1));
                } else {
                    world.add_pod(pod(&format!("q-{elapsed}"), 100, &["c"]));
                }
            }
            assert!(elapsed <= told_at, "claims until {last}: not told after {elapsed} ms");
            world.pass(500);
            elapsed += 500;
        }
        assert_eq!((world.message_of("p").as_str(), elapsed), (late, told_at), "claims until {last}");
    }
}

#[test]
fn pods_share_a_claim_wherever_it_is_and_are_reserved_together() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.node("b", 4_000, 1);
    world.add_claim(claim("c", 1));
    for name in ["p", "q", "r"] {
        world.add_pod(pod(name, 100, &["c"]));
    }
    let first = world.scheduler.poll_effect().unwrap();
    assert!(world.scheduler.poll_effect().is_none(), "the others are decided on, and wait for the claim");
    assert_eq!(world.scheduler.sizes().in_flight, 3);
    world.perform(first);
    world.settle();
    let nodes: Vec<_> = ["p", "q", "r"].iter().map(|name| world.node_of(name).unwrap()).collect();
    assert!(nodes.iter().all(|node| *node == nodes[0]), "{nodes:?}");
    let writes = world.log.iter().filter(|kind| matches!(kind, EffectKind::ReserveClaim(_))).count();
    assert_eq!(writes, 2, "the first alone, the others together");
    assert_eq!(world.claims.values().next().unwrap().claim.reserved_for.len(), 3);
}

#[test]
fn no_more_than_256_pods_use_a_claim() {
    let mut world = World::new(Options::default());
    let roomy = Node { pods_max: 1_000, ..node("a", 1_000_000) };
    world.tell(Input::Node(Arc::new(roomy)));
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice("a", 1)))));
    world.add_claim(claim("c", 1));
    for at in 0..257 {
        world.add_pod(pod(&format!("p{at:03}"), 1, &["c"]));
    }
    world.settle();
    let waiting: Vec<_> = world.pods.values().filter(|pod| pod.node.is_none()).collect();
    assert_eq!(waiting.len(), 1);
    let name = waiting[0].key.name.to_string();
    assert_eq!(world.message_of(&name), "resourceclaim \"c\" is used by 256 pods, no more may use it");
    world.remove_pod("p000");
    world.pass(1_000);
    assert!(world.node_of(&name).is_some(), "one has left");
}

fn rule(name: &str, device: &str, effect: Effect) -> Input {
    let selector = DeviceSelector {
        driver: Some(DRIVER.into()),
        device: Some(device.into()),
        ..DeviceSelector::default()
    };
    let taint = Taint { key: "sick".into(), effect, ..Taint::default() };
    let rule = DeviceTaintRule {
        name: name.into(),
        uid: name.into(),
        selector: Some(selector),
        taint,
        ..DeviceTaintRule::default()
    };
    Input::Fleet(fleet::Input::Rule(Arc::new(rule)))
}

#[test]
fn tainted_devices_are_given_to_nobody_until_the_rule_is_gone() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.tell(rule("drain", "gpu-0", Effect::NoSchedule));
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(
        world.message_of("p"),
        "0/1 nodes are available: 1 cannot allocate all claims. Devices of 1 node(s): request r wants 1, 0 of 1 \
         devices suitable (1 tainted sick:NoSchedule by rule drain). preemption: 0/1 nodes are available: 1 No \
         preemption victims found for incoming pod."
    );
    world.tell(Input::Fleet(fleet::Input::RuleGone("drain".into())));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn a_shared_claim_on_a_device_that_makes_pods_leave_is_reserved_for_nobody_else() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    world.tell(rule("sick", "gpu-0", Effect::NoExecute));
    world.add_pod(pod("q", 100, &["c"]));
    world.settle();
    let told = "resourceclaim \"c\" holds gpu.example.com/a/gpu-0, which has the untolerated taint sick:NoExecute \
                from rule sick";
    assert_eq!(world.message_of("q"), told);
    world.tell(Input::Fleet(fleet::Input::RuleGone("sick".into())));
    world.settle();
    assert_eq!(world.node_of("q").as_deref(), Some("a"));
}

#[test]
fn devices_with_which_a_pod_can_go_nowhere_are_given_back() {
    for (why, taint) in [("the node is full", false), ("the device makes pods leave", true)] {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 1);
        world.add_claim(claim("c", 1));
        world.add_pod(pod("p", 100, &["c"]));
        world.settle();
        // The pod leaves, the claim stays allocated.
        let key = ObjectKey::new("ns", "p");
        world.pods.remove(&key);
        world.tell(Input::PodGone(key));
        let kept = world.claims.values_mut().next().unwrap();
        Arc::make_mut(&mut kept.claim).reserved_for.clear();
        kept.version += 1_000;
        world.version += 2_000;
        let kept = Input::Claim(Arc::new(kept.clone()));
        world.tell(kept);
        if taint {
            world.tell(rule("sick", "gpu-0", Effect::NoExecute));
            world.node("b", 1_000, 0);
            world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(ResourceSlice {
                devices: vec![Device { name: "gpu-1".into(), ..Device::default() }],
                ..slice("b", 1)
            }))));
        } else {
            world.add_pod(lazaret_scheduler::Pod { node: Some("a".into()), ..pod("q", 1_000, &[]) });
            world.node("b", 1_000, 1);
        }
        world.add_pod(pod("r", 100, &["c"]));
        world.settle();
        world.pass(1_000);
        assert_eq!(world.node_of("r").as_deref(), Some("b"), "{why}: {}", world.message_of("r"));
        let given_back =
            |kind: &EffectKind| matches!(kind, EffectKind::ReleaseClaim(release) if release.deallocate);
        assert_eq!(world.log.iter().filter(|kind| given_back(kind)).count(), 1, "{why}");
    }
}

pub(crate) fn conditional(world: &mut World, node: &str) {
    let mut slice = slice(node, 1);
    slice.devices[0].binding_conditions = Some(vec!["Ready".into()]);
    slice.devices[0].binding_failure_conditions = Some(vec!["Broken".into()]);
    world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice))));
}

pub(crate) fn device_says(world: &mut World, condition: &str) {
    world.version += 1;
    let claim = world.claims.values_mut().next().unwrap();
    claim.version = world.version;
    claim.devices =
        vec![DeviceStatus { device: DeviceId::new(DRIVER, "a", "gpu-0"), is_true: vec![condition.into()] }];
    let seen = Input::Claim(Arc::new(Claim::clone(claim)));
    world.tell(seen);
}

#[test]
fn devices_are_waited_for_before_the_pod_is_bound() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 0);
    conditional(&mut world, "a");
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!((world.node_of("p"), world.scheduler.sizes().in_flight), (None, 1));
    world.pass(5_000);
    device_says(&mut world, "Ready");
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn devices_that_do_not_get_ready_are_given_back() {
    for (condition, after_ms) in [(Some("Broken"), 10), (None, 600_000)] {
        let mut world = World::new(Options::default());
        world.node("a", 1_000, 0);
        conditional(&mut world, "a");
        world.add_claim(claim("c", 1));
        world.add_pod(pod("p", 100, &["c"]));
        world.settle();
        if let Some(condition) = condition {
            device_says(&mut world, condition);
        }
        world.pass(after_ms);
        assert!(world.message_of("p").starts_with("resourceclaim \"c\": "), "{}", world.message_of("p"));
        world.pass(1_000);
        let given_back =
            |kind: &EffectKind| matches!(kind, EffectKind::ReleaseClaim(release) if release.deallocate);
        assert!(world.log.iter().any(given_back), "{condition:?}");
    }
}

#[test]
fn a_claim_that_somebody_else_changed_is_written_as_it_is_now() {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    let effect = world.scheduler.poll_effect().unwrap();
    // Another client adds the finalizer in between.
    world.version += 1;
    let changed = world.claims.values_mut().next().unwrap();
    (changed.version, changed.has_finalizer) = (world.version, true);
    let news = Input::Claim(Arc::new(changed.clone()));
    world.perform(effect);
    assert_eq!(world.node_of("p"), None, "refused");
    world.tell(news);
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    assert_eq!(world.scheduler.sizes().claims_in_flight, 0);
}

#[test]
fn a_node_with_the_better_alternative_is_taken() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.node("b", 2_000, 2);
    let alternative = |name: &str, count| DeviceRequest {
        name: name.into(),
        class: "gpu".into(),
        mode: AllocationMode::Exact(count),
        ..DeviceRequest::default()
    };
    let kind = RequestKind::FirstAvailable(vec![alternative("two", 2), alternative("one", 1)]);
    let spec = ClaimSpec {
        requests: vec![lazaret_model::Request { name: "r".into(), kind }],
        ..ClaimSpec::default()
    };
    world.add_claim(ResourceClaim { spec: Arc::new(spec), ..claim("c", 1) });
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    assert_eq!(world.node_of("p").as_deref(), Some("b"), "although a has more room");
}

#[test]
fn devices_for_monitoring_are_free_for_all() {
    let mut world = World::new(Options::default());
    world.node("a", 4_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    let mut watching = claim("w", 1);
    if let RequestKind::Exactly(request) = &mut Arc::make_mut(&mut watching.spec).requests[0].kind {
        request.admin_access = Some(true);
    }
    world.add_claim(watching);
    world.add_pod(pod("q", 100, &["w"]));
    world.settle();
    assert_eq!(world.node_of("q").as_deref(), Some("a"), "{}", world.message_of("q"));
}

/// A node that prepares every device cannot run a pod whose device must not be prepared, be the claim allocated for
/// another pod, for a group, or to be released.
#[test]
fn devices_that_are_not_prepared_are_used_only_on_nodes_that_can_do_without() {
    let skipping = || {
        let mut features = lazaret_allocator::Features::kubernetes_1_37();
        features.optional_node_operations = true;
        let mut world = World::new(Options { features, ..Options::default() });
        let able = node("able", 10_000);
        let facts = lazaret_model::Node {
            declared_features: vec!["DRAOptionalNodeOperations".into()],
            ..lazaret_model::Node::clone(&able.facts)
        };
        world.tell(Input::Node(Arc::new(Node { facts: Arc::new(facts), ..able })));
        world.node("other", 20_000, 0);
        let everywhere = ResourceSlice {
            nodes: NodeScope::All,
            skip_node_operations: vec!["*".into()],
            ..slice("shared", 1)
        };
        world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(everywhere))));
        world.add_claim(claim("c", 1));
        world
    };
    let on = |name: &str, node: &str, group: Option<&str>| {
        let mut pod = pod(name, 100, &["c"]);
        pod.group = group.map(Text::from);
        Arc::make_mut(&mut pod.spec).node_selector = [("kubernetes.io/hostname".into(), node.into())].into();
        pod
    };
    for group in [None, Some("g")] {
        let mut world = skipping();
        let entry = PodClaim { name: "c".into(), source: ClaimSource::Claim("c".into()) };
        let groups = PodGroup {
            key: ObjectKey::new("ns", "g"),
            uid: "uid-g".into(),
            claims: vec![entry],
            ..PodGroup::default()
        };
        world.tell(Input::Group(Arc::new(groups)));
        world.add_pod(on("p", "able", group));
        world.settle();
        assert_eq!(world.node_of("p").as_deref(), Some("able"));
        world.add_pod(lazaret_scheduler::Pod { group: group.map(Text::from), ..pod("q", 100, &["c"]) });
        world.add_pod(on("r", "other", group));
        world.settle();
        world.pass(20_000);
        assert_eq!(world.node_of("q").as_deref(), Some("able"), "although the other has more room");
        assert_eq!(world.node_of("r"), None, "{group:?}");
        assert!(
            world.message_of("r").contains("1 resourceclaim not available on the node"),
            "{}",
            world.message_of("r")
        );
    }
}

#[test]
fn devices_may_take_as_long_as_the_binding_timeout_says() {
    for timeout_s in [1, 7, 3_600] {
        let mut world = World::new(Options { binding_timeout_s: timeout_s, ..Options::default() });
        world.node("a", 1_000, 0);
        conditional(&mut world, "a");
        world.add_claim(claim("c", 1));
        world.add_pod(pod("p", 100, &["c"]));
        world.settle();
        world.pass(timeout_s * 1_000 - 1);
        assert_eq!((world.message_of("p").as_str(), world.scheduler.sizes().in_flight), ("", 1));
        world.pass(1);
        assert_eq!(
            world.message_of("p"),
            format!(
                "resourceclaim \"c\": device binding timeout: its devices were not ready after {timeout_s} s"
            )
        );
        assert_eq!(world.scheduler.sizes().in_flight, 0);
    }
}

/// As Kubernetes words it: nodes with invalid pools are counted by themselves.
#[test]
fn nodes_with_invalid_pools_are_counted() {
    let mut world = World::new(Options { preemption: false, ..Options::default() });
    world.node("a", 1_000, 0);
    world.node("b", 1_000, 1);
    let twice = Device { name: "gpu-0".into(), ..Device::default() };
    let first = ResourceSlice { devices: vec![twice], ..slice("a", 1) };
    let first = ResourceSlice { pool: PoolSpec { slice_count: 2, ..first.pool.clone() }, ..first };
    let second = ResourceSlice { name: "a-slice-2".into(), ..first.clone() };
    for slice in [first, second] {
        world.tell(Input::Fleet(fleet::Input::Slice(Arc::new(slice))));
    }
    world.add_claim(claim("c", 2));
    world.add_pod(pod("p", 100, &["c"]));
    world.settle();
    let message = world.message_of("p");
    let expected =
        "0/2 nodes are available: 1 cannot allocate all claims, 1 invalid resource pools were encountered.";
    assert!(message.starts_with(expected), "{message}");
}

/// As in Kubernetes, where the plugin for devices comes last.
#[test]
fn of_a_node_that_an_allocated_claim_excludes_the_first_reason_counts() {
    let mut world = World::new(Options::default());
    world.node("holder", 1_000, 1);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("first", 900, &["c"]));
    world.settle();
    assert_eq!(world.node_of("first").as_deref(), Some("holder"));
    let labelled = |name: &str, cpu_milli| {
        let mut node = node(name, cpu_milli);
        Arc::make_mut(&mut node.facts).labels.insert("zone".into(), "z".into());
        node
    };
    let taint = Taint { key: "k".into(), effect: lazaret_model::Effect::NoSchedule, ..Taint::default() };
    let nodes = [
        labelled("only-the-claim", 1_000),
        labelled("small", 100),
        Node { unschedulable: true, ..labelled("cordoned", 1_000) },
        Node { taints: vec![taint], ..labelled("tainted", 1_000) },
        node("elsewhere", 1_000),
        labelled("full", 0),
    ];
    for node in nodes {
        world.tell(Input::Node(Arc::new(node)));
    }
    let mut second = pod("second", 500, &["c"]);
    Arc::make_mut(&mut second.spec).node_selector = [("zone".into(), "z".into())].into();
    world.add_pod(second);
    world.settle();
    let told = world.message_of("second");
    let told = told.split(" preemption:").next().unwrap();
    let expected = "0/7 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
                    1 resourceclaim not available on the node, 2 Insufficient cpu, \
                    2 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(told, expected);
}

/// A pod whose claim is about to be reserved for it.
fn reserving() -> (World, lazaret_scheduler::Effect) {
    let mut world = World::new(Options::default());
    world.node("a", 1_000, 2);
    world.add_claim(claim("c", 1));
    world.add_pod(pod("p", 100, &["c"]));
    let reserve = world.scheduler.poll_effect().unwrap();
    assert!(matches!(&reserve.kind, EffectKind::ReserveClaim(_)), "{reserve:?}");
    (world, reserve)
}

/// The claim of that name that follows one that was removed.
fn next_claim() -> ResourceClaim {
    ResourceClaim { uid: "next".into(), ..claim("c", 1) }
}

#[test]
fn a_binding_that_was_not_taken_is_withdrawn_when_the_claim_goes() {
    let (mut world, reserve) = reserving();
    world.perform(reserve);
    // Both are heard of before an effect is taken.
    world.claims.clear();
    world.news.push(Input::ClaimGone(ObjectKey::new("ns", "c")));
    world.settle();
    world.pass(60_000);
    assert_eq!(world.node_of("p"), None);
    world.add_claim(next_claim());
    world.pass(60_000);
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
}

#[test]
fn the_answer_to_a_binding_counts_although_the_claim_is_gone() {
    let (mut world, reserve) = reserving();
    world.perform(reserve);
    world.hear();
    let bind = world.scheduler.poll_effect().unwrap();
    assert!(matches!(&bind.kind, EffectKind::Bind(_)), "{bind:?}");
    world.claims.clear();
    world.tell(Input::ClaimGone(ObjectKey::new("ns", "c")));
    world.perform(bind);
    let done = world.log.len();
    world.pass(60_000);
    assert_eq!(world.node_of("p").as_deref(), Some("a"));
    let is_event = |effect: &&EffectKind| matches!(effect, EffectKind::Event(_));
    assert!(world.log[done..].iter().all(|effect| is_event(&effect)), "{:?}", &world.log[done..]);
}

#[test]
fn a_binding_is_not_repeated_for_a_pod_that_has_lost_its_claim() {
    // The claim goes before or after the binding failed, alone or with the next claim of the name.
    for (is_gone_first, is_remade) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut world, reserve) = reserving();
        world.perform(reserve);
        world.hear();
        let bind = world.scheduler.poll_effect().unwrap();
        assert!(matches!(&bind.kind, EffectKind::Bind(_)), "{bind:?}");
        let failed = Input::Acknowledged(bind.id, Reply::of(Outcome::RetryLater));
        if !is_gone_first {
            world.tell(failed.clone());
        }
        world.claims.clear();
        if is_remade {
            world.add_claim(next_claim());
        } else {
            world.tell(Input::ClaimGone(ObjectKey::new("ns", "c")));
        }
        if is_gone_first {
            world.tell(failed);
        }
        world.pass(60_000);
        if !is_remade {
            assert_eq!(world.node_of("p"), None, "{is_gone_first}");
            world.add_claim(next_claim());
            world.pass(60_000);
        }
        assert_eq!(world.node_of("p").as_deref(), Some("a"), "{is_gone_first}, {is_remade}");
        let reserved_for = &world.claims[&ObjectKey::new("ns", "c")].claim.reserved_for;
        assert_eq!(reserved_for.len(), 1, "{is_gone_first}, {is_remade}");
    }
}

#[test]
fn a_claim_that_goes_while_it_is_written_leaves_its_pod_to_the_next_one_of_that_name() {
    // The news that it is gone come before the answer, alone or with the next claim of the name, and the answer says any of these.
    for (outcome, is_remade_first) in [Outcome::Done, Outcome::Unknown, Outcome::Gone, Outcome::Conflict]
        .into_iter()
        .flat_map(|outcome| [(outcome, false), (outcome, true)])
    {
        let (mut world, reserve) = reserving();
        world.carry_out(&reserve.kind);
        world.news.clear();
        world.claims.clear();
        if is_remade_first {
            world.add_claim(next_claim());
        } else {
            world.tell(Input::ClaimGone(ObjectKey::new("ns", "c")));
        }
        world.tell(Input::Acknowledged(reserve.id, Reply::of(outcome)));
        world.settle();
        if !is_remade_first {
            world.add_claim(next_claim());
        }
        world.pass(60_000);
        assert_eq!(world.node_of("p").as_deref(), Some("a"), "{outcome:?}, {is_remade_first}");
    }
}
