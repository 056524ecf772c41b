//! Containers of a pod.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{choice, env, ephemeral, mounts, port_name, port_number, probes, resources, security};
use crate::{
    Errors, FieldProblem,
    check::{dns_label, not_supported},
    path::Path,
    value::{ByText, has, is_true, list, number, text},
};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

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
            self::container(errors, &path, container, spec, &volumes, &claims);
            if field == "initContainers" {
                no_restart_at_resize(errors, &path, container);
            }
            restarts(errors, &path, container, field == "initContainers");
            let runs_on = field == "containers" || text(container, "restartPolicy") == "Always";
            probes::check(errors, &path, container, grace, runs_on);
            if field == "initContainers" {
                // One runs after the other.
                host_ports.clear();
            }
            let on_host = field == "containers" && is_true(spec, "hostNetwork");
            ports_of_host(errors, &path.field("ports"), container, on_host, &mut host_ports);
        }
    }
    ephemeral::check(errors, path, spec, &volumes, &claims);
}

/// Whether users of the pod's containers are those of its node, as they are if nothing is said.
pub(super) fn has_host_users(spec: &Value) -> bool {
    spec.get("hostUsers") != Some(&Value::Bool(false))
}

/// Validates `resizePolicy`: whether a change of a resource restarts the container.
fn resize_policy(errors: &mut Errors, path: &Path<'_>, container: &Value, spec: &Value) {
    let mut seen = BTreeSet::new();
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
    }
}

/// A container that ends before the others start is not started again for its resources.
fn no_restart_at_resize(errors: &mut Errors, path: &Path<'_>, container: &Value) {
    if text(container, "restartPolicy") == "Always" {
        return;
    }
    let path = path.field("resizePolicy");
    for (at, policy) in list(container, "resizePolicy").iter().enumerate() {
        let restart = text(policy, "restartPolicy");
        if restart == "RestartContainer" {
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
    spec: &Value,
    volumes: &ByText<'_>,
    claims: &ByText<'_>,
) {
    match text(container, "name") {
        "" => errors.required(path.field("name"), ""),
        name => dns_label(errors, &path.field("name"), name),
    }
    if text(container, "image").is_empty() {
        errors.required(path.field("image"), "");
    }
    choice(errors, path, container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"]);
    ports(errors, &path.field("ports"), container);
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
    resources::of_container(errors, &path.field("resources"), &container["resources"]);
    let used = list(&container["resources"], "claims");
    resources::claim_references(errors, &path.field("resources").field("claims"), used, claims);
    resize_policy(errors, &path.field("resizePolicy"), container, spec);
    let context = &container["securityContext"];
    security::of_container(errors, &path.field("securityContext"), context, has_host_users(spec));
}

/// When a container starts again, where that differs from the pod.
fn restarts(errors: &mut Errors, path: &Path<'_>, container: &Value, init: bool) {
    let rules = list(container, "restartPolicyRules");
    if !has(container, "restartPolicy") && !rules.is_empty() {
        errors
            .required(path.field("restartPolicy"), "must specify restartPolicy when restart rules are used");
        if init {
            return;
        }
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

/// Ports of a container of any sort.
fn ports(errors: &mut Errors, path: &Path<'_>, container: &Value) {
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
        if outside != 0 {
            port_number(errors, &path.field("hostPort"), outside);
        }
    }
}

/// Ports that containers take of their host: none twice, and on the host's network each is the container's own.
fn ports_of_host(
    errors: &mut Errors,
    path: &Path<'_>,
    container: &Value,
    on_host: bool,
    host_ports: &mut BTreeSet<String>,
) {
    for (at, port) in list(container, "ports").iter().enumerate() {
        let (inside, outside) = (number(port, "containerPort"), number(port, "hostPort"));
        if outside == 0 {
            continue;
        }
        let path = path.index(at);
        if on_host && inside != outside {
            let why = "must match `containerPort` when `hostNetwork` is true";
            errors.invalid(path.field("hostPort"), outside, why);
        }
        let taken = format!("{}/{}/{outside}", text(port, "protocol"), text(port, "hostIP"));
        if !host_ports.insert(taken.clone()) {
            errors.push(path.field("hostPort"), FieldProblem::Duplicate(taken.into()));
        }
    }
}
