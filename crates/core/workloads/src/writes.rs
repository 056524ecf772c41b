//! Writes that several controllers make.

use crate::{meta, prelude::*};

/// A patch of the status.
pub(crate) fn status(resource: &'static Resource, metadata: &ObjectMeta, status: Value) -> Write {
    let body = json!({"metadata": meta::precondition(metadata), "status": status});
    Write::Patch {
        resource,
        key: Key::of(metadata),
        subresource: "status",
        kind: PatchKind::Merge,
        body: body.into(),
    }
}

/// A patch of the object; `body` says what changes besides.
pub(crate) fn patch(resource: &'static Resource, metadata: &ObjectMeta, mut body: Value) -> Write {
    let precondition = meta::precondition(metadata);
    for field in ["uid", "resourceVersion"] {
        body["metadata"][field] = precondition[field].clone();
    }
    Write::Patch {
        resource,
        key: Key::of(metadata),
        subresource: "",
        kind: PatchKind::Merge,
        body: body.into(),
    }
}

/// Deletes just this object, and afterwards what it owns.
pub(crate) fn delete(resource: &'static Resource, metadata: &ObjectMeta) -> Write {
    Write::Delete {
        resource,
        key: Key::of(metadata),
        uid: meta::uid(metadata).to_owned(),
        resource_version: None,
        propagation: Propagation::Background,
        grace: None,
    }
}

/// A number as Kubernetes writes it where nothing means zero.
pub(crate) fn unless_zero(number: i32) -> Value {
    if number == 0 { Value::Null } else { json!(number) }
}

/// The length of a list as the API's number.
pub(crate) fn count<T>(list: impl IntoIterator<Item = T>) -> i32 {
    i32::try_from(list.into_iter().count()).unwrap_or(i32::MAX)
}

/// A number of the API as a length; 0 for negative numbers.
pub(crate) fn size(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// All of them together; as many as can be counted where there are more.
pub(crate) fn sum(numbers: impl IntoIterator<Item = i32>) -> i32 {
    numbers.into_iter().fold(0, i32::saturating_add)
}
