//! Annotations and owner references by which controllers remember what they did: nobody else writes them.
//!
//! DEVIATION(reserved-marks): Kubernetes lets everybody write every annotation and owner reference.

use lazaret_json::Value;
use lazaret_kinds::Access;

use crate::{ApiError, call::Call};

/// Keys of annotations and labels.
const RESERVED: [&str; 6] = [
    "lazaret.dev/awaiting-classic-unprepare",
    "lazaret.dev/awaiting-unprepare",
    "lazaret.dev/evicted-by",
    "lazaret.dev/last-published",
    "lazaret.dev/replacement",
    "lazaret.dev/replacement-proof",
];
const PREFIX: &str = "lazaret.dev/";
/// Objects of an incident are created with the rights of the account that a policy names, and known by a proof.
const PROVED_OWNER: &str = "DeviceIncident";
/// A user who may write reserved keys may `write` this resource of the group, in the object's namespace.
const RESOURCE: &str = "marks";

/// Refuses a write that changes a reserved key or adds an owner of our kinds, in an object or in the template of one.
pub(super) fn validate(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(what) = reserved_change(new, old.unwrap_or(&Value::Null)) else { return Ok(()) };
    let access = Access {
        verb: "write",
        group: "lazaret.dev",
        resource: RESOURCE,
        subresource: "",
        namespace: &call.target.namespace,
        name: "",
        fields: &[],
    };
    if call.server.may(call.user, access).is_ok() {
        return Ok(());
    }
    let why = format!("{what} is written by controllers alone: leave it as it is");
    Err(ApiError::forbidden(&call.kind, name, &why))
}

/// The reserved part that a write changes.
fn reserved_change(new: &Value, old: &Value) -> Option<String> {
    let pairs: [(&str, &Value, &Value); 6] = [
        ("metadata", &new["metadata"], &old["metadata"]),
        (
            "spec.template.metadata",
            &new["spec"]["template"]["metadata"],
            &old["spec"]["template"]["metadata"],
        ),
        ("template.metadata", &new["template"]["metadata"], &old["template"]["metadata"]),
        ("spec.metadata", &new["spec"]["metadata"], &old["spec"]["metadata"]),
        (
            "spec.jobTemplate.metadata",
            &new["spec"]["jobTemplate"]["metadata"],
            &old["spec"]["jobTemplate"]["metadata"],
        ),
        (
            "spec.jobTemplate.spec.template.metadata",
            &new["spec"]["jobTemplate"]["spec"]["template"]["metadata"],
            &old["spec"]["jobTemplate"]["spec"]["template"]["metadata"],
        ),
    ];
    let changed = |(path, new, old): (&str, &Value, &Value)| {
        if new.is_null() && old.is_null() || new.is(old) {
            return None;
        }
        let key = ["annotations", "labels"].into_iter().find_map(|field| {
            changed_key(&new[field], &old[field]).map(|key| format!("{path}.{field}[{key}]"))
        });
        key.or_else(|| new_owner(new, old).map(|kind| format!("{path}.ownerReferences of kind {kind}")))
    };
    pairs.into_iter().find_map(changed)
}

fn changed_key(new: &Value, old: &Value) -> Option<&'static str> {
    let has_some =
        |map: &Value| map.as_object().is_some_and(|map| map.iter().any(|(key, _)| key.starts_with(PREFIX)));
    if !has_some(new) && !has_some(old) {
        return None;
    }
    RESERVED.into_iter().find(|key| new[*key] != old[*key])
}

/// The kind of an owner of our group that was not one before.
fn new_owner(new: &Value, old: &Value) -> Option<String> {
    let owners = |metadata: &Value| metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    let is_ours = |owner: &Value| {
        owner["apiVersion"].as_str().is_some_and(|version| version.starts_with(PREFIX))
            && owner["kind"] != PROVED_OWNER
    };
    let before = owners(old);
    let is_new = |owner: &&Value| is_ours(owner) && !before.iter().any(|known| known["uid"] == owner["uid"]);
    let added = owners(new);
    let found = added.iter().find(is_new)?;
    Some(found["kind"].as_str().unwrap_or_default().to_owned())
}
