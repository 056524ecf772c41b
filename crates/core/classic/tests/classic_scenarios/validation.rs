//! Objects that an API server refuses, and its words.

use std::sync::Arc;

use lazaret_classic::{
    AllocationMode, ContainerClaims, FieldError, PodClaim, PodClaimSource, ResourceClaim, ResourceClass,
    Template, USERS_UNLIMITED, validate_claim, validate_claim_status, validate_claim_status_update,
    validate_claim_update, validate_class, validate_pod_claims,
};

use super::{allocated, claim, pod, spec, user};

fn texts(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn the_spec_of_a_claim_is_immutable() {
    let old = claim("gpu", None);
    let mut new = old.clone();
    new.spec = spec("other", AllocationMode::Delayed);
    assert_eq!(
        texts(validate_claim_update(&old, &new)),
        ["spec: Invalid value: {\"resourceClassName\":\"other\"}: field is immutable"]
    );
    assert_eq!(texts(validate_claim_update(&old, &old)), Vec::<String>::new());
}

#[test]
fn a_class_needs_a_driver_and_a_claim_needs_a_class() {
    let class = ResourceClass { name: "acme-gpu".into(), ..ResourceClass::default() };
    assert_eq!(texts(validate_class(&class)), ["driverName: Required value"]);
    let mut nameless = claim("gpu", None);
    nameless.spec = spec("", AllocationMode::Immediate);
    assert_eq!(texts(validate_claim(&nameless)), ["spec.resourceClassName: Required value"]);
}

#[test]
fn a_pod_whose_claim_would_have_a_name_that_is_too_long_is_refused() {
    let name = "p".repeat(250);
    let fits = pod(&name, &["ab"]);
    assert_eq!(texts(validate_pod_claims(&fits)), Vec::<String>::new());
    let errors = texts(validate_pod_claims(&pod(&name, &["abc"])));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("spec.resourceClaims[0].name: Invalid value: \"abc\": "), "{errors:?}");
    assert!(errors[0].ends_with("a DNS subdomain has at most 253 bytes"), "{errors:?}");
}

#[test]
fn metadata_of_a_template_may_only_have_labels_and_annotations() {
    let mut pod = pod("device-consumer", &["gpu"]);
    pod.claims[0].source = Some(PodClaimSource::Template(Arc::new(Template {
        labels: [("app".into(), "x".into())].into(),
        annotations: [("example.com/Note".into(), "any text".into())].into(),
        other_metadata: vec!["name".into(), "finalizers".into()],
        spec: spec("acme-gpu", AllocationMode::Delayed),
    })));
    let detail = "Forbidden: only labels and annotations may be set in the metadata of a template";
    assert_eq!(
        texts(validate_pod_claims(&pod)),
        [
            format!("spec.resourceClaims[0].template.metadata.name: {detail}"),
            format!("spec.resourceClaims[0].template.metadata.finalizers: {detail}"),
        ]
    );
}

#[test]
fn an_entry_has_a_name_and_exactly_one_source() {
    let mut pod = pod("p", &["gpu", "gpu"]);
    pod.claims.push(PodClaim { name: "none".into(), source: None });
    let template = Arc::new(Template { spec: spec("c", AllocationMode::Delayed), ..Template::default() });
    pod.claims
        .push(PodClaim { name: "both".into(), source: Some(PodClaimSource::Both("x".into(), template)) });
    assert_eq!(
        texts(validate_pod_claims(&pod)),
        [
            "spec.resourceClaims[1].name: Duplicate value: \"gpu\"",
            "spec.resourceClaims[2]: Required value: must specify one of: `classicClaimName`, `template`",
            "spec.resourceClaims[3]: Invalid value: {}: must specify exactly one of: `classicClaimName`, `template`, but multiple are set",
        ]
    );
}

#[test]
fn containers_use_entries_that_exist() {
    let mut pod = pod("device-consumer", &["gpu"]);
    pod.containers = vec![ContainerClaims {
        path: "spec.containers[0]".into(),
        claims: vec!["gpu".into(), "fpga".into(), "gpu".into()],
    }];
    assert_eq!(
        texts(validate_pod_claims(&pod)),
        [
            "spec.containers[0].resources.claims[1]: Not found: \"fpga\"",
            "spec.containers[0].resources.claims[2]: Duplicate value: \"gpu\"",
        ]
    );
}

#[test]
fn users_are_counted_against_the_limit() {
    let mut status = allocated(claim("gpu", None), None).status;
    status.reserved_for = vec![user("a"), user("b")];
    assert_eq!(
        texts(validate_claim_status(&status)),
        ["status.reservedFor: Too many: 2: must have at most 1 items"]
    );
    for limit in [2, USERS_UNLIMITED] {
        status.user_limit = limit;
        assert_eq!(texts(validate_claim_status(&status)), Vec::<String>::new());
    }
    status.reserved_for.clear();
    status.user_limit = 0;
    assert_eq!(
        texts(validate_claim_status(&status)),
        ["status.userLimit: Invalid value: 0: must be at least 1, or -1 for an unlimited number of users"]
    );
}

#[test]
fn only_claims_that_are_allocated_and_stay_can_be_reserved() {
    let pending = claim("gpu", None);
    let mut status = pending.status.clone();
    status.reserved_for = vec![user("a")];
    assert_eq!(
        texts(validate_claim_status_update(&pending, &status)),
        [
            "status.reservedFor: Forbidden: may not be set while the claim is not allocated",
            "status.reservedFor: Forbidden: a user may only be added to a claim that is allocated",
        ]
    );
    let mut leaving = allocated(claim("gpu", None), None);
    leaving.deleting = true;
    let mut status = leaving.status.clone();
    status.reserved_for = vec![user("a")];
    assert_eq!(
        texts(validate_claim_status_update(&leaving, &status)),
        ["status.reservedFor: Forbidden: no user may be added to a claim that is being deleted"]
    );
}

#[test]
fn a_claim_that_is_reserved_is_not_deallocated() {
    let mut old = allocated(claim("gpu", None), None);
    old.status.reserved_for = vec![user("a")];
    let mut status = old.status.clone();
    status.phase = lazaret_classic::Phase::Reallocate;
    assert_eq!(
        texts(validate_claim_status_update(&old, &status)),
        [
            "status.reservedFor: Forbidden: may not be set while the claim is not allocated",
            "status.phase: Forbidden: a claim that is reserved may not be deallocated"
        ]
    );
}

#[test]
fn a_claim_that_is_being_deallocated_does_not_become_allocated_again() {
    let mut old = allocated(claim("gpu", None), None);
    old.status.phase = lazaret_classic::Phase::Reallocate;
    let status = allocated(claim("gpu", None), None).status;
    assert_eq!(
        texts(validate_claim_status_update(&old, &status)),
        ["status.phase: Forbidden: a claim that is being deallocated becomes Pending first"]
    );
}

#[test]
fn a_claim_that_is_used_keeps_the_finalizer_of_its_driver() {
    let mut used = allocated(claim("gpu", None), None);
    used.status.reserved_for = vec![user("a")];
    let bare = ResourceClaim { finalizers: Vec::new(), ..used.clone() };
    assert_eq!(
        texts(validate_claim_update(&used, &bare)),
        [
            "metadata.finalizers: Forbidden: gpu.acme.com/deletion-protection may not be removed while the claim is reserved for 1 user(s); delete the pods in status.reservedFor first"
        ]
    );
    // Finalizers of others may go, and that of a driver when nobody uses the claim.
    let with_other = ResourceClaim {
        finalizers: [&used.finalizers[..], &["example.com/audit".into()]].concat(),
        ..used.clone()
    };
    assert_eq!(texts(validate_claim_update(&with_other, &used)), Vec::<String>::new());
    used.status.reserved_for.clear();
    assert_eq!(texts(validate_claim_update(&used, &bare)), Vec::<String>::new());
}
