//! Questions about metadata that every controller asks.

use jiff::Timestamp as Instant;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::prelude::*;

/// The reference to the one owner that manages the object.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The UID, or nothing.
pub(crate) fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// The name, or nothing.
pub(crate) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Whether someone has asked for it to go.
pub(crate) fn is_leaving(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// Since when someone has asked for it to go: the timestamp is when it may be killed.
pub(crate) fn leaving_since(metadata: &ObjectMeta) -> Option<Timestamp> {
    let grace = metadata.deletion_grace_period_seconds.unwrap_or(0);
    metadata.deletion_timestamp.as_ref().map(|at| timestamp(at).plus_secs(grace.saturating_neg()))
}

/// Whether it has this finalizer.
pub(crate) fn has_finalizer(metadata: &ObjectMeta, name: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

/// The label's value.
pub(crate) fn label<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// The annotation's value.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The version as a number: servers promise that versions of one kind can be compared.
pub(crate) fn revision(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether this is later news than what is known. Versions that are no numbers are taken as they come.
pub(crate) fn is_newer(new: &ObjectMeta, old: &ObjectMeta) -> bool {
    match (revision(new), revision(old)) {
        (0, _) | (_, 0) => true,
        (new, old) => new > old,
    }
}

/// When it was made.
pub(crate) fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::EPOCH, timestamp)
}

/// A time on the wire as a number.
pub(crate) fn timestamp(time: &Time) -> Timestamp {
    Timestamp::from_millis(time.0.as_millisecond())
}

/// A number as a time on the wire, which knows seconds.
pub(crate) fn wire_time(at: Timestamp) -> Time {
    Time(Instant::from_second(at.as_secs()).unwrap_or(Instant::MAX))
}

/// Metadata reduced to identity, owners, finalizers and times.
pub(crate) fn essential(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp.clone(),
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
        finalizers: metadata.finalizers.clone(),
        owner_references: metadata.owner_references.clone(),
        ..ObjectMeta::default()
    }
}

/// The beginning of every patch: what must be true of the object that it changes.
pub(crate) fn precondition(metadata: &ObjectMeta) -> Value {
    json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version})
}

/// A reference by which an owner manages what it makes.
pub(crate) fn controller_reference(resource: &Resource, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: resource.api_version(),
        kind: resource.kind.to_owned(),
        name: name(owner).to_owned(),
        uid: uid(owner).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
