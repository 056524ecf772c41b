//! TaintReplacementPolicy: which pods are replaced when their node or their devices are tainted, when, and how many at a time.

use lazaret_json::Value;

use super::{Names, column, condition, definition_of, wide_column};

pub(super) fn definition() -> Value {
    let names = Names {
        kind: "TaintReplacementPolicy",
        plural: "taintreplacementpolicies",
        short: "trp",
        scope: "Namespaced",
    };
    definition_of(&names, columns())
}

fn columns() -> Vec<Value> {
    vec![
        column(
            "Enabled",
            "boolean",
            ".spec.automaticReplacementOptions.enabled",
            "Whether anything new is begun",
        ),
        column("Selected", "integer", ".status.totals.selected", "Pods that it looks after"),
        column(
            "Detected",
            "integer",
            ".status.totals.detected",
            "Pods with a taint that is too young to matter",
        ),
        column("Due", "integer", ".status.totals.due", "Pods marked to be replaced"),
        column("In-Flight", "integer", ".status.totals.inFlight", "Replacements under way"),
        column("Replaced", "integer", ".status.totals.replaced", "Replacements that came to their end"),
        column(
            "State",
            "string",
            &condition("Progressing", "reason"),
            "Current step, or the condition it waits for",
        ),
        column("Health", "string", &condition("Degraded", "reason"), "AsExpected or what is wrong"),
        wide_column(
            "Progress",
            &condition("Progressing", "message"),
            "Current step, or the condition it waits for, in words",
        ),
        wide_column(
            "Breaker",
            &condition("BreakerTripped", "message"),
            "Whether too many fault domains are tainted",
        ),
        wide_column("Problem", &condition("Degraded", "message"), "The problem, in words"),
        column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
    ]
}
