//! The scheduler's part.

use std::sync::Arc;

use lazaret_classic::{
    AllocationMode, ChangeClaim, ClaimStatus, NegotiationEffectKind, NegotiationInput, NegotiationOptions,
    Negotiator, News, Phase, Place, Pod, PodClaim, PodClaimSource, ResourceClaim, Step, Waiting,
};
use lazaret_machine::{Effect, EffectId, Machine, Outcome, Turn};

use super::{acknowledged, allocated, at, claim, class, key, node, nodes, pod, spec, user, version};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

fn negotiator(pods: Vec<Pod>, claims: Vec<ResourceClaim>) -> Negotiator {
    let mut machine = Negotiator::new(NegotiationOptions::default());
    let now = at(0);
    let mut news = |news| machine.handle(now, &(), NegotiationInput::News(news));
    NODES.iter().for_each(|name| news(News::Node(node(name))));
    news(News::Class(class("acme-gpu", "gpu.acme.com")));
    claims.into_iter().for_each(|claim| news(News::Claim(Arc::new(claim))));
    pods.iter().for_each(|pod| news(News::Pod(Arc::new(pod.clone()))));
    machine.handle(now, &(), Turn::BecameLeader.into());
    pods.iter().for_each(|pod| candidates(&mut machine, pod, &NODES));
    machine
}

fn candidates(machine: &mut Negotiator, pod: &Pod, names: &[&str]) {
    let nodes = Some(nodes(names));
    let input = NegotiationInput::Candidates { pod: pod.key.clone(), uid: pod.uid.clone(), nodes };
    machine.handle(at(0), &(), input);
}

fn see(machine: &mut Negotiator, claim: ResourceClaim, number: u64) {
    machine.handle(at(1), &(), NegotiationInput::News(News::Claim(version(claim, number))));
}

fn effects(machine: &mut Negotiator) -> Vec<Effect<NegotiationEffectKind>> {
    std::iter::from_fn(|| machine.poll_effect()).collect()
}

fn write(machine: &mut Negotiator) -> (EffectId, ChangeClaim, ClaimStatus) {
    let effect = machine.poll_effect().expect("an effect");
    let NegotiationEffectKind::Change(change) = effect.kind else { panic!("{effect:?}") };
    let [Step::SetStatus(status)] = &change.steps[..] else { panic!("{change:?}") };
    let status = (**status).clone();
    (effect.id, change, status)
}

fn done(machine: &mut Negotiator, effect: EffectId) {
    machine.handle(at(1), &(), acknowledged(effect, Outcome::Done));
}

fn waiting(machine: &Negotiator, pod: &str) -> Waiting {
    machine.waiting(&key(pod)).cloned().expect("a pod that waits")
}

fn reserved(mut claim: ResourceClaim, pod: &str) -> ResourceClaim {
    claim.status.reserved_for.push(user(pod));
    claim
}

#[test]
fn nodes_that_pass_are_written_as_potential_and_one_is_selected() {
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![claim("p-gpu", Some("p"))]);
    let (_, change, status) = write(&mut machine);
    assert_eq!((change.claim, change.version), (key("p-gpu"), "1".into()));
    assert_eq!(*status.scheduler.potential_nodes, *nodes(&NODES));
    assert_eq!(status.scheduler.selected_node, Some("node-1".into()));
    assert_eq!(effects(&mut machine), []);
}

#[test]
fn nodes_that_structured_claims_do_not_permit_are_not_potential() {
    let p = pod("p", &["gpu"]);
    let mut machine = negotiator(Vec::new(), vec![claim("p-gpu", Some("p"))]);
    machine.handle(at(0), &(), NegotiationInput::News(News::Pod(Arc::new(p.clone()))));
    assert_eq!(waiting(&machine, "p"), Waiting::Candidates);
    candidates(&mut machine, &p, &["node-3", "node-2"]);
    let (.., status) = write(&mut machine);
    assert_eq!(*status.scheduler.potential_nodes, *nodes(&["node-3", "node-2"]));
    assert_eq!(status.scheduler.selected_node, Some("node-3".into()));
}

#[test]
fn a_pod_with_an_immediate_claim_that_is_not_allocated_is_unschedulable_for_now() {
    let mut immediate = claim("p-gpu", Some("p"));
    immediate.spec = spec("acme-gpu", AllocationMode::Immediate);
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![immediate]);
    assert_eq!(effects(&mut machine), []);
    assert_eq!(waiting(&machine, "p"), Waiting::Immediate(key("p-gpu")));
}

#[test]
fn only_nodes_that_are_named_unsuitable_are_filtered_out() {
    let mut unsuitable = claim("p-gpu", Some("p"));
    unsuitable.status.driver.unsuitable_nodes = nodes(&["node-1", "node-2"]);
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![unsuitable]);
    let (.., status) = write(&mut machine);
    assert_eq!(status.scheduler.selected_node, Some("node-3".into()));
}

#[test]
fn a_claim_that_is_allocated_restricts_the_node_and_is_reserved_before_the_pod_is_placed() {
    let there = allocated(claim("p-gpu", Some("p")), Some("node-2"));
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![there.clone()]);
    let (id, _, status) = write(&mut machine);
    assert_eq!(status.reserved_for, [user("p")]);
    done(&mut machine, id);
    assert_eq!(effects(&mut machine), []);
    see(&mut machine, reserved(there, "p"), 2);
    let placed = effects(&mut machine);
    let expected = Place { pod: key("p"), uid: "uid-p".into(), node: "node-2".into() };
    assert_eq!(placed[0].kind, NegotiationEffectKind::Place(expected));
}

#[test]
fn a_pod_that_could_not_be_placed_is_removed_from_the_users() {
    let there = reserved(allocated(claim("p-gpu", Some("p")), None), "p");
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![there]);
    let effect = effects(&mut machine).remove(0);
    machine.handle(at(1), &(), acknowledged(effect.id, Outcome::Conflict));
    let (.., status) = write(&mut machine);
    assert_eq!(status.reserved_for, []);
}

#[test]
fn a_binding_of_unknown_outcome_keeps_its_reservations_and_is_tried_again() {
    let there = reserved(allocated(claim("p-gpu", Some("p")), None), "p");
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![there]);
    let first = effects(&mut machine).remove(0);
    machine.handle(at(1), &(), acknowledged(first.id, Outcome::Unknown));
    assert_eq!(effects(&mut machine), []);
    let wake = machine.next_wake().unwrap();
    machine.handle(wake.at, &(), Turn::Tick.into());
    assert_eq!(effects(&mut machine).remove(0).kind, first.kind);
}

#[test]
fn a_claim_that_has_as_many_users_as_it_may_have_is_waited_for() {
    let mut p = pod("p", &[]);
    p.claims = vec![PodClaim { name: "s".into(), source: Some(PodClaimSource::Named("shared".into())) }];
    let full = reserved(allocated(claim("shared", None), None), "q");
    let mut machine = negotiator(vec![p], vec![full.clone()]);
    assert_eq!(effects(&mut machine), []);
    assert_eq!(waiting(&machine, "p"), Waiting::Full(key("shared")));
    let mut room = full;
    room.status.user_limit = 2;
    see(&mut machine, room, 2);
    assert_eq!(write(&mut machine).2.reserved_for, [user("q"), user("p")]);
}

#[test]
fn an_unused_claim_that_keeps_the_pod_from_every_node_is_deallocated_one_at_a_time() {
    let first = allocated(claim("p-a", Some("p")), Some("node-1"));
    let second = allocated(claim("p-b", Some("p")), Some("node-2"));
    let mut machine = negotiator(vec![pod("p", &["a", "b"])], vec![first.clone(), second]);
    let writes = effects(&mut machine);
    assert_eq!(writes.len(), 1);
    let NegotiationEffectKind::Change(change) = &writes[0].kind else { panic!() };
    let Step::SetStatus(status) = &change.steps[0] else { panic!() };
    assert_eq!(status.phase, Phase::Reallocate);
    done(&mut machine, writes[0].id);
    let mut leaving = first;
    leaving.status.phase = Phase::Reallocate;
    see(&mut machine, leaving, 2);
    assert_eq!(effects(&mut machine), []);
    assert_eq!(waiting(&machine, "p"), Waiting::Deallocation(key("p-a")));
}

#[test]
fn a_claim_that_is_in_use_is_not_deallocated() {
    let mut p = pod("p", &["a"]);
    p.claims.push(PodClaim { name: "s".into(), source: Some(PodClaimSource::Named("shared".into())) });
    let mut used = reserved(allocated(claim("shared", None), Some("node-1")), "q");
    used.status.user_limit = 2;
    let mut unsuitable = claim("p-a", Some("p"));
    unsuitable.status.driver.unsuitable_nodes = nodes(&["node-1"]);
    unsuitable.status.scheduler.potential_nodes = nodes(&["node-1"]);
    let mut machine = negotiator(vec![p], vec![used, unsuitable]);
    assert_eq!(effects(&mut machine), []);
    assert_eq!(waiting(&machine, "p"), Waiting::NoNode(vec![key("p-a"), key("shared")]));
    machine.handle(at(600_000), &(), Turn::Tick.into());
    assert_eq!(effects(&mut machine), []);
}

#[test]
fn a_claim_that_belongs_to_another_pod_is_not_used() {
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![claim("p-gpu", None)]);
    assert_eq!(effects(&mut machine), []);
    assert_eq!(waiting(&machine, "p"), Waiting::Foreign(key("p-gpu")));
}

#[test]
fn a_refused_node_is_tried_again_only_after_the_others() {
    let c = claim("p-gpu", Some("p"));
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![c.clone()]);
    let (id, ..) = write(&mut machine);
    done(&mut machine, id);
    let mut asked = c.clone();
    asked.status.scheduler.selected_node = Some("node-1".into());
    see(&mut machine, asked, 2);
    assert_eq!(waiting(&machine, "p"), Waiting::Drivers(vec![key("p-gpu")]));
    see(&mut machine, c, 3);
    let wake = machine.next_wake().unwrap();
    machine.handle(wake.at, &(), Turn::Tick.into());
    assert_eq!(write(&mut machine).2.scheduler.selected_node, Some("node-2".into()));
}

#[test]
fn a_pod_that_holds_one_claim_and_waits_for_another_gives_it_up_after_a_while() {
    let held = allocated(claim("p-a", Some("p")), None);
    let mut nowhere = claim("p-b", Some("p"));
    nowhere.status.driver.unsuitable_nodes = nodes(&NODES);
    nowhere.status.scheduler.potential_nodes = nodes(&NODES);
    let mut machine = negotiator(vec![pod("p", &["a", "b"])], vec![held, nowhere]);
    assert_eq!(effects(&mut machine), []);
    let wake = machine.next_wake().unwrap();
    assert_eq!(wake.at, at(5_000));
    machine.handle(wake.at, &(), Turn::Tick.into());
    let (_, change, status) = write(&mut machine);
    assert_eq!((change.claim, status.phase), (key("p-a"), Phase::Reallocate));
    assert_eq!(machine.counters().given_up, 1);
}

#[test]
fn two_pods_do_not_negotiate_about_the_same_claim_at_the_same_time() {
    let named = |name: &str| {
        let mut pod = pod(name, &[]);
        pod.claims =
            vec![PodClaim { name: "s".into(), source: Some(PodClaimSource::Named("shared".into())) }];
        pod
    };
    let c = claim("shared", None);
    let mut machine = negotiator(vec![named("p"), named("q")], vec![c.clone()]);
    let (id, ..) = write(&mut machine);
    done(&mut machine, id);
    let mut asked = c;
    asked.status.scheduler.selected_node = Some("node-1".into());
    see(&mut machine, asked, 2);
    assert_eq!(effects(&mut machine), []);
    assert_eq!(waiting(&machine, "q"), Waiting::OtherPod(key("shared")));
}

#[test]
fn a_pod_that_lost_one_claim_does_not_keep_another_reserved() {
    let mut leaving = reserved(allocated(claim("p-a", Some("p")), None), "p");
    leaving.deleting = true;
    let kept = reserved(allocated(claim("p-b", Some("p")), None), "p");
    let mut machine = negotiator(vec![pod("p", &["a", "b"])], vec![leaving, kept]);
    let claims: Vec<_> = effects(&mut machine)
        .into_iter()
        .map(|effect| match effect.kind {
            NegotiationEffectKind::Change(change) => change.claim,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(claims, [key("p-a"), key("p-b")]);
}

#[test]
fn drivers_are_asked_about_nodes_that_did_not_suit_before_too() {
    let mut unsuitable = claim("p-gpu", Some("p"));
    unsuitable.status.driver.unsuitable_nodes = nodes(&["node-1"]);
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![unsuitable]);
    let (.., status) = write(&mut machine);
    assert_eq!(*status.scheduler.potential_nodes, *nodes(&["node-2", "node-1", "node-3"]));
    assert_eq!(status.scheduler.selected_node, Some("node-2".into()));
}

#[test]
fn a_driver_is_asked_about_nodes_although_none_suits() {
    let mut nowhere = claim("p-gpu", Some("p"));
    nowhere.status.driver.available_on_nodes = Some(Arc::new(super::only("node-9")));
    let mut machine = negotiator(vec![pod("p", &["gpu"])], vec![nowhere]);
    let (.., status) = write(&mut machine);
    assert_eq!(*status.scheduler.potential_nodes, *nodes(&NODES));
    assert_eq!(status.scheduler.selected_node, None);
    assert_eq!(waiting(&machine, "p"), Waiting::NoNode(vec![key("p-gpu")]));
}

#[test]
fn a_pod_is_not_bound_while_the_removal_of_its_reservation_may_still_arrive() {
    let there = reserved(allocated(claim("p-gpu", Some("p")), None), "p");
    let p = pod("p", &["gpu"]);
    let mut machine = negotiator(vec![p.clone()], vec![there.clone()]);
    let placed = effects(&mut machine).remove(0);
    machine.handle(at(1), &(), acknowledged(placed.id, Outcome::Conflict));
    let (id, ..) = write(&mut machine);
    machine.handle(at(1), &(), acknowledged(id, Outcome::Unknown));
    machine.handle(at(1_000), &(), Turn::Tick.into());
    let (id, change, status) = write(&mut machine);
    assert_eq!((change.version.as_ref(), status.reserved_for.len()), ("1", 0));
    machine.handle(at(1_000), &(), acknowledged(id, Outcome::Unknown));
    see(&mut machine, there, 2);
    machine.handle(at(2_000), &(), Turn::Tick.into());
    assert_eq!(write(&mut machine).2.reserved_for, []);
}

#[test]
fn a_pod_whose_nodes_come_back_repeats_a_removal_that_may_still_arrive() {
    let there = reserved(allocated(claim("p-gpu", Some("p")), None), "p");
    let p = pod("p", &["gpu"]);
    let mut machine = negotiator(Vec::new(), vec![there.clone()]);
    machine.handle(at(0), &(), NegotiationInput::News(News::Pod(Arc::new(p.clone()))));
    let none = NegotiationInput::Candidates { pod: p.key.clone(), uid: p.uid.clone(), nodes: None };
    machine.handle(at(0), &(), none);
    let (id, ..) = write(&mut machine);
    machine.handle(at(1), &(), acknowledged(id, Outcome::Unknown));
    candidates(&mut machine, &p, &NODES);
    machine.handle(at(1_000), &(), Turn::Tick.into());
    let (id, _, status) = write(&mut machine);
    assert_eq!(status.reserved_for, []);
    // It did not arrive, and cannot any more: the claim has another version.
    machine.handle(at(1_001), &(), acknowledged(id, Outcome::Conflict));
    see(&mut machine, there, 2);
    assert!(matches!(effects(&mut machine)[0].kind, NegotiationEffectKind::Place(_)));
}
