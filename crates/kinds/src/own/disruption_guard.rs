//! DisruptionGuard: limits that no eviction exceeds, whatever its reason.

use lazaret_json::Value;

use crate::{Errors, path::Path, resource::windows, value::list};

use super::{Names, column, definition_of, wide_column};

pub(super) fn definition() -> Value {
    let names = Names { kind: "DisruptionGuard", plural: "disruptionguards", short: "dg", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Paused", "string", ".spec.paused.reason", "Why no eviction begins"),
            column("Until", "string", ".spec.paused.until", "Until when"),
            wide_column("Of", ".spec.breaker.of", "Unit that its breaker counts"),
            column("Max", "string", ".spec.breaker.maxOutOfService", "How much may be out of service"),
            column("Out", "integer", ".status.breaker.outOfService", "How much is out of service"),
            column(
                "Tripped",
                "boolean",
                ".status.breaker.tripped",
                "Whether its breaker keeps evictions from beginning",
            ),
            column("Open", "boolean", ".status.window.open", "Whether one of its windows is open"),
            column("Opens", "string", ".status.window.opensAt", "When the next of its windows opens"),
            wide_column(
                "Approvers",
                ".spec.approvers",
                "Users and groups that may approve rules that reach far",
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
        ],
    )
}

/// The check that the schema cannot make: whether a time zone exists.
pub(super) fn check(guard: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    windows(errors, &path.field("windows"), list(&guard["spec"], "windows"));
}
