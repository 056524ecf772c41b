//! Which objects an owner manages: those it has, those it takes in, those it lets go.

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::LabelSelector};

use crate::{meta, prelude::*, selector, table::Table};

/// The objects that an owner controls.
#[derive(Debug)]
pub(crate) struct Claimed<T> {
    /// Objects that the owner controls, including those that it adopts now.
    pub(crate) mine: Vec<Arc<T>>,
    /// The writes that adopt and release objects.
    pub(crate) writes: Vec<Write>,
}

/// Sorts out what `owner` manages: by reference what it has, by selector what it should have. An owner that is leaving
/// takes nothing in.
pub(crate) fn claim<T: Metadata<Ty = ObjectMeta>>(
    table: &Table<T>,
    kind: (&'static Resource, &'static Resource),
    owner: &ObjectMeta,
    labels: &LabelSelector,
    wanted: impl Fn(&T) -> bool,
) -> Claimed<T> {
    let (owner_kind, kind) = kind;
    let mut claimed = Claimed { mine: Vec::new(), writes: Vec::new() };
    for object in table.managed_by(meta::uid(owner)).filter(|object| wanted(object)) {
        if selector::matches(labels, object.metadata()) {
            claimed.mine.push(Arc::clone(object));
        } else if !meta::is_leaving(owner) {
            claimed.writes.push(without_owners(kind, object.metadata(), &[meta::uid(owner)]));
        }
    }
    if meta::is_leaving(owner) || selector::is_empty(labels) {
        return claimed;
    }
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    for object in table.uncontrolled_in(namespace).filter(|object| wanted(object)) {
        let metadata = object.metadata();
        if !meta::is_leaving(metadata) && selector::matches(labels, metadata) {
            claimed.writes.push(with_controller(kind, metadata, owner_kind, owner));
            claimed.mine.push(Arc::clone(object));
        }
    }
    claimed
}

/// The owners that a change of a pod concerns: those that managed or manage it, or would like to.
pub(crate) fn concerned<T: Metadata<Ty = ObjectMeta>>(
    table: &Table<T>,
    kind: &Resource,
    change: &Change,
    labels: impl Fn(&T) -> Option<&LabelSelector>,
    keys: &mut Vec<Key>,
) {
    let wants = |owner: &T, metadata: &ObjectMeta| {
        labels(owner).is_some_and(|labels| !selector::is_empty(labels) && selector::matches(labels, metadata))
    };
    concerned_where(table, kind, change, wants, keys);
}

/// As [`concerned`], for owners that say themselves which objects they would like to manage.
pub(crate) fn concerned_where<T: Metadata<Ty = ObjectMeta>>(
    table: &Table<T>,
    kind: &Resource,
    change: &Change,
    wants: impl Fn(&T, &ObjectMeta) -> bool,
    keys: &mut Vec<Key>,
) {
    let owner = |object: &Option<Object>| {
        let metadata = object.as_ref()?.metadata();
        let owner = meta::controller_of(metadata)?;
        kind.is(&owner.api_version, &owner.kind)
            .then(|| Key::new(metadata.namespace.clone().unwrap_or_default(), owner.name.clone()))
    };
    keys.extend(owner(&change.old));
    keys.extend(owner(&change.new));
    // It is gone.
    let Some(new) = &change.new else { return };
    if meta::controller_of(new.metadata()).is_some() || meta::is_leaving(new.metadata()) {
        return;
    }
    let same_labels = change.old.as_ref().is_some_and(|old| {
        old.metadata().labels == new.metadata().labels && meta::controller_of(old.metadata()).is_none()
    });
    if !same_labels {
        let metadata = new.metadata();
        let adopters = table.within(metadata.namespace.as_deref().unwrap_or_default());
        keys.extend(adopters.filter(|(_, owner)| wants(owner, metadata)).map(|(key, _)| key.clone()));
    }
}

/// The patch that makes `owner` the one that manages an object.
fn with_controller(
    kind: &'static Resource,
    metadata: &ObjectMeta,
    owner_kind: &Resource,
    owner: &ObjectMeta,
) -> Write {
    let mut owners = metadata.owner_references.clone().unwrap_or_default();
    owners.retain(|known| known.uid != meta::uid(owner));
    owners.push(meta::controller_reference(owner_kind, owner));
    set_owners(kind, metadata, &owners)
}

/// The patch that takes away references to these owners.
pub(crate) fn without_owners(kind: &'static Resource, metadata: &ObjectMeta, uids: &[&str]) -> Write {
    let mut owners = metadata.owner_references.clone().unwrap_or_default();
    owners.retain(|owner| !uids.contains(&owner.uid.as_str()));
    set_owners(kind, metadata, &owners)
}

/// The patch that replaces all references to owners.
pub(crate) fn set_owners(kind: &'static Resource, metadata: &ObjectMeta, owners: &[OwnerReference]) -> Write {
    let mut body = json!({"metadata": meta::precondition(metadata)});
    body["metadata"]["ownerReferences"] = if owners.is_empty() { Value::Null } else { json!(owners) };
    Write::Patch {
        resource: kind,
        key: Key::of(metadata),
        subresource: "",
        kind: PatchKind::Merge,
        body: body.into(),
    }
}
