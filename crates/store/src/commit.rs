//! Group commit: try, make durable, publish, answer. In that order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::draft::Draft;
use crate::engine::{Engine, GroupCommit};
use crate::error::{CompactError, StorageError, TxnError};
use crate::shared::Shared;
use crate::txn::{Committed, Op};

/// What is asked of the writer.
#[derive(Debug)]
pub(crate) enum Request {
    Txn {
        ops: Vec<Op>,
        bytes: usize,
        reply: oneshot::Sender<Result<Committed, TxnError>>,
        /// The request's share of the queue, given back with the answer.
        permit: Option<OwnedSemaphorePermit>,
    },
    Compact {
        to: u64,
        reply: oneshot::Sender<Result<u64, CompactError>>,
    },
}

/// An answer that waits for the group to be durable. Conflicts wait too: they may tell of an earlier transaction
/// of the same group.
enum Answer {
    Txn(oneshot::Sender<Result<Committed, TxnError>>, Result<Committed, TxnError>),
    Compact(oneshot::Sender<Result<u64, CompactError>>, Result<u64, CompactError>),
}

/// The writer's side of a store, without its thread.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    engine: Box<dyn Engine>,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, engine: Box<dyn Engine>) -> Committer {
        Committer { shared, engine }
    }

    /// Commits requests as one group, and answers each.
    pub(crate) fn commit(&mut self, requests: Vec<Request>) {
        if let Some(cause) = self.shared.failure() {
            requests.into_iter().for_each(|request| request.refuse(cause));
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
            if let Err(error) = self.engine.append(&group) {
                let cause = Arc::new(error);
                self.shared.fail(Arc::clone(&cause));
                answers.into_iter().for_each(|answer| answer.send_failed(&cause));
                return;
            }
            self.shared.counters.groups.fetch_add(1, Ordering::Relaxed);
        }
        let touched = self.shared.publish(&changes, compact);
        let acknowledged = answers.iter().filter(|answer| matches!(answer, Answer::Txn(_, Ok(_)))).count();
        self.shared.counters.txns.fetch_add(acknowledged as u64, Ordering::Relaxed);
        answers.into_iter().for_each(Answer::send);
        touched.iter().for_each(|group| group.wake());
        if let Err(error) = self.engine.published(&self.shared.state()) {
            self.shared.fail(Arc::new(error));
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
        }
    }
}

impl Request {
    /// What the request adds to a group: operations and bytes.
    pub(crate) fn weight(&self) -> (usize, usize) {
        match self {
            Request::Txn { ops, bytes, .. } => (ops.len(), *bytes),
            Request::Compact { .. } => (1, 0),
        }
    }

    fn refuse(self, cause: &Arc<StorageError>) {
        match self {
            Request::Txn { reply, .. } => drop(reply.send(Err(TxnError::ReadOnly(Arc::clone(cause))))),
            Request::Compact { reply, .. } => {
                drop(reply.send(Err(CompactError::ReadOnly(Arc::clone(cause)))))
            }
        }
    }
}

impl Answer {
    /// Whoever asked may have stopped waiting; the commit stands all the same.
    fn send(self) {
        match self {
            Answer::Txn(reply, result) => drop(reply.send(result)),
            Answer::Compact(reply, result) => drop(reply.send(result)),
        }
    }

    fn send_failed(self, cause: &Arc<StorageError>) {
        let cause = Arc::clone(cause);
        match self {
            Answer::Txn(reply, Ok(_)) => drop(reply.send(Err(TxnError::Unknown(cause)))),
            // A conflict may be with a transaction that did not last; either way this one did nothing.
            Answer::Txn(reply, Err(_)) => drop(reply.send(Err(TxnError::ReadOnly(cause)))),
            Answer::Compact(reply, _) => drop(reply.send(Err(CompactError::ReadOnly(cause)))),
        }
    }
}
