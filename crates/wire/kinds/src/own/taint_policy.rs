//! DeviceTaintPolicy: a taint for devices by class and expression, whose pods leave at a pace. On every cluster it becomes DeviceTaintRules of Kubernetes.

use lazaret_json::Value;

use crate::{Errors, path::Path, resource::windows, value::list};

use super::{Names, column, condition, definition_of, wide_column};

pub(super) fn definition() -> Value {
    let names =
        Names { kind: "DeviceTaintPolicy", plural: "devicetaintpolicies", short: "dtp", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Key", "string", ".spec.taint.key", "The taint's key"),
            column("Value", "string", ".spec.taint.value", "The taint's value"),
            column("Effect", "string", ".spec.taint.effect", "The taint's effect"),
            column("Evicted", "integer", ".status.evictions.pods", "Pods that were evicted because of it"),
            column(
                "Drained",
                "string",
                &condition("Drained", "status"),
                "Whether the selected devices are idle",
            ),
            wide_column("Compiled", &condition("Compiled", "message"), "Which DeviceTaintRules it became"),
            wide_column("Progress", &condition("EvictionInProgress", "message"), "How far the eviction is"),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
        ],
    )
}

/// The check that the schema cannot make: whether a time zone exists.
pub(super) fn check(policy: &Value, _: Option<&Value>, errors: &mut Errors) {
    let path = Path::root("spec");
    let (eviction, said) = (path.field("eviction"), &policy["spec"]["eviction"]);
    windows(errors, &eviction.field("windows"), list(said, "windows"));
}
