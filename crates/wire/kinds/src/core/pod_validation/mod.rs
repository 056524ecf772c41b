//! Validation of a pod, a template of pods, or a change of either.

mod annotations;
mod containers;
mod env;
mod ephemeral;
mod mounts;
mod probes;
mod projected;
mod resize;
mod resources;
mod scheduling;
mod security;
mod status;
mod update;
mod volumes;
mod windows;

use std::{collections::BTreeSet, net::IpAddr};

use lazaret_json::Value;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

pub(super) use self::{
    ephemeral::update as update_ephemeral_containers,
    probes::port as port_or_name,
    resize::{check as check_resize, prepare as prepare_resize},
    scheduling::TAINT_EFFECTS,
    status::status,
    update::update,
};
pub(crate) use self::{resources::of_container as container_resources, scheduling::toleration};
use super::pod_resources;
use crate::{
    Errors, FieldProblem,
    check::{dns_label, label_name, name, not_supported},
    classic,
    path::Path,
    resource_names::container_resource,
    value::{ByText, has, is_filled, is_true, list, number, some, text, texts},
};

const MIRROR: &str = "kubernetes.io/config.mirror";
const SECONDS_MAX: i64 = i32::MAX as i64;
const PORT_NAME_BYTES_MAX: usize = 15;
const HOST_NAME_BYTES_MAX: usize = 64;
const NAME_SERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;

const SEARCH_DOMAIN_BYTES_MAX: usize = 253;
const NO_SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character or '_', in at most 253 bytes";

/// A domain that may have underscores, as names of services have.
fn is_search_domain(domain: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    domain.len() <= SEARCH_DOMAIN_BYTES_MAX
        && domain.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(|first| inside(*first))
                && bytes.last().is_some_and(|last| inside(*last))
                && bytes.iter().all(|byte| inside(*byte) || *byte == b'-')
        })
}

/// A new pod.
pub(super) fn create(errors: &mut Errors, pod: &Value) {
    let spec = &pod["spec"];
    let path = Path::root("spec");
    annotations::check(errors, &pod["metadata"], spec);
    spec_of(errors, &path, text(&pod["metadata"], "name"), spec);
    projected::tokens_have_an_account(errors, &path.field("volumes"), spec);
    containers::check_images(errors, &path, spec);
    if is_filled(spec, "resourceClaims") && has(&pod["metadata"]["annotations"], MIRROR) {
        errors.forbidden("", "static pods do not support resource claims");
    }
    if is_filled(spec, "ephemeralContainers") {
        errors.forbidden(path.field("ephemeralContainers"), "cannot be set on create");
    }
    if is_filled(spec, "schedulingGates") && is_filled(spec, "nodeName") {
        errors.forbidden(path.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// A spec in a template.
pub(crate) fn spec(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    spec_of(errors, path, "", spec);
}

/// A spec, in the pod of this name or in a template.
fn spec_of(errors: &mut Errors, path: &Path<'_>, pod: &str, spec: &Value) {
    volumes::check(errors, &path.field("volumes"), list(spec, "volumes"));
    resource_claims(errors, &path.field("resourceClaims"), pod, list(spec, "resourceClaims"));
    containers::check(errors, path, spec);
    own_resources(errors, &path.field("resources"), spec);
    choice(errors, path, spec, "restartPolicy", &["Always", "OnFailure", "Never"]);
    choice(errors, path, spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    choice(errors, path, spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    security::of_pod(errors, &path.field("securityContext"), spec);
    windows::system(errors, path, spec);
    windows::host_processes(errors, path, spec);
    scheduling::check(errors, path, spec);
    names(errors, path, spec);
    times(errors, path, spec);
    host(errors, path, spec);
    host_name(errors, path, spec);
    dns(errors, path, spec);
}

/// One of several words, or none. An empty one that is there is none of them.
fn choice(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str, known: &[&str]) {
    let chosen = text(holder, field);
    if has(holder, field) && !known.contains(&chosen) {
        errors.push(path.field(field), not_supported(chosen, known));
    }
}

/// Resources of the pod as a whole.
fn own_resources(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let Some(own) = some(spec, "resources") else { return };
    if text(&spec["os"], "name") == "windows" {
        errors.forbidden(path, "may not be set for a windows pod");
        return;
    }
    if has(own, "claims") {
        errors.forbidden(path.field("claims"), "claims belong to containers, not to the pod");
        let claims = ByText::of(list(spec, "resourceClaims"), "name");
        resources::claim_references(errors, &path.field("claims"), list(own, "claims"), &claims);
    }
    resources::check(errors, path, own, resources::of_pod);
    pod_resources::check(errors, path, spec);
}

/// A port.
pub(crate) fn port_number(errors: &mut Errors, path: &Path<'_>, port: i64) {
    if !(1..=65_535).contains(&port) {
        errors.invalid(path, port, "must be between 1 and 65535, inclusive");
    }
}

/// The name of a port: short, lower case, and no number.
pub(crate) fn port_name(errors: &mut Errors, path: &Path<'_>, name: &str) {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = (1..=PORT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(known)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--")
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !good {
        errors.invalid(
            path,
            name,
            "must be at most 15 lower case letters, digits and single '-' between them, with a letter",
        );
    }
}

fn names(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for (field, valid) in [
        ("serviceAccountName", true),
        ("nodeName", true),
        ("priorityClassName", true),
        ("runtimeClassName", true),
        ("hostname", false),
        ("subdomain", false),
    ] {
        let text = text(spec, field);
        if !text.is_empty() {
            let check = if valid { validate_dns_subdomain } else { validate_dns_label };
            name(errors, &path.field(field), text, check);
        }
    }
    for (at, gate) in list(spec, "readinessGates").iter().enumerate() {
        let path = path.field("readinessGates");
        label_name(errors, &path.index(at).field("conditionType"), text(gate, "conditionType"));
    }
    if let Some(system) = some(spec, "os") {
        match text(system, "name") {
            "" => errors.required(path.field("os").field("name"), "cannot be empty"),
            "linux" | "windows" => {}
            other => errors.push(path.field("os"), not_supported(other, &["linux", "windows"])),
        }
    }
    // Kubernetes takes it for the limits of a container.
    let overhead = lazaret_json::json!({"limits": spec["overhead"]});
    resources::check(errors, &path.field("overhead"), &overhead, container_resource);
}

fn times(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let seconds = number(spec, "terminationGracePeriodSeconds");
    if seconds < 0 {
        let path = path.field("terminationGracePeriodSeconds");
        errors.invalid(path, seconds, "must be greater than or equal to 0");
    }
    if let Some(seconds) = some(spec, "activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=SECONDS_MAX).contains(&seconds)
    {
        let path = path.field("activeDeadlineSeconds");
        errors.invalid(path, seconds, "must be between 1 and 2147483647, inclusive");
    }
}

/// The name that a pod knows itself by, in place of the usual one.
fn host_name(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let Some(own) = some(spec, "hostnameOverride").and_then(Value::as_str) else { return };
    let path = path.field("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if is_true(spec, field) {
            errors.forbidden(path, format!("may not be specified when {field} is true"));
        }
    }
    if own.len() > HOST_NAME_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(HOST_NAME_BYTES_MAX));
    }
    name(errors, &path, own, validate_dns_subdomain);
}

/// Namespaces that a pod shares with its node.
fn host(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    if spec.get("hostUsers") == Some(&Value::Bool(false)) {
        if is_true(spec, "hostNetwork") {
            errors.forbidden(path.field("hostNetwork"), "when `hostUsers` is false");
        }
        for field in ["initContainers", "containers", "ephemeralContainers"] {
            for (at, container) in list(spec, field).iter().enumerate() {
                if is_filled(container, "volumeDevices") {
                    let path = path.field(field);
                    let path = path.index(at);
                    errors.forbidden(path.field("volumeDevices"), "when `hostUsers` is false");
                }
            }
        }
        // Kubernetes writes these as Go does.
        for (field, name) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
            if is_true(spec, field) {
                errors.forbidden(path.field(name), "when `hostUsers` is false");
            }
        }
    }
    if is_true(spec, "hostPID") && is_true(spec, "shareProcessNamespace") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.field("shareProcessNamespace"), true, why);
    }
    for (at, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.field("hostAliases");
        let path = path.index(at);
        if text(alias, "ip").parse::<IpAddr>().is_err() {
            errors.invalid(path.field("ip"), text(alias, "ip"), "must be a valid IP address");
        }
        for (at, host) in texts(alias, "hostnames").enumerate() {
            name(errors, &path.field("hostnames").index(at), host, validate_dns_subdomain);
        }
    }
}

fn dns(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let config = &spec["dnsConfig"];
    let path = path.field("dnsConfig");
    let servers = list(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" && servers.is_empty() {
        let missing = if config.is_null() { path } else { path.field("nameservers") };
        errors.required(missing, "must have at least one nameserver when `dnsPolicy` is None");
    }
    if servers.len() > NAME_SERVERS_MAX {
        let path = path.field("nameservers");
        errors.invalid(
            path,
            config["nameservers"].clone(),
            format!("must not have more than {NAME_SERVERS_MAX}"),
        );
    }
    for (at, server) in texts(config, "nameservers").enumerate() {
        if server.parse::<IpAddr>().is_err() {
            errors.invalid(path.field("nameservers").index(at), server, "must be a valid IP address");
        }
    }
    if list(config, "searches").len() > SEARCH_PATHS_MAX {
        let path = path.field("searches");
        errors.invalid(
            path,
            config["searches"].clone(),
            format!("must not have more than {SEARCH_PATHS_MAX}"),
        );
    }
    for (at, domain) in texts(config, "searches").enumerate() {
        if domain != "." && !is_search_domain(domain.strip_suffix('.').unwrap_or(domain)) {
            errors.invalid(path.field("searches").index(at), domain, NO_SEARCH_DOMAIN);
        }
    }
    for (at, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(path.field("options").index(at), "must not be empty");
        }
    }
}

/// Claims of a pod: each has a name and exactly one source.
fn resource_claims(errors: &mut Errors, path: &Path<'_>, pod: &str, claims: &[Value]) {
    let mut names = BTreeSet::new();
    for (at, claim) in claims.iter().enumerate() {
        let path = path.index(at);
        let its_name = text(claim, "name");
        if its_name.is_empty() {
            errors.required(path.field("name"), "");
        } else if names.insert(its_name) {
            dns_label(errors, &path.field("name"), its_name);
        } else {
            errors.push(path.field("name"), FieldProblem::Duplicate(its_name.into()));
        }
        if classic::is_classic(claim) {
            classic::check_pod_claim(errors, &path, pod, claim);
            continue;
        }
        let sources: Vec<&str> = ["resourceClaimName", "resourceClaimTemplateName"]
            .into_iter()
            .filter(|field| has(claim, field))
            .collect();
        match sources.len() {
            0 => errors.invalid(
                path,
                claim.clone(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            1 => {}
            _ => errors.invalid(
                path,
                claim.clone(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        }
        for source in sources {
            name(errors, &path.field(source), text(claim, source), validate_dns_subdomain);
        }
    }
}
