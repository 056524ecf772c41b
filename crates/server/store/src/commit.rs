//! Group commit: try, make durable, publish, answer. In that order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lazaret_storage::{Committed, Op, SnapshotError, StorageError, TxnError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::draft::{Changes, Draft};
use crate::engine::{Engine, GroupCommit, SnapshotReply};
use crate::error::CompactError;
use crate::notice::Notice;
use crate::shared::Shared;

/// A request to the writer.
#[derive(Debug)]
pub(crate) enum Request {
    Txn {
        ops: Vec<Op>,
        bytes: usize,
        reply: oneshot::Sender<Result<Committed, TxnError>>,
        /// The request's share of the queue, released with the answer.
        permit: Option<OwnedSemaphorePermit>,
    },
    Compact {
        to: u64,
        reply: oneshot::Sender<Result<u64, CompactError>>,
    },
    Snapshot {
        reply: SnapshotReply,
    },
}

/// An answer that waits for the group to be durable. Conflicts wait too: they may tell of an earlier transaction
/// of the same group.
enum Answer {
    Txn(oneshot::Sender<Result<Committed, TxnError>>, Result<Committed, TxnError>),
    Compact(oneshot::Sender<Result<u64, CompactError>>, Result<u64, CompactError>),
    /// Answered by the engine, once the group is published.
    Snapshot(SnapshotReply),
}

/// The writer's side of a store, without its thread.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    engine: Box<dyn Engine>,
    /// The newest revision that a failed group may have brought to the disk. It is not given out again.
    revision_used: u64,
    /// Attempts to heal since the failure.
    attempts: u32,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, engine: Box<dyn Engine>) -> Committer {
        Committer { shared, engine, revision_used: 0, attempts: 0 }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.failure().is_some()
    }

    /// Group commits made so far.
    pub(crate) fn groups(&self) -> u64 {
        self.shared.counters.groups.load(Ordering::Relaxed)
    }

    /// Tries to take writes again after a failure; a no-op if there was none. Writes in doubt are void from then on.
    pub(crate) fn heal(&mut self) {
        if !self.is_read_only() {
            return;
        }
        self.attempts += 1;
        let mut state = self.shared.state();
        state.revision = state.revision.max(self.revision_used);
        let revision = state.revision;
        let healed = {
            let _busy = self.shared.counters.disk_busy();
            self.engine.heal(&state)
        };
        drop(state);
        let observer = &self.shared.counters.observer;
        match healed {
            Ok(()) => {
                self.shared.publish(&Changes { revision, events: Vec::new() }, None);
                self.shared.recovered();
                observer.notify(&Notice::BecameWritable { attempts: self.attempts, revision });
                self.attempts = 0;
            }
            Err(error) => {
                let cause = Arc::new(error);
                observer.notify(&Notice::StillReadOnly { attempts: self.attempts, cause });
            }
        }
    }

    /// Commits requests as one group, and answers each.
    pub(crate) fn commit(&mut self, requests: Vec<Request>) {
        if let Some(cause) = self.shared.failure() {
            requests.into_iter().for_each(|request| request.refuse(&cause));
            return;
        }
        let state = self.shared.state();
        let base = state.revision;
        let mut draft = Draft::new(state.index, base);
        let mut compact = None;
        let answers: Vec<Answer> =
            requests.into_iter().map(|request| self.try_out(request, &mut draft, &mut compact)).collect();
        // The draft's reference to the index goes now, so that publishing can change the index in place.
        let (_, changes) = draft.finish();

        if !changes.events.is_empty() || compact.is_some() {
            let group = GroupCommit { base, events: &changes.events, compact };
            let appended = {
                let _busy = self.shared.counters.disk_busy();
                self.engine.append(&group)
            };
            if let Err(error) = appended {
                let cause = Arc::new(error);
                self.revision_used = changes.revision;
                self.shared.fail(Arc::clone(&cause));
                answers.into_iter().for_each(|answer| answer.send_failed(&cause));
                return;
            }
            self.shared.counters.groups.fetch_add(1, Ordering::Relaxed);
        }
        let touched = self.shared.publish(&changes, compact);
        let acknowledged = answers.iter().filter(|answer| matches!(answer, Answer::Txn(_, Ok(_)))).count();
        self.shared.counters.txns.fetch_add(acknowledged as u64, Ordering::Relaxed);
        let snapshots: Vec<SnapshotReply> = answers.into_iter().filter_map(Answer::send).collect();
        touched.iter().for_each(|group| group.wake());
        let tidied = {
            let _busy = self.shared.counters.disk_busy();
            self.engine.published(&self.shared.state())
        };
        if let Err(error) = tidied {
            self.shared.fail(Arc::new(error));
        }
        snapshots.into_iter().for_each(|reply| self.snapshot(reply));
    }

    fn snapshot(&mut self, reply: SnapshotReply) {
        if let Some(cause) = self.shared.failure() {
            drop(reply.send(Err(SnapshotError::ReadOnly(cause))));
        } else if let Err(error) = self.engine.snapshot(&self.shared.state(), reply) {
            self.shared.fail(error);
        }
    }

    fn try_out(&self, request: Request, draft: &mut Draft, compact: &mut Option<u64>) -> Answer {
        match request {
            Request::Txn { ops, reply, permit, bytes: _ } => {
                let result = draft.apply(&ops);
                drop(permit);
                Answer::Txn(reply, result)
            }
            Request::Compact { to, reply } => {
                let oldest = self.shared.oldest().max(compact.unwrap_or(0));
                if to > draft.revision() {
                    return Answer::Compact(
                        reply,
                        Err(CompactError::Future { asked: to, current: draft.revision() }),
                    );
                }
                if to > oldest {
                    *compact = Some(to);
                }
                Answer::Compact(reply, Ok(to.max(oldest)))
            }
            Request::Snapshot { reply } => Answer::Snapshot(reply),
        }
    }
}

impl Request {
    /// The size that the request adds to a group: operations and bytes.
    pub(crate) fn weight(&self) -> (usize, usize) {
        match self {
            Request::Txn { ops, bytes, .. } => (ops.len(), *bytes),
            Request::Compact { .. } | Request::Snapshot { .. } => (1, 0),
        }
    }

    fn refuse(self, cause: &Arc<StorageError>) {
        match self {
            Request::Txn { reply, .. } => drop(reply.send(Err(TxnError::ReadOnly(Arc::clone(cause))))),
            Request::Compact { reply, .. } => {
                drop(reply.send(Err(CompactError::ReadOnly(Arc::clone(cause)))))
            }
            Request::Snapshot { reply } => drop(reply.send(Err(SnapshotError::ReadOnly(Arc::clone(cause))))),
        }
    }
}

impl Answer {
    /// The caller may have stopped waiting; the commit stands all the same. Returns the reply of a snapshot that is waited for.
    fn send(self) -> Option<SnapshotReply> {
        match self {
            Answer::Txn(reply, result) => drop(reply.send(result)),
            Answer::Compact(reply, result) => drop(reply.send(result)),
            Answer::Snapshot(reply) => return Some(reply),
        }
        None
    }

    fn send_failed(self, cause: &Arc<StorageError>) {
        let cause = Arc::clone(cause);
        match self {
            Answer::Txn(reply, Ok(_)) => drop(reply.send(Err(TxnError::Unknown(cause)))),
            // A conflict may be with a transaction that did not last; either way this one did nothing.
            Answer::Txn(reply, Err(_)) => drop(reply.send(Err(TxnError::ReadOnly(cause)))),
            Answer::Compact(reply, _) => drop(reply.send(Err(CompactError::ReadOnly(cause)))),
            Answer::Snapshot(reply) => drop(reply.send(Err(SnapshotError::ReadOnly(cause)))),
        }
    }
}
