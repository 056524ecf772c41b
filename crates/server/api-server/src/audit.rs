//! The record of what was decided about devices: incidents, guards, rules, approvals, evicted pods.
//!
//! A record is written in the transaction that it is about, so it is durable exactly when that is, and a crash loses both or neither. Each kind of
//! object has a part of its own, which holds the newest records up to a limit in bytes: many evictions push out no decision of a guard.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use lazaret_json::Value;
use lazaret_kinds::{
    Access, Kind, User,
    audit::{RECORDED, RecordedWrite, records},
};
use lazaret_storage::{Committed, Item, Op, RangeOptions, Storage};

use crate::{ApiError, clock, query::Query, respond::Answer};

/// Where the record is read, with GET.
pub(crate) const PATH: &str = "lazaret/audit";
/// Where it is stored. No group of the API can be called so.
const PREFIX: &str = "/~audit/";
/// Records in one answer.
const PAGE_RECORDS_MAX: usize = 1_000;
/// Old records that one write removes. It adds fewer, so that the limit is kept.
const REMOVED_MAX: usize = 64;
/// Digits of a number in a key, so that keys are in the order of numbers.
const DIGITS: usize = 20;

/// How much there is of the record.
pub(crate) struct Audit {
    bytes_max: u64,
    next: AtomicU64,
    /// Of each kind.
    bytes: [AtomicU64; RECORDED.len()],
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Audit {
    /// The record that is in a store.
    pub(crate) fn new(store: &dyn Storage, bytes_max: u64) -> Self {
        let audit =
            Self { bytes_max, next: AtomicU64::new(1), bytes: std::array::from_fn(|_| AtomicU64::new(0)) };
        for part in 0..RECORDED.len() {
            // Nothing was compacted that is newest.
            let range = store.range(prefix(part).as_bytes(), &RangeOptions::default());
            let items = range.map(|range| range.items).unwrap_or_default();
            let bytes = items.iter().map(|item| weight(item)).sum();
            audit.bytes[part].store(bytes, Ordering::Relaxed);
            if let Some(last) = items.last() {
                audit.next.fetch_max(number(last) + 1, Ordering::Relaxed);
            }
        }
        audit
    }

    /// The operations of a write with those that record it, which come last.
    pub(crate) fn with_records(
        &self,
        store: &dyn Storage,
        kind: &Kind,
        user: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        mut ops: Vec<Op>,
    ) -> Vec<Op> {
        let Some(part) = part_of(kind) else { return ops };
        let at = clock::now().to_string();
        let records = records(RecordedWrite { plural: &kind.plural, user, at: &at, old, new });
        if records.is_empty() {
            return ops;
        }
        let mut bytes = self.bytes[part].load(Ordering::Relaxed);
        for record in records {
            let key = key(part, self.next.fetch_add(1, Ordering::Relaxed));
            let text = record.to_string();
            bytes += (key.len() + text.len()) as u64;
            ops.push(Op::put(key.as_str(), text));
        }
        ops.extend(removals(store, part, bytes.saturating_sub(self.bytes_max)));
        ops
    }

    /// The result of a write without its records, of `own` operations; the records are counted.
    pub(crate) fn without_records(&self, kind: &Kind, mut committed: Committed, own: usize) -> Committed {
        if committed.events.len() <= own {
            return committed;
        }
        let Some(part) = part_of(kind) else { return committed };
        let bytes = &self.bytes[part];
        for event in committed.events.split_off(own).into_iter().flatten() {
            if let Some(new) = &event.new {
                bytes.fetch_add(weight(new), Ordering::Relaxed);
            }
            if let Some(old) = &event.old {
                bytes.fetch_sub(weight(old), Ordering::Relaxed);
            }
        }
        if let Some(last) = committed.events.iter().flatten().last() {
            committed.revision = last.revision;
        }
        committed
    }
}

fn prefix(part: usize) -> String {
    format!("{PREFIX}{}/", RECORDED[part].1)
}

fn key(part: usize, number: u64) -> String {
    format!("{}{number:0DIGITS$}", prefix(part))
}

fn number(item: &Item) -> u64 {
    let digits = item.key.len().saturating_sub(DIGITS);
    std::str::from_utf8(&item.key[digits..]).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn weight(item: &Item) -> u64 {
    (item.key.len() + item.value.len()) as u64
}

/// How many records a store holds.
pub(crate) fn records_in(store: &dyn Storage) -> usize {
    store.count(PREFIX.as_bytes())
}

/// The part of the record that writes of a kind belong to.
fn part_of(kind: &Kind) -> Option<usize> {
    RECORDED.iter().position(|(group, plural)| kind.is(group, plural))
}

/// Removes the oldest records that together have as many bytes.
fn removals(store: &dyn Storage, part: usize, bytes: u64) -> Vec<Op> {
    if bytes == 0 {
        return Vec::new();
    }
    let options = RangeOptions { limit: Some(REMOVED_MAX), ..RangeOptions::default() };
    let oldest = store.range(prefix(part).as_bytes(), &options).map(|range| range.items).unwrap_or_default();
    let mut freed = 0;
    let is_needed = |item: &&Arc<Item>| {
        let needed = freed < bytes;
        freed += weight(item);
        needed
    };
    // Two writes at a time may remove the same one.
    oldest.iter().take_while(is_needed).map(|item| Op::delete_any(&*item.key)).collect()
}

/// A page of the record: of each kind that the user may list everywhere.
pub(crate) fn page(
    store: &dyn Storage,
    user: &User,
    query: &Query,
    may: impl Fn(Access<'_>) -> bool,
) -> Result<Answer, ApiError> {
    if user.groups.iter().any(|group| group == "system:unauthenticated") {
        return Err(ApiError::unauthorized());
    }
    let after = match query.get("after") {
        None => 0,
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| ApiError::bad_request(format!("after: {text:?} is not the sequence of a record")))?,
    };
    let access = |part: usize| Access {
        verb: "list",
        group: RECORDED[part].0,
        resource: RECORDED[part].1,
        subresource: "",
        namespace: "",
        name: "",
        fields: &[],
    };
    let (permitted, withheld): (Vec<usize>, Vec<usize>) =
        (0..RECORDED.len()).partition(|part| may(access(*part)));
    if permitted.is_empty() {
        let why = format!("User {:?} cannot list any of the kinds that are recorded", user.name);
        return Err(ApiError::forbidden_path(&format!("/{PATH}"), &why));
    }
    let (mut page, mut is_more) = (Vec::new(), false);
    for part in permitted {
        let options = RangeOptions {
            limit: Some(PAGE_RECORDS_MAX),
            after: Some(key(part, after).as_str().into()),
            ..RangeOptions::default()
        };
        let range = store.range(prefix(part).as_bytes(), &options).map_err(ApiError::internal)?;
        is_more |= range.remaining > 0;
        page.extend(range.items.into_iter().map(|item| (number(&item), item)));
    }
    page.sort_by_key(|(number, _)| *number);
    is_more |= page.len() > PAGE_RECORDS_MAX;
    page.truncate(PAGE_RECORDS_MAX);
    Ok(Answer::json(200, written(&page, is_more, &withheld)))
}

/// The page as JSON. Records are stored as they are sent, but for their numbers.
fn written(page: &[(u64, Arc<Item>)], is_more: bool, withheld: &[usize]) -> String {
    let mut text =
        String::from(r#"{"apiVersion":"lazaret.dev/v1alpha1","kind":"AuditRecordList","metadata":{"#);
    if let Some((last, _)) = page.last().filter(|_| is_more) {
        text.push_str(&format!(r#""continue":"{last}""#));
    }
    text.push_str(r#"},"withheld":["#);
    let names: Vec<String> = withheld.iter().map(|part| format!("\"{}\"", RECORDED[*part].1)).collect();
    text.push_str(&names.join(","));
    text.push_str(r#"],"items":["#);
    for (at, (number, item)) in page.iter().enumerate() {
        let record = std::str::from_utf8(&item.value).unwrap_or_default();
        let rest = record.strip_prefix('{').unwrap_or_default();
        text.push_str(if at == 0 { "" } else { "," });
        text.push_str(&format!(r#"{{"sequence":{number},{rest}"#));
    }
    text.push_str("]}");
    text
}
