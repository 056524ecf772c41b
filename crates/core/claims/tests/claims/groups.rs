//! Claims that a group of pods has together.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use lazaret_claims::{
    ClaimStep, Claims, EffectKind, FINALIZER, HolderKind, Input, Options, Outcome, SeenClaim, Template,
};
use lazaret_model::{
    Allocation, ClaimSource, Consumer, ObjectKey, Owner, POD_GROUP_API, Pod, PodClaim, PodGroup,
    ResourceClaim, Text, Timestamp,
};

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn templated(name: &str, template: &str, claim: Option<&str>) -> PodClaim {
    let resolved = claim.map(|claim| Some(Text::from(claim)));
    PodClaim { name: name.into(), source: ClaimSource::Template { template: template.into(), resolved } }
}

fn group(claims: Vec<PodClaim>) -> Input {
    Input::Group(Arc::new(PodGroup { key: key("g"), uid: "g-uid".into(), claims, ..PodGroup::default() }))
}

fn pod(name: &str, claims: Vec<PodClaim>) -> Pod {
    Pod {
        key: key(name),
        uid: format!("{name}-uid").into(),
        group: Some("g".into()),
        claims,
        ..Pod::default()
    }
}

fn claim(name: &str, change: impl FnOnce(&mut ResourceClaim)) -> Input {
    let mut claim = ResourceClaim {
        key: key(name),
        uid: format!("{name}-uid").into(),
        owner: Some(Owner {
            group: POD_GROUP_API.into(),
            kind: "PodGroup".into(),
            name: "g".into(),
            uid: "g-uid".into(),
        }),
        ..ResourceClaim::default()
    };
    change(&mut claim);
    Input::Claim(SeenClaim {
        claim: Arc::new(claim),
        version: "1".into(),
        finalizers: vec![FINALIZER.into()],
        entry: Some("device".into()),
        awaiting: None,
    })
}

fn machine(groups: bool, told: Vec<Input>) -> Claims {
    let mut machine = Claims::new(Options { groups, ..Options::default() });
    let template = Template { key: key("t"), ..Template::default() };
    machine.handle(NOW, Input::Template(Arc::new(template)));
    told.into_iter().for_each(|input| machine.handle(NOW, input));
    machine.handle(NOW, Input::BecameLeader);
    machine.handle(NOW, Input::Synced);
    machine
}

fn wanted(machine: &mut Claims) -> Vec<String> {
    std::iter::from_fn(|| machine.poll_effect()).map(|effect| spell(&effect.kind)).collect()
}

fn spell(effect: &EffectKind) -> String {
    let who = |kind: HolderKind| match kind {
        HolderKind::Pod => "pod",
        HolderKind::Group => "group",
    };
    match effect {
        EffectKind::CreateClaim(create) => {
            format!(
                "create {}* for {} {}",
                create.generate_name,
                who(create.holder.kind),
                create.holder.key.name
            )
        }
        EffectKind::SetClaimNames(write) => {
            let names: Vec<String> =
                write.names.iter().map(|(entry, claim)| format!("{entry}={claim}")).collect();
            format!("record {} {} {}", who(write.holder.kind), write.holder.key.name, names.join(","))
        }
        EffectKind::ChangeClaim(change) => {
            let steps: Vec<String> = change.steps.iter().map(spell_step).collect();
            format!("change {}: {}", change.claim.name, steps.join(", "))
        }
        EffectKind::Confirm(holder) => format!("confirm {} {}", who(holder.kind), holder.uid),
        EffectKind::ConfirmNode(node) => format!("confirm {node}"),
        EffectKind::AskNode(ask) => format!("ask {}", ask.node),
        EffectKind::Event(event) => format!("event {}: {}", who(event.holder.kind), event.message),
        EffectKind::ClaimEvent(event) => format!("event {}: {}", event.claim.name, event.message),
    }
}

fn spell_step(step: &ClaimStep) -> String {
    match step {
        ClaimStep::SetStatus { reserved_for, deallocate } => {
            let users: Vec<&str> = reserved_for.iter().map(|user| &*user.uid).collect();
            format!("reserve for [{}]{}", users.join(" "), if *deallocate { " and deallocate" } else { "" })
        }
        ClaimStep::SetFinalizers(left) => format!("leave {} finalizers", left.len()),
        ClaimStep::SetAwaiting(nodes) => format!("wait for {nodes:?}"),
        ClaimStep::Delete => "delete".to_owned(),
    }
}

fn reserved(claim: &mut ResourceClaim) {
    claim.allocation = Some(Arc::new(Allocation::default()));
    let (api_group, resource) = (POD_GROUP_API.into(), "podgroups".into());
    claim.reserved_for = vec![Consumer { api_group, resource, name: "g".into(), uid: "g-uid".into() }];
}

#[test]
fn one_claim_is_made_for_the_group_and_none_for_its_pods() {
    let told = vec![
        Input::Pod(Arc::new(pod("p", vec![templated("device", "t", None)]))),
        group(vec![templated("device", "t", None)]),
    ];
    assert_eq!(wanted(&mut machine(true, told)), ["create g-device-* for group g"]);
}

#[test]
fn the_name_goes_to_the_group_and_to_its_pods() {
    let told = vec![
        group(vec![templated("device", "t", None)]),
        Input::Pod(Arc::new(pod("p", vec![templated("device", "t", None)]))),
        claim("g-device-x", |_| {}),
    ];
    assert_eq!(
        wanted(&mut machine(true, told)),
        ["record pod p device=g-device-x", "record group g device=g-device-x"]
    );
}

#[test]
fn entries_that_the_group_does_not_have_are_the_pods_own() {
    let told = vec![
        group(vec![templated("device", "t", Some("g-device-x"))]),
        claim("g-device-x", |_| {}),
        Input::Pod(Arc::new(pod("p", vec![templated("other", "t", None)]))),
    ];
    assert_eq!(wanted(&mut machine(true, told)), ["create p-other-* for pod p"]);
}

#[test]
fn pods_wait_for_their_group() {
    let pod = pod("p", vec![templated("device", "t", None)]);
    let mut machine = machine(true, vec![Input::Pod(Arc::new(pod))]);
    assert_eq!(wanted(&mut machine), [""; 0]);
    machine.handle(NOW, group(vec![]));
    assert_eq!(wanted(&mut machine), ["create p-device-* for pod p"]);
}

#[test]
fn without_the_feature_pods_of_groups_get_nothing_and_reservations_stay() {
    let told = vec![
        Input::Pod(Arc::new(pod("p", vec![templated("device", "t", None)]))),
        claim("g-device-x", reserved),
    ];
    assert_eq!(wanted(&mut machine(false, told)), [""; 0]);
}

#[test]
fn a_group_keeps_its_claim_until_it_is_gone() {
    let told = vec![group(vec![templated("device", "t", Some("g-device-x"))]), claim("g-device-x", reserved)];
    let mut machine = machine(true, told);
    assert_eq!(wanted(&mut machine), [""; 0]);
    machine.handle(NOW, Input::GroupGone { key: key("g"), uid: "g-uid".into() });
    assert_eq!(wanted(&mut machine), ["change g-device-x: delete, leave 0 finalizers"]);
    assert_eq!(machine.sizes()[0], 0);
}

#[test]
fn a_group_of_which_nothing_is_known_is_asked_for() {
    let mut machine = machine(true, vec![claim("g-device-x", reserved)]);
    let asked = machine.poll_effect().unwrap();
    assert_eq!(spell(&asked.kind), "confirm group g-uid");
    machine.handle(NOW, Input::Acknowledged { effect: asked.id, outcome: Outcome::Gone, why: None });
    assert_eq!(wanted(&mut machine), ["change g-device-x: delete, leave 0 finalizers"]);
}

#[test]
fn a_pod_that_was_bound_by_others_is_reserved_for_as_its_group() {
    let mut bound = pod("p", vec![templated("device", "t", Some("g-device-x"))]);
    bound.node = Some("n".into());
    let told = vec![
        group(vec![templated("device", "t", Some("g-device-x"))]),
        Input::Pod(Arc::new(bound)),
        claim("g-device-x", |claim| claim.allocation = Some(Arc::new(Allocation::default()))),
    ];
    assert_eq!(wanted(&mut machine(true, told)), ["change g-device-x: reserve for [g-uid]"]);
}
