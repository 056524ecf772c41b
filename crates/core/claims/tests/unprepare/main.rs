//! A claim whose pod vanished before it ended keeps its devices until the pod's node has unprepared them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod restarts;

use std::sync::Arc;

use lazaret_claims::{ClaimStep, Claims, EffectKind, FINALIZER, Input, Options, Outcome, SeenClaim};
use lazaret_model::{
    AWAITED_PER_NODE_MAX, Allocation, Awaited, ClaimSource, Consumer, DeviceId, DeviceResult, NodeReport,
    NodeSelector, NodeSelectorTerm, ObjectKey, Operator, Pod, PodClaim, PodPhase, Requirement, ResourceClaim,
    Text, Timestamp,
};

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn pod_on(name: &str, node: &str) -> Pod {
    Pod {
        key: key(name),
        uid: format!("uid of {name}").into(),
        node: Some(node.into()),
        phase: PodPhase::Running,
        ..Pod::default()
    }
}

fn pod(name: &str, phase: PodPhase) -> Pod {
    let claims = vec![PodClaim { name: "gpu".into(), source: ClaimSource::Claim("c".into()) }];
    Pod { phase, claims, ..pod_on(name, "node-1") }
}

fn device() -> DeviceId {
    DeviceId { driver: "gpu.example.com".into(), pool: "node-1".into(), device: "gpu-0".into() }
}

fn allocation_on(node: &str, device: &DeviceId) -> Allocation {
    let by_name =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.into()] };
    let term = NodeSelectorTerm { match_fields: vec![by_name], ..NodeSelectorTerm::default() };
    let result = DeviceResult {
        request: "r".into(),
        device: device.clone(),
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    Allocation {
        results: vec![result],
        node_selector: Some(NodeSelector { terms: vec![term] }),
        ..Allocation::default()
    }
}

/// A claim that was given `gpu-0` of `node-1` and is reserved for these pods.
fn claim(name: &str, users: &[&str]) -> SeenClaim {
    claim_on(name, users, allocation_on("node-1", &device()))
}

fn claim_on(name: &str, users: &[&str], allocation: Allocation) -> SeenClaim {
    let user = |name: &&str| Consumer {
        resource: "pods".into(),
        name: (*name).into(),
        uid: format!("uid of {name}").into(),
        ..Consumer::default()
    };
    SeenClaim {
        claim: Arc::new(ResourceClaim {
            key: key(name),
            uid: format!("uid of {name}").into(),
            allocation: Some(Arc::new(allocation)),
            reserved_for: users.iter().map(user).collect(),
            ..ResourceClaim::default()
        }),
        version: "1".into(),
        finalizers: vec![FINALIZER.into()],
        entry: None,
        awaiting: None,
    }
}

fn node(version: u32) -> NodeReport {
    NodeReport {
        name: "node-1".into(),
        uid: "n".into(),
        version: version.to_string().into(),
        reports: true,
        ..NodeReport::default()
    }
}

fn awaited(name: &str) -> Awaited {
    Awaited {
        claim: key(name),
        uid: format!("uid of {name}").into(),
        devices: vec![device()],
        since: Some(NOW),
        released: None,
    }
}

/// A machine that leads, with a node that reports, a claim, and a running pod that uses it.
fn machine() -> Claims {
    let mut machine = Claims::new(Options::default());
    machine.handle(NOW, Input::Pod(Arc::new(pod("p", PodPhase::Running))));
    machine.handle(NOW, Input::Claim(claim("c", &["p"])));
    machine.handle(NOW, Input::Node(Arc::new(node(1))));
    machine.handle(NOW, Input::BecameLeader);
    machine.handle(NOW, Input::Synced);
    machine
}

fn lose(machine: &mut Claims, name: &str) {
    machine.handle(
        NOW,
        Input::PodGone { key: key(name), uid: format!("uid of {name}").into(), last_told: true },
    );
}

/// Takes what is wanted, in short, and acknowledges it as done.
fn done(machine: &mut Claims) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(effect) = machine.poll_effect() {
        all.push(match &effect.kind {
            EffectKind::ChangeClaim(change) => {
                let steps: Vec<&str> = change
                    .steps
                    .iter()
                    .map(|step| match step {
                        ClaimStep::SetStatus { deallocate: true, .. } => "deallocate",
                        ClaimStep::SetStatus { .. } => "reserve",
                        ClaimStep::SetAwaiting(Some(nodes)) => nodes,
                        ClaimStep::SetAwaiting(None) => "wait no more",
                        ClaimStep::SetFinalizers(_) => "finalizers",
                        ClaimStep::Delete => "delete",
                    })
                    .collect();
                format!("{}: {}", change.claim.name, steps.join(", "))
            }
            EffectKind::AskNode(ask) => {
                let claims: Vec<&str> = ask.awaiting.iter().map(|one| &*one.claim.name).collect();
                format!("ask {} about [{}]", ask.node, claims.join(" "))
            }
            EffectKind::ClaimEvent(event) => {
                format!("{} {}: {}", event.reason, event.claim.name, event.message)
            }
            EffectKind::Confirm(holder) => format!("confirm {}", holder.key.name),
            EffectKind::ConfirmNode(node) => format!("confirm {node}"),
            EffectKind::CreateClaim(_) | EffectKind::SetClaimNames(_) | EffectKind::Event(_) => {
                panic!("{effect:?}")
            }
        });
        let is_question = matches!(effect.kind, EffectKind::Confirm(_) | EffectKind::ConfirmNode(_));
        let outcome = if is_question { Outcome::Gone } else { Outcome::Done };
        machine.handle(NOW, Input::Acknowledged { effect: effect.id, outcome, why: None });
    }
    all.sort();
    all
}

const WORDS: &str = "waiting for node node-1 to unprepare gpu.example.com/node-1/gpu-0 for claim default/c, whose pod was \
                     removed before it ended";

/// The claim and the node as they are once what was wanted is written.
fn waiting(machine: &mut Claims) {
    lose(machine, "p");
    assert_eq!(
        done(machine),
        [format!("AwaitingUnprepare c: {WORDS}"), "ask node-1 about [c]".to_owned(), "c: node-1".to_owned()]
    );
    let seen = SeenClaim { awaiting: Some("node-1".into()), version: "2".into(), ..claim("c", &["p"]) };
    machine.handle(NOW, Input::Claim(seen));
    machine.handle(NOW, Input::Node(Arc::new(NodeReport { awaiting: vec![awaited("c")], ..node(2) })));
    assert_eq!(done(machine), [""; 0]);
    assert_eq!(machine.awaiting(), 1);
}

#[test]
fn the_word_of_the_node_is_waited_for() {
    let mut machine = machine();
    waiting(&mut machine);
    let answered =
        NodeReport { awaiting: vec![awaited("c")], unprepared: ["uid of c".into()].into(), ..node(3) };
    machine.handle(NOW, Input::Node(Arc::new(answered)));
    assert_eq!(done(&mut machine), ["c: deallocate, wait no more, finalizers"]);
    // The node is asked no more once that is seen, and not before: else its answer would be lost with the question.
    let free = ResourceClaim {
        allocation: None,
        reserved_for: Vec::new(),
        ..ResourceClaim::clone(&claim("c", &[]).claim)
    };
    let seen =
        SeenClaim { claim: Arc::new(free), version: "5".into(), finalizers: Vec::new(), ..claim("c", &[]) };
    machine.handle(NOW, Input::Claim(seen));
    assert_eq!(done(&mut machine), ["ask node-1 about []"]);
    assert_eq!(machine.awaiting(), 0);
}

#[test]
fn what_ends_a_wait() {
    let released = Awaited { released: Some("board replaced".into()), ..awaited("c") };
    let rows: [(&str, Input, bool); 4] = [
        ("the node is gone", Input::NodeGone("node-1".into()), false),
        (
            "it is out of service",
            Input::Node(Arc::new(NodeReport {
                out_of_service: true,
                awaiting: vec![awaited("c")],
                ..node(3)
            })),
            false,
        ),
        (
            "it reports no more",
            Input::Node(Arc::new(NodeReport { reports: false, awaiting: vec![awaited("c")], ..node(3) })),
            false,
        ),
        (
            "a person knows better",
            Input::Node(Arc::new(NodeReport { awaiting: vec![released], ..node(3) })),
            true,
        ),
    ];
    for (case, news, told) in rows {
        let mut machine = machine();
        waiting(&mut machine);
        machine.handle(NOW, news);
        let mut all = done(&mut machine);
        if told {
            let event = all.remove(0);
            assert_eq!(
                event,
                format!("ReleasedByForce c: {WORDS}; released by force: board replaced"),
                "{case}"
            );
        }
        all.retain(|what| what != "confirm node-1");
        assert_eq!(all, ["c: deallocate, wait no more, finalizers"], "{case}");
    }
}

/// A watch may show the second of two Nodes of one name alone.
#[test]
fn a_node_that_was_made_again_is_asked_anew_whatever_was_sent_to_the_one_before() {
    let mut machine = machine();
    lose(&mut machine, "p");
    let effects: Vec<_> = std::iter::from_fn(|| machine.poll_effect()).collect();
    let ask = effects.iter().find(|effect| matches!(effect.kind, EffectKind::AskNode(_))).unwrap();
    let again = NodeReport { uid: "another".into(), ..node(2) };
    machine.handle(NOW, Input::Node(Arc::new(again)));
    machine.handle(NOW, Input::Acknowledged { effect: ask.id, outcome: Outcome::Gone, why: None });
    let later = NOW.plus_millis(60_000);
    machine.handle(later, Input::Tick);
    let is_new = |kind: &EffectKind| matches!(kind, EffectKind::AskNode(ask) if ask.uid == "another");
    assert!(std::iter::from_fn(|| machine.poll_effect()).any(|effect| is_new(&effect.kind)));
}

#[test]
fn pods_that_ended_on_their_node_are_not_asked_for() {
    for phase in [PodPhase::Succeeded, PodPhase::Failed] {
        let mut machine = machine();
        machine.handle(NOW, Input::Pod(Arc::new(pod("p", phase))));
        lose(&mut machine, "p");
        assert_eq!(done(&mut machine), ["c: deallocate, finalizers"], "{phase:?}");
    }
    // Nor are pods that were on no node, or on one that says nothing.
    let mut unbound = machine();
    unbound.handle(NOW, Input::Pod(Arc::new(Pod { node: None, ..pod("p", PodPhase::Pending) })));
    lose(&mut unbound, "p");
    assert_eq!(done(&mut unbound), ["c: deallocate, finalizers"]);
    let mut silent = machine();
    silent.handle(NOW, Input::NodeGone("node-1".into()));
    lose(&mut silent, "p");
    assert_eq!(done(&mut silent), ["c: deallocate, finalizers", "confirm node-1"]);
}

#[test]
fn a_new_controller_asks_for_pods_that_it_never_saw() {
    let mut machine = Claims::new(Options::default());
    machine.handle(NOW, Input::Claim(claim("c", &["p"])));
    machine.handle(NOW, Input::Node(Arc::new(node(1))));
    machine.handle(NOW, Input::BecameLeader);
    machine.handle(NOW, Input::Synced);
    let all = done(&mut machine);
    assert_eq!(all[1..], ["ask node-1 about [c]", "c: node-1", "confirm p"], "{all:?}");
    assert!(all[0].starts_with("AwaitingUnprepare"));
}

/// Watches are behind one another: that nothing was heard of a node does not say that it prepares nothing.
#[test]
fn a_node_of_which_nothing_was_heard_is_looked_for_before_its_devices_are_given_back() {
    let confirm = |machine: &mut Claims, now, outcome| {
        let effect = machine.poll_effect().unwrap();
        assert_eq!(effect.kind, EffectKind::ConfirmNode("node-1".into()));
        assert_eq!(machine.poll_effect(), None);
        machine.handle(now, Input::Acknowledged { effect: effect.id, outcome, why: None });
    };
    for removed in [false, true] {
        let mut machine = Claims::new(Options::default());
        machine.handle(NOW, Input::Pod(Arc::new(pod("p", PodPhase::Running))));
        machine.handle(NOW, Input::Claim(claim("c", &["p"])));
        machine.handle(NOW, Input::BecameLeader);
        machine.handle(NOW, Input::Synced);
        match removed {
            true => machine.handle(NOW, Input::ClaimGone(key("c"))),
            false => lose(&mut machine, "p"),
        }
        confirm(&mut machine, NOW, Outcome::Done);
        assert_eq!(done(&mut machine), [""; 0], "it is there, and will be heard of");
        machine.handle(NOW, Input::Node(Arc::new(node(1))));
        let asked = done(&mut machine);
        assert!(asked.contains(&"ask node-1 about [c]".to_owned()), "{asked:?}");
    }
    let mut machine = machine();
    machine.handle(NOW, Input::NodeGone("node-1".into()));
    lose(&mut machine, "p");
    confirm(&mut machine, NOW, Outcome::RetryLater);
    assert_eq!(done(&mut machine), [""; 0], "no answer is no answer");
    let later = NOW.plus_millis(60_000);
    machine.handle(later, Input::Tick);
    confirm(&mut machine, later, Outcome::Gone);
    let given_back = machine.poll_effect().unwrap().kind;
    assert!(matches!(given_back, EffectKind::ChangeClaim(_)), "{given_back:?}");
}

/// It is looked for once for all claims that the pod had.
#[test]
fn all_claims_of_a_lost_pod_are_given_back_when_its_node_is_gone() {
    let mut machine = machine();
    machine.handle(NOW, Input::Claim(claim("d", &["p"])));
    machine.handle(NOW, Input::NodeGone("node-1".into()));
    lose(&mut machine, "p");
    assert_eq!(
        done(&mut machine),
        ["c: deallocate, finalizers", "confirm node-1", "d: deallocate, finalizers"]
    );
}

#[test]
fn a_pod_that_was_missed_may_have_been_bound_meanwhile() {
    for last_told in [false, true] {
        let mut machine = Claims::new(Options::default());
        machine.handle(NOW, Input::Node(Arc::new(node(1))));
        machine.handle(NOW, Input::BecameLeader);
        machine.handle(NOW, Input::Synced);
        machine.handle(
            NOW,
            Input::Pod(Arc::new(Pod { uid: "q".into(), node: None, ..pod("q", PodPhase::Pending) })),
        );
        let mut reserved = ResourceClaim::clone(&claim("c", &["q"]).claim);
        reserved.reserved_for[0].uid = "q".into();
        let seen = SeenClaim { claim: Arc::new(reserved), version: "2".into(), ..claim("c", &[]) };
        machine.handle(NOW, Input::Claim(seen));
        done(&mut machine);
        machine.handle(NOW, Input::PodGone { key: key("q"), uid: "q".into(), last_told });
        let all = done(&mut machine);
        match last_told {
            true => assert_eq!(all, ["c: deallocate, finalizers"]),
            false => assert!(all.contains(&"ask node-1 about [c]".to_owned()), "{all:?}"),
        }
    }
}

#[test]
fn a_claim_removed_by_hand_is_waited_for_by_every_controller_until_the_node_answers() {
    // Its pod runs, or vanished.
    for vanished in [false, true] {
        let mut machine = machine();
        if vanished {
            waiting(&mut machine);
        }
        machine.handle(NOW, Input::ClaimGone(key("c")));
        let asked: &[&str] = if vanished { &[] } else { &["ask node-1 about [c]"] };
        assert_eq!(done(&mut machine), asked, "{vanished}");
        assert_eq!(machine.awaiting(), 1);
    }
    // A controller that never saw the claim goes by what the node was asked.
    let mut next = Claims::new(Options::default());
    next.handle(NOW, Input::Node(Arc::new(NodeReport { awaiting: vec![awaited("c")], ..node(2) })));
    next.handle(NOW, Input::BecameLeader);
    next.handle(NOW, Input::Synced);
    assert_eq!(done(&mut next), [""; 0]);
    assert_eq!(next.awaiting(), 1);
    let answered =
        NodeReport { awaiting: vec![awaited("c")], unprepared: ["uid of c".into()].into(), ..node(3) };
    next.handle(NOW, Input::Node(Arc::new(answered)));
    assert_eq!(done(&mut next), ["ask node-1 about []"]);
    assert_eq!(next.awaiting(), 0);
}

#[test]
fn a_pod_that_ends_after_its_claim_was_removed_ends_the_wait() {
    let mut machine = machine();
    machine.handle(NOW, Input::ClaimGone(key("c")));
    assert_eq!(done(&mut machine), ["ask node-1 about [c]"]);
    machine.handle(NOW, Input::Pod(Arc::new(pod("p", PodPhase::Succeeded))));
    machine.handle(NOW, Input::Node(Arc::new(NodeReport { awaiting: vec![awaited("c")], ..node(2) })));
    assert_eq!(done(&mut machine), ["ask node-1 about []"]);
}

#[test]
fn a_claim_with_another_user_is_not_given_back_and_remembers_the_lost_one() {
    let mut machine = machine();
    machine.handle(NOW, Input::Pod(Arc::new(pod("q", PodPhase::Running))));
    let both = SeenClaim { version: "2".into(), ..claim("c", &["p", "q"]) };
    machine.handle(NOW, Input::Claim(both));
    done(&mut machine);
    lose(&mut machine, "p");
    let all = done(&mut machine);
    assert_eq!(all[1..], ["ask node-1 about [c]", "c: node-1"], "{all:?}");
    let waits = SeenClaim { version: "3".into(), awaiting: Some("node-1".into()), ..claim("c", &["p", "q"]) };
    machine.handle(NOW, Input::Claim(waits));
    assert_eq!(done(&mut machine), [""; 0]);
    machine.handle(NOW, Input::Pod(Arc::new(pod("q", PodPhase::Succeeded))));
    assert_eq!(done(&mut machine), ["c: reserve"]);
}

#[test]
fn a_node_is_asked_about_so_many_claims_at_a_time() {
    let mut machine = machine();
    let count = AWAITED_PER_NODE_MAX + 10;
    for number in 0..count {
        let name = format!("p{number}");
        let mut user = pod(&name, PodPhase::Running);
        user.claims.clear();
        machine.handle(NOW, Input::Pod(Arc::new(user)));
        machine.handle(NOW, Input::Claim(claim(&format!("c{number}"), &[&name])));
    }
    (0..count).for_each(|number| lose(&mut machine, &format!("p{number}")));
    let mut asked: Vec<Text> = Vec::new();
    while let Some(effect) = machine.poll_effect() {
        if let EffectKind::AskNode(ask) = &effect.kind {
            asked = ask.awaiting.iter().map(|one| one.uid.clone()).collect();
            assert!(asked.len() <= AWAITED_PER_NODE_MAX);
            let report = NodeReport {
                awaiting: ask.awaiting.clone(),
                ..node(2 + u32::try_from(asked.len()).unwrap())
            };
            machine.handle(NOW, Input::Node(Arc::new(report)));
        }
        machine.handle(NOW, Input::Acknowledged { effect: effect.id, outcome: Outcome::Done, why: None });
    }
    assert_eq!(asked.len(), AWAITED_PER_NODE_MAX);
    assert_eq!(machine.awaiting(), count);
}
