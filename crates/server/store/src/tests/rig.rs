//! A store without its thread: groups are committed by the test, so a run follows from its seed alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lazaret_storage::{Committed, Event, Item, Key, Op, RangeOptions, TxnError};
use tokio::sync::oneshot;

use crate::commit::{Committer, Request};
use crate::counters::Counters;
use crate::draft::Draft;
use crate::error::OpenError;
use crate::fault::{FaultyDisk, Random};
use crate::log::{self, SnapshotMode};
use crate::options::Options;
use crate::shared::Shared;

pub(super) type Contents = BTreeMap<Key, Arc<Item>>;

/// Small files and frequent snapshots, so that a short run passes every kind of step.
pub(super) fn small_options() -> Options {
    Options { segment_bytes_max: 5_000, snapshot_log_bytes_min: 12_000, ..Options::default() }
}

pub(super) struct Rig {
    pub(super) shared: Arc<Shared>,
    committer: Committer,
}

/// The expected result of a commit.
#[derive(Debug, Clone)]
pub(super) struct ExpectedCommit {
    pub(super) revision: u64,
    pub(super) contents: Contents,
    pub(super) events: Vec<Arc<Event>>,
}

impl Rig {
    pub(super) fn open(disk: &FaultyDisk, options: &Options) -> Result<Rig, OpenError> {
        let counters = Arc::new(Counters::new(options));
        let recovered =
            log::recover(Arc::new(disk.clone()), options, SnapshotMode::Inline, Arc::clone(&counters))?;
        let shared = Arc::new(Shared::new(recovered.state, recovered.history, counters));
        if let Some(cause) = recovered.read_only {
            shared.fail(Arc::new(cause));
        }
        Ok(Rig { committer: Committer::new(Arc::clone(&shared), Box::new(recovered.engine)), shared })
    }

    pub(super) fn commit(&mut self, txns: Vec<Vec<Op>>) -> Vec<Result<Committed, TxnError>> {
        let (requests, answers): (Vec<_>, Vec<_>) = txns
            .into_iter()
            .map(|ops| {
                let (reply, answer) = oneshot::channel();
                (Request::Txn { ops, bytes: 0, reply, permit: None }, answer)
            })
            .unzip();
        self.committer.commit(requests);
        answers.into_iter().map(|mut answer| answer.try_recv().expect("every request is answered")).collect()
    }

    pub(super) fn compact(&mut self, to: u64) -> bool {
        let (reply, mut answer) = oneshot::channel();
        self.committer.commit(vec![Request::Compact { to, reply }]);
        answer.try_recv().expect("every request is answered").is_ok()
    }

    /// Tries to take writes again; tells whether that worked.
    pub(super) fn heal(&mut self) -> bool {
        self.committer.heal();
        !self.committer.is_read_only()
    }

    pub(super) fn forecast(&self, txns: &[Vec<Op>]) -> ExpectedCommit {
        let state = self.shared.state();
        let mut draft = Draft::new(state.index, state.revision);
        for ops in txns {
            let _ = draft.apply(ops);
        }
        let (mut index, changes) = draft.finish();
        changes.apply_to(&mut index);
        let contents = index.all().map(|item| (item.key.clone(), Arc::clone(item))).collect();
        ExpectedCommit { revision: changes.revision, contents, events: changes.events }
    }

    pub(super) fn contents(&self) -> Contents {
        contents(&self.shared)
    }

    /// All events that are still known.
    pub(super) fn history(&self) -> Vec<Arc<Event>> {
        let mut watch = self.shared.watch(Key::from(""), self.shared.oldest()).unwrap();
        std::iter::from_fn(|| watch.try_next().unwrap()).collect()
    }
}

pub(super) fn contents(shared: &Shared) -> Contents {
    let range = shared.range(b"", &RangeOptions::default()).unwrap();
    range.items.into_iter().map(|item| (item.key.clone(), item)).collect()
}

pub(super) fn key(n: usize) -> Key {
    Key::from(format!("/resource.k8s.io/{}/x{n:02}", ["claims", "claimsets", "slices"][n % 3]))
}

/// Bytes that are never zero, of a length that is sometimes longer than a few sectors.
pub(super) fn value(random: &mut Random) -> Bytes {
    let limit = [8, 300, 3_000][random.below(3)];
    let len = random.below(limit);
    (0..len).map(|_| u8::try_from(1 + random.below(255)).unwrap()).collect()
}

pub(super) fn random_op(random: &mut Random, shared: &Shared, key: Key) -> Op {
    let held = shared.get(&key).map_or(0, |item| item.modified);
    match random.below(6) {
        0 => Op::create(key, value(random)),
        1 | 2 => Op::update(key, held, value(random)),
        3 => Op::put(key, value(random)),
        4 => Op::delete(key, held),
        _ => Op::delete_any(key),
    }
}

/// One to four transactions of one to three operations on different keys.
pub(super) fn random_group(random: &mut Random, shared: &Shared) -> Vec<Vec<Op>> {
    (0..=random.below(4))
        .map(|_| {
            let first = random.below(12);
            let ops = 1 + random.below(3);
            (0..ops).map(|nth| random_op(random, shared, key((first + nth * 5) % 12))).collect()
        })
        .collect()
}
