//! DeviceHealthPolicy: which signals make a device suspect, quarantined or drained, what repairs it, what proves it well.

use lazaret_json::Value;

use super::{Names, OWN_GROUP, column, condition, definition_of, from_table};
use crate::Errors;

pub(super) fn definition() -> Value {
    let names =
        Names { kind: "DeviceHealthPolicy", plural: "devicehealthpolicies", short: "dhp", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Mode", "string", ".spec.mode", "Observe or Enforce"),
            column("Class", "string", ".spec.deviceSelector.deviceClassName", "The class of its devices"),
            column("Driver", "string", ".spec.deviceSelector.driver", "The driver of its devices"),
            column("Clear-After", "string", ".spec.clearAfter", "When a device is calm"),
            column(
                "Accepted",
                "string",
                &condition("Accepted", "status"),
                "Whether it is understood and acted on",
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
        ],
    )
}

/// The checks that need a compiler: expressions, durations, templates.
pub(super) fn check(policy: &Value, errors: &mut Errors) {
    // Objects are looked at without the kind and version by which they were sent.
    let mut whole = policy.clone();
    crate::value::put(&mut whole, "apiVersion", format!("{OWN_GROUP}/v1alpha1"));
    crate::value::put(&mut whole, "kind", "DeviceHealthPolicy");
    if let Err(error) = lazaret_api::read_health_policy(&whole.to_string()) {
        let found =
            error.path.split('.').filter(|part| !part.contains('[')).fold(policy, |at, part| &at[part]);
        let shown =
            if found.is_string() || found.is_number() { found.clone() } else { "<value omitted>".into() };
        errors.invalid(error.path, shown, error.message);
    }
    // A field that no DeviceTaintPolicy has would have no effect.
    let known = from_table::described("HealthEviction").unwrap_or_default();
    for (field, _) in crate::value::entries(&policy["spec"], "eviction") {
        if known["properties"][&**field].is_null() {
            let path = format!("spec.eviction.{field}");
            errors.invalid(
                path,
                "<value omitted>",
                "a DeviceTaintPolicy has no such field: it would not be acted on",
            );
        }
    }
}
