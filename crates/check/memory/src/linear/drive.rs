//! Clients that write, read and watch one store at the same time, and note what they saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lazaret_storage::{Event, Expect, Item, Op, RangeOptions, Storage, TxnError, Watch, block_on};

use super::history::{Change, Clock, History, Operation, Seen, What, Written};

const KEYS: [&str; 6] = ["/a/1", "/a/2", "/a/3", "/b/1", "/b/2", "/c"];
const PREFIXES: [&str; 4] = ["", "/a/", "/b/", "/a/2"];

/// Clients that write and read.
const CLIENTS: usize = 4;

/// Runs a session: four clients of `steps` steps each, four watches from the beginning, and shorter ones.
pub fn concurrent_session(store: &dyn Storage, seed: u64, steps: usize) -> History {
    let clock = Clock::default();
    let first = store.revision();
    let writing = AtomicUsize::new(CLIENTS);
    let (clock, writing) = (&clock, &writing);
    let operations = thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|nth| {
            scope.spawn(move || {
                let mut client =
                    Client { store, clock, nth, random: Random::new(seed, nth), seen: Vec::new() };
                (0..steps).for_each(|step| client.step(step));
                writing.fetch_sub(1, Ordering::SeqCst);
                client.seen
            })
        });
        let clients: Vec<_> = clients.collect();
        let watchers =
            PREFIXES.map(|prefix| scope.spawn(move || follow(store, clock, prefix, first, writing)));
        let seen = clients.into_iter().flat_map(|client| client.join().unwrap_or_default());
        let mut seen: Vec<Operation> = seen.collect();
        seen.extend(watchers.into_iter().filter_map(|watcher| watcher.join().ok()));
        seen
    });
    History { first, operations }
}

/// Follows a prefix until all clients are done and everything is delivered. A watch that the store ends is noted as far as it came.
fn follow(store: &dyn Storage, clock: &Clock, prefix: &str, from: u64, writing: &AtomicUsize) -> Operation {
    let start = clock.tick();
    let mut delivered = Vec::new();
    let mut progress = from;
    if let Ok(mut watch) = store.watch(prefix.into(), from) {
        loop {
            let done = writing.load(Ordering::SeqCst) == 0;
            let target = store.revision();
            let ended = take(&mut watch, clock, &mut delivered).is_err();
            progress = watch.progress();
            if ended || done && progress >= target {
                break;
            }
            thread::yield_now();
        }
    }
    let what = What::Watched { prefix: prefix.into(), from, delivered, progress };
    Operation { start, end: clock.tick(), what }
}

/// Takes what there is.
fn take(watch: &mut Watch, clock: &Clock, delivered: &mut Vec<(u64, Change)>) -> Result<(), ()> {
    while let Some(event) = watch.try_next().map_err(drop)? {
        delivered.push((clock.tick(), change(&event)));
    }
    Ok(())
}

struct Client<'a> {
    store: &'a dyn Storage,
    clock: &'a Clock,
    nth: usize,
    random: Random,
    seen: Vec<Operation>,
}

impl Client<'_> {
    fn step(&mut self, step: usize) {
        let start = self.clock.tick();
        let what = match self.random.below(10) {
            0..=4 => self.write(step),
            5 | 6 => self.read(),
            7 => self.list(),
            8 => self.list_past(),
            _ => self.watch_for_short(),
        };
        let Some(what) = what else { return };
        self.seen.push(Operation { start, end: self.clock.tick(), what });
    }

    fn write(&mut self, step: usize) -> Option<What> {
        let first = self.random.below(KEYS.len());
        let count = 1 + self.random.below(3);
        let ops: Vec<Op> = (0..count).map(|nth| self.op(KEYS[(first + nth) % KEYS.len()], step)).collect();
        let expected = ops.iter().filter_map(|op| Some((op.key.to_string(), written(op.expect)?))).collect();
        Some(match block_on(self.store.txn(ops.clone())) {
            Ok(committed) => What::Wrote {
                changes: committed.events.iter().flatten().map(|event| change(event)).collect(),
                expected,
            },
            Err(TxnError::Conflict { op, key, current }) => {
                let found = current.map_or(Written::Absent, |item| Written::At(item.modified));
                What::Refused { key: key.to_string(), expected: written(ops[op].expect)?, found: Some(found) }
            }
            Err(TxnError::Unknown(_)) => What::Unanswered { changes: ops.iter().map(tried).collect() },
            // Nothing was changed, whatever the store held.
            Err(TxnError::ReadOnly(_) | TxnError::Closed | TxnError::Invalid(_)) => return None,
        })
    }

    fn op(&mut self, key: &str, step: usize) -> Op {
        let value = format!("{}-{step}", self.nth);
        let held = self.store.get(key.as_bytes()).map_or(0, |item| item.modified);
        match self.random.below(6) {
            0 => Op::create(key, value),
            1 | 2 => Op::update(key, held, value),
            3 => Op::put(key, value),
            4 => Op::delete(key, held),
            _ => Op::check(key, Expect::Present),
        }
    }

    fn read(&mut self) -> Option<What> {
        let key = KEYS[self.random.below(KEYS.len())];
        let found = self.store.get(key.as_bytes());
        Some(What::Read { key: key.into(), found: found.map(|item| seen(&item)) })
    }

    fn list(&mut self) -> Option<What> {
        let prefix = PREFIXES[self.random.below(PREFIXES.len())];
        let range = self.store.range(prefix.as_bytes(), &RangeOptions::default()).ok()?;
        Some(What::Listed { prefix: prefix.into(), revision: range.revision, found: contents(&range.items) })
    }

    fn list_past(&mut self) -> Option<What> {
        let prefix = PREFIXES[self.random.below(PREFIXES.len())];
        let at = self.store.revision().saturating_sub(self.random.below(8) as u64);
        let options = RangeOptions { at: Some(at), ..RangeOptions::default() };
        let range = self.store.range(prefix.as_bytes(), &options).ok()?;
        Some(What::ListedAt { prefix: prefix.into(), revision: at, found: contents(&range.items) })
    }

    /// A list, and a watch from it: what a client of Kubernetes does when it starts.
    fn watch_for_short(&mut self) -> Option<What> {
        let prefix = PREFIXES[self.random.below(PREFIXES.len())];
        let from = self.store.range(prefix.as_bytes(), &RangeOptions::default()).ok()?.revision;
        let mut watch = self.store.watch(prefix.into(), from).ok()?;
        let mut delivered = Vec::new();
        for _ in 0..self.random.below(20) {
            if take(&mut watch, self.clock, &mut delivered).is_err() {
                break;
            }
            thread::yield_now();
        }
        Some(What::Watched { prefix: prefix.into(), from, delivered, progress: watch.progress() })
    }
}

fn written(expect: Expect) -> Option<Written> {
    match expect {
        Expect::Any => None,
        Expect::Absent => Some(Written::Absent),
        Expect::Present => Some(Written::Present),
        Expect::Revision(revision) => Some(Written::At(revision)),
    }
}

fn tried(op: &Op) -> (String, Option<String>) {
    let value = match &op.action {
        lazaret_storage::Action::Put(value) => Some(text(&value.at(0))),
        lazaret_storage::Action::Delete | lazaret_storage::Action::Check => None,
    };
    (op.key.to_string(), value)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn seen(item: &Item) -> Seen {
    Seen { revision: item.modified, value: text(&item.value) }
}

fn contents(items: &[std::sync::Arc<Item>]) -> BTreeMap<String, Seen> {
    items.iter().map(|item| (item.key.to_string(), seen(item))).collect()
}

fn change(event: &Event) -> Change {
    let value = event.new.as_ref().map(|item| text(&item.value));
    Change { revision: event.revision, key: event.key.to_string(), value }
}

/// A small generator, one for each client.
struct Random(u64);

impl Random {
    fn new(seed: u64, client: usize) -> Random {
        Random((seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(2 * client as u64 + 1) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap_or(0)
    }
}
