//! Patches of slices: an administrator's corrections of what drivers publish.

use lazaret_json::Value;

use super::{
    cel,
    common::{default_time_added, device_selector, taint},
    device,
};
use crate::{
    Context, Errors, Rules,
    check::{each, qualified_name},
    path::Path,
    value::{canonical_quantities, entries, field_mut, has, list, list_mut, quantity, same_field, some},
};

const TAINTS_MAX: usize = 16;

/// Patches of slices.
#[derive(Debug)]
pub(crate) struct Patch;

impl Rules for Patch {
    fn default(&self, object: &mut Value, context: &Context<'_>) {
        let devices = field_mut(field_mut(object, "spec"), "devices");
        list_mut(devices, "taints").iter_mut().for_each(|taint| default_time_added(taint, context));
        canonical_quantities(object, "resource/v1alpha3.ResourceSlicePatch");
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &object["spec"]["devices"], None, context);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &new["spec"]["devices"], Some(&old["spec"]["devices"]), context);
    }
}

fn validate(errors: &mut Errors, patch: &Value, old: Option<&Value>, context: &Context<'_>) {
    let path = Path::root("spec");
    let path = path.field("devices");
    if let Some(filter) = some(patch, "filter") {
        let path = path.field("filter");
        device_selector(errors, &path, filter);
        let stored = old.is_some_and(|old| same_field(filter, &old["filter"], "selectors"));
        cel::selectors(errors, &path.field("selectors"), list(filter, "selectors"), stored, context);
    }
    for field in ["attributes", "capacity"] {
        let path = path.field(field);
        for (name, value) in entries(patch, field) {
            qualified_name(errors, &path, name);
            let path = path.key(name);
            match (has(value, "null"), field) {
                (true, _) if value.as_object().is_some_and(|map| map.len() > 1) => {
                    errors.invalid(path, value.clone(), "`null` takes the value away; it has no other value");
                }
                (true, _) => {}
                (false, "attributes") => device::attribute(errors, &path, value),
                (false, _) if quantity(&value["value"]).is_none() => {
                    errors.invalid(path.field("value"), value["value"].clone(), "must be a quantity");
                }
                (false, _) => {}
            }
        }
    }
    let unchanged = old.is_some_and(|old| same_field(patch, old, "taints"));
    if !unchanged {
        each(errors, &path.field("taints"), list(patch, "taints"), TAINTS_MAX, |errors, path, item| {
            taint(errors, path, item, None);
        });
    }
}
