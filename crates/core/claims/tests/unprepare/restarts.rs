//! Nodes that a claim controller waits for are those that the controller before it waited for, whatever the claim was allocated since.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_claims::{ChangeClaim, ClaimStep, Claims, EffectKind, Input, Options, Outcome, SeenClaim};
use lazaret_model::{Allocation, Awaited, DeviceId, NodeReport, Pod, PodPhase, ResourceClaim, Text};

use super::{NOW, allocation_on, claim_on, done, key, lose, pod};

fn device_of(node: &str) -> DeviceId {
    DeviceId { driver: "gpu.example.com".into(), pool: node.into(), device: "gpu-0".into() }
}

fn report(name: &str, awaiting: Vec<Awaited>) -> NodeReport {
    NodeReport {
        name: name.into(),
        uid: name.into(),
        version: "1".into(),
        reports: true,
        awaiting,
        ..NodeReport::default()
    }
}

/// The claim `c`, whose device is on `node-2`, reserved for `p` and `q`.
fn moved() -> SeenClaim {
    claim_on("c", &["p", "q"], allocation_on("node-2", &device_of("node-2")))
}

/// A machine that knows these pods, claims and nodes, and leads.
fn machine(pods: &[Pod], seen: SeenClaim, nodes: &[NodeReport]) -> Claims {
    let mut machine = Claims::new(Options::default());
    let pods = pods.iter().cloned().map(Arc::new).collect();
    machine.handle(NOW, Input::PodsListed(pods));
    machine.handle(NOW, Input::Claim(seen));
    nodes.iter().for_each(|node| machine.handle(NOW, Input::Node(Arc::new(node.clone()))));
    machine.handle(NOW, Input::BecameLeader);
    machine.handle(NOW, Input::Synced);
    machine
}

/// Confirms that pods are gone and nodes are silent, and returns the nodes that the claim is to say it waits for and those that are asked about it.
fn wanted(machine: &mut Claims) -> (Option<Text>, BTreeSet<Text>) {
    let (mut awaiting, mut asked) = (None, BTreeSet::new());
    while let Some(effect) = machine.poll_effect() {
        match &effect.kind {
            EffectKind::ChangeClaim(ChangeClaim { steps, .. }) => {
                assert!(
                    !steps.iter().any(|step| matches!(step, ClaimStep::SetStatus { .. })),
                    "nothing is given back: {steps:?}"
                );
                for step in steps {
                    if let ClaimStep::SetAwaiting(nodes) = step {
                        awaiting.clone_from(nodes);
                    }
                }
            }
            EffectKind::AskNode(ask) => drop(asked.insert(ask.node.clone())),
            EffectKind::CreateClaim(_)
            | EffectKind::SetClaimNames(_)
            | EffectKind::Confirm(_)
            | EffectKind::ConfirmNode(_)
            | EffectKind::Event(_)
            | EffectKind::ClaimEvent(_) => {}
        }
        let is_question = matches!(effect.kind, EffectKind::Confirm(_) | EffectKind::ConfirmNode(_));
        let outcome = if is_question { Outcome::Gone } else { Outcome::Done };
        machine.handle(NOW, Input::Acknowledged { effect: effect.id, outcome, why: None });
    }
    (awaiting, asked)
}

/// The controller before has asked about the claim of a lost pod. The next one does not withdraw that before it knows whether the pod is gone.
#[test]
fn a_question_stands_until_it_is_known_whether_the_pod_is_gone() {
    let mut seen = claim_on("c", &["p"], allocation_on("node-1", &device_of("node-1")));
    seen.awaiting = Some("node-1".into());
    let asked = Awaited {
        claim: key("c"),
        uid: seen.claim.uid.clone(),
        devices: vec![device_of("node-1")],
        ..Awaited::default()
    };
    for outcome in [Outcome::Gone, Outcome::Done] {
        let mut machine = machine(&[], seen.clone(), &[report("node-1", vec![asked.clone()])]);
        let first = machine.poll_effect().unwrap();
        assert!(matches!(first.kind, EffectKind::Confirm(_)), "{:?}", first.kind);
        assert!(machine.poll_effect().is_none(), "{outcome:?}");
        machine.handle(NOW, Input::Acknowledged { effect: first.id, outcome, why: None });
        let withdrawn = std::iter::from_fn(|| machine.poll_effect())
            .any(|effect| matches!(effect.kind, EffectKind::AskNode(ask) if ask.awaiting.is_empty()));
        assert_eq!(withdrawn, outcome == Outcome::Done, "a pod that lives is not waited for");
    }
}

/// The device can be reached from every node, and that the claim waits could not be written: the question alone says where the pod was.
#[test]
fn a_question_stands_although_the_claim_does_not_name_the_node() {
    let everywhere = Allocation { node_selector: None, ..allocation_on("node-1", &device_of("fabric")) };
    let seen = claim_on("c", &["p"], everywhere);
    let devices = vec![device_of("fabric")];
    let asked = Awaited { claim: key("c"), uid: seen.claim.uid.clone(), devices, ..Awaited::default() };
    let mut machine = machine(&[], seen, &[report("node-1", vec![asked])]);
    assert_eq!(wanted(&mut machine), (Some("node-1".into()), BTreeSet::new()));
}

/// Somebody removed the allocation under `p`, which runs on `node-1`, and the claim was allocated anew on `node-2` for `q`.
#[test]
fn a_new_controller_waits_for_the_nodes_of_the_one_before() {
    let p = pod("p", PodPhase::Running);
    let q = Pod { node: Some("node-2".into()), ..pod("q", PodPhase::Running) };
    let nodes = [report("node-1", Vec::new()), report("node-2", Vec::new())];
    let mut first = machine(&[p, q.clone()], moved(), &nodes);
    assert_eq!(wanted(&mut first), (None, BTreeSet::new()));
    lose(&mut first, "p");
    let (awaiting, asked) = wanted(&mut first);
    assert_eq!(asked, ["node-1".into(), "node-2".into()].into());

    let written = SeenClaim { awaiting: awaiting.clone(), version: "2".into(), ..moved() };
    let mut second = machine(&[q], written, &nodes);
    assert_eq!(wanted(&mut second), (None, asked), "{awaiting:?} stands");
}

/// The device can be reached from every node: the annotation of the claim alone says where the pod was.
#[test]
fn a_new_controller_knows_where_a_pod_used_a_device_that_several_nodes_reach() {
    let everywhere = Allocation { node_selector: None, ..allocation_on("node-1", &device_of("fabric")) };
    let seen = claim_on("c", &["p"], everywhere);
    let p = pod("p", PodPhase::Running);
    let mut first = machine(&[p], seen.clone(), &[report("node-1", Vec::new())]);
    lose(&mut first, "p");
    let (awaiting, asked) = wanted(&mut first);
    assert_eq!((awaiting.as_deref(), asked), (Some("node-1"), ["node-1".into()].into()));

    let written = SeenClaim { awaiting, version: "2".into(), ..seen };
    let mut second = machine(&[], written, &[report("node-1", Vec::new())]);
    assert_eq!(wanted(&mut second), (None, ["node-1".into()].into()));
    let devices = vec![device_of("fabric")];
    let listed = Awaited { claim: key("c"), uid: "uid of c".into(), devices, ..Awaited::default() };
    let answered = NodeReport {
        unprepared: ["uid of c".into()].into(),
        version: "2".into(),
        ..report("node-1", vec![listed])
    };
    second.handle(NOW, Input::Node(Arc::new(answered)));
    assert_eq!(done(&mut second), ["c: deallocate, wait no more, finalizers"]);
}

/// That one node is silent says nothing about another.
#[test]
fn each_node_of_a_lost_pod_is_looked_for() {
    let seen = SeenClaim { awaiting: Some("node-1,node-2".into()), ..moved() };
    let mut machine = machine(&[], seen, &[]);
    let mut looked_for = BTreeSet::new();
    while let Some(effect) = machine.poll_effect() {
        let outcome = match &effect.kind {
            EffectKind::Confirm(_) => Outcome::Gone,
            EffectKind::ConfirmNode(node) => {
                looked_for.insert(node.clone());
                // The second of them is there, and will be heard of.
                if &**node == "node-1" { Outcome::Gone } else { Outcome::Done }
            }
            EffectKind::CreateClaim(_)
            | EffectKind::SetClaimNames(_)
            | EffectKind::ChangeClaim(_)
            | EffectKind::AskNode(_)
            | EffectKind::Event(_)
            | EffectKind::ClaimEvent(_) => panic!("{:?}", effect.kind),
        };
        machine.handle(NOW, Input::Acknowledged { effect: effect.id, outcome, why: None });
    }
    assert_eq!(looked_for, ["node-1".into(), "node-2".into()].into());
}

/// The same of a claim that was removed by hand while pods on two nodes used it.
#[test]
fn each_node_of_a_removed_claim_is_looked_for() {
    let p = pod("p", PodPhase::Running);
    let q = Pod { node: Some("node-2".into()), ..pod("q", PodPhase::Running) };
    let mut machine = machine(&[p, q], moved(), &[]);
    assert_eq!(done(&mut machine), [""; 0]);
    machine.handle(NOW, Input::ClaimGone(key("c")));
    assert_eq!(done(&mut machine), ["confirm node-1", "confirm node-2"]);
    assert_eq!(machine.awaiting(), 0);
}

/// The allocation is gone and the claim is not: its devices are in use as long as its pod runs, or until the claim is allocated anew.
#[test]
fn an_allocation_that_was_removed_under_a_running_pod_is_waited_for() {
    let given = claim_on("c", &["p"], allocation_on("node-1", &device_of("node-1")));
    let free =
        ResourceClaim { allocation: None, reserved_for: Vec::new(), ..ResourceClaim::clone(&given.claim) };
    let free = SeenClaim { claim: Arc::new(free), version: "2".into(), ..given.clone() };
    let devices = vec![device_of("node-1")];
    let listed = Awaited { claim: key("c"), uid: "uid of c".into(), devices, ..Awaited::default() };
    let asked = NodeReport { version: "2".into(), ..report("node-1", vec![listed]) };

    let p = pod("p", PodPhase::Running);
    let mut first = machine(std::slice::from_ref(&p), given.clone(), &[report("node-1", Vec::new())]);
    first.handle(NOW, Input::Claim(free.clone()));
    assert_eq!(done(&mut first), ["ask node-1 about [c]"]);
    first.handle(NOW, Input::Node(Arc::new(asked.clone())));
    // A controller that starts later goes on waiting.
    let second = machine(&[p], free, std::slice::from_ref(&asked));
    for mut machine in [first, second] {
        assert_eq!(done(&mut machine), [""; 0]);
        assert_eq!(machine.awaiting(), 1);
        let unprepared =
            NodeReport { unprepared: ["uid of c".into()].into(), version: "3".into(), ..asked.clone() };
        let anew = SeenClaim { version: "3".into(), ..given.clone() };
        for over in [Input::Node(Arc::new(unprepared)), Input::Claim(anew)] {
            machine.handle(NOW, over);
        }
        assert_eq!(done(&mut machine), ["ask node-1 about []"]);
        assert_eq!(machine.awaiting(), 0);
    }
}

/// The claim goes while the question is under way, which fails.
#[test]
fn a_claim_that_goes_after_its_allocation_was_removed_is_still_waited_for() {
    let given = claim_on("c", &["p"], allocation_on("node-1", &device_of("node-1")));
    let free =
        ResourceClaim { allocation: None, reserved_for: Vec::new(), ..ResourceClaim::clone(&given.claim) };
    let free = SeenClaim { claim: Arc::new(free), version: "2".into(), ..given.clone() };
    let mut machine = machine(&[pod("p", PodPhase::Running)], given, &[report("node-1", Vec::new())]);
    machine.handle(NOW, Input::Claim(free));
    let ask = machine.poll_effect().unwrap();
    machine.handle(NOW, Input::ClaimGone(key("c")));
    assert_eq!(machine.awaiting(), 1);
    let failed = Input::Acknowledged { effect: ask.id, outcome: Outcome::Conflict, why: None };
    machine.handle(NOW, failed);
    let changed = NodeReport { version: "2".into(), ..report("node-1", Vec::new()) };
    machine.handle(NOW, Input::Node(Arc::new(changed)));
    assert_eq!(done(&mut machine), ["ask node-1 about [c]"]);
}

/// The scheduler takes back an allocation with which it could not bind a pod: nothing was prepared, and no node is asked.
#[test]
fn an_allocation_that_was_removed_before_its_pod_was_bound_is_not_waited_for() {
    let given = claim_on("c", &["p"], allocation_on("node-1", &device_of("node-1")));
    let unbound = Pod { node: None, ..pod("p", PodPhase::Pending) };
    let mut machine = machine(&[unbound], given.clone(), &[report("node-1", Vec::new())]);
    let free =
        ResourceClaim { allocation: None, reserved_for: Vec::new(), ..ResourceClaim::clone(&given.claim) };
    machine.handle(NOW, Input::Claim(SeenClaim { claim: Arc::new(free), version: "2".into(), ..given }));
    assert_eq!(done(&mut machine), [""; 0]);
    assert_eq!(machine.awaiting(), 0);
}

/// The node has answered, the question is withdrawn, and the claim is allocated anew and used; all of which the news of the node do not show yet.
#[test]
fn an_answer_to_a_question_that_is_withdrawn_says_nothing_of_the_next_pod() {
    let given = claim_on("c", &["p"], allocation_on("node-1", &device_of("node-1")));
    let p = pod("p", PodPhase::Running);
    let mut machine = machine(&[p], given.clone(), &[report("node-1", Vec::new())]);
    lose(&mut machine, "p");
    assert_eq!(done(&mut machine).len(), 3, "it is said, the node is asked, and the claim names the node");
    let listed = Awaited {
        claim: key("c"),
        uid: "uid of c".into(),
        devices: vec![device_of("node-1")],
        ..Awaited::default()
    };
    let answered = NodeReport {
        unprepared: ["uid of c".into()].into(),
        version: "2".into(),
        ..report("node-1", vec![listed])
    };
    let waiting = SeenClaim { awaiting: Some("node-1".into()), version: "2".into(), ..given.clone() };
    machine.handle(NOW, Input::Claim(waiting));
    machine.handle(NOW, Input::Node(Arc::new(answered)));
    assert_eq!(done(&mut machine), ["c: deallocate, wait no more, finalizers"]);
    let free =
        ResourceClaim { allocation: None, reserved_for: Vec::new(), ..ResourceClaim::clone(&given.claim) };
    machine.handle(NOW, Input::Claim(SeenClaim { claim: Arc::new(free), version: "3".into(), ..given }));
    assert_eq!(done(&mut machine), ["ask node-1 about []"]);
    let anew = claim_on("c", &["q"], allocation_on("node-1", &device_of("node-1")));
    machine.handle(NOW, Input::Pod(Arc::new(pod("q", PodPhase::Running))));
    machine.handle(NOW, Input::Claim(SeenClaim { version: "4".into(), ..anew }));
    lose(&mut machine, "q");
    let wanted = done(&mut machine);
    assert!(!wanted.iter().any(|one| one.contains("deallocate")), "{wanted:?}");
    let withdrawn = NodeReport { version: "3".into(), ..report("node-1", Vec::new()) };
    machine.handle(NOW, Input::Node(Arc::new(withdrawn)));
    assert_eq!(done(&mut machine), ["ask node-1 about [c]"]);
}

/// The question about the first devices still stands when the claim, which got others, loses its pod.
#[test]
fn a_node_is_asked_about_the_devices_that_the_claim_has_now() {
    let given = claim_on("c", &["p"], allocation_on("node-1", &device_of("node-1")));
    let mut machine = machine(&[pod("p", PodPhase::Running)], given, &[report("node-1", Vec::new())]);
    lose(&mut machine, "p");
    done(&mut machine);
    let first = Awaited {
        claim: key("c"),
        uid: "uid of c".into(),
        devices: vec![device_of("node-1")],
        ..Awaited::default()
    };
    let listed = NodeReport { version: "2".into(), ..report("node-1", vec![first]) };
    machine.handle(NOW, Input::Node(Arc::new(listed)));
    let second = DeviceId { device: "gpu-1".into(), ..device_of("node-1") };
    let anew = claim_on("c", &["q"], allocation_on("node-1", &second));
    machine.handle(NOW, Input::Pod(Arc::new(pod("q", PodPhase::Running))));
    machine.handle(NOW, Input::Claim(SeenClaim { version: "2".into(), ..anew }));
    lose(&mut machine, "q");
    let mut asked = Vec::new();
    while let Some(effect) = machine.poll_effect() {
        if let EffectKind::AskNode(ask) = &effect.kind {
            asked.push(ask.awaiting.iter().flat_map(|one| one.devices.clone()).collect::<Vec<_>>());
        }
        machine.handle(NOW, Input::Acknowledged { effect: effect.id, outcome: Outcome::Done, why: None });
    }
    assert_eq!(asked, [[second]]);
}
