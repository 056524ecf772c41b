//! The record of owners in `metadata.managedFields`.

use std::{borrow::Cow, collections::BTreeMap};

use lazaret_json::{Encoded, Value, json};
use serde::{
    Deserialize,
    ser::{Serialize, SerializeMap, Serializer},
};
use serde_json::value::RawValue;

use crate::{
    FieldSet,
    owned::{Owned, is_field_set},
};

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

/// An owner of fields: the same name owns separately by operation, version and subresource.
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
    pub(crate) fields: Owned,
}

/// An entry as it stands in the record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_type: Cow<'a, str>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

/// More owners by plain writes than this are folded into one.
const UPDATERS_MAX: usize = 10;
const FOLDED: &str = "ancient-changes";

/// Where in the metadata the record stands.
const RECORD: &str = "managedFields";

/// A version, and the fields at the top of an object that have another name in it: the compared form's name, then its own.
pub type OtherNames<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// All owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedFields {
    pub(crate) entries: BTreeMap<Manager, Entry>,
}

impl ManagedFields {
    /// Takes the record out of an object, where it stands as a list or, as [`put`](Self::put) leaves it, encoded.
    #[must_use]
    pub fn take(object: &mut Value) -> Self {
        let record = Self::of(object);
        Self::remove(object);
        record
    }

    /// Takes the record out of an object unread.
    pub(crate) fn remove(object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove(RECORD);
        }
    }

    /// The record of an object.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        match object.pointer("/metadata/managedFields") {
            Some(Value::Encoded(record)) => Self::read(record.as_str()),
            Some(list @ Value::Array(_)) => Self::read(&list.to_string()),
            _ => Self::default(),
        }
    }

    /// Parses the text of a record; one that cannot be parsed is empty.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let lines: Vec<Line<'_>> = serde_json::from_str(text).unwrap_or_default();
        let mut entries = BTreeMap::new();
        for line in lines {
            let operation = if line.operation == "Apply" { Operation::Apply } else { Operation::Update };
            let manager = Manager {
                operation,
                name: line.manager.into_owned(),
                api_version: line.api_version.into_owned(),
                subresource: line.subresource.into_owned(),
            };
            let Some(fields) = line.fields.map(|fields| Owned::Text(fields.to_owned())) else { continue };
            if !fields.is_empty() {
                entries.insert(manager, Entry { time: line.time.into_owned(), fields });
            }
        }
        Self { entries }
    }

    /// The record that a client sent, if each entry has an operation, a version and well-formed fields.
    pub(crate) fn sent(list: &Value) -> Option<Self> {
        let text = list.to_string();
        let lines: Vec<Line<'_>> = serde_json::from_str(&text).ok()?;
        let whole = |line: &Line<'_>| {
            matches!(&*line.operation, "Apply" | "Update")
                && !line.api_version.is_empty()
                && line.fields_type == "FieldsV1"
                && line.fields.is_none_or(|fields| is_field_set(fields.get()))
        };
        lines.iter().all(whole).then(|| Self::read(&text))
    }

    /// Gives `manager` the fields that it applied in other versions: appliers are identified by name and subresource.
    pub(crate) fn join_versions(&mut self, manager: &Manager) {
        let other = |known: &Manager| {
            known.api_version != manager.api_version
                && (known.operation, &known.name, &known.subresource)
                    == (manager.operation, &manager.name, &manager.subresource)
        };
        let others: Vec<Manager> = self.entries.keys().filter(|known| other(known)).cloned().collect();
        for known in others {
            if let Some(entry) = self.entries.remove(&known) {
                let fields = entry.fields.set().into_owned();
                self.add(manager.clone(), fields, &entry.time);
            }
        }
    }

    /// Gives the fields the names of the form in which owners are compared, where their version has others.
    pub(crate) fn compare_names(&mut self, others: &[OtherNames<'_>]) {
        self.rename(others, |(compared, own)| (own, compared));
    }

    /// Gives the fields the names that their version has.
    pub(crate) fn record_names(&mut self, others: &[OtherNames<'_>]) {
        self.rename(others, |names| names);
    }

    fn rename<'a>(
        &mut self,
        others: &[OtherNames<'a>],
        direction: impl Fn((&'a str, &'a str)) -> (&'a str, &'a str),
    ) {
        for (version, names) in others {
            for (_, entry) in self.entries.iter_mut().filter(|(manager, _)| manager.api_version == *version) {
                let fields = entry.fields.set().into_owned();
                entry.fields = Owned::Set(fields.renamed(names.iter().copied().map(&direction)));
            }
        }
    }

    /// Writes the record into an object, encoded: it is long, and few who handle the object look at it. An empty one leaves no trace.
    pub fn put(&self, object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            // Whatever a record holds can be said in JSON; one that could not would leave no trace either.
            match Encoded::of(self) {
                Ok(record) if !self.entries.is_empty() => metadata.insert(RECORD, Value::Encoded(record)),
                Ok(_) | Err(_) => metadata.remove(RECORD),
            };
        }
    }

    /// Turns a record that is encoded into the list that it is.
    pub fn unfold(object: &mut Value) {
        if let Some(record) = object.pointer_mut("/metadata/managedFields")
            && let Value::Encoded(encoded) = record
        {
            *record = encoded.value();
        }
    }

    /// Whether there is no owner.
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

    /// The fields that `manager` owns.
    #[must_use]
    pub fn owned_by(&self, manager: &Manager) -> FieldSet {
        self.entries.get(manager).map(|entry| entry.fields.set().into_owned()).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, manager: Manager, fields: FieldSet, time: &str) {
        if fields.is_empty() {
            self.entries.remove(&manager);
        } else if self.entries.get(&manager).is_none_or(|entry| *entry.fields.set() != fields) {
            self.entries.insert(manager, Entry { time: time.to_owned(), fields: Owned::Set(fields) });
        }
    }

    /// Adds to the fields of `manager`. An owner that gets no new field keeps its time.
    pub(crate) fn add(&mut self, manager: Manager, fields: FieldSet, time: &str) {
        let Some(entry) = self.entries.get_mut(&manager) else { return self.set(manager, fields, time) };
        let mut all = entry.fields.set().into_owned();
        if all.extend(&fields) {
            *entry = Entry { time: time.to_owned(), fields: Owned::Set(all) };
        }
    }

    pub(crate) fn everything(&self) -> FieldSet {
        let mut all = FieldSet::default();
        for entry in self.entries.values() {
            all.extend(&entry.fields.set());
        }
        all
    }

    /// Takes fields away from every owner but `except`.
    pub(crate) fn disown(&mut self, fields: &FieldSet, except: Option<&Manager>) {
        // Most writes remove nothing: then no record need be read for it.
        if fields.is_empty() {
            return;
        }
        self.entries.retain(|manager, entry| {
            if Some(manager) != except && entry.fields.touches(fields) {
                entry.fields = Owned::Set(entry.fields.set().difference(fields));
            }
            !entry.fields.is_empty()
        });
    }

    /// Folds the oldest plain writers into one, so that the record stays short.
    pub(crate) fn fold(&mut self) {
        let updaters = || self.entries.keys().filter(|manager| manager.operation == Operation::Update);
        if updaters().count() <= UPDATERS_MAX {
            return;
        }
        let mut updaters: Vec<Manager> = updaters().cloned().collect();
        updaters.sort_by_key(|manager| self.entries[manager].time.clone());
        for manager in updaters.iter().take(updaters.len() + 1 - UPDATERS_MAX) {
            let Some(entry) = self.entries.remove(manager) else { continue };
            let folded = Manager { name: FOLDED.into(), ..manager.clone() };
            let target = self.entries.entry(folded).or_insert_with(|| Entry {
                time: entry.time.clone(),
                fields: Owned::Set(FieldSet::default()),
            });
            target.fields = Owned::Set(target.fields.set().union(&entry.fields.set()));
            target.time = entry.time;
        }
    }
}

impl Serialize for ManagedFields {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        let mut ordered: Vec<(&Manager, &Entry)> = self.entries.iter().collect();
        ordered.sort_by(|(a, mine), (b, theirs)| (a.operation, &mine.time).cmp(&(b.operation, &theirs.time)));
        text.collect_seq(ordered.into_iter().map(|(manager, entry)| Written { manager, entry }))
    }
}

/// An entry as it is written into the record.
struct Written<'a> {
    manager: &'a Manager,
    entry: &'a Entry,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, text: S) -> Result<S::Ok, S::Error> {
        let Self { manager, entry } = self;
        let mut map = text.serialize_map(None)?;
        map.serialize_entry("manager", &manager.name)?;
        map.serialize_entry("operation", manager.operation.name())?;
        map.serialize_entry("apiVersion", &manager.api_version)?;
        if !entry.time.is_empty() {
            map.serialize_entry("time", &entry.time)?;
        }
        map.serialize_entry("fieldsType", "FieldsV1")?;
        map.serialize_entry("fieldsV1", &entry.fields)?;
        if !manager.subresource.is_empty() {
            map.serialize_entry("subresource", &manager.subresource)?;
        }
        map.end()
    }
}
