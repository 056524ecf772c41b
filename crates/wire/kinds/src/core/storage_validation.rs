//! Validation of volumes and of claims for them.

use lazaret_json::Value;

use crate::{
    Errors,
    check::{not_supported, one_of, set_fields, subdomain},
    path::Path,
    value::{list, quantity, same_field, some, text, texts},
};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
const SOURCES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// The spec of a claim for a volume.
pub(crate) fn claim(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    access_modes(errors, path, spec);
    let (resources, requests) = (path.field("resources"), &spec["resources"]["requests"]);
    let requests_path = resources.field("requests");
    storage(errors, &requests_path.key("storage"), some(requests, "storage"));
    class(errors, path, spec);
    if some(spec, "volumeMode").is_some() {
        one_of(errors, &path.field("volumeMode"), text(spec, "volumeMode"), VOLUME_MODES);
    }
}

/// Checks a change of a claim: only the size of a bound one may change, and it only grows.
pub(super) fn claim_update(errors: &mut Errors, new: &Value, old: &Value) {
    const RESIZED: &[&str] = &["resources", "volumeAttributesClassName"];
    let (spec, before) = (&new["spec"], &old["spec"]);
    let bound = text(&old["status"], "phase") == "Bound";
    // The controller that binds it names the volume, once.
    let newly_bound = text(before, "volumeName").is_empty();
    let may_change = |field: &str| bound && RESIZED.contains(&field) || newly_bound && field == "volumeName";
    let mut fields = [spec, before].into_iter().filter_map(Value::as_object).flatten();
    if fields.any(|(field, _)| !may_change(field) && !same_field(spec, before, field)) {
        errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let size = |spec: &Value| quantity(&spec["resources"]["requests"]["storage"]);
    if let (Some(new), Some(old)) = (size(spec), size(before))
        && new < old
    {
        errors.forbidden("spec.resources.requests.storage", "field can not be less than previous value");
    }
}

/// The spec of a volume.
pub(super) fn volume(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    access_modes(errors, &path, spec);
    let capacity = path.field("capacity");
    match spec.get("capacity").and_then(Value::as_object) {
        Some(map) if !map.is_empty() => {
            for (name, _) in map.iter().filter(|(name, _)| *name != "storage") {
                errors.push(capacity, not_supported(name, &["storage"]));
            }
            storage(errors, &capacity.key("storage"), some(&spec["capacity"], "storage"));
        }
        Some(_) | None => errors.required(capacity, ""),
    }
    class(errors, &path, spec);
    one_of(
        errors,
        &path.field("persistentVolumeReclaimPolicy"),
        text(spec, "persistentVolumeReclaimPolicy"),
        RECLAIM_POLICIES,
    );
    one_of(errors, &path.field("volumeMode"), text(spec, "volumeMode"), VOLUME_MODES);
    let sources = set_fields(spec, SOURCES);
    if sources.is_empty() {
        errors.required(path, "must specify a volume type");
    }
    for extra in sources.iter().skip(1) {
        errors.forbidden(path.field(extra), "may not specify more than 1 volume type");
    }
}

fn access_modes(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let path = path.field("accessModes");
    let modes: Vec<&str> = texts(spec, "accessModes").collect();
    if list(spec, "accessModes").is_empty() {
        errors.required(path, "at least 1 access mode is required");
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(path, not_supported(mode, ACCESS_MODES));
    }
    if modes.len() > 1 && modes.contains(&"ReadWriteOncePod") {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn storage(errors: &mut Errors, path: &Path<'_>, size: Option<&Value>) {
    match size {
        None => errors.required(path, ""),
        Some(size) if quantity(size).is_none_or(|size| size <= lazaret_model::Quantity::zero()) => {
            errors.invalid(path, size.clone(), "must be greater than zero");
        }
        Some(_) => {}
    }
}

fn class(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        subdomain(errors, &path.field("storageClassName"), class);
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;
    use crate::testing::{World, kind, set};

    #[test]
    fn claims_that_no_volume_could_meet_are_refused() {
        let claims = kind("", "persistentvolumeclaims");
        let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let wrong = |at: &str, value: Value| World::new().create(claims, set(&claim, at, value)).wrong();
        assert!(World::new().create(claims, claim.clone()).wrong().is_empty());
        let storage = "spec.resources.requests[storage]";
        assert_eq!(
            wrong("/spec", json!({})),
            ["spec.accessModes Required".to_owned(), format!("{storage} Required")]
        );
        assert_eq!(wrong("/spec/accessModes/0", json!("Sometimes")), ["spec.accessModes NotSupported"]);
        assert_eq!(
            wrong("/spec/accessModes", json!(["ReadWriteOncePod", "ReadOnlyMany"])),
            ["spec.accessModes Forbidden"]
        );
        for size in ["0", "-1Gi"] {
            assert_eq!(
                wrong("/spec/resources/requests/storage", json!(size)),
                [format!("{storage} Invalid")]
            );
        }
        assert_eq!(wrong("/spec/storageClassName", json!("A b")), ["spec.storageClassName Invalid"]);

        let stored = World::new().create(claims, claim.clone()).ok();
        let update = |old: &Value, at: &str, value: Value| {
            World::new().update(claims, old, set(old, at, value)).wrong()
        };
        assert_eq!(update(&stored, "/spec/accessModes/0", json!("ReadOnlyMany")), ["spec Forbidden"]);
        assert_eq!(update(&stored, "/spec/resources/requests/storage", json!("2Gi")), ["spec Forbidden"]);
        assert!(update(&stored, "/spec/volumeName", json!("v")).is_empty(), "bound, once");
        let bound = set(&stored, "/status/phase", json!("Bound"));
        assert!(update(&bound, "/spec/resources/requests/storage", json!("2Gi")).is_empty());
        assert_eq!(
            update(&bound, "/spec/resources/requests/storage", json!("1Mi")),
            ["spec.resources.requests.storage Forbidden"]
        );
    }

    #[test]
    fn a_volume_has_one_source_a_size_and_a_mode() {
        let volumes = kind("", "persistentvolumes");
        let volume = json!({"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/v"}}});
        let wrong = |at: &str, value: Value| World::new().create(volumes, set(&volume, at, value)).wrong();
        assert!(World::new().create(volumes, volume.clone()).wrong().is_empty());
        assert_eq!(
            wrong("/spec", json!({})),
            ["spec Required", "spec.accessModes Required", "spec.capacity Required"]
        );
        assert_eq!(wrong("/spec/nfs", json!({"server": "s", "path": "/"})), ["spec.nfs Forbidden"]);
        assert_eq!(
            wrong("/spec/capacity", json!({"memory": "1"})),
            ["spec.capacity NotSupported", "spec.capacity[storage] Required"]
        );
    }
}
