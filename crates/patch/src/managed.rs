//! The record of owners in `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::FieldSet;

/// How fields came to be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns fields: the same name owns separately by operation, version and subresource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// By apply or otherwise.
    pub operation: Operation,
    /// The field manager's name.
    pub name: String,
    /// The version it wrote.
    pub api_version: String,
    /// Empty for the object itself.
    pub subresource: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) time: String,
    pub(crate) fields: FieldSet,
}

/// More owners by plain writes than this are folded into one.
const UPDATERS_MAX: usize = 10;
const FOLDED: &str = "ancient-changes";

/// All owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedFields {
    pub(crate) entries: BTreeMap<Manager, Entry>,
}

impl ManagedFields {
    /// Takes the record out of an object.
    #[must_use]
    pub fn take(object: &mut Value) -> Self {
        let record = object
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|metadata| metadata.remove("managedFields"));
        let mut entries = BTreeMap::new();
        for entry in record.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let operation = if text("operation") == "Apply" { Operation::Apply } else { Operation::Update };
            let manager = Manager {
                operation,
                name: text("manager"),
                api_version: text("apiVersion"),
                subresource: text("subresource"),
            };
            let fields = FieldSet::decode(&entry["fieldsV1"]);
            if !fields.is_empty() {
                entries.insert(manager, Entry { time: text("time"), fields });
            }
        }
        Self { entries }
    }

    /// Writes the record into an object; an empty one leaves no trace.
    pub fn put(&self, object: &mut Value) {
        let mut ordered: Vec<(&Manager, &Entry)> = self.entries.iter().collect();
        ordered.sort_by_key(|(manager, entry)| (manager.operation, entry.time.clone()));
        let list: Vec<Value> = ordered.into_iter().map(|(manager, entry)| encode(manager, entry)).collect();
        let Some(object) = object.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            if list.is_empty() {
                metadata.remove("managedFields");
            } else {
                metadata.insert("managedFields".into(), Value::Array(list));
            }
        }
    }

    /// Whether nobody owns anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The same owners of the same fields; when they wrote is not compared.
    #[must_use]
    pub fn same_owners(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((a, mine), (b, theirs))| a == b && mine.fields == theirs.fields)
    }

    /// What `manager` owns.
    #[must_use]
    pub fn of(&self, manager: &Manager) -> FieldSet {
        self.entries.get(manager).map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, manager: Manager, fields: FieldSet, time: &str) {
        if fields.is_empty() {
            self.entries.remove(&manager);
        } else if self.entries.get(&manager).is_none_or(|entry| entry.fields != fields) {
            self.entries.insert(manager, Entry { time: time.to_owned(), fields });
        }
    }

    pub(crate) fn everything(&self) -> FieldSet {
        let mut all = FieldSet::default();
        for entry in self.entries.values() {
            all.extend(&entry.fields);
        }
        all
    }

    /// Takes fields away from every owner but `except`.
    pub(crate) fn disown(&mut self, fields: &FieldSet, except: Option<&Manager>) {
        self.entries.retain(|manager, entry| {
            if Some(manager) != except {
                entry.fields = entry.fields.difference(fields);
            }
            !entry.fields.is_empty()
        });
    }

    /// Folds the oldest plain writers into one, so that the record stays short.
    pub(crate) fn fold(&mut self) {
        let mut updaters: Vec<Manager> =
            self.entries.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        if updaters.len() <= UPDATERS_MAX {
            return;
        }
        updaters.sort_by_key(|manager| self.entries[manager].time.clone());
        for manager in updaters.iter().take(updaters.len() + 1 - UPDATERS_MAX) {
            let Some(entry) = self.entries.remove(manager) else { continue };
            let folded = Manager { name: FOLDED.into(), ..manager.clone() };
            let target = self
                .entries
                .entry(folded)
                .or_insert_with(|| Entry { time: entry.time.clone(), fields: FieldSet::default() });
            target.fields.extend(&entry.fields);
            target.time = entry.time;
        }
    }
}

fn encode(manager: &Manager, entry: &Entry) -> Value {
    let mut map = Map::new();
    map.insert("manager".into(), manager.name.clone().into());
    map.insert("operation".into(), manager.operation.name().into());
    map.insert("apiVersion".into(), manager.api_version.clone().into());
    if !entry.time.is_empty() {
        map.insert("time".into(), entry.time.clone().into());
    }
    map.insert("fieldsType".into(), "FieldsV1".into());
    map.insert("fieldsV1".into(), entry.fields.encode());
    if !manager.subresource.is_empty() {
        map.insert("subresource".into(), manager.subresource.clone().into());
    }
    Value::Object(map)
}
