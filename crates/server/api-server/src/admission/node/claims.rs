//! Claims of volumes: a node reports how large the volume is that it mounted, and how far a resize is.

use lazaret_json::Value;

use super::attempt::{Attempt, Operation, Refusal, Verdict, same};

/// Status fields that a node may change.
const REPORTED: &[&str] = &["allocatedResourceStatuses", "allocatedResources", "capacity", "conditions"];

/// Fields that differ without a change by the client.
const IGNORED_METADATA: &[&str] = &["managedFields", "resourceVersion"];

/// A refusal names at most this many fields.
const FIELDS_MAX: usize = 16;

pub(super) fn status(attempt: &Attempt<'_>) -> Verdict {
    if attempt.operation != Operation::Update {
        return Err(Refusal::Forbidden(format!("unexpected operation \"{}\"", attempt.operation)));
    }
    let mut changed = Vec::new();
    for (section, but) in [("metadata", IGNORED_METADATA), ("spec", &[][..]), ("status", REPORTED)] {
        differences(section, &attempt.object[section], &attempt.old[section], but, &mut changed);
    }
    if changed.is_empty() {
        return Ok(());
    }
    // DEVIATION(volume-claim-words): names the fields where Kubernetes shows both objects' differences.
    Err(Refusal::Forbidden(format!(
        "node {:?} is not allowed to update fields other than status.quantity and status.conditions: {}",
        attempt.node,
        changed.join(", ")
    )))
}

/// Fields that differ, but for these.
fn differences(section: &str, new: &Value, old: &Value, but: &[&str], changed: &mut Vec<String>) {
    let names = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(name, _)| name.to_string()).collect()
    };
    let mut all = names(new);
    all.extend(names(old));
    all.sort_unstable();
    all.dedup();
    for name in all.iter().filter(|name| !but.contains(&name.as_str())) {
        if changed.len() < FIELDS_MAX && !same(&new[name.as_str()], &old[name.as_str()]) {
            changed.push(format!("{section}.{name}"));
        }
    }
}
