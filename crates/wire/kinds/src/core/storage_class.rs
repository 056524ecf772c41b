//! Classes of storage: kept and shown, for nothing here provides storage.

use lazaret_json::Value;

use crate::{
    Column, Context, Errors, Rules,
    check::{immutable, label_name, one_of},
    kind::age,
    path::Path,
    value::{fill, is_true, text},
};

/// Classes of storage.
#[derive(Debug)]
pub(crate) struct StorageClass;

const RECLAIM_POLICIES: &[&str] = &["Delete", "Retain"];
const BINDING_MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];
const FIXED: &[&str] = &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];

impl Rules for StorageClass {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        fill(object, "reclaimPolicy", "Delete");
        fill(object, "volumeBindingMode", "Immediate");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        match text(object, "provisioner") {
            "" => errors.required("provisioner", ""),
            provisioner => {
                label_name(errors, &Path::root("provisioner"), &provisioner.to_ascii_lowercase());
            }
        }
        one_of(errors, &Path::root("reclaimPolicy"), text(object, "reclaimPolicy"), RECLAIM_POLICIES);
        one_of(errors, &Path::root("volumeBindingMode"), text(object, "volumeBindingMode"), BINDING_MODES);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        for field in FIXED {
            immutable(errors, &Path::root(field), new, old, field);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Provisioner"),
            Column::text("ReclaimPolicy"),
            Column::text("VolumeBindingMode"),
            Column::text("AllowVolumeExpansion"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![
            text(object, "provisioner").into(),
            text(object, "reclaimPolicy").into(),
            text(object, "volumeBindingMode").into(),
            is_true(object, "allowVolumeExpansion").to_string().into(),
            age(object, context),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use crate::testing::{World, kind, set};

    #[test]
    fn a_class_needs_a_provisioner_and_keeps_it() {
        let classes = kind("storage.k8s.io", "storageclasses");
        let wrong = |class: &lazaret_json::Value| World::new().create(classes, class.clone()).wrong();
        let class = json!({"metadata": {"name": "fast"}, "provisioner": "disk.example.com"});
        let stored = World::new().create(classes, class.clone()).ok();
        assert_eq!(
            (&stored["reclaimPolicy"], &stored["volumeBindingMode"]),
            (&json!("Delete"), &json!("Immediate"))
        );
        assert_eq!(wrong(&json!({"metadata": {"name": "fast"}})), ["provisioner Required"]);
        assert_eq!(wrong(&set(&class, "/provisioner", json!("a b"))), ["provisioner Invalid"]);
        assert_eq!(wrong(&set(&class, "/reclaimPolicy", json!("Recycle"))), ["reclaimPolicy NotSupported"]);
        assert_eq!(
            wrong(&set(&class, "/volumeBindingMode", json!("Later"))),
            ["volumeBindingMode NotSupported"]
        );
        let other = set(&stored, "/provisioner", json!("tape.example.com"));
        assert_eq!(World::new().update(classes, &stored, other).wrong(), ["provisioner Invalid"]);
    }
}
