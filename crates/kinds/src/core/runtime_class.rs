//! Ways in which a node runs containers, and what that adds to a pod.

use lazaret_json::Value;
use lazaret_model::validate_dns_label;

use super::pod_validation::{overhead, placement};
use crate::{
    Column, Context, Errors, Rules,
    check::{immutable, name},
    kind::age,
    path::Path,
    value::{canonical_quantities, some, text},
};

/// Classes of container runtimes.
#[derive(Debug)]
pub(crate) struct RuntimeClass;

impl Rules for RuntimeClass {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        canonical_quantities(object, "node/v1.RuntimeClass");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("handler");
        match text(object, "handler") {
            "" => errors.required(path, ""),
            handler => name(errors, &path, handler, validate_dns_label),
        }
        if let Some(fixed) = some(object, "overhead") {
            overhead(errors, &Path::root("overhead"), &fixed["podFixed"]);
        }
        if let Some(scheduling) = some(object, "scheduling") {
            placement(errors, &Path::root("scheduling"), scheduling);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        immutable(errors, &Path::root("handler"), new, old, "handler");
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Handler"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![text(object, "handler").into(), age(object, context)]
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use crate::testing::{World, kind, set};

    #[test]
    fn a_class_names_a_handler_and_keeps_it() {
        let classes = kind("node.k8s.io", "runtimeclasses");
        let class = json!({
            "metadata": {"name": "sandbox"}, "handler": "sandbox", "overhead": {"podFixed": {"cpu": "0.250"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
        });
        let stored = World::new().create(classes, class.clone()).ok();
        assert_eq!(stored["overhead"]["podFixed"]["cpu"], "250m");
        for (pointer, value, expected) in [
            ("/handler", json!(""), "handler Required"),
            ("/handler", json!("A"), "handler Invalid"),
            ("/overhead/podFixed/cpu", json!("-1"), "overhead.limits[cpu] Invalid"),
            ("/scheduling/nodeSelector/sandbox", json!("a b"), "scheduling.nodeSelector Invalid"),
            ("/scheduling/tolerations/0/key", json!("a b"), "scheduling.tolerations[0].key Invalid"),
        ] {
            assert_eq!(World::new().create(classes, set(&class, pointer, value)).wrong(), [expected]);
        }
        let other = set(&stored, "/handler", json!("other"));
        assert_eq!(World::new().update(classes, &stored, other).wrong(), ["handler Invalid"]);
    }
}
