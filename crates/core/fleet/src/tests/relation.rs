//! Devices to claims to pods, and back.

use alloc::{sync::Arc, vec, vec::Vec};

use lazaret_model::{ClaimSource, Consumer, ObjectKey, Owner, Pod, PodClaim, Quantity, ResourceClaim, Text};

use super::build::*;
use crate::{Fleet, Input};

fn pod(name: &str, source: ClaimSource) -> Pod {
    Pod {
        key: ObjectKey::new("ns", name),
        uid: alloc::format!("{name}-uid").into(),
        claims: vec![PodClaim { name: "e".into(), source }],
        ..Pod::default()
    }
}

fn by_name() -> ClaimSource {
    ClaimSource::Claim("c".into())
}

fn by_template(resolved: Option<Option<&str>>) -> ClaimSource {
    ClaimSource::Template { template: "t".into(), resolved: resolved.map(|name| name.map(Text::from)) }
}

fn owned(claim: ResourceClaim, group: &str, kind: &str, name: &str, uid: &str) -> ResourceClaim {
    let owner = Owner { group: group.into(), kind: kind.into(), name: name.into(), uid: uid.into() };
    ResourceClaim { owner: Some(owner), ..claim }
}

fn reserved_for_group(claim: ResourceClaim, group: &str) -> ResourceClaim {
    let consumer = Consumer {
        api_group: "scheduling.k8s.io".into(),
        resource: "podgroups".into(),
        name: group.into(),
        uid: "group-uid".into(),
    };
    ResourceClaim { reserved_for: vec![consumer], ..claim }
}

/// Whether pod `o` uses claim `c`, asked both ways, whichever came first.
fn uses(pod: &Pod, claim: &ResourceClaim) -> bool {
    let answer = |inputs: [Input; 2]| {
        let fleet = fleet(&inputs);
        let (claim, pod) = (fleet.claim_ix(&claim.key).unwrap(), fleet.pod_ix(&pod.key).unwrap());
        let there = fleet.pods_of_claim(claim).any(|other| other == pod);
        assert_eq!(there, fleet.claims_of_pod(pod).any(|other| other == claim));
        there
    };
    let (pod, claim) = (Input::from(pod.clone()), Input::from(claim.clone()));
    let there = answer([pod.clone(), claim.clone()]);
    assert_eq!(there, answer([claim, pod]));
    there
}

#[test]
fn a_pod_uses_a_claim_that_it_names_may_have_and_is_reserved_for() {
    let given = claim("c", &["d/p/a"], &["o-uid"]);
    let own = owned(given.clone(), "", "Pod", "o", "o-uid");
    let unallocated = ResourceClaim { allocation: None, ..given.clone() };
    let extended = Pod { claims: vec![], extended_claim: Some("c".into()), ..pod("o", by_name()) };
    let cases: [(&str, bool, Pod, &ResourceClaim); 12] = [
        ("by name", true, pod("o", by_name()), &given),
        ("by another name", false, pod("o", ClaimSource::Claim("x".into())), &given),
        ("not allocated", false, pod("o", by_name()), &unallocated),
        ("reserved for nobody", false, pod("o", by_name()), &claim("c", &["d/p/a"], &[])),
        (
            "reserved for the pod of that name before",
            false,
            pod("o", by_name()),
            &claim("c", &["d/p/a"], &["old-uid"]),
        ),
        ("from a template, own", true, pod("o", by_template(Some(Some("c")))), &own),
        ("from a template, not own", false, pod("o", by_template(Some(Some("c")))), &given),
        ("from a template, not made yet", false, pod("o", by_template(None)), &own),
        ("from a template, not needed", false, pod("o", by_template(Some(None))), &own),
        ("in a way not known", false, pod("o", ClaimSource::Unknown), &own),
        ("extended resource, own", true, extended.clone(), &own),
        ("extended resource, not own", false, extended, &given),
    ];
    for (case, expected, pod, claim) in cases {
        assert_eq!(uses(&pod, claim), expected, "{case}");
    }
}

#[test]
fn groups_own_and_reserve_claims_for_their_pods() {
    let group = "scheduling.k8s.io";
    let member = |source| Pod { group: Some("g".into()), ..pod("o", source) };
    let of_group =
        owned(reserved_for_group(claim("c", &["d/p/a"], &[]), "g"), group, "PodGroup", "g", "group-uid");
    assert!(uses(&member(by_template(Some(Some("c")))), &of_group));
    assert!(uses(&member(by_name()), &of_group));
    assert!(!uses(&pod("o", by_template(Some(Some("c")))), &of_group), "no member");
    let other = owned(of_group.clone(), group, "PodGroup", "h", "group-uid");
    assert!(!uses(&member(by_template(Some(Some("c")))), &other), "owned by another group");
    let foreign = owned(of_group, "example.com", "PodGroup", "g", "group-uid");
    assert!(!uses(&member(by_template(Some(Some("c")))), &foreign), "owned by another kind of group");
}

#[test]
fn a_shared_claim_leads_to_each_of_its_pods() {
    let fleet = fleet(&[
        pod("o1", by_name()).into(),
        claim("c", &["d/p/a"], &["o1-uid", "o2-uid", "o3-uid"]).into(),
        pod("o2", by_name()).into(),
        pod("stranger", by_name()).into(),
    ]);
    let claim = fleet.holders(&id("d/p/a")).next().unwrap();
    let pods: Vec<_> = fleet.pods_of_claim(claim).map(|ix| fleet.pod(ix).unwrap().key.name.clone()).collect();
    assert_eq!(pods, ["o1", "o2"]);
}

/// The number of a claim or a pod means the same one until its end was reported.
#[test]
fn numbers_are_not_given_again_before_the_end_was_reported() {
    let mut fleet = fleet(&[claim("c", &[], &[]).into(), pod("o", by_name()).into()]);
    fleet.take_changes();
    let (c, o) = (
        fleet.claim_ix(&ObjectKey::new("ns", "c")).unwrap(),
        fleet.pod_ix(&ObjectKey::new("ns", "o")).unwrap(),
    );
    let reborn = ResourceClaim { uid: "another".into(), ..claim("c", &[], &[]) };
    fleet.apply(reborn.into());
    fleet.apply(Input::PodGone(ObjectKey::new("ns", "o")));
    fleet.apply(pod("o2", by_name()).into());
    assert!(fleet.claim(c).is_none() && fleet.pod(o).is_none());
    let changes = fleet.take_changes();
    assert!(changes.claims.contains(&c) && changes.claims.len() == 2);
    assert!(changes.pods.contains(&o) && changes.pods.len() == 2);
    fleet.apply(claim("c2", &[], &[]).into());
    assert!(fleet.claim(c).is_some(), "now it may be");
}

#[test]
fn usage_counts_exclusive_and_shared_but_not_monitoring() {
    let mut watching = claim("w", &["d/p/a"], &[]);
    let share = |name: &str, amount: &str| {
        let mut shared = claim(name, &["d/p/b"], &[]);
        let mut allocation = (**shared.allocation.as_ref().unwrap()).clone();
        allocation.results[0].share_id = Some(name.into());
        allocation.results[0].consumed_capacity = vec![("mem".into(), Quantity::parse(amount).unwrap())];
        shared.allocation = Some(Arc::new(allocation));
        Input::from(shared)
    };
    let mut allocation = (**watching.allocation.as_ref().unwrap()).clone();
    allocation.results[0].admin_access = true;
    watching.allocation = Some(Arc::new(allocation));
    let devices = ["a", "b", "c"].map(|name| device(name, &[], &[]));
    let mut fleet = fleet(&[
        watching.into(),
        share("h1", "1Gi"),
        slice("s", "d/p", devices.to_vec()).into(),
        share("h2", "512Mi"),
        claim("x", &["d/p/c"], &[]).into(),
    ]);
    let used = |fleet: &mut Fleet| {
        let snapshot = fleet.snapshot();
        let slice = snapshot.pools().next().unwrap().slices[0].clone();
        let b = snapshot.device(&slice, 1);
        let consumed: Vec<_> =
            b.consumed_capacity().iter().map(|(key, sum)| alloc::format!("{key}={sum}")).collect();
        (slice.in_use_bits(), b.shares(), consumed)
    };
    assert_eq!(used(&mut fleet), (0b100, 2, vec!["mem=1536Mi".into()]));
    fleet.apply(Input::ClaimGone(ObjectKey::new("ns", "h1")));
    fleet.apply(Input::ClaimGone(ObjectKey::new("ns", "x")));
    assert_eq!(used(&mut fleet), (0, 1, vec!["mem=512Mi".into()]));
}
