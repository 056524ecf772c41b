//! Validation of security contexts.

use lazaret_json::Value;

use super::volumes::descending;
use crate::{
    Errors,
    check::not_supported,
    path::Path,
    value::{has, is_true, list, some, text, texts},
};

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const ID_MAX: i64 = i32::MAX as i64;

/// The context of a container.
pub(super) fn of_container(errors: &mut Errors, path: &Path<'_>, context: &Value) {
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
    let mount = text(context, "procMount");
    if !["", "Default", "Unmasked"].contains(&mount) {
        errors.push(path.field("procMount"), not_supported(mount, &["Default", "Unmasked"]));
    }
}

/// The context of a pod.
pub(super) fn of_pod(errors: &mut Errors, path: &Path<'_>, context: &Value) {
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
        } else if !seen.insert(name) {
            errors.push(path.field("name"), crate::FieldProblem::Duplicate(name.into()));
        }
    }
}

fn common(errors: &mut Errors, path: &Path<'_>, context: &Value) {
    id(errors, path, context, "runAsUser");
    id(errors, path, context, "runAsGroup");
    for field in ["seccompProfile", "appArmorProfile"] {
        if let Some(profile) = some(context, field) {
            self::profile(errors, &path.field(field), profile);
        }
    }
}

fn id(errors: &mut Errors, path: &Path<'_>, context: &Value, field: &str) {
    if let Some(id) = some(context, field).and_then(Value::as_i64)
        && !(0..=ID_MAX).contains(&id)
    {
        errors.invalid(path.field(field), id, "must be between 0 and 2147483647, inclusive");
    }
}

fn profile(errors: &mut Errors, path: &Path<'_>, profile: &Value) {
    let kind = text(profile, "type");
    if kind.is_empty() {
        errors.required(path.field("type"), "");
    } else if !PROFILES.contains(&kind) {
        errors.push(path.field("type"), not_supported(kind, PROFILES));
    }
    let local = path.field("localhostProfile");
    match (kind == "Localhost", has(profile, "localhostProfile")) {
        (true, false) => errors.required(local, "must be set when the type is Localhost"),
        (true, true) => descending(errors, &local, text(profile, "localhostProfile")),
        (false, true) => {
            errors.invalid(
                local,
                text(profile, "localhostProfile"),
                "can only be set when the type is Localhost",
            );
        }
        (false, false) => {}
    }
}
