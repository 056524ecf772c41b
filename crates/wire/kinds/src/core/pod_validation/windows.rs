//! Validation that depends on the operating system of a pod: fields that one of Linux and Windows does not have, and Windows' own.

use lazaret_json::Value;
use lazaret_model::validate_dns_subdomain;

use crate::{
    Errors,
    check::name,
    path::Path,
    value::{has, is_true, list, some, text},
};

const CREDENTIAL_BYTES_MAX: usize = 64 << 10;
/// The name of a domain is shorter than this.
const DOMAIN_BYTES_END: usize = 256;
const USER_BYTES_MAX: usize = 104;
const NET_BIOS_CHARS_MAX: usize = 15;
const DNS_LABEL_BYTES_MAX: usize = 63;

const NOT_IN_USER_NAMES: &str = "\"/\\:;|=,+*?<>@[]";
const NOT_IN_NET_BIOS_NAMES: &str = "\\/:*?\"<>|";

/// Fields of a pod's security context that Windows does not have.
const POD_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];

/// The same of a container's.
const CONTAINER_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// The same of a pod: those that count when they are there, and those that count when they are true.
const POD: &[&str] = &["hostUsers", "shareProcessNamespace"];
const POD_IF_TRUE: &[&str] = &["hostPID", "hostIPC"];

/// The containers of a spec, of every sort, with their paths.
fn each_container<'a>(path: &Path<'_>, spec: &'a Value, mut look: impl FnMut(&Path<'_>, &'a Value)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.field(field);
        for (at, container) in list(spec, field).iter().enumerate() {
            look(&path.index(at), container);
        }
    }
}

/// The system that a pod names, and what it does not have.
pub(super) fn system(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    match some(spec, "os").map(|os| text(os, "name")) {
        Some("linux") => {
            let why = "windows options cannot be set for a linux pod";
            forbid(
                errors,
                &path.field("securityContext"),
                &spec["securityContext"],
                &["windowsOptions"],
                why,
            );
            each_container(path, spec, |path, container| {
                let context = &container["securityContext"];
                forbid(errors, &path.field("securityContext"), context, &["windowsOptions"], why);
            });
        }
        Some("windows") => {
            let why = "cannot be set for a windows pod";
            forbid(errors, &path.field("securityContext"), &spec["securityContext"], POD_CONTEXT, why);
            forbid(errors, path, spec, POD, why);
            for field in POD_IF_TRUE.iter().filter(|field| is_true(spec, field)) {
                errors.forbidden(path.field(field), why);
            }
            each_container(path, spec, |path, container| {
                let context = &container["securityContext"];
                forbid(errors, &path.field("securityContext"), context, CONTAINER_CONTEXT, why);
            });
        }
        Some(_) | None => {}
    }
}

fn forbid(errors: &mut Errors, path: &Path<'_>, holder: &Value, fields: &[&str], why: &str) {
    for field in fields.iter().filter(|field| has(holder, field)) {
        errors.forbidden(path.field(field), why);
    }
}

/// Containers that are processes of the host: all of a pod or none, and on the host's network.
pub(super) fn host_processes(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let said = |holder: &Value| {
        some(&holder["securityContext"]["windowsOptions"], "hostProcess").and_then(Value::as_bool)
    };
    let of_pod = said(spec);
    let (mut all, mut on_host) = (0_usize, 0_usize);
    each_container(path, spec, |path, container| {
        let own = said(container);
        all += 1;
        on_host += usize::from(own.or(of_pod) == Some(true));
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let path = path.field("securityContext");
            let path = path.field("windowsOptions");
            let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(path.field("hostProcess"), own, why);
        }
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", why);
    }
    if !is_true(spec, "hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(path.field("hostNetwork"), false, why);
    }
}

/// The options of a security context that are Windows' own.
pub(super) fn options(errors: &mut Errors, path: &Path<'_>, context: &Value) {
    let Some(options) = some(context, "windowsOptions") else { return };
    let path = path.field("windowsOptions");
    let said = |field: &str| some(options, field).and_then(Value::as_str);
    if let Some(spec) = said("gmsaCredentialSpecName") {
        name(errors, &path.field("gmsaCredentialSpecName"), spec, validate_dns_subdomain);
    }
    if let Some(spec) = said("gmsaCredentialSpec") {
        let path = path.field("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_BYTES_MAX {
            errors.invalid(path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(user) = said("runAsUserName") {
        let path = path.field("runAsUserName");
        wrong_user_names(user).into_iter().for_each(|why| errors.invalid(path, user, why));
    }
}

/// The errors in the name of a user, which may have a domain in front.
fn wrong_user_names(said: &str) -> Vec<&'static str> {
    if said.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if said.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let (domain, user) = match said.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash"];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, said),
    };
    let mut wrong = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_BYTES_END) {
        wrong.push("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios_name(domain) && !is_domain(domain)) {
        wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty");
    } else if user.len() > USER_BYTES_MAX {
        wrong.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        wrong.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| NOT_IN_USER_NAMES.contains(c)) {
        wrong.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

fn is_net_bios_name(domain: &str) -> bool {
    (1..=NET_BIOS_CHARS_MAX).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c: char| NOT_IN_NET_BIOS_NAMES.contains(c))
}

fn is_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=DNS_LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric())
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}
