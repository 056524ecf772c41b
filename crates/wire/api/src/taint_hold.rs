//! Taints of drivers and patches that guards hold, in the status of a guard, and the approvals of drivers' taints, in its annotation.

use lazaret_model::{Impact, TAINT_APPROVALS_MAX, TaintApproval, TaintHold, TaintedBy, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    time::{format_time_precise, parse_time},
    wire::GuardHeldTaint,
};

/// A longer annotation is not ours.
const BYTES_MAX: usize = 64 * 1024;

/// An approval, as the annotation has it. The server writes `by`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct Wire {
    driver: String,
    key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    value: String,
    since: String,
    pods: u64,
    namespaces: u64,
    devices: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
}

/// The annotation of a guard with one more approval. Approvals of the same taint, and those that `is_needed` does not want, are left out. No
/// two approvals are alike: with the same words a second user would be taken for the first.
#[must_use]
pub fn with_taint_approval(
    before: &str,
    approval: &TaintApproval,
    (reason, at): (&str, Timestamp),
    is_needed: impl Fn(&TaintApproval) -> bool,
) -> String {
    let TaintApproval { taint, since, seen, .. } = approval;
    let Impact { pods, namespaces, devices } = *seen;
    let (driver, key, value) = match taint {
        TaintedBy::Driver { driver, key, value } => (driver, key, value),
        // A patch has its approval itself.
        TaintedBy::Patch { .. } => return before.to_owned(),
    };
    let is_kept =
        |wire: &Wire| read_one(wire).is_some_and(|known| known.taint != *taint && is_needed(&known));
    let mut all: Vec<Wire> = entries(before).into_iter().filter(is_kept).collect();
    all.push(Wire {
        driver: driver.to_string(),
        key: key.to_string(),
        value: value.to_string(),
        since: format_time_precise(*since),
        pods,
        namespaces,
        devices,
        reason: reason.to_owned(),
        at: format_time_precise(at),
        by: String::new(),
    });
    // Texts and numbers cannot fail.
    serde_json::to_string(&all).unwrap_or_default()
}

/// The annotation of a guard that `user` writes: whoever gave an approval is named in it, whatever the client says. `before`: the annotation as it
/// was. Text that is no list of approvals counts as none and stays as it is.
#[must_use]
pub fn sign_taint_approvals(text: &str, before: &str, user: &str) -> String {
    let Some(mut all) = parsed(text) else { return text.to_owned() };
    let known = entries(before);
    all.truncate(TAINT_APPROVALS_MAX);
    for entry in &mut all {
        entry.by.clear();
        let same = known.iter().find(|one| Wire { by: String::new(), ..(*one).clone() } == *entry);
        entry.by = same.map_or_else(|| user.to_owned(), |same| same.by.clone());
    }
    serde_json::to_string(&all).unwrap_or_default()
}

fn parsed(text: &str) -> Option<Vec<Wire>> {
    (text.len() <= BYTES_MAX).then(|| serde_json::from_str(text).ok()).flatten()
}

fn entries(text: &str) -> Vec<Wire> {
    parsed(text).unwrap_or_default()
}

fn read_one(wire: &Wire) -> Option<TaintApproval> {
    Some(TaintApproval {
        taint: TaintedBy::Driver {
            driver: wire.driver.as_str().into(),
            key: wire.key.as_str().into(),
            value: wire.value.as_str().into(),
        },
        since: parse_time(&wire.since).ok()?,
        seen: Impact { pods: wire.pods, namespaces: wire.namespaces, devices: wire.devices },
        by: (!wire.by.is_empty()).then(|| wire.by.as_str().into()),
    })
}

/// The approvals in the annotation of a guard. Any user may write annotations: text that is no approval counts as none.
pub(crate) fn read_taint_approvals(text: &str) -> Vec<TaintApproval> {
    entries(text).iter().take(TAINT_APPROVALS_MAX).filter_map(read_one).collect()
}

/// The taints in the status of a guard. One that cannot be read is counted again.
pub(crate) fn taint_holds(wire: Vec<GuardHeldTaint>) -> Vec<TaintHold> {
    let text = |text: String| -> Text { text.into() };
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    let read = |wire: GuardHeldTaint| {
        let taint = if wire.patch.0.is_empty() {
            TaintedBy::Driver {
                driver: text(wire.driver.0),
                key: text(wire.key.0),
                value: text(wire.value.0),
            }
        } else {
            TaintedBy::Patch { name: text(wire.patch.0) }
        };
        let since: Timestamp = wire.since?.0;
        let (pods, namespaces, devices) =
            (count(wire.pods.0), count(wire.namespaces.0), count(wire.devices.0));
        Some(TaintHold {
            taint,
            since,
            impact: Impact { pods, namespaces, devices },
            reason: text(wire.reason.0),
            message: text(wire.message.0),
        })
    };
    wire.into_iter().take(TaintHold::LISTED_MAX).filter_map(read).collect()
}
