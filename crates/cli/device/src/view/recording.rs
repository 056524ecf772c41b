//! A recording: the objects at its beginning and every change after, as one file that the dashboard plays.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_model::Timestamp;
use serde_json::{Value, json};

/// A recording that is longer than this is not played by anybody.
const RECORDING_BYTES_MAX: usize = 256 << 20;
const RECORDING_EVENTS_MAX: usize = 500_000;

/// Changes of objects since a start.
#[derive(Debug)]
pub struct Recording {
    start: Timestamp,
    objects: Vec<Value>,
    events: Vec<Value>,
    /// Objects that are there now, by kind and name: a list tells of those that are gone by leaving them out.
    known: BTreeMap<(String, String), Value>,
    bytes: usize,
}

impl Recording {
    /// Begins.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { start, objects: Vec::new(), events: Vec::new(), known: BTreeMap::new(), bytes: 0 }
    }

    /// An object that is there at the beginning.
    pub fn begin(&mut self, json: &str) {
        let object = self.read(json);
        self.known.insert(id(&object), object.clone());
        self.objects.push(object);
    }

    /// An object is so now.
    pub fn set(&mut self, now: Timestamp, json: &str) {
        let object = self.read(json);
        self.changed(now, object);
    }

    /// An object is gone.
    pub fn gone(&mut self, now: Timestamp, json: &str) {
        let object = self.read(json);
        self.removed(now, object);
    }

    /// All objects of a kind, after changes may have been missed: what is not among them is gone.
    pub fn listed<'a>(&mut self, now: Timestamp, kind: &str, objects: impl Iterator<Item = &'a str>) {
        let there: Vec<Value> = objects.map(|json| self.read(json)).collect();
        let kept: BTreeSet<_> = there.iter().map(id).collect();
        let missing: Vec<Value> = self
            .known
            .iter()
            .filter(|(key, _)| key.0 == kind && !kept.contains(*key))
            .map(|(_, object)| object.clone())
            .collect();
        missing.into_iter().for_each(|object| self.removed(now, object));
        for object in there {
            if self.known.get(&id(&object)) != Some(&object) {
                self.changed(now, object);
            }
        }
    }

    fn changed(&mut self, now: Timestamp, object: Value) {
        self.known.insert(id(&object), object.clone());
        self.event(now, "MODIFIED", object);
    }

    fn removed(&mut self, now: Timestamp, object: Value) {
        self.known.remove(&id(&object));
        self.event(now, "DELETED", object);
    }

    fn event(&mut self, now: Timestamp, what: &str, object: Value) {
        self.events
            .push(json!({"at": lazaret_api::format_time_precise(now), "type": what, "object": object}));
    }

    fn read(&mut self, json: &str) -> Value {
        self.bytes = self.bytes.saturating_add(json.len());
        let mut object: Value = serde_json::from_str(json).unwrap_or_default();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        object
    }

    /// Whether it is as long as it may be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes > RECORDING_BYTES_MAX || self.events.len() >= RECORDING_EVENTS_MAX
    }

    /// How many objects there were at the beginning, and how many changes after.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.objects.len(), self.events.len())
    }

    /// The file.
    #[must_use]
    pub fn file(&self, end: Timestamp) -> Value {
        json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceRecording",
            "start": lazaret_api::format_time_precise(self.start), "end": lazaret_api::format_time_precise(end),
            "objects": self.objects, "events": self.events,
        })
    }
}

fn id(object: &Value) -> (String, String) {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&object["kind"]), format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])))
}
