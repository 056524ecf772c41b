//! Annotations of a pod that older releases read as security profiles.

use lazaret_json::Value;

use super::volumes::descending;
use crate::{
    Errors,
    path::Path,
    value::{entries, list, some, text},
};

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const UNCONFINED: &str = "unconfined";
const RUNTIME_DEFAULT: &str = "runtime/default";
const LOCAL: &str = "localhost/";
const CONTAINERS: &[&str] = &["initContainers", "containers", "ephemeralContainers"];

/// Profiles in annotations are well formed, and say what the fields say.
pub(super) fn check(errors: &mut Errors, metadata: &Value, spec: &Value) {
    let path = Path::root("metadata");
    let path = path.field("annotations");
    for (key, value) in entries(metadata, "annotations") {
        let (key, profile) = (key.as_str(), value.as_str().unwrap_or_default());
        if key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER) {
            seccomp(errors, &path.field(key), profile);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            if !all_containers(spec).any(|(_, _, known)| text(known, "name") == container) {
                errors.invalid(path.key(key), container, "container not found");
            }
            let known = ["", RUNTIME_DEFAULT, UNCONFINED].contains(&profile) || profile.starts_with(LOCAL);
            if !known {
                errors.invalid(path.key(key), profile, format!("invalid AppArmor profile name: {profile:?}"));
            }
        }
    }
    if text(&spec["os"], "name") != "windows" {
        fields_agree(errors, &metadata["annotations"], spec);
    }
}

fn seccomp(errors: &mut Errors, path: &Path<'_>, profile: &str) {
    if [RUNTIME_DEFAULT, "docker/default", UNCONFINED].contains(&profile) {
        return;
    }
    match profile.strip_prefix(LOCAL) {
        Some(file) => descending(errors, path, file),
        None => errors.invalid(path, profile, "must be a valid seccomp profile"),
    }
}

fn all_containers(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    CONTAINERS.iter().flat_map(move |field| {
        list(spec, field).iter().enumerate().map(move |(at, container)| (*field, at, container))
    })
}

/// An annotation and a field for one container name the same profile.
fn fields_agree(errors: &mut Errors, annotations: &Value, spec: &Value) {
    let profile_of = |holder: &Value| some(&holder["securityContext"], "appArmorProfile").cloned();
    let of_pod = profile_of(spec);
    for (field, at, container) in all_containers(spec) {
        let Some(profile) = profile_of(container).or_else(|| of_pod.clone()) else { continue };
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        let Some(said) = annotations.get(key.as_str()).and_then(Value::as_str) else { continue };
        let path = Path::root("spec");
        let path = path.field(field);
        let path = path.index(at);
        let path = path.field("securityContext");
        let path = path.field("appArmorProfile");
        let file = said.strip_prefix(LOCAL);
        let agrees = match text(&profile, "type") {
            "Unconfined" => said == UNCONFINED,
            "RuntimeDefault" => said == RUNTIME_DEFAULT,
            "Localhost" => file.is_some(),
            _ => true,
        };
        if !agrees {
            errors.forbidden(path.field("type"), "apparmor type in annotation and field must match");
        } else if text(&profile, "type") == "Localhost" && file != Some(text(&profile, "localhostProfile")) {
            let why = "apparmor profile in annotation and field must match";
            errors.forbidden(path.field("localhostProfile"), why);
        }
    }
}
