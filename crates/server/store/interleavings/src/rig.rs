//! A store without its log and its thread: what is published, by a thread of loom's.

use std::future::poll_fn;
use std::sync::Arc;

use lazaret_storage::{Event, Key, Op, RangeOptions, Watch, WatchError};

use crate::counters::Counters;
use crate::draft::Draft;
use crate::index::Index;
use crate::options::Options;
use crate::shared::{Shared, State};

/// The revision before the first write.
pub(crate) const START: u64 = 1;

/// Preemptions that loom tries in each run. Published research and loom's own guide find most faults with two.
const PREEMPTIONS_MAX: usize = 3;

/// Runs a scenario in every order.
pub(crate) fn every_order(scenario: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS_MAX);
    model.check(scenario);
}

pub(crate) fn new_shared(history_events_max: usize) -> Arc<Shared> {
    let options = Options { history_events_max, ..Options::default() };
    let history = Shared::empty_history(&options, START);
    let state = State { index: Index::default(), revision: START };
    Arc::new(Shared::new(state, history, Arc::new(Counters::default())))
}

/// Publishes one transaction as the writer does: changes first, then the watches are woken.
pub(crate) fn commit(shared: &Shared, op: Op) -> u64 {
    let state = shared.state();
    let mut draft = Draft::new(state.index, state.revision);
    let committed = draft.apply(&[op]).expect("nothing is expected of the key");
    let (_, changes) = draft.finish();
    let touched = shared.publish(&changes, None);
    touched.iter().for_each(|group| group.wake());
    committed.revision
}

/// Waits for the next event of a watch, on loom's executor.
pub(crate) fn next(watch: &mut Watch) -> Result<Arc<Event>, WatchError> {
    loom::future::block_on(poll_fn(|context| watch.poll_next(context)))
}

/// Keys and revisions of a prefix, and the revision of the list.
pub(crate) fn list(shared: &Shared, prefix: &str) -> (Vec<(Key, u64)>, u64) {
    let range = shared.range(prefix.as_bytes(), &RangeOptions::default()).expect("the present can be read");
    (range.items.iter().map(|item| (item.key.clone(), item.modified)).collect(), range.revision)
}
