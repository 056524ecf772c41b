//! Which events are written, which are counted, and which are left out: as Kubernetes' own clients do it, so that a pod that fails
//! for ever costs the API a few objects and not one for each failure. Pure.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

/// Milliseconds since an instant that never changes.
type Millis = u64;

/// Events of one type about one object: this many at once, and one more each time that the other passes.
const BURST: u32 = 25;
const REFILL_MS: Millis = 300_000;
/// Events about one object for one reason that differ in their message. From this many on, within the time, they are one event.
const MESSAGES_MAX: usize = 10;
const MESSAGES_MS: Millis = 600_000;
/// The prefix of a combined event's message.
const COMBINED: &str = "(combined from similar events): ";
/// Objects, reasons and events that are remembered, of each. A forgotten one is written as if it was new.
const REMEMBERED_MAX: usize = 4_096;
const NANOSECONDS_PER_MILLI: u64 = 1_000_000;

/// An event's text, and the object that it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventText {
    /// The object that it is about.
    pub uid: String,
    /// The part of the object.
    pub field: Option<String>,
    /// Whether its type is `Warning`.
    pub is_warning: bool,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl EventText {
    /// Differs between texts that several writers have for one object in one millisecond: the name of an event is that of its object and a time.
    fn digest(&self) -> u64 {
        let Self { uid, field, is_warning, reason, message } = self;
        let field = field.as_deref().unwrap_or_default();
        let parts = [uid.as_str(), field, if *is_warning { "Warning" } else { "Normal" }, reason, message];
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        // No text has the byte between two parts.
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xFF]));
        bytes.fold(0xcbf2_9ce4_8422_2325, mix)
    }
}

/// The event as it is written to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrelatedEvent {
    /// The end of its name, after that of the object.
    pub stamp: u64,
    /// How often it was said. From the second time on the object is there, unless it has expired.
    pub count: i32,
    /// When it was said first, since 1970.
    pub first_at: Millis,
    /// The message as it is written.
    pub message: String,
}

/// Remembers what was said.
#[derive(Debug, Default)]
pub struct Correlator {
    buckets: Recent<(String, bool), Bucket>,
    messages: Recent<(String, bool, String), Messages>,
    events: Recent<EventText, Event>,
    last_stamp: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Thousandths of an event that may be written.
    left_milli: u64,
    at: Millis,
}

#[derive(Debug)]
struct Messages {
    different: Vec<String>,
    at: Millis,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    stamp: u64,
    count: i32,
    first_at: Millis,
}

impl Correlator {
    /// The event to write for this text; `None` when there are too many about its object.
    pub fn correlate(&mut self, now: Millis, mut said: EventText) -> Option<CorrelatedEvent> {
        let message = self.combine(now, &mut said);
        let own =
            now.saturating_mul(NANOSECONDS_PER_MILLI).saturating_add(said.digest() % NANOSECONDS_PER_MILLI);
        let stamp = self.last_stamp.saturating_add(1).max(own);
        let (uid, is_warning) = (said.uid.clone(), said.is_warning);
        let event = self.events.get_or_insert(said, || Event { stamp, count: 0, first_at: now });
        event.count = event.count.saturating_add(1);
        let Event { stamp, count, first_at } = *event;
        self.last_stamp = self.last_stamp.max(stamp);
        self.take(now, uid, is_warning).then_some(CorrelatedEvent { stamp, count, first_at, message })
    }

    /// The message as it is written. An event that is one of many alike loses its own, and becomes the same as the others.
    fn combine(&mut self, now: Millis, said: &mut EventText) -> String {
        let key = (said.uid.clone(), said.is_warning, said.reason.clone());
        let known = self.messages.get_or_insert(key, || Messages { different: Vec::new(), at: now });
        if now.saturating_sub(known.at) > MESSAGES_MS {
            known.different.clear();
        }
        known.at = now;
        let is_known = known.different.contains(&said.message);
        if known.different.len() + usize::from(!is_known) < MESSAGES_MAX {
            if !is_known {
                known.different.push(said.message.clone());
            }
            return said.message.clone();
        }
        said.field = None;
        format!("{COMBINED}{}", core::mem::take(&mut said.message))
    }

    /// Whether one more may be written about an object.
    fn take(&mut self, now: Millis, uid: String, is_warning: bool) -> bool {
        const ONE: u64 = 1_000;
        const FULL: u64 = BURST as u64 * ONE;
        let bucket = self.buckets.get_or_insert((uid, is_warning), || Bucket { left_milli: FULL, at: now });
        let gained = now.saturating_sub(bucket.at).saturating_mul(ONE) / REFILL_MS;
        if gained > 0 {
            // The remainder of less than a thousandth of a token stays in the time.
            bucket.at = bucket.at.saturating_add(gained * REFILL_MS / ONE);
            bucket.left_milli = bucket.left_milli.saturating_add(gained).min(FULL);
        }
        // The bucket is empty.
        let Some(left) = bucket.left_milli.checked_sub(ONE) else { return false };
        bucket.left_milli = left;
        true
    }

    /// How many entries are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.buckets.entries.len() + self.messages.entries.len() + self.events.entries.len()
    }
}

/// The entries that were used last, in the order of their last use.
#[derive(Debug)]
struct Recent<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }
}

impl<K: Clone + Ord, V> Recent<K, V> {
    fn get_or_insert(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if self.entries.len() >= REMEMBERED_MAX
            && !self.entries.contains_key(&key)
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(self.uses, key.clone());
        let (used, value) = self.entries.entry(key).or_insert_with(|| (0, new()));
        self.by_use.remove(used);
        *used = self.uses;
        value
    }
}
