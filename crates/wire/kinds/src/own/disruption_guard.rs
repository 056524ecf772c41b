//! DisruptionGuard: limits that no eviction exceeds, whatever its reason.

use lazaret_json::Value;

use crate::{
    Errors,
    path::Path,
    resource::windows,
    value::{list, text},
};

use super::{Names, column, condition, definition_of, wide_column};

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
            column(
                "Understood",
                "string",
                &condition("Understood", "status"),
                "Whether it is known which devices it selects: where it is not, nothing begins",
            ),
            wide_column("Devices", ".status.selected.devices", "How many devices it selects"),
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

/// The checks that the schema cannot make: whether time zones exist and expressions compile. A selector that stays as it is was accepted before:
/// a guard that is not understood can be paused and resumed.
pub(super) fn check(guard: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = Path::root("spec");
    windows(errors, &path.field("windows"), list(&guard["spec"], "windows"));
    let selector = &guard["spec"]["deviceSelector"];
    if old.is_some_and(|old| old["spec"]["deviceSelector"] == *selector) {
        return;
    }
    let path = path.field("deviceSelector");
    let path = path.field("selectors");
    for (at, item) in list(selector, "selectors").iter().enumerate() {
        let expression = text(&item["cel"], "expression");
        if let Err(error) = lazaret_cel::compile(expression, &lazaret_cel::Env::stored()) {
            let path = path.index(at);
            let path = path.field("cel");
            errors.invalid(path.field("expression"), expression, error.to_string());
        }
    }
}
