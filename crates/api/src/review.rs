//! Annotations of a rule that say who wrote it and who approved it.

use std::collections::BTreeMap;

use lazaret_model::{APPROVAL, APPROVED_BY, Approval, Impact, Review, Text, WRITTEN_BY};
use serde::{Deserialize, Serialize};

use crate::wire::Nullable;

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
}

/// The text of the annotation that approves a rule.
#[must_use]
pub fn approval_to_text(approval: &Approval, reason: &str) -> String {
    let Impact { pods, namespaces, devices } = approval.seen;
    let (uid, generation) = (approval.uid.to_string(), approval.generation);
    // Texts and numbers cannot fail.
    serde_json::to_string(&Wire { uid, generation, pods, namespaces, devices, reason: reason.to_owned() })
        .unwrap_or_default()
}

/// What the annotations of a rule say. Anybody may write annotations: what is no approval is none.
pub(crate) fn read_review(annotations: &BTreeMap<String, Nullable<String>>) -> Option<Box<Review>> {
    let text = |name: &str| annotations.get(name).map(|text| text.0.as_str()).filter(|text| !text.is_empty());
    let written_by = text(WRITTEN_BY).map(Text::from);
    let approval = text(APPROVAL).and_then(|said| read_approval(said, text(APPROVED_BY)));
    (written_by.is_some() || approval.is_some())
        .then(|| Box::new(Review { is_required: written_by.is_some(), written_by, approval }))
}

fn read_approval(text: &str, by: Option<&str>) -> Option<Approval> {
    let wire: Wire = (text.len() <= BYTES_MAX).then(|| serde_json::from_str(text).ok()).flatten()?;
    Some(Approval {
        uid: wire.uid.into(),
        generation: wire.generation,
        seen: Impact { pods: wire.pods, namespaces: wire.namespaces, devices: wire.devices },
        by: by.map(Text::from),
    })
}
