//! Classes of devices.

use lazaret_json::Value;
use lazaret_model::validate_label_name;

use super::{
    cel,
    common::{CONFIG_MAX, configuration},
    compile_budget::CompileBudget,
};
use crate::{
    Context, Errors, Rules,
    check::each,
    gate::{Gate, drop_disabled},
    path::Path,
    value::{field_mut, has, list, remove, same_field, text},
};

/// Classes of devices.
#[derive(Debug)]
pub(crate) struct Class;

const GATES: &[Gate] = &[Gate {
    features: &["DRAExtendedResource"],
    in_use: |spec| has(spec, "extendedResourceName"),
    clear: |spec| remove(spec, "extendedResourceName"),
}];

impl Rules for Class {
    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        drop_disabled(GATES, field_mut(object, "spec"), None, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        drop_disabled(GATES, field_mut(new, "spec"), Some(&old["spec"]), context.features);
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &object["spec"], None, context);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &new["spec"], Some(&old["spec"]), context);
    }
}

fn validate(errors: &mut Errors, spec: &Value, old: Option<&Value>, context: &Context<'_>) {
    let path = Path::root("spec");
    let unchanged = |field: &str| old.is_some_and(|old| same_field(spec, old, field));
    cel::selectors(
        errors,
        &path.field("selectors"),
        list(spec, "selectors"),
        unchanged("selectors"),
        (context, &CompileBudget::default()),
    );
    let stored = unchanged("config");
    each(errors, &path.field("config"), list(spec, "config"), CONFIG_MAX, |errors, path, item| {
        configuration(errors, path, item, stored);
    });
    let name = text(spec, "extendedResourceName");
    if has(spec, "extendedResourceName") && !is_extended_resource(name) {
        errors.invalid(path.field("extendedResourceName"), name, "must be a valid extended resource name");
    }
}

/// A resource with a domain that is not Kubernetes' own, and that quotas can count.
fn is_extended_resource(name: &str) -> bool {
    const QUOTA_PREFIX: &str = "requests.";
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with(QUOTA_PREFIX)
        && validate_label_name(&format!("{QUOTA_PREFIX}{name}")).is_ok()
}
