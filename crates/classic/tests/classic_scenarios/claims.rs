//! The claim controller.

use std::sync::Arc;

use lazaret_classic::{
    ClaimController, ClaimEffectKind, ClaimInput, News, Pod, Reference, ResourceClaim, Step,
};
use lazaret_machine::{Effect, Machine, Outcome, Turn};

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
    // Told once, and made once the foreign one is gone.
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
