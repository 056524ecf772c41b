//! The claim controller.

use std::sync::Arc;

use lazaret_classic::{
    AskNode, ClaimController, ClaimEffectKind, ClaimInput, News, Pod, Reference, ResourceClaim, Step,
};
use lazaret_machine::{Effect, Machine, Outcome, Turn};
use lazaret_model::{Awaited, NodeReport, Uid};

use super::{acknowledged, allocated, at, claim, key, pod, user, version};

fn controller(pods: Vec<Pod>, claims: Vec<ResourceClaim>) -> ClaimController {
    let mut machine = ClaimController::default();
    let now = at(0);
    for pod in pods {
        machine.handle(now, &(), ClaimInput::News(News::Pod(Arc::new(pod))));
    }
    for claim in claims {
        machine.handle(now, &(), ClaimInput::News(News::Claim(Arc::new(claim))));
    }
    machine.handle(now, &(), Turn::BecameLeader.into());
    machine
}

fn effects(machine: &mut ClaimController) -> Vec<Effect<ClaimEffectKind>> {
    std::iter::from_fn(|| machine.poll_effect()).collect()
}

#[test]
fn a_claim_is_made_for_each_template_named_after_pod_and_entry_and_owned_by_the_pod() {
    let mut machine = controller(vec![pod("device-consumer", &["gpu", "nic"])], Vec::new());
    let made: Vec<_> = effects(&mut machine)
        .into_iter()
        .map(|effect| match effect.kind {
            ClaimEffectKind::Create(create) => (create.claim, create.owner),
            other => panic!("{other:?}"),
        })
        .collect();
    let owner = user("device-consumer");
    assert_eq!(made, [(key("device-consumer-gpu"), owner.clone()), (key("device-consumer-nic"), owner)]);
}

#[test]
fn a_claim_is_made_once_and_again_only_after_a_failure() {
    let mut machine = controller(vec![pod("p", &["gpu"])], Vec::new());
    let first = effects(&mut machine).remove(0);
    machine.handle(at(1), &(), acknowledged(first.id, Outcome::RetryLater));
    assert!(effects(&mut machine).is_empty());
    let wake = machine.next_wake().unwrap();
    assert_eq!(wake.at, at(6));
    machine.handle(wake.at, &(), Turn::Tick.into());
    let second = effects(&mut machine).remove(0);
    machine.handle(at(7), &(), acknowledged(second.id, Outcome::Done));
    machine.handle(at(8), &(), Turn::Tick.into());
    assert!(effects(&mut machine).is_empty());
    assert_eq!((machine.counters().created, machine.counters().create_failed), (1, 1));
}

#[test]
fn a_claim_that_the_pod_does_not_own_is_left_alone_and_the_pod_hears_of_it() {
    let mut machine = controller(vec![pod("p", &["gpu"])], vec![claim("p-gpu", None)]);
    let told = effects(&mut machine);
    assert_eq!(told.len(), 1);
    let ClaimEffectKind::Event(event) = &told[0].kind else { panic!("{told:?}") };
    assert!(event.message.contains("\"p-gpu\" exists and does not belong to this pod"), "{}", event.message);
    // Reported once, and made once the foreign one is gone.
    machine.handle(at(1), &(), ClaimInput::News(News::Claim(version(claim("p-gpu", None), 2))));
    assert!(effects(&mut machine).is_empty());
    machine.handle(at(2), &(), ClaimInput::News(News::ClaimGone(key("p-gpu"), "uid-p-gpu".into())));
    assert!(matches!(effects(&mut machine)[0].kind, ClaimEffectKind::Create(_)));
}

#[test]
fn a_claim_that_was_given_an_owner_reference_to_the_pod_is_the_pods() {
    let mut machine = controller(vec![pod("p", &["gpu"])], vec![claim("p-gpu", Some("p"))]);
    assert!(effects(&mut machine).is_empty());
}

#[test]
fn nothing_is_made_for_a_pod_that_ends() {
    let deleting = Pod { deleting: true, ..pod("p", &["gpu"]) };
    let ended = Pod { ended: true, ..pod("q", &["gpu"]) };
    assert!(effects(&mut controller(vec![deleting, ended], Vec::new())).is_empty());
}

#[test]
fn a_pod_that_has_ended_gives_its_claims_back_though_its_object_stays() {
    let mut own = allocated(claim("p-gpu", Some("p")), None);
    let mut shared = allocated(claim("shared", None), None);
    shared.status.user_limit = 3;
    own.status.reserved_for = vec![user("p")];
    shared.status.reserved_for = vec![user("p"), user("lives")];
    let runs = Pod { node: Some("n".into()), ..pod("p", &["gpu"]) };
    let mut machine = controller(vec![runs.clone(), pod("lives", &[])], vec![own.clone(), shared.clone()]);
    assert!(effects(&mut machine).is_empty());
    let ended = Pod { ended: true, ..runs };
    let writes = hear(&mut machine, News::Pod(Arc::new(ended.clone())));
    let removed: Vec<_> = writes
        .iter()
        .map(|effect| match &effect.kind {
            ClaimEffectKind::Change(change) => change.claim.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(removed, [key("p-gpu"), key("shared")]);
    for effect in &writes {
        machine.handle(at(11), &(), acknowledged(effect.id, Outcome::Done));
    }
    assert!(effects(&mut machine).is_empty());
    own.status.reserved_for = Vec::new();
    shared.status.reserved_for = vec![user("lives")];
    assert!(hear(&mut machine, News::Claim(version(shared, 2))).is_empty());
    // The claim that was made for the pod goes, so that its driver gets the device back.
    let deleted = hear(&mut machine, News::Claim(version(own.clone(), 2)));
    let [Effect { kind: ClaimEffectKind::Delete(delete), .. }] = &deleted[..] else { panic!("{deleted:?}") };
    assert_eq!((&delete.claim, &*delete.uid), (&key("p-gpu"), "uid-p-gpu"));
    // A new leader finds it so, and deletes it once.
    let mut next = controller(vec![ended.clone()], vec![own.clone()]);
    assert!(matches!(effects(&mut next)[..], [Effect { kind: ClaimEffectKind::Delete(_), .. }]));
    own.deleting = true;
    assert!(effects(&mut controller(vec![ended], vec![own])).is_empty());
}

#[test]
fn a_claim_of_a_pod_that_runs_or_of_another_owner_is_not_deleted() {
    let ended = Pod { ended: true, ..pod("p", &["gpu"]) };
    let foreign = allocated(claim("p-gpu", None), None);
    assert!(effects(&mut controller(vec![ended], vec![foreign])).is_empty());
    let own = allocated(claim("q-gpu", Some("q")), None);
    assert!(effects(&mut controller(vec![pod("q", &["gpu"])], vec![own])).is_empty());
}

#[test]
fn the_reservation_of_a_pod_goes_once_the_server_says_that_the_pod_is_gone() {
    let other = Reference {
        api_version: "example.com/v1".into(),
        kind: "Pipeline".into(),
        name: "x".into(),
        uid: "uid-x".into(),
    };
    let mut shared = allocated(claim("shared", None), None);
    shared.status.user_limit = 3;
    shared.status.reserved_for = vec![user("gone"), other.clone(), user("lives")];
    let mut machine = controller(vec![pod("lives", &[])], vec![shared]);
    let asked = effects(&mut machine);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].kind, ClaimEffectKind::ConfirmPod(key("gone"), "uid-gone".into()));
    machine.handle(at(1), &(), acknowledged(asked[0].id, Outcome::Gone));
    let writes = effects(&mut machine);
    let ClaimEffectKind::Change(change) = &writes[0].kind else { panic!("{writes:?}") };
    assert_eq!((&change.version, &change.uid), (&"1".into(), &"uid-shared".into()));
    let [Step::SetStatus(status)] = &change.steps[..] else { panic!("{change:?}") };
    assert_eq!(status.reserved_for, [other, user("lives")]);
}

#[test]
fn the_reservation_of_a_pod_that_is_merely_not_seen_yet_stays() {
    let mut shared = allocated(claim("shared", None), None);
    shared.status.reserved_for = vec![user("late")];
    let mut machine = controller(Vec::new(), vec![shared]);
    let asked = effects(&mut machine);
    machine.handle(at(1), &(), acknowledged(asked[0].id, Outcome::Done));
    assert!(effects(&mut machine).is_empty());
    machine.handle(at(2), &(), ClaimInput::News(News::Pod(Arc::new(pod("late", &[])))));
    assert!(effects(&mut machine).is_empty());
}

#[test]
fn a_controller_that_does_not_lead_does_nothing() {
    let mut machine = ClaimController::default();
    machine.handle(at(0), &(), ClaimInput::News(News::Pod(Arc::new(pod("p", &["gpu"])))));
    assert!(effects(&mut machine).is_empty());
    machine.handle(at(1), &(), Turn::BecameLeader.into());
    assert_eq!(effects(&mut machine).len(), 1);
    machine.handle(at(2), &(), Turn::LostLeadership.into());
    assert_eq!(machine.next_wake(), None);
}

#[test]
fn every_claim_of_a_vanished_pod_loses_its_reservation() {
    let mut one = allocated(claim("one", None), None);
    one.status.reserved_for = vec![user("p")];
    let mut two = allocated(claim("two", None), None);
    two.status.reserved_for = vec![user("p")];
    let mut machine = controller(Vec::new(), vec![one, two]);
    let asked = effects(&mut machine);
    assert_eq!(asked.len(), 1);
    machine.handle(at(1), &(), acknowledged(asked[0].id, Outcome::Gone));
    let changed = effects(&mut machine).into_iter().map(|effect| match effect.kind {
        ClaimEffectKind::Change(change) => change.claim,
        other => panic!("{other:?}"),
    });
    assert_eq!(changed.collect::<Vec<_>>(), [key("one"), key("two")]);
}

/// A node in some version: the claims that it is asked about, and those that it says are unprepared.
fn report(version: u32, awaiting: &[Awaited], unprepared: &[&str]) -> NodeReport {
    NodeReport {
        name: "n".into(),
        uid: "uid-n".into(),
        version: version.to_string().into(),
        reports: true,
        awaiting: awaiting.to_vec(),
        unprepared: unprepared.iter().map(|uid| Uid::from(*uid)).collect(),
        ..NodeReport::default()
    }
}

fn hear(machine: &mut ClaimController, news: News) -> Vec<Effect<ClaimEffectKind>> {
    machine.handle(at(10), &(), ClaimInput::News(news));
    effects(machine)
}

/// A claim that is reserved for a pod on node n, and the pod is gone.
fn removed_by_force(node: NodeReport) -> (ClaimController, Vec<Effect<ClaimEffectKind>>) {
    let mut reserved = allocated(claim("c", None), None);
    reserved.status.reserved_for = vec![user("p")];
    let bound = Pod { node: Some("n".into()), ..pod("p", &[]) };
    let mut machine = controller(vec![bound], vec![reserved]);
    assert!(hear(&mut machine, News::Report(Arc::new(node))).is_empty());
    let asked = hear(&mut machine, News::PodGone(key("p"), "uid-p".into()));
    assert_eq!(asked[0].kind, ClaimEffectKind::ConfirmPod(key("p"), "uid-p".into()));
    machine.handle(at(11), &(), acknowledged(asked[0].id, Outcome::Gone));
    let effects = effects(&mut machine);
    (machine, effects)
}

fn removes_the_user(effects: &[Effect<ClaimEffectKind>]) -> bool {
    matches!(effects, [Effect { kind: ClaimEffectKind::Change(change), .. }] if change.claim == key("c"))
}

fn question(effects: &[Effect<ClaimEffectKind>]) -> AskNode {
    match effects {
        [Effect { kind: ClaimEffectKind::AskNode(ask), .. }] => ask.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_reservation_of_a_pod_that_was_removed_by_force_stays_until_its_node_has_unprepared_the_claim() {
    let (mut machine, asked) = removed_by_force(report(1, &[], &[]));
    let ask = question(&asked);
    assert_eq!((&*ask.node, &*ask.uid, &*ask.version), ("n", "uid-n", "1"));
    assert_eq!((&ask.awaiting[0].claim, &*ask.awaiting[0].uid), (&key("c"), "uid-c"));
    machine.handle(at(12), &(), acknowledged(asked[0].id, Outcome::Done));
    let seen = hear(&mut machine, News::Report(Arc::new(report(2, &ask.awaiting, &[]))));
    assert!(seen.is_empty(), "it is asked once: {seen:?}");
    let answered = hear(&mut machine, News::Report(Arc::new(report(3, &ask.awaiting, &["uid-c"]))));
    assert!(removes_the_user(&answered), "{answered:?}");
    machine.handle(at(13), &(), acknowledged(answered[0].id, Outcome::Done));
    let without = allocated(claim("c", None), None);
    let taken_back = hear(&mut machine, News::Claim(version(without, 2)));
    assert!(question(&taken_back).awaiting.is_empty(), "the question is taken back");
}

#[test]
fn an_answer_to_an_earlier_question_does_not_count() {
    let (mut machine, effects) = removed_by_force(report(1, &[], &["uid-c"]));
    assert!(effects.is_empty(), "the node takes its answer back first: {effects:?}");
    let asked = hear(&mut machine, News::Report(Arc::new(report(2, &[], &[]))));
    assert_eq!(question(&asked).awaiting.len(), 1);
}

#[test]
fn nodes_that_cannot_have_prepared_the_claim_or_do_not_answer_are_not_waited_for() {
    let mut used = allocated(claim("c", None), None);
    used.status.reserved_for = vec![user("p")];
    let ended = Pod { node: Some("n".into()), ended: true, ..pod("p", &[]) };
    let at_once = effects(&mut controller(vec![ended], vec![used]));
    assert!(removes_the_user(&at_once), "the pod ended on its node");
    let silent = NodeReport { reports: false, ..report(1, &[], &[]) };
    assert!(removes_the_user(&removed_by_force(silent).1));
    let off = NodeReport { out_of_service: true, ..report(1, &[], &[]) };
    assert!(removes_the_user(&removed_by_force(off).1));
    let (mut machine, asked) = removed_by_force(report(1, &[], &[]));
    question(&asked);
    assert!(removes_the_user(&hear(&mut machine, News::ReportGone("n".into()))), "the node is gone");
    // A pod that was never seen may have been on any node on which the claim is available.
    let mut reserved = allocated(claim("c", None), Some("n"));
    reserved.status.reserved_for = vec![user("p")];
    for (available, names) in [(reserved.clone(), vec!["n"]), (allocated_anywhere(reserved), vec!["m", "n"])]
    {
        let mut machine = controller(Vec::new(), vec![available]);
        let other = NodeReport { name: "m".into(), ..report(1, &[], &[]) };
        let confirm = effects(&mut machine);
        for node in [report(1, &[], &[]), other] {
            assert!(hear(&mut machine, News::Report(Arc::new(node))).is_empty());
        }
        machine.handle(at(11), &(), acknowledged(confirm[0].id, Outcome::Gone));
        let asked: Vec<AskNode> =
            effects(&mut machine).iter().map(|effect| question(std::slice::from_ref(effect))).collect();
        assert_eq!(asked.iter().map(|ask| &*ask.node).collect::<Vec<_>>(), names);
    }
}

fn allocated_anywhere(mut claim: ResourceClaim) -> ResourceClaim {
    claim.status.driver.available_on_nodes = None;
    claim
}
