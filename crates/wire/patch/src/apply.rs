//! Server-side apply: merging what a manager wants into what is there, and keeping the record of who owns which field.

mod compare;
mod last_applied;
mod merge;
mod prune;
mod request;

use std::fmt;

pub use last_applied::note_last_applied;
pub use request::{ApplyRequest, Compared};

use lazaret_json::{Value, json};

use lazaret_schema::{Schema, TypeId};

use crate::{FieldSet, ManagedFields, Manager, Operation, PatchError, PathElement};

/// The manager of the fields that were there before the first record.
const UNKNOWN: &str = "before-first-apply";

/// An object with its record of owners brought up to date.
#[derive(Clone, Debug, PartialEq)]
pub struct Ownership {
    /// The object, `metadata.managedFields` included.
    pub object: Value,
    /// Whether anything but times differs from before.
    pub changed: bool,
}

/// Fields that another manager owns and that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns them.
    pub manager: Manager,
    /// When that manager wrote last.
    pub time: String,
    /// The fields, as people read them.
    pub fields: Vec<String>,
}

/// Why an apply was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// Another manager owns fields that would change.
    Conflicts(Vec<Conflict>),
    /// The applied object is wrong.
    Patch(PatchError),
}

impl From<PatchError> for ApplyError {
    fn from(error: PatchError) -> Self {
        Self::Patch(error)
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patch(error) => error.fmt(f),
            Self::Conflicts(conflicts) => {
                let count: usize = conflicts.iter().map(|conflict| conflict.fields.len()).sum();
                if let ([conflict], 1) = (conflicts.as_slice(), count) {
                    return write!(
                        f,
                        "Apply failed with 1 conflict: {}: {}",
                        conflict.with(),
                        conflict.fields[0]
                    );
                }
                write!(f, "Apply failed with {count} conflicts:")?;
                for (at, conflict) in conflicts.iter().enumerate() {
                    let before = if at == 0 { ' ' } else { '\n' };
                    write!(f, "{before}conflicts {}:", conflict.manager_text())?;
                    for field in &conflict.fields {
                        write!(f, "\n- {field}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ApplyError {}

impl Conflict {
    /// `conflict with "kubectl"`, with the version and time of plain writers.
    #[must_use]
    pub fn with(&self) -> String {
        format!("conflict {}", self.manager_text())
    }

    fn manager_text(&self) -> String {
        let Manager { operation, name, api_version, subresource } = &self.manager;
        let below =
            if subresource.is_empty() { String::new() } else { format!(" with subresource {subresource:?}") };
        match operation {
            Operation::Apply => format!("with {name:?}{below}"),
            Operation::Update if self.time.is_empty() => {
                format!("with {name:?}{below} using {api_version}")
            }
            Operation::Update => {
                format!("with {name:?}{below} using {api_version} at {}", self.time)
            }
        }
    }
}

/// Merges `config` into `live` on behalf of a manager.
///
/// # Errors
/// When fields of others would change without `force`, or `config` repeats an item of a keyed list.
pub fn apply(
    schema: &Schema,
    ty: TypeId,
    live: Option<&Value>,
    config: &Value,
    request: &ApplyRequest<'_>,
) -> Result<Ownership, ApplyError> {
    let mut before = live.cloned().unwrap_or_else(|| json!({}));
    let mut owners = ManagedFields::take(&mut before);
    let owners_before = owners.clone();
    owners.compare_names(request.other_names);
    let mut config = config.clone();
    ManagedFields::remove(&mut config);
    for name in request.ignored {
        let (parent, field) = match name.split_once('.') {
            Some((parent, field)) => (config.get_mut(parent), field),
            None => (Some(&mut config), *name),
        };
        if let Some(Value::Object(map)) = parent {
            map.remove(field);
        }
    }
    merge::check_unique(schema, ty, None, &config, "")?;

    if live.is_some() && owners.is_empty() {
        // The author of the existing fields is not known; they must not pass for unowned.
        let unknown = Manager { name: UNKNOWN.into(), ..request.as_manager(Operation::Update) };
        owners.set(
            unknown,
            request.recorded(compare::compare(schema, ty, &Value::Null, &before)),
            request.time,
        );
    }
    let manager = request.as_manager(Operation::Apply);
    owners.join_versions(&manager);
    let last = owners.owned_by(&manager);
    let wanted = FieldSet::of(schema, ty, &config);
    let others = {
        let mut others = owners.clone();
        others.entries.remove(&manager);
        others.everything()
    };
    let mut after = merge::merged(schema, ty, None, &before, &config);
    prune::prune(schema, ty, &mut after, &last, &wanted.union(&others));

    let difference = compare::compare_applied(schema, ty, &before, &after);
    if !request.force {
        refuse_conflicts(&owners, &manager, &difference.changed, request, || {
            last_applied::unchanged_fields(schema, ty, &before, request)
        })?;
    }
    owners.disown(&difference.changed, Some(&manager));
    owners.disown(&difference.removed, None);
    owners.set(manager, recorded(wanted), request.time);
    owners.record_names(request.other_names);
    let changed = before != after || !owners.same_owners(&owners_before);
    owners.put(&mut after);
    Ok(Ownership { object: after, changed })
}

/// Records a write that was no apply: the changed fields now belong to its manager.
#[must_use]
pub fn track_update(
    schema: &Schema,
    ty: TypeId,
    live: Option<&Value>,
    written: Value,
    request: &ApplyRequest<'_>,
) -> Value {
    let mut after = written;
    let record = Record::sent(&after, request);
    ManagedFields::remove(&mut after);
    let Some(live) = live else { return first_written(schema, ty, after, record, request) };
    let mut owners = match record {
        Record::Kept => ManagedFields::of(live),
        Record::Reset => ManagedFields::default(),
        Record::Set(owners) => owners,
    };
    if owners.is_empty() {
        // A record begins with the object or with the first apply: from here on it would tell half the truth.
        return after;
    }
    owners.compare_names(request.other_names);
    let mut difference = compare::compare(schema, ty, live, &after);
    // The record itself was taken out of one of the two.
    if let Some(metadata) = difference.removed.children.get_mut("f:metadata") {
        metadata.children.remove("f:managedFields");
    }
    let manager = request.as_manager(Operation::Update);
    owners.disown(&difference.changed, Some(&manager));
    owners.disown(&difference.removed, None);
    owners.add(manager, request.recorded(difference), request.time);
    owners.fold();
    owners.record_names(request.other_names);
    owners.put(&mut after);
    after
}

/// A new object belongs to its first manager, whole: there is no earlier version and no other owner.
fn first_written(
    schema: &Schema,
    ty: TypeId,
    mut object: Value,
    record: Record,
    request: &ApplyRequest<'_>,
) -> Value {
    let mut owners = match record {
        Record::Reset => return object,
        Record::Kept => ManagedFields::default(),
        Record::Set(owners) => owners,
    };
    owners.compare_names(request.other_names);
    let fields = compare::compare(schema, ty, &Value::Null, &object);
    let manager = request.as_manager(Operation::Update);
    owners.disown(&fields.changed, Some(&manager));
    owners.add(manager, request.recorded(fields), request.time);
    owners.fold();
    owners.record_names(request.other_names);
    owners.put(&mut object);
    object
}

/// The record of owners in a plain write.
enum Record {
    /// Absent or malformed: the stored record stays, so that clients that do not know the field do not delete it.
    Kept,
    /// An empty list, or one empty entry.
    Reset,
    /// Another one, which takes the place of the stored one.
    Set(ManagedFields),
}

impl Record {
    /// Only the object itself has a record; what a subresource is sent with is passed over.
    fn sent(object: &Value, request: &ApplyRequest<'_>) -> Self {
        let Some(list @ Value::Array(entries)) = object.pointer("/metadata/managedFields") else {
            return Self::Kept;
        };
        if !request.subresource.is_empty() {
            return Self::Kept;
        }
        if entries.is_empty() || **entries == [json!({})] {
            return Self::Reset;
        }
        match ManagedFields::sent(list) {
            Some(owners) if !owners.is_empty() => Self::Set(owners),
            Some(_) | None => Self::Kept,
        }
    }
}

impl ApplyRequest<'_> {
    fn as_manager(&self, operation: Operation) -> Manager {
        Manager {
            operation,
            name: self.manager.into(),
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
        }
    }

    /// The recorded part of the changes of a write: without the paths that this endpoint never changes.
    fn recorded(&self, difference: compare::Difference) -> FieldSet {
        let mut set = recorded(difference.changed);
        for name in self.ignored {
            match name.split_once('.') {
                Some((parent, field)) => {
                    if let Some(parent) = set.children.get_mut(&PathElement::field(parent)) {
                        parent.children.remove(&PathElement::field(field));
                    }
                }
                None => {
                    set.children.remove(&PathElement::field(name));
                }
            }
        }
        set
    }
}

/// Fields of others may not change, but for those that `allowed` lists. It is asked only where there is something to refuse.
fn refuse_conflicts(
    owners: &ManagedFields,
    applier: &Manager,
    changed: &FieldSet,
    request: &ApplyRequest<'_>,
    allowed: impl FnOnce() -> FieldSet,
) -> Result<(), ApplyError> {
    if conflicts(owners, applier, changed, request).is_empty() {
        return Ok(());
    }
    let conflicts = conflicts(owners, applier, &changed.difference(&allowed()), request);
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(conflicts)) }
}

fn conflicts(
    owners: &ManagedFields,
    applier: &Manager,
    changed: &FieldSet,
    request: &ApplyRequest<'_>,
) -> Vec<Conflict> {
    owners
        .entries
        .iter()
        .filter(|(manager, _)| *manager != applier)
        .filter_map(|(manager, entry)| {
            let contested = entry.fields.set().intersection(changed);
            let names = request.other_names.iter().find(|(version, _)| *version == manager.api_version);
            let contested = match names {
                Some((_, names)) => contested.renamed(names.iter().copied()),
                None => contested,
            };
            (!contested.is_empty()).then(|| Conflict {
                manager: manager.clone(),
                time: entry.time.clone(),
                fields: contested.display(),
            })
        })
        .collect()
}

/// Fields that identify an object or belong to the server have no owner.
fn recorded(set: FieldSet) -> FieldSet {
    let mut kept = set;
    kept.children.remove("f:apiVersion");
    kept.children.remove("f:kind");
    if let Some(inner) = kept.children.get_mut("f:metadata") {
        inner.member = false;
        for name in [
            "f:name",
            "f:namespace",
            "f:uid",
            "f:creationTimestamp",
            "f:generation",
            "f:managedFields",
            "f:resourceVersion",
            "f:selfLink",
        ] {
            inner.children.remove(name);
        }
    }
    kept.children.retain(|_, child| !child.is_empty());
    kept
}

#[cfg(test)]
mod tests;
