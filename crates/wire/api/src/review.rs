//! Annotations of a rule that say who wrote it and who approved it.

use std::collections::BTreeMap;

use lazaret_model::{
    APPROVAL, APPROVED_BY, Approval, Impact, REQUEST, Review, RuleRequest, Text, Timestamp, WRITTEN_BY,
};
use serde::{Deserialize, Serialize};

use crate::{time::format_time_precise, wire::Nullable};

/// A longer one is not ours.
const BYTES_MAX: usize = 8 * 1024;

#[derive(Deserialize, Serialize)]
struct Wire {
    uid: String,
    generation: i64,
    pods: u64,
    namespaces: u64,
    devices: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    at: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    request: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subject: String,
}

#[derive(Deserialize, Serialize)]
#[serde(default)]
#[derive(Default)]
struct WireRequest {
    id: String,
    evicts: bool,
    pods: u64,
    namespaces: u64,
    devices: u64,
}

/// The text of the annotation that says which request a rule was made by.
#[must_use]
pub fn rule_request_to_text(request: &RuleRequest) -> String {
    let Impact { pods, namespaces, devices } = request.declared;
    let wire = WireRequest { id: request.id.to_string(), evicts: request.evicts, pods, namespaces, devices };
    // Texts and numbers cannot fail.
    serde_json::to_string(&wire).unwrap_or_default()
}

/// The text of the annotation that approves a rule. No two approvals are alike: with the same words a second user would be taken for the first.
#[must_use]
pub fn approval_to_text(approval: &Approval, reason: &str, at: Timestamp) -> String {
    let Impact { pods, namespaces, devices } = approval.seen;
    let (uid, generation) = (approval.uid.to_string(), approval.generation);
    // Texts and numbers cannot fail.
    let text = |text: &Option<Text>| text.as_ref().map(ToString::to_string).unwrap_or_default();
    let (request, subject) = (text(&approval.request), text(&approval.subject));
    let (reason, at) = (reason.to_owned(), format_time_precise(at));
    serde_json::to_string(&Wire { uid, generation, pods, namespaces, devices, reason, at, request, subject })
        .unwrap_or_default()
}

/// Reads the annotations of a rule. Any user may write annotations: text that is no approval counts as none.
pub(crate) fn read_review(annotations: &BTreeMap<String, Nullable<String>>) -> Option<Box<Review>> {
    let text = |name: &str| annotations.get(name).map(|text| text.0.as_str()).filter(|text| !text.is_empty());
    let written_by = text(WRITTEN_BY).map(Text::from);
    let approval = text(APPROVAL).and_then(|said| read_approval(said, text(APPROVED_BY)));
    let request = text(REQUEST).and_then(read_request);
    (written_by.is_some() || approval.is_some() || request.is_some())
        .then(|| Box::new(Review { is_required: written_by.is_some(), written_by, approval, request }))
}

fn read_request(text: &str) -> Option<RuleRequest> {
    let wire: WireRequest = (text.len() <= BYTES_MAX).then(|| serde_json::from_str(text).ok()).flatten()?;
    let declared = Impact { pods: wire.pods, namespaces: wire.namespaces, devices: wire.devices };
    (!wire.id.is_empty()).then(|| RuleRequest { id: wire.id.into(), evicts: wire.evicts, declared })
}

fn non_empty(text: String) -> Option<Text> {
    (!text.is_empty()).then(|| text.into())
}

fn read_approval(text: &str, by: Option<&str>) -> Option<Approval> {
    let wire: Wire = (text.len() <= BYTES_MAX).then(|| serde_json::from_str(text).ok()).flatten()?;
    Some(Approval {
        uid: wire.uid.into(),
        generation: wire.generation,
        seen: Impact { pods: wire.pods, namespaces: wire.namespaces, devices: wire.devices },
        by: by.map(Text::from),
        request: non_empty(wire.request),
        subject: non_empty(wire.subject),
    })
}
