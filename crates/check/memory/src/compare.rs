//! Random sessions with a store and with the model, step by step: their answers must be the same.
//!
//! One difference is permitted. A store may hand out events that a watch took from the history before they were
//! forgotten; the model takes one event at a time and ends such a watch. From then on the store's watch is compared with the
//! list of all events.

use std::fmt::Debug;
use std::sync::Arc;

use lazaret_storage::{
    Action, Event, Expect, Key, Op, RangeOptions, ReadError, Storage, Value, Watch, WatchError, block_on,
};
use proptest::prelude::*;

use crate::Memory;

const KEYS: [&str; 8] = ["/a", "/a/1", "/a/2", "/ab", "/b/", "/b/1", "/b/1/0", "/c\u{ff}"];
const PREFIXES: [&str; 7] = ["", "/", "/a", "/a/", "/b/1", "/c", "/nothing"];

/// One step of a session. Numbers choose keys, prefixes and watches; `back` counts from three revisions ahead.
#[derive(Debug, Clone)]
pub enum Step {
    /// A transaction: key, expectation and action of each operation.
    Txn(Vec<(usize, Wanted, Act)>),
    /// A list, now or at a revision, whole or a page.
    Range {
        /// The prefix.
        prefix: usize,
        /// The revision, or the newest.
        back: Option<u64>,
        /// The length of the page.
        limit: Option<usize>,
        /// The key before the page.
        after: Option<usize>,
    },
    /// A new watch from a revision.
    Watch {
        /// The prefix.
        prefix: usize,
        /// The revision.
        back: u64,
    },
    /// Takes events from a watch.
    Poll {
        /// The watch.
        watch: usize,
        /// The number of events.
        events: usize,
    },
    /// Asks a watch for its progress.
    Progress {
        /// The watch.
        watch: usize,
    },
    /// Drops a watch.
    Unwatch {
        /// The watch.
        watch: usize,
    },
    /// Forgets events.
    Compact {
        /// The revision.
        back: u64,
    },
}

/// An expectation, before the revision of the key is known.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "as in Expect")]
pub enum Wanted {
    Any,
    Absent,
    Present,
    Held,
    Stale,
}

/// An action, before its value is known.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "as in Action and Value")]
pub enum Act {
    Put,
    PutStamped,
    Delete,
    Check,
}

/// Random sessions.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wanted = prop_oneof![
        4 => Just(Wanted::Any),
        2 => Just(Wanted::Held),
        1 => Just(Wanted::Absent),
        1 => Just(Wanted::Present),
        1 => Just(Wanted::Stale),
    ];
    let act = prop_oneof![
        3 => Just(Act::Put),
        1 => Just(Act::PutStamped),
        2 => Just(Act::Delete),
        1 => Just(Act::Check),
    ];
    let op = (0..KEYS.len(), wanted, act);
    let back = || 0_u64..40;
    let page = (prop::option::of(0_usize..5), prop::option::of(0..KEYS.len()));
    let step = prop_oneof![
        8 => prop::collection::vec(op, 1..4).prop_map(Step::Txn),
        4 => (0..PREFIXES.len(), prop::option::of(back()), page)
            .prop_map(|(prefix, back, (limit, after))| Step::Range { prefix, back, limit, after }),
        2 => (0..PREFIXES.len(), back()).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        4 => (0_usize..8, 1_usize..6).prop_map(|(watch, events)| Step::Poll { watch, events }),
        2 => (0_usize..8).prop_map(|watch| Step::Progress { watch }),
        1 => (0_usize..8).prop_map(|watch| Step::Unwatch { watch }),
        1 => back().prop_map(|back| Step::Compact { back }),
    ];
    prop::collection::vec(step, 1..120)
}

type Checked = Result<(), TestCaseError>;

/// A store and the model, both new, and what was done to both.
pub struct Session<'a> {
    store: &'a dyn Storage,
    model: Memory,
    /// Compacts the store.
    compact: &'a dyn Fn(u64) -> Result<u64, ReadError>,
    watches: Vec<Pair>,
    /// Every event ever.
    log: Vec<Arc<Event>>,
}

/// A watch of the store and one of the model.
#[derive(Debug)]
struct Pair {
    store: Watch,
    model: Watch,
    prefix: &'static str,
    delivered: u64,
    /// The model's watch has ended.
    lost: bool,
}

impl Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Answers are the same when they read the same.
fn same<T: Debug>(store: &T, model: &T) -> Checked {
    prop_assert_eq!(format!("{store:?}"), format!("{model:?}"), "the store is left, the model right");
    Ok(())
}

impl<'a> Session<'a> {
    /// A session with an empty store that keeps this number of past events.
    pub fn new(
        store: &'a dyn Storage,
        history_events_max: usize,
        compact: &'a dyn Fn(u64) -> Result<u64, ReadError>,
    ) -> Self {
        let model = Memory::with_history(history_events_max);
        Session { store, model, compact, watches: Vec::new(), log: Vec::new() }
    }

    /// Runs all steps, and reads all watches to their end.
    ///
    /// # Errors
    /// The first difference.
    pub fn run(mut self, steps: &[Step]) -> Checked {
        for step in steps {
            self.step(step)?;
            self.compare_contents()?;
        }
        for nth in 0..self.watches.len() {
            while self.poll(nth)? {}
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Checked {
        let named = |back: u64| (self.model.revision() + 3).saturating_sub(back);
        let existing = |watch: usize| (!self.watches.is_empty()).then(|| watch % self.watches.len());
        match *step {
            Step::Txn(ref ops) => self.txn(ops)?,
            Step::Range { prefix, back, limit, after } => {
                let options =
                    RangeOptions { at: back.map(named), limit, after: after.map(|key| Key::from(KEYS[key])) };
                let prefix = PREFIXES[prefix].as_bytes();
                same(&self.store.range(prefix, &options), &self.model.range(prefix, &options))?;
            }
            Step::Watch { prefix, back } => {
                let from = named(back);
                self.watch(PREFIXES[prefix], from)?;
            }
            Step::Poll { watch, events } => {
                for nth in existing(watch).into_iter().cycle().take(events) {
                    self.poll(nth)?;
                }
            }
            Step::Progress { watch } => {
                if let Some(nth) = existing(watch) {
                    self.progress(nth)?;
                }
            }
            Step::Unwatch { watch } => {
                if let Some(nth) = existing(watch) {
                    self.watches.swap_remove(nth);
                }
            }
            Step::Compact { back } => {
                let to = named(back);
                same(&(self.compact)(to), &self.model.compact(to))?;
            }
        }
        Ok(())
    }

    fn compare_contents(&self) -> Checked {
        let (store, model) = (self.store.stats(), self.model.stats());
        prop_assert_eq!((store.revision, store.oldest), (model.revision, model.oldest));
        prop_assert_eq!((store.items, store.items_bytes), (model.items, model.items_bytes));
        prop_assert_eq!(
            (store.history_events, store.history_bytes),
            (model.history_events, model.history_bytes)
        );
        prop_assert_eq!((store.watches, store.txns), (model.watches, model.txns));
        same(&self.store.totals(), &self.model.totals())?;
        for key in KEYS.map(str::as_bytes) {
            same(&self.store.get(key), &self.model.get(key))?;
        }
        for prefix in PREFIXES.map(str::as_bytes) {
            same(&self.store.count(prefix), &self.model.count(prefix))?;
            same(&self.store.count_in(prefix), &self.model.count_in(prefix))?;
        }
        Ok(())
    }

    fn txn(&mut self, ops: &[(usize, Wanted, Act)]) -> Checked {
        let ops: Vec<Op> = ops.iter().map(|(key, wanted, act)| self.op(KEYS[*key], *wanted, *act)).collect();
        let (store, model) = (block_on(self.store.txn(ops.clone())), block_on(self.model.txn(ops)));
        same(&store, &model)?;
        self.log.extend(model.iter().flat_map(|committed| committed.events.iter().flatten()).cloned());
        Ok(())
    }

    fn op(&self, key: &str, wanted: Wanted, act: Act) -> Op {
        let held = self.model.get(key.as_bytes()).map_or(0, |item| item.modified);
        let expect = match wanted {
            Wanted::Any => Expect::Any,
            Wanted::Absent => Expect::Absent,
            Wanted::Present => Expect::Present,
            Wanted::Held => Expect::Revision(held),
            Wanted::Stale => Expect::Revision(held.saturating_sub(1)),
        };
        let action = match act {
            Act::Put => Action::Put(format!("v{}", self.model.revision()).into()),
            Act::PutStamped => Action::Put(Value::Stamped { before: "<".into(), after: ">".into() }),
            Act::Delete => Action::Delete,
            Act::Check => Action::Check,
        };
        Op { key: Key::from(key), expect, action }
    }

    fn watch(&mut self, prefix: &'static str, from: u64) -> Checked {
        match (self.store.watch(prefix.into(), from), self.model.watch(prefix.into(), from)) {
            (Ok(store), Ok(model)) => {
                self.watches.push(Pair { store, model, prefix, delivered: from, lost: false });
            }
            (store, model) => same(&store.map(drop), &model.map(drop))?,
        }
        Ok(())
    }

    /// Takes one event from both watches; returns whether there was one.
    fn poll(&mut self, nth: usize) -> Result<bool, TestCaseError> {
        let pair = &mut self.watches[nth];
        let next = undelivered(&self.log, pair).next().cloned();
        let (store, model) = (pair.store.try_next(), pair.model.try_next());
        if let (false, Err(WatchError::Compacted { oldest, .. })) = (pair.lost, &model) {
            prop_assert!(
                next.as_ref().is_some_and(|event| event.revision <= *oldest),
                "the model lost nothing"
            );
            pair.lost = true;
        }
        match store {
            Err(WatchError::Compacted { .. }) if pair.lost => Ok(false),
            store => {
                if !pair.lost {
                    same(&store, &model)?;
                }
                same(&store, &Ok(next.clone()))?;
                pair.delivered = next.as_ref().map_or(pair.delivered, |event| event.revision);
                Ok(next.is_some())
            }
        }
    }

    fn progress(&mut self, nth: usize) -> Checked {
        let pair = &mut self.watches[nth];
        let (store, model) = (pair.store.progress(), pair.model.progress());
        if !pair.lost {
            prop_assert_eq!(store, model);
        }
        let passed = undelivered(&self.log, pair).filter(|event| event.revision <= store).count();
        prop_assert_eq!(passed, 0, "a bookmark passes over an event");
        Ok(())
    }
}

/// The events that a watch has not delivered.
fn undelivered<'a>(log: &'a [Arc<Event>], pair: &Pair) -> impl Iterator<Item = &'a Arc<Event>> {
    let (after, prefix) = (pair.delivered, pair.prefix);
    log.iter().filter(move |event| event.revision > after && event.key.starts_with(prefix.as_bytes()))
}
