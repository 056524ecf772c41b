//! Random sessions against a model that is too simple to be wrong: one map per revision and a list of events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{
    Action, CompactError, Expect, Key, Op, Options, RangeOptions, ReadError, Store, TxnError, Watch,
    WatchError,
};

const KEYS: [&str; 8] = ["/a", "/a/1", "/a/2", "/ab", "/b/", "/b/1", "/b/10", "/c\u{ff}"];
const PREFIXES: [&str; 7] = ["", "/", "/a", "/a/", "/b/1", "/c", "/nothing"];
const HISTORY_EVENTS_MAX: usize = 25;

#[derive(Debug, Clone)]
enum Step {
    Txn(Vec<(usize, ModelExpect, ModelAction)>),
    Range { prefix: usize, back: Option<u64>, limit: Option<usize>, after: Option<usize> },
    Watch { prefix: usize, back: u64 },
    Poll { watch: usize, events: usize },
    Progress { watch: usize },
    Unwatch { watch: usize },
    Compact { back: u64 },
}

#[derive(Debug, Clone, Copy)]
enum ModelExpect {
    Any,
    Absent,
    Present,
    Held,
    Stale,
}

#[derive(Debug, Clone, Copy)]
enum ModelAction {
    Put,
    PutStamped,
    Delete,
    Check,
}

type Contents = BTreeMap<String, (String, u64, u64)>;

#[derive(Debug, Clone, PartialEq)]
struct ModelEvent {
    revision: u64,
    key: String,
    new: Option<String>,
    old: Option<String>,
}

struct Model {
    /// The contents at every revision; the index is the revision.
    states: Vec<Contents>,
    events: Vec<ModelEvent>,
    oldest: u64,
}

struct ModelWatch {
    watch: Watch,
    prefix: &'static str,
    cursor: u64,
    ended: bool,
}

impl Model {
    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn now(&self) -> &Contents {
        self.states.last().unwrap()
    }

    fn put(&mut self, key: &str, value: Option<String>) {
        let revision = self.revision() + 1;
        let mut next = self.now().clone();
        let old = match &value {
            Some(value) => {
                let created = next.get(key).map_or(revision, |held| held.1);
                next.insert(key.into(), (value.clone(), created, revision))
            }
            None => next.remove(key),
        };
        self.events.push(ModelEvent { revision, key: key.into(), new: value, old: old.map(|held| held.0) });
        self.states.push(next);
    }

    /// The history keeps so many events and no more.
    fn forget(&mut self) {
        let kept = self.events.iter().filter(|event| event.revision > self.oldest).count();
        if kept > HISTORY_EVENTS_MAX {
            self.oldest += (kept - HISTORY_EVENTS_MAX) as u64;
        }
    }

    fn concerning(&self, prefix: &str, after: u64) -> impl Iterator<Item = &ModelEvent> {
        self.events.iter().filter(move |event| event.revision > after && event.key.starts_with(prefix))
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let expect = prop_oneof![
        4 => Just(ModelExpect::Any),
        2 => Just(ModelExpect::Held),
        1 => Just(ModelExpect::Absent),
        1 => Just(ModelExpect::Present),
        1 => Just(ModelExpect::Stale),
    ];
    let action = prop_oneof![
        3 => Just(ModelAction::Put),
        1 => Just(ModelAction::PutStamped),
        2 => Just(ModelAction::Delete),
        1 => Just(ModelAction::Check),
    ];
    let op = (0..KEYS.len(), expect, action);
    let back = || 0_u64..40;
    let step = prop_oneof![
        8 => prop::collection::vec(op, 1..4).prop_map(Step::Txn),
        4 => (
            0..PREFIXES.len(),
            prop::option::of(back()),
            prop::option::of(0_usize..5),
            prop::option::of(0..KEYS.len())
        )
            .prop_map(|(prefix, back, limit, after)| Step::Range { prefix, back, limit, after }),
        2 => (0..PREFIXES.len(), back()).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        4 => (0_usize..8, 1_usize..6).prop_map(|(watch, events)| Step::Poll { watch, events }),
        2 => (0_usize..8).prop_map(|watch| Step::Progress { watch }),
        1 => (0_usize..8).prop_map(|watch| Step::Unwatch { watch }),
        1 => back().prop_map(|back| Step::Compact { back }),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_store_does_what_the_model_does(steps in steps()) {
        let options = Options { history_events_max: HISTORY_EVENTS_MAX, ..Options::default() };
        let store = Store::ephemeral(options).unwrap();
        let mut model = Model { states: vec![Contents::new(); 2], events: Vec::new(), oldest: 1 };
        let mut watches: Vec<ModelWatch> = Vec::new();
        for step in steps {
            match step {
                Step::Txn(ops) => txn(&store, &mut model, &ops)?,
                Step::Range { prefix, back, limit, after } => {
                    let at = back.map(|back| (model.revision() + 3).saturating_sub(back));
                    range(&store, &model, PREFIXES[prefix], at, limit, after.map(|key| KEYS[key]))?;
                }
                Step::Watch { prefix, back } => {
                    let from = (model.revision() + 3).saturating_sub(back);
                    match store.watch(PREFIXES[prefix], from) {
                        Ok(watch) => {
                            prop_assert!(from >= model.oldest);
                            watches.push(ModelWatch { watch, prefix: PREFIXES[prefix], cursor: from, ended: false });
                        }
                        Err(error) => {
                            prop_assert!(from < model.oldest);
                            prop_assert_eq!(error, WatchError::Compacted { asked: from, oldest: model.oldest });
                        }
                    }
                }
                Step::Poll { watch, events } => {
                    let count = watches.len();
                    if let Some(held) = watches.get_mut(watch % count.max(1)) {
                        for _ in 0..events {
                            poll(&model, held)?;
                        }
                    }
                }
                Step::Progress { watch } => {
                    let count = watches.len();
                    if let Some(held) = watches.get_mut(watch % count.max(1)) {
                        progress(&model, held)?;
                    }
                }
                Step::Unwatch { watch } => {
                    if !watches.is_empty() {
                        watches.swap_remove(watch % watches.len());
                    }
                }
                Step::Compact { back } => {
                    let to = (model.revision() + 3).saturating_sub(back);
                    match store.compact_blocking(to) {
                        Ok(oldest) => {
                            prop_assert!(to <= model.revision());
                            model.oldest = model.oldest.max(to);
                            prop_assert_eq!(oldest, model.oldest);
                        }
                        Err(error) => {
                            let future = matches!(error, CompactError::Future { current, .. } if current == model.revision());
                            prop_assert!(future && to > model.revision());
                        }
                    }
                }
            }
            let stats = store.stats();
            prop_assert_eq!((stats.revision, stats.oldest), (model.revision(), model.oldest));
            prop_assert_eq!(stats.items, model.now().len());
            prop_assert_eq!(stats.watches, watches.len());
            prop_assert_eq!(stats.history_events, model.concerning("", model.oldest).count());
        }
        for held in &mut watches {
            while poll(&model, held)? {}
        }
    }
}

fn txn(
    store: &Store,
    model: &mut Model,
    ops: &[(usize, ModelExpect, ModelAction)],
) -> Result<(), TestCaseError> {
    let built: Vec<Op> =
        ops.iter().map(|(key, expect, action)| build(model, KEYS[*key], *expect, *action)).collect();
    let mut keys: Vec<_> = ops.iter().map(|op| op.0).collect();
    keys.sort_unstable();
    keys.dedup();
    let result = store.txn_blocking(built.clone());
    if keys.len() < ops.len() {
        prop_assert!(matches!(result, Err(TxnError::Invalid(_))));
        return Ok(());
    }
    let broken = built.iter().position(|op| {
        let held = model.now().get(&op.key.to_string());
        !match op.expect {
            Expect::Any => true,
            Expect::Absent => held.is_none(),
            Expect::Present => held.is_some(),
            Expect::Revision(revision) => held.is_some_and(|held| held.2 == revision),
        }
    });
    let committed = match (broken, result) {
        (Some(nth), Err(TxnError::Conflict { op, key, current })) => {
            prop_assert_eq!(nth, op);
            let held = model.now().get(&key.to_string());
            prop_assert_eq!(current.map(|item| item.modified), held.map(|held| held.2));
            return Ok(());
        }
        (None, Ok(committed)) => committed,
        (broken, result) => return Err(TestCaseError::fail(format!("{broken:?} {result:?}"))),
    };
    let first = model.events.len();
    for op in &built {
        let key = op.key.to_string();
        match &op.action {
            Action::Put(value) => {
                let text = String::from_utf8(value.at(model.revision() + 1).to_vec()).unwrap();
                model.put(&key, Some(text));
            }
            Action::Delete if model.now().contains_key(&key) => model.put(&key, None),
            Action::Delete | Action::Check => {}
        }
    }
    prop_assert_eq!(committed.revision, model.revision());
    let told: Vec<ModelEvent> = committed.events.iter().flatten().map(|event| model_event(event)).collect();
    prop_assert_eq!(&told[..], &model.events[first..]);
    model.forget();
    Ok(())
}

fn build(model: &Model, key: &str, expect: ModelExpect, action: ModelAction) -> Op {
    let held = model.now().get(key).map_or(0, |held| held.2);
    let expect = match expect {
        ModelExpect::Any => Expect::Any,
        ModelExpect::Absent => Expect::Absent,
        ModelExpect::Present => Expect::Present,
        ModelExpect::Held => Expect::Revision(held),
        ModelExpect::Stale => Expect::Revision(held.saturating_sub(1)),
    };
    let action = match action {
        ModelAction::Put => Action::Put(format!("v{}", model.revision()).into()),
        ModelAction::PutStamped => {
            Action::Put(crate::Value::Stamped { before: "<".into(), after: ">".into() })
        }
        ModelAction::Delete => Action::Delete,
        ModelAction::Check => Action::Check,
    };
    Op { key: Key::from(key), expect, action }
}

fn model_event(event: &crate::Event) -> ModelEvent {
    let text = |item: &Option<std::sync::Arc<crate::Item>>| {
        item.as_ref().map(|item| String::from_utf8(item.value.to_vec()).unwrap())
    };
    ModelEvent {
        revision: event.revision,
        key: event.key.to_string(),
        new: text(&event.new),
        old: text(&event.old),
    }
}

fn range(
    store: &Store,
    model: &Model,
    prefix: &str,
    at: Option<u64>,
    limit: Option<usize>,
    after: Option<&str>,
) -> Result<(), TestCaseError> {
    let result = store.range(prefix, &RangeOptions { at, limit, after: after.map(Key::from) });
    let revision = at.unwrap_or(model.revision());
    if revision < model.oldest {
        prop_assert_eq!(result.unwrap_err(), ReadError::Compacted { asked: revision, oldest: model.oldest });
    } else if revision > model.revision() {
        prop_assert_eq!(
            result.unwrap_err(),
            ReadError::Future { asked: revision, current: model.revision() }
        );
    } else {
        let range = result.unwrap();
        let state = &model.states[usize::try_from(revision).unwrap()];
        let all: Vec<_> = state
            .iter()
            .filter(|(key, _)| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after))
            .map(|(key, (value, created, modified))| (key.clone(), value.clone(), *created, *modified))
            .collect();
        let told: Vec<_> = range
            .items
            .iter()
            .map(|item| {
                let value = String::from_utf8(item.value.to_vec()).unwrap();
                (item.key.to_string(), value, item.created, item.modified)
            })
            .collect();
        let page = all.len().min(limit.unwrap_or(usize::MAX));
        prop_assert_eq!(&told[..], &all[..page]);
        prop_assert_eq!(range.remaining, all.len() - page);
        prop_assert_eq!(range.revision, revision);
        if at.is_none() && after.is_none() {
            prop_assert_eq!(store.count(prefix), all.len());
        }
    }
    Ok(())
}

/// Takes one event; tells whether there was one.
fn poll(model: &Model, held: &mut ModelWatch) -> Result<bool, TestCaseError> {
    let next = model.concerning(held.prefix, held.cursor).next();
    match held.watch.try_next() {
        Ok(Some(event)) => {
            prop_assert_eq!(Some(&model_event(&event)), next);
            held.cursor = event.revision;
            Ok(true)
        }
        Ok(None) => {
            prop_assert_eq!(next, None);
            Ok(false)
        }
        Err(error) => {
            // Dropped only when the very next event it needed is gone.
            prop_assert!(held.ended || next.is_some_and(|next| next.revision <= model.oldest), "{error}");
            held.ended = true;
            Ok(false)
        }
    }
}

fn progress(model: &Model, held: &mut ModelWatch) -> Result<(), TestCaseError> {
    let progress = held.watch.progress();
    prop_assert!(progress >= held.cursor);
    prop_assert_eq!(
        model.concerning(held.prefix, held.cursor).filter(|event| event.revision <= progress).count(),
        0,
        "a bookmark passes over nothing"
    );
    if !held.ended && model.concerning(held.prefix, held.cursor).next().is_none() {
        prop_assert_eq!(progress, held.cursor.max(model.revision()), "an idle watch keeps up with the store");
    }
    Ok(())
}
