//! Rules by which an API server refuses objects.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{
    NameError, Text, validate_dns_label, validate_dns_subdomain, validate_driver_name, validate_label_name,
    validate_label_value,
};

use crate::{
    field_error::{FieldError, FieldProblem},
    model::{
        ClaimSpec, ClaimStatus, Phase, Pod, PodClaimSource, RESERVED_MAX, ResourceClaim, ResourceClass,
        Template, USERS_UNLIMITED, claim_name,
    },
};

/// Entries of a pod, as many as Kubernetes permits structured ones in a claim.
pub const POD_CLAIMS_MAX: usize = 32;
/// How the finalizer of a driver ends: `<driver>/deletion-protection`.
const PROTECTION: &str = "/deletion-protection";
/// Nodes in a list of a status. 1,024 names of 253 bytes are a quarter of what an object may have.
pub const NODES_MAX: usize = 1_024;
/// Bytes of parameters, as many as Kubernetes permits for opaque parameters of a driver.
pub const PARAMETERS_BYTES_MAX: usize = 10 * 1024;
/// Bytes of all attributes together, keys included.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// This many errors are collected; an object with more is wrong enough.
const ERRORS_MAX: usize = 100;
const IMMUTABLE: &str = "field is immutable";

#[derive(Default)]
struct Errors(Vec<FieldError>);

impl Errors {
    fn push(&mut self, path: impl Into<String>, problem: FieldProblem) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(FieldError { path: path.into(), problem });
        }
    }

    fn invalid(&mut self, path: impl Into<String>, value: &str, detail: impl ToString) {
        self.push(path, FieldProblem::Invalid(format!("{value:?}"), detail.to_string()));
    }

    fn name(&mut self, path: String, value: &str, check: impl Fn(&str) -> Result<(), NameError>) {
        if value.is_empty() {
            self.push(path, FieldProblem::Required(String::new()));
        } else if let Err(error) = check(value) {
            self.invalid(path, value, error);
        }
    }

    fn too_many(&mut self, path: &str, count: usize, most: usize) {
        if count > most {
            self.push(path, FieldProblem::TooMany(count, most));
        }
    }

    fn too_long(&mut self, path: String, bytes: usize, most: usize) {
        if bytes > most {
            self.push(path, FieldProblem::TooLong(most));
        }
    }
}

/// A class that is created or updated.
#[must_use]
pub fn validate_class(class: &ResourceClass) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.name("metadata.name".into(), &class.name, validate_dns_subdomain);
    errors.name("driverName".into(), &class.driver_name, validate_driver_name);
    errors.too_long("parameters".into(), class.parameters.len(), PARAMETERS_BYTES_MAX);
    errors.0
}

/// A claim that is created. Whether its class exists is not asked.
#[must_use]
pub fn validate_claim(claim: &ResourceClaim) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.name("metadata.name".into(), &claim.key.name, validate_dns_subdomain);
    spec(&mut errors, "spec", &claim.spec);
    errors.0
}

/// A claim that is updated, but for its status.
#[must_use]
pub fn validate_claim_update(old: &ResourceClaim, new: &ResourceClaim) -> Vec<FieldError> {
    let mut errors = Errors(validate_claim(new));
    if old.spec != new.spec {
        let class = &new.spec.class_name;
        errors.push(
            "spec",
            FieldProblem::Invalid(format!("{{\"resourceClassName\":{class:?}}}"), IMMUTABLE.into()),
        );
    }
    errors.0.extend(validate_finalizers(old, new));
    errors.0
}

/// A claim that is used keeps the finalizer of its driver: without it the claim could go, and its device would be given away under a running pod.
#[must_use]
pub fn validate_finalizers(old: &ResourceClaim, new: &ResourceClaim) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let is_lost = |name: &&Text| name.ends_with(PROTECTION) && !new.finalizers.contains(name);
    if !old.status.reserved_for.is_empty()
        && let Some(lost) = old.finalizers.iter().find(is_lost)
    {
        let users = old.status.reserved_for.len();
        let detail = format!(
            "{lost} may not be removed while the claim is reserved for {users} user(s); delete the pods in status.reservedFor first"
        );
        errors.push("metadata.finalizers", FieldProblem::Forbidden(detail));
    }
    errors.0
}

/// The status of a claim by itself.
#[must_use]
pub fn validate_claim_status(status: &ClaimStatus) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let ClaimStatus { phase, driver_name, scheduler, driver, attributes, user_limit, reserved_for } = status;
    let allocated = *phase != Phase::Pending;
    if allocated && driver_name.is_empty() {
        let detail = "must be set when the claim is allocated";
        errors.push("status.driverName", FieldProblem::Required(detail.into()));
    } else if !driver_name.is_empty() {
        errors.name("status.driverName".into(), driver_name, validate_driver_name);
    }
    if let Some(node) = &scheduler.selected_node {
        errors.name("status.scheduling.scheduler.selectedNode".into(), node, validate_dns_subdomain);
    }
    let potential: &[Text] = &scheduler.potential_nodes;
    node_names(&mut errors, "status.scheduling.scheduler.potentialNodes", potential);
    node_names(&mut errors, "status.scheduling.driver.unsuitableNodes", &driver.unsuitable_nodes);
    let bytes: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    errors.too_long("status.attributes".into(), bytes, ATTRIBUTES_BYTES_MAX);
    if *user_limit < 1 && *user_limit != USERS_UNLIMITED {
        let detail = "must be at least 1, or -1 for an unlimited number of users";
        errors.push("status.userLimit", FieldProblem::Invalid(user_limit.to_string(), detail.into()));
    }
    if !reserved_for.is_empty() && *phase != Phase::Allocated {
        let detail = "may not be set while the claim is not allocated";
        errors.push("status.reservedFor", FieldProblem::Forbidden(detail.into()));
    }
    let limit = if *user_limit == USERS_UNLIMITED { RESERVED_MAX } else { users_max(*user_limit) };
    errors.too_many("status.reservedFor", reserved_for.len(), limit);
    let mut seen = BTreeSet::new();
    for (at, user) in reserved_for.iter().enumerate().take(RESERVED_MAX) {
        let path = format!("status.reservedFor[{at}]");
        for (field, value) in [
            ("apiVersion", &user.api_version),
            ("kind", &user.kind),
            ("name", &user.name),
            ("uid", &user.uid),
        ] {
            if value.is_empty() {
                errors.push(format!("{path}.{field}"), FieldProblem::Required(String::new()));
            }
        }
        if !seen.insert(&user.uid) {
            errors.push(format!("{path}.uid"), FieldProblem::Duplicate(format!("{:?}", user.uid)));
        }
    }
    errors.0
}

/// A status that is written over another one.
#[must_use]
pub fn validate_claim_status_update(old: &ResourceClaim, new: &ClaimStatus) -> Vec<FieldError> {
    let mut errors = Errors(validate_claim_status(new));
    let was_reserved = !old.status.reserved_for.is_empty();
    let is_new = |uid: &Text| !old.is_reserved_for(uid);
    if new.reserved_for.iter().any(|user| is_new(&user.uid)) {
        if old.deleting {
            let detail = "no user may be added to a claim that is being deleted";
            errors.push("status.reservedFor", FieldProblem::Forbidden(detail.into()));
        }
        if old.status.phase != Phase::Allocated {
            let detail = "a user may only be added to a claim that is allocated";
            errors.push("status.reservedFor", FieldProblem::Forbidden(detail.into()));
        }
    }
    if old.status.phase == Phase::Allocated && new.phase != Phase::Allocated && was_reserved {
        let detail = "a claim that is reserved may not be deallocated";
        errors.push("status.phase", FieldProblem::Forbidden(detail.into()));
    }
    if old.status.phase == Phase::Reallocate && new.phase == Phase::Allocated {
        let detail = "a claim that is being deallocated becomes Pending first";
        errors.push("status.phase", FieldProblem::Forbidden(detail.into()));
    }
    if old.status.phase == Phase::Allocated && new.phase == Phase::Allocated {
        let same = old.status.attributes == new.attributes
            && old.status.driver_name == new.driver_name
            && old.status.user_limit == new.user_limit;
        if !same {
            let detail = "driverName, attributes and userLimit may not change while the claim is allocated";
            errors.push("status", FieldProblem::Forbidden(detail.into()));
        }
    }
    errors.0
}

/// The claims of a pod.
#[must_use]
pub fn validate_pod_claims(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.too_many("spec.resourceClaims", pod.claims.len(), POD_CLAIMS_MAX);
    let mut names = BTreeSet::new();
    for (at, entry) in pod.claims.iter().enumerate().take(POD_CLAIMS_MAX) {
        let path = format!("spec.resourceClaims[{at}]");
        errors.name(format!("{path}.name"), &entry.name, validate_dns_label);
        if !names.insert(&entry.name) {
            errors.push(format!("{path}.name"), FieldProblem::Duplicate(format!("{:?}", entry.name)));
        }
        match &entry.source {
            None => {
                let detail = "must specify one of: `classicClaimName`, `template`";
                errors.push(path, FieldProblem::Required(detail.into()));
            }
            Some(PodClaimSource::Named(name)) => {
                errors.name(format!("{path}.classicClaimName"), name, validate_dns_subdomain);
            }
            Some(PodClaimSource::Both(..)) => {
                let detail =
                    "must specify exactly one of: `classicClaimName`, `template`, but multiple are set";
                errors.push(path, FieldProblem::Invalid("{}".into(), detail.into()));
            }
            Some(PodClaimSource::Template(from)) => {
                let name = claim_name(&pod.key.name, &entry.name);
                if !pod.key.name.is_empty()
                    && !entry.name.is_empty()
                    && let Err(error) = validate_dns_subdomain(&name)
                {
                    let detail = format!("the claim's name would be {name:?}: {error}");
                    errors.invalid(format!("{path}.name"), &entry.name, detail);
                }
                template(&mut errors, &format!("{path}.template"), from);
            }
        }
    }
    for container in &pod.containers {
        let mut used = BTreeSet::new();
        for (at, claim) in container.claims.iter().enumerate().take(POD_CLAIMS_MAX) {
            let path = format!("{}.resources.claims[{at}]", container.path);
            if !names.contains(claim) {
                errors.push(&*path, FieldProblem::NotFound(format!("{claim:?}")));
            }
            if !used.insert(claim) {
                errors.push(path, FieldProblem::Duplicate(format!("{claim:?}")));
            }
        }
    }
    errors.0
}

fn template(errors: &mut Errors, path: &str, from: &Arc<Template>) {
    for field in from.other_metadata.iter().take(ERRORS_MAX) {
        let detail = "only labels and annotations may be set in the metadata of a template";
        errors.push(format!("{path}.metadata.{field}"), FieldProblem::Forbidden(detail.into()));
    }
    for (key, value) in &from.labels {
        errors.name(format!("{path}.metadata.labels"), key, validate_label_name);
        if let Err(error) = validate_label_value(value) {
            errors.invalid(format!("{path}.metadata.labels"), value, error);
        }
    }
    for key in from.annotations.keys() {
        errors.name(format!("{path}.metadata.annotations"), key, |key| {
            validate_label_name(&key.to_ascii_lowercase())
        });
    }
    spec(errors, &format!("{path}.spec"), &from.spec);
}

fn spec(errors: &mut Errors, path: &str, spec: &ClaimSpec) {
    errors.name(format!("{path}.resourceClassName"), &spec.class_name, validate_dns_subdomain);
    errors.too_long(format!("{path}.parameters"), spec.parameters.len(), PARAMETERS_BYTES_MAX);
}

fn node_names(errors: &mut Errors, path: &str, nodes: &[Text]) {
    errors.too_many(path, nodes.len(), NODES_MAX);
    let mut seen = BTreeSet::new();
    for (at, node) in nodes.iter().enumerate().take(NODES_MAX) {
        errors.name(format!("{path}[{at}]"), node, validate_dns_subdomain);
        if !seen.insert(node) {
            errors.push(format!("{path}[{at}]"), FieldProblem::Duplicate(format!("{node:?}")));
        }
    }
}

fn users_max(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(0).min(RESERVED_MAX)
}
