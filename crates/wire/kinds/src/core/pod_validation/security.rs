//! Validation of security contexts.

use lazaret_json::Value;

use super::{volumes::descending, windows};
use crate::{
    Errors,
    check::not_supported,
    path::Path,
    value::{has, is_true, list, some, text, texts},
};

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE_BYTES_MAX: usize = 4095;
const CONTROL_BYTES_MAX: usize = 253;
/// Controls of namespaces, which a pod does not have of its own with these fields.
const NAMESPACED: &[(&str, &[&str])] = &[
    ("hostNetwork", &["net."]),
    (
        "hostIPC",
        &[
            "kernel.sem",
            "kernel.shm",
            "kernel.shmall",
            "kernel.shmmax",
            "kernel.shmmni",
            "kernel.shm_rmid_forced",
            "kernel.msg",
            "kernel.msgmax",
            "kernel.msgmnb",
            "kernel.msgmni",
            "fs.mqueue.",
        ],
    ),
];
const ID_MAX: i64 = i32::MAX as i64;

/// The context of a container, in a pod that has the users of its host or its own.
pub(super) fn of_container(errors: &mut Errors, path: &Path<'_>, context: &Value, host_users: bool) {
    common(errors, path, context);
    if some(context, "allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let shown = context.clone();
        if is_true(context, "privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, shown.clone(), why);
        }
        if texts(&context["capabilities"], "add").any(|capability| capability == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, shown, why);
        }
    }
    let path = path.field("procMount");
    match some(context, "procMount").and_then(Value::as_str) {
        None | Some("Default") => {}
        // The masked paths of `/proc` are the host's: with the users of the host, root in the container writes it.
        Some("Unmasked") if host_users => {
            errors.invalid(path, "Unmasked", "`hostUsers` must be false to use `Unmasked`");
        }
        Some("Unmasked") => {}
        Some(mount) => errors.push(path, not_supported(mount, &["Default", "Unmasked"])),
    }
}

/// The context of a pod.
pub(super) fn of_pod(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let context = &spec["securityContext"];
    common(errors, path, context);
    id(errors, path, context, "fsGroup");
    for (at, group) in list(context, "supplementalGroups").iter().enumerate() {
        if group.as_i64().is_none_or(|id| !(0..=ID_MAX).contains(&id)) {
            let path = path.field("supplementalGroups");
            errors.invalid(path.index(at), group.clone(), "must be between 0 and 2147483647, inclusive");
        }
    }
    for (field, known) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ] {
        super::choice(errors, path, context, field, known);
    }
    let mut seen = std::collections::BTreeSet::new();
    for (at, control) in list(context, "sysctls").iter().enumerate() {
        let path = path.field("sysctls");
        let path = path.index(at);
        let name = text(control, "name");
        if name.is_empty() {
            errors.required(path.field("name"), "");
        } else if !is_control(name) {
            let why = "must have at most 253 characters, lower case letters, digits, '-', '_', '.' and '/', and begin and end each part with a letter or digit";
            errors.invalid(path.field("name"), name, why);
        } else if !seen.insert(name) {
            errors.push(path.field("name"), crate::FieldProblem::Duplicate(name.into()));
        }
        let of_host = NAMESPACED.iter().find(|(_, names)| names.iter().any(|known| is_below(name, known)));
        if let Some((field, _)) = of_host.filter(|(field, _)| is_true(spec, field)) {
            let why = format!("may not be specified when '{field}' is true");
            errors.invalid(path.field("name"), name, why);
        }
    }
}

/// A control of the kernel: parts between points or slashes.
fn is_control(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= CONTROL_BYTES_MAX
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(|first| inside(*first))
                && bytes.last().is_some_and(|last| inside(*last))
                && bytes.iter().all(|byte| inside(*byte) || b"-_".contains(byte))
        })
}

/// Whether a control is the known one, or below a known one that ends with a point. Slashes are as good as points.
fn is_below(name: &str, known: &str) -> bool {
    let name = name.replace('/', ".");
    name == known || known.ends_with('.') && name.starts_with(known)
}

fn common(errors: &mut Errors, path: &Path<'_>, context: &Value) {
    id(errors, path, context, "runAsUser");
    id(errors, path, context, "runAsGroup");
    if let Some(profile) = some(context, "seccompProfile") {
        let path = path.field("seccompProfile");
        kind_of_profile(errors, &path, profile);
        let kind = text(profile, "type");
        local_profile(errors, &path.field("localhostProfile"), profile, kind == "Localhost", descending);
    }
    if let Some(profile) = some(context, "appArmorProfile") {
        let path = path.field("appArmorProfile");
        kind_of_profile(errors, &path, profile);
        // Kubernetes looks no further where it does not know the type.
        if PROFILES.contains(&text(profile, "type")) {
            let is_local = text(profile, "type") == "Localhost";
            local_profile(errors, &path.field("localhostProfile"), profile, is_local, loaded);
        }
    }
    windows::options(errors, path, context);
}

/// A profile that the kernel knows by this name.
fn loaded(errors: &mut Errors, path: &Path<'_>, name: &str) {
    if name.trim() != name {
        errors.invalid(path, name, "must not be padded with whitespace");
    } else if name.is_empty() {
        errors.required(path, "must be set when AppArmor type is Localhost");
    }
    if name.len() > PROFILE_BYTES_MAX {
        errors.push(path, crate::FieldProblem::TooLong(PROFILE_BYTES_MAX));
    }
}

fn id(errors: &mut Errors, path: &Path<'_>, context: &Value, field: &str) {
    if let Some(id) = some(context, field).and_then(Value::as_i64)
        && !(0..=ID_MAX).contains(&id)
    {
        errors.invalid(path.field(field), id, "must be between 0 and 2147483647, inclusive");
    }
}

fn kind_of_profile(errors: &mut Errors, path: &Path<'_>, profile: &Value) {
    let kind = text(profile, "type");
    if kind.is_empty() {
        errors.required(path.field("type"), "");
    } else if !PROFILES.contains(&kind) {
        errors.push(path.field("type"), not_supported(kind, PROFILES));
    }
}

/// The name of a profile of the node, which goes with the type Localhost alone.
fn local_profile(
    errors: &mut Errors,
    path: &Path<'_>,
    profile: &Value,
    is_local: bool,
    local: fn(&mut Errors, &Path<'_>, &str),
) {
    let name = text(profile, "localhostProfile");
    match (is_local, has(profile, "localhostProfile")) {
        (true, false) => errors.required(path, "must be set when the type is Localhost"),
        (true, true) => local(errors, path, name),
        (false, true) => errors.invalid(path, name, "can only be set when the type is Localhost"),
        (false, false) => {}
    }
}
