//! Containers of a pod.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{choice, env, ephemeral, mounts, port_name, port_number, probes, security};
use crate::{
    Errors, FieldProblem,
    check::{dns_label, label_name, not_supported},
    classic,
    path::Path,
    value::{ByText, entries, is_true, list, number, quantity, text},
};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
/// Resources of a container that have no domain.
const OWN_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";

/// All containers of a spec.
pub(super) fn check(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    if list(spec, "containers").is_empty() {
        errors.required(path.field("containers"), "");
    }
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    let grace = number(spec, "terminationGracePeriodSeconds");
    let volumes = ByText::of(list(spec, "volumes"), "name");
    let claims = ByText::of(list(spec, "resourceClaims"), "name");
    for field in ["containers", "initContainers"] {
        let path = path.field(field);
        for (at, container) in list(spec, field).iter().enumerate() {
            let path = path.index(at);
            let name = text(container, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
            }
            self::container(errors, &path, container, &volumes, &claims, has_host_users(spec));
            resize_policy(errors, &path.field("resizePolicy"), container, spec, field == "initContainers");
            restarts(errors, &path, container);
            let runs_on = field == "containers" || text(container, "restartPolicy") == "Always";
            probes::check(errors, &path, container, grace, runs_on);
            if field == "initContainers" {
                // One runs after the other.
                host_ports.clear();
            }
            let on_host = field == "containers" && is_true(spec, "hostNetwork");
            ports(errors, &path.field("ports"), container, on_host, &mut host_ports);
        }
    }
    ephemeral::check(errors, path, spec, &volumes, &claims);
}

/// Whether users of the pod's containers are those of its node, as they are if nothing is said.
pub(super) fn has_host_users(spec: &Value) -> bool {
    spec.get("hostUsers") != Some(&Value::Bool(false))
}

/// Validates `resizePolicy`: whether a change of a resource restarts the container.
fn resize_policy(errors: &mut Errors, path: &Path<'_>, container: &Value, spec: &Value, init: bool) {
    let mut seen = BTreeSet::new();
    let ends = init && text(container, "restartPolicy") != "Always";
    for (at, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(path.index(at), FieldProblem::Duplicate(resource.into()));
        }
        // Kubernetes names the list and not the item.
        for (said, known) in [(resource, &["cpu", "memory"]), (restart, &["NotRequired", "RestartContainer"])]
        {
            if said.is_empty() {
                errors.required(path, "");
            } else if !known.contains(&said) {
                errors.push(path, not_supported(said, known));
            }
        }
        if text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
        if ends && restart == "RestartContainer" {
            let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(path.index(at).field("restartPolicy"), restart, why);
        }
    }
}

/// Pods, unlike templates of them, name images exactly.
pub(super) fn check_images(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for field in ["containers", "initContainers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            self::image(errors, &path.field(field).index(at), container);
        }
    }
}

/// The image of one container.
pub(super) fn image(errors: &mut Errors, path: &Path<'_>, container: &Value) {
    let image = text(container, "image");
    if image.trim() != image {
        errors.invalid(path.field("image"), image, "must not have leading or trailing whitespace");
    }
}

/// Checks of containers of every sort.
pub(super) fn container(
    errors: &mut Errors,
    path: &Path<'_>,
    container: &Value,
    volumes: &ByText<'_>,
    claims: &ByText<'_>,
    host_users: bool,
) {
    match text(container, "name") {
        "" => errors.required(path.field("name"), ""),
        name => dns_label(errors, &path.field("name"), name),
    }
    if text(container, "image").is_empty() {
        errors.required(path.field("image"), "");
    }
    choice(errors, path, container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"]);
    env::variables(errors, &path.field("env"), list(container, "env"));
    for (at, volume) in env::file_volumes(container) {
        let path = path.field("env");
        let path = path.index(at);
        let path = path.field("valueFrom");
        let path = path.field("fileKeyRef");
        mounts::file_volume(errors, &path.field("volumeName"), volume, volumes);
    }
    env::sources(errors, &path.field("envFrom"), list(container, "envFrom"));
    mounts::check(errors, path, container, volumes);
    choice(errors, path, container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    resources(errors, &path.field("resources"), &container["resources"]);
    let used = list(&container["resources"], "claims");
    claim_references(errors, &path.field("resources").field("claims"), used, claims);
    let context = &container["securityContext"];
    security::of_container(errors, &path.field("securityContext"), context, host_users);
}

/// When a container starts again, where that differs from the pod.
fn restarts(errors: &mut Errors, path: &Path<'_>, container: &Value) {
    let rules = list(container, "restartPolicyRules");
    let policy = text(container, "restartPolicy");
    if policy.is_empty() && !rules.is_empty() {
        errors
            .required(path.field("restartPolicy"), "must specify restartPolicy when restart rules are used");
    }
    choice(errors, path, container, "restartPolicy", &["Always", "Never", "OnFailure"]);
    let path = path.field("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.push(path, FieldProblem::TooMany(rules.len(), RULES_MAX));
    }
    for (at, rule) in rules.iter().enumerate() {
        let path = path.index(at);
        if !["Restart", "RestartAllContainers"].contains(&text(rule, "action")) {
            errors.push(
                path.field("action"),
                not_supported(text(rule, "action"), &["Restart", "RestartAllContainers"]),
            );
        }
        let Some(codes) = rule.get("exitCodes").filter(|codes| codes.is_object()) else {
            errors.required(path.field("exitCodes"), "must be specified");
            continue;
        };
        let path = path.field("exitCodes");
        if !["In", "NotIn"].contains(&text(codes, "operator")) {
            errors.push(path.field("operator"), not_supported(text(codes, "operator"), &["In", "NotIn"]));
        }
        if list(codes, "values").len() > EXIT_CODES_MAX {
            errors.push(
                path.field("values"),
                FieldProblem::TooMany(list(codes, "values").len(), EXIT_CODES_MAX),
            );
        }
    }
}

fn ports(
    errors: &mut Errors,
    path: &Path<'_>,
    container: &Value,
    on_host: bool,
    host_ports: &mut BTreeSet<String>,
) {
    let mut names = BTreeSet::new();
    for (at, port) in list(container, "ports").iter().enumerate() {
        let path = path.index(at);
        let name = text(port, "name");
        if !name.is_empty() {
            port_name(errors, &path.field("name"), name);
            if !names.insert(name) {
                errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
            }
        }
        let (inside, outside) = (number(port, "containerPort"), number(port, "hostPort"));
        if inside == 0 {
            errors.required(path.field("containerPort"), "");
        } else {
            port_number(errors, &path.field("containerPort"), inside);
        }
        choice(errors, &path, port, "protocol", &["SCTP", "TCP", "UDP"]);
        if outside == 0 {
            continue;
        }
        port_number(errors, &path.field("hostPort"), outside);
        if on_host && inside != outside {
            errors.invalid(
                path.field("hostPort"),
                outside,
                "must match `containerPort` when `hostNetwork` is true",
            );
        }
        let taken = format!("{}/{}/{outside}", text(port, "protocol"), text(port, "hostIP"));
        if !host_ports.insert(taken.clone()) {
            errors.push(path.field("hostPort"), FieldProblem::Duplicate(taken.into()));
        }
    }
}

/// Limits and requests, of a container or of the pod.
pub(crate) fn resources(errors: &mut Errors, path: &Path<'_>, resources: &Value) {
    for field in ["limits", "requests"] {
        let path = path.field(field);
        for (resource, value) in entries(resources, field) {
            amount(errors, &path.key(resource), resource, value);
        }
    }
    let asks =
        |resource: &str| ["limits", "requests"].iter().any(|field| resources[*field].get(resource).is_some());
    let huge = |field: &str| entries(resources, field).any(|(resource, _)| resource.starts_with(HUGE_PAGES));
    for (resource, value) in entries(resources, "requests") {
        let limit = resources["limits"].get(resource).and_then(quantity);
        let divisible = OWN_RESOURCES.contains(&resource.as_str());
        match (quantity(value), limit) {
            (Some(request), Some(limit)) if request != limit && !divisible => errors.invalid(
                path.field("requests"),
                request.to_string(),
                format!("must be equal to {resource} limit of {limit}"),
            ),
            (Some(request), Some(limit)) if request > limit => errors.invalid(
                path.field("requests"),
                request.to_string(),
                format!("must be less than or equal to {resource} limit of {limit}"),
            ),
            (Some(_), None) if !divisible => {
                errors.required(path.field("limits"), "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    if (huge("limits") || huge("requests")) && !asks("cpu") && !asks("memory") {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// One amount of a resource.
pub(super) fn amount(errors: &mut Errors, path: &Path<'_>, resource: &str, value: &Value) {
    label_name(errors, path, resource);
    let own = OWN_RESOURCES.contains(&resource) || resource.starts_with(HUGE_PAGES);
    if !resource.contains('/') && !own {
        errors.invalid(
            path,
            resource,
            "must be a standard resource for containers, or have a domain: example.com/name",
        );
    }
    match quantity(value) {
        None => errors.invalid(path, value.clone(), "must be a quantity"),
        Some(amount) => {
            if amount.is_negative() {
                errors.invalid(path, value.clone(), "must be greater than or equal to 0");
            }
            if !OWN_RESOURCES.contains(&resource) && !amount.is_integer() {
                errors.invalid(path, value.clone(), "must be an integer");
            }
        }
    }
}

/// A container uses claims of the pod, each as a whole or by its requests, and none twice.
pub(super) fn claim_references(
    errors: &mut Errors,
    path: &Path<'_>,
    references: &[Value],
    claims: &ByText<'_>,
) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (at, reference) in references.iter().enumerate() {
        let path = path.index(at);
        let (claim, request) = (text(reference, "name"), text(reference, "request"));
        if claim.is_empty() {
            errors.required(path, "");
            continue;
        }
        if !request.is_empty() {
            dns_label(errors, &path.field("request"), request);
            if claims.get(claim).is_some_and(classic::is_classic) {
                errors.forbidden(path.field("request"), "a classic claim has no requests");
            }
        }
        let overlaps = if request.is_empty() {
            seen.range((claim, "")..).next().is_some_and(|(known, _)| *known == claim)
        } else {
            seen.contains(&(claim, "")) || seen.contains(&(claim, request))
        };
        if overlaps {
            errors.push(path, FieldProblem::Duplicate(claim.into()));
        }
        seen.insert((claim, request));
        if !claims.has(claim) {
            errors.push(path, FieldProblem::NotFound(claim.into()));
        }
    }
}
