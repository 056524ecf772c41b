//! Patches of slices: an administrator's corrections of what drivers publish.

use lazaret_json::{Value, json};
use lazaret_schema::Finding;

use super::{
    cel,
    common::{default_pace, default_time_added, paceless, taint, without_pace},
    compile_budget::CompileBudget,
    device,
};
use crate::{
    Context, Errors, Rules,
    check::{each, qualified_name},
    gate::{Gate, drop_disabled},
    limits,
    path::Path,
    value::{
        canonical_quantities, entries, field_mut, has, is_filled, list, list_mut, quantity, remove,
        same_field, some, text,
    },
};

const TAINTS_MAX: usize = 16;

/// Fields of features, by feature: taints are of use without the other overrides.
const GATES: &[Gate] = &[
    Gate {
        features: &["DRADeviceTaints"],
        in_use: |devices| is_filled(devices, "taints"),
        clear: |devices| remove(devices, "taints"),
    },
    Gate {
        features: &["DRAAdminControlledDeviceAttributes"],
        in_use: |devices| is_filled(devices, "attributes") || is_filled(devices, "capacity"),
        clear: |devices| ["attributes", "capacity"].iter().for_each(|field| remove(devices, field)),
    },
];

/// Patches of slices.
#[derive(Debug)]
pub(crate) struct Patch;

impl Rules for Patch {
    /// The selector has two names in clients' hands. Which of two was meant cannot be known, and neither may be dropped.
    fn drop_unknown_fields(&self, object: &mut Value) -> Option<Vec<Finding>> {
        let devices = &object["spec"]["devices"];
        let both = has(devices, "filter") && has(devices, "deviceSelector");
        both.then(|| {
            let (path, expected, found) =
                ("spec.devices".into(), "one with filter or deviceSelector", "one with both");
            vec![Finding::Kind { path, expected, found }]
        })
    }

    fn default(&self, object: &mut Value, context: &Context<'_>) {
        let devices = field_mut(field_mut(object, "spec"), "devices");
        for taint in list_mut(devices, "taints") {
            default_time_added(taint, context);
            default_pace(taint, context);
        }
        canonical_quantities(object, "resource/v1alpha3.ResourceSlicePatch");
    }

    fn default_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        let taints = |patch: &Value| list(&patch["spec"]["devices"], "taints").to_vec();
        let stays = paceless(&taints(new), &taints(old), |taint| ("", taint));
        self.default(new, context);
        for at in stays {
            without_pace(&mut new["spec"]["devices"]["taints"][at]);
        }
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        let devices = field_mut(field_mut(object, "spec"), "devices");
        drop_disabled(GATES, devices, None, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        let devices = field_mut(field_mut(new, "spec"), "devices");
        drop_disabled(GATES, devices, Some(&old["spec"]["devices"]), context.features);
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &object["spec"]["devices"], None, context);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        validate(errors, &new["spec"]["devices"], Some(&old["spec"]["devices"]), context);
    }
}

/// A patch that reaches no device, or evicts from every one, is seldom meant.
fn warn_of_reach(errors: &mut Errors, patch: &Value, old: Option<&Value>) {
    let selects_nothing = |patch: &Value| !has(patch, "filter");
    let evicts_all = |patch: &Value| {
        patch.get("filter") == Some(&json!({}))
            && list(patch, "taints").iter().any(|taint| text(taint, "effect") == "NoExecute")
    };
    if selects_nothing(patch) && !old.is_some_and(selects_nothing) {
        errors.warn(
            "spec.devices.filter: without a filter the patch selects no device; an empty filter {} selects every device in the cluster",
        );
    }
    if evicts_all(patch) && !old.is_some_and(evicts_all) {
        errors.warn(
            "spec.devices.filter: an empty filter selects every device in the cluster, and a taint with effect NoExecute evicts every pod that uses one and does not tolerate the taint",
        );
    }
}

fn validate(errors: &mut Errors, patch: &Value, old: Option<&Value>, context: &Context<'_>) {
    let path = Path::root("spec");
    let path = path.field("devices");
    warn_of_reach(errors, patch, old);
    if let Some(filter) = some(patch, "filter") {
        let path = path.field("filter");
        limits::check(errors, &path, "resource/v1alpha3.DeviceTaintSelector", filter, None);
        let stored = old.is_some_and(|old| same_field(filter, &old["filter"], "selectors"));
        cel::selectors(
            errors,
            &path.field("selectors"),
            list(filter, "selectors"),
            stored,
            (context, &CompileBudget::default()),
        );
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
            taint(errors, path, item, context);
        });
    }
}
