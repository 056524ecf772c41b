//! Volumes and claims for them: kept and shown, never bound here.

use lazaret_json::{Value, json};

use super::storage_validation;
use crate::{
    Column, Context, Errors, Rules,
    kind::age,
    path::Path,
    value::{canonical_quantities, field_mut, fill, has, list, put, text},
};

/// Volumes.
#[derive(Debug)]
pub(crate) struct PersistentVolume;

/// Claims for volumes.
#[derive(Debug)]
pub(crate) struct PersistentVolumeClaim;

fn modes(value: &Value) -> String {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    list(value, "accessModes").iter().map(short).filter(|mode| !mode.is_empty()).collect::<Vec<_>>().join(",")
}

impl Rules for PersistentVolume {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if let Some(host) = spec.get_mut("hostPath").filter(|host| host.is_object() && !has(host, "type")) {
            put(host, "type", "");
        }
        fill(field_mut(object, "status"), "phase", "Pending");
        canonical_quantities(object, "core/v1.PersistentVolume");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        storage_validation::volume(errors, &object["spec"]);
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Capacity"),
            Column::text("Access Modes"),
            Column::text("Reclaim Policy"),
            Column::text("Status"),
            Column::text("Claim"),
            Column::text("StorageClass"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, claim) = (&object["spec"], &object["spec"]["claimRef"]);
        let claim = match text(claim, "name") {
            "" => String::new(),
            name => format!("{}/{name}", text(claim, "namespace")),
        };
        vec![
            text(&spec["capacity"], "storage").into(),
            modes(spec).into(),
            text(spec, "persistentVolumeReclaimPolicy").into(),
            text(&object["status"], "phase").into(),
            claim.into(),
            text(spec, "storageClassName").into(),
            age(object, context),
        ]
    }
}

impl Rules for PersistentVolumeClaim {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        fill(field_mut(object, "spec"), "volumeMode", "Filesystem");
        fill(field_mut(object, "status"), "phase", "Pending");
        canonical_quantities(object, "core/v1.PersistentVolumeClaim");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        storage_validation::claim(errors, &Path::root("spec"), &object["spec"]);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        storage_validation::claim_update(errors, new, old);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Status"),
            Column::text("Volume"),
            Column::text("Capacity"),
            Column::text("Access Modes"),
            Column::text("StorageClass"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        vec![
            text(status, "phase").into(),
            text(spec, "volumeName").into(),
            text(&status["capacity"], "storage").into(),
            modes(status).into(),
            text(spec, "storageClassName").into(),
            age(object, context),
        ]
    }
}

/// Drivers of volumes. Nothing here asks them anything.
#[derive(Debug)]
pub(crate) struct CsiDriver;

impl Rules for CsiDriver {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "attachRequired", true);
        for field in [
            "podInfoOnMount",
            "storageCapacity",
            "requiresRepublish",
            "seLinuxMount",
            "preventPodSchedulingIfMissing",
        ] {
            fill(spec, field, false);
        }
        fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if list(spec, "volumeLifecycleModes").is_empty() {
            put(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
    }
}
