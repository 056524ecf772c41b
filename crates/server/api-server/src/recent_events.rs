//! A cache of recent events: all watches see an event at about the same time.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;
use lazaret_json::Value;
use lazaret_storage::{Event, Item};

use crate::object;

/// Events that are remembered at most. Watchers that keep up are not further apart than this; others work it out again.
const EVENTS_MAX: usize = 128;

/// The events of the last moment, with what was made of them.
pub(crate) struct RecentEvents {
    slots: Vec<Mutex<Option<Arc<RecentEvent>>>>,
}

/// An event, its objects parsed once and its texts written once, on first use.
pub(crate) struct RecentEvent {
    event: Arc<Event>,
    old: OnceLock<Value>,
    new: OnceLock<Value>,
    frames: Mutex<Vec<(FrameKey, Bytes)>>,
}

/// The properties that the text of an event depends on besides the event.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FrameKey {
    /// `ADDED`: a selector makes it another than it would be without.
    pub(crate) name: &'static str,
    /// `v1`: two groups with one store differ in this.
    pub(crate) api_version: Arc<str>,
}

impl fmt::Debug for RecentEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecentEvents")
    }
}

impl Default for RecentEvents {
    fn default() -> Self {
        Self { slots: (0..EVENTS_MAX).map(|_| Mutex::new(None)).collect() }
    }
}

impl RecentEvents {
    /// The cache entry of an event.
    pub(crate) fn get(&self, event: &Arc<Event>) -> Arc<RecentEvent> {
        let slot = usize::try_from(event.revision).unwrap_or_default() % EVENTS_MAX;
        let mut slot = self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = slot.as_ref().filter(|seen| Arc::ptr_eq(&seen.event, event)) {
            return seen.clone();
        }
        let seen = Arc::new(RecentEvent::new(event.clone()));
        // One who is behind does not take the place of what all others look at.
        if slot.as_ref().is_none_or(|known| known.event.revision < event.revision) {
            *slot = Some(seen.clone());
        }
        seen
    }
}

impl RecentEvent {
    fn new(event: Arc<Event>) -> Self {
        Self { event, old: OnceLock::new(), new: OnceLock::new(), frames: Mutex::new(Vec::new()) }
    }

    /// The object as it was.
    pub(crate) fn old(&self) -> Option<&Value> {
        parsed(self.event.old.as_ref(), &self.old)
    }

    /// The object as it is.
    pub(crate) fn new_object(&self) -> Option<&Value> {
        parsed(self.event.new.as_ref(), &self.new)
    }

    /// The text that `write` makes of it, which is the same for everybody with the same key.
    pub(crate) fn frame(&self, key: &FrameKey, write: impl FnOnce() -> Bytes) -> Bytes {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = frames.iter().find(|(known, _)| known == key) {
            return known.clone();
        }
        let made = write();
        frames.push((key.clone(), made.clone()));
        made
    }
}

fn parsed<'a>(item: Option<&Arc<Item>>, place: &'a OnceLock<Value>) -> Option<&'a Value> {
    item.map(|item| place.get_or_init(|| object::decode(&item.value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_store::{Op, Options, Store};

    #[test]
    fn an_event_is_parsed_and_written_once_for_all() {
        let store = Store::ephemeral(Options::default()).unwrap();
        let mut watch = store.watch("/a/", store.revision()).unwrap();
        store.txn_blocking(vec![Op::create("/a/x", r#"{"n":1}"#)]).unwrap();
        let event = watch.try_next().unwrap().unwrap();
        let recent = RecentEvents::default();
        let first = recent.get(&event);
        assert!(Arc::ptr_eq(&first, &recent.get(&event)));
        assert_eq!(first.new_object().unwrap()["n"], 1);
        assert!(first.old().is_none());
        let key = FrameKey { name: "ADDED", api_version: "v1".into() };
        assert_eq!(first.frame(&key, || "text".into()), "text");
        assert_eq!(recent.get(&event).frame(&key, || unreachable!("it is written already")), "text");
        let other = FrameKey { name: "MODIFIED", ..key };
        assert_eq!(first.frame(&other, || "other".into()), "other");
    }

    #[test]
    fn who_is_behind_does_not_push_out_what_is_new() {
        let store = Store::ephemeral(Options::default()).unwrap();
        let mut watch = store.watch("/a/", store.revision()).unwrap();
        let mut events = Vec::new();
        for number in 0..=EVENTS_MAX {
            store.txn_blocking(vec![Op::create(format!("/a/{number}").as_str(), "{}")]).unwrap();
            events.push(watch.try_next().unwrap().unwrap());
        }
        let (first, last) = (&events[0], &events[EVENTS_MAX]);
        let recent = RecentEvents::default();
        let newest = recent.get(last);
        assert!(Arc::ptr_eq(&recent.get(first).event, first));
        assert!(Arc::ptr_eq(&newest, &recent.get(last)));
    }
}
