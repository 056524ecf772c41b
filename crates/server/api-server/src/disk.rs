//! The disk below the store: when a stall is logged, what `/readyz` says of it, how long a write waits for it, and the
//! request to compact it.

use std::{io, sync::Arc, time::Duration};

use lazaret_json::json;
use lazaret_storage::{Committed, Op, SnapshotError, StorageError, TxnError, TxnInvalid};

use crate::{
    ApiError, Server, admission::device_holdings::ReservedDevices, clock, limits, object, respond::Answer,
};

/// Where a snapshot is asked for, with POST.
pub(crate) const COMPACT_PATH: &str = "lazaret/store/compact";

/// A write that is not durable by then is answered with an unknown outcome; Kubernetes waits as long for its handlers.
pub(crate) const WRITE_SECONDS_MAX: u64 = 34;
/// A disk that has not answered for this number of seconds is reported as stalled: a sync takes milliseconds.
const STALLED_SECONDS: u64 = 5;
/// How often the disk is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Server {
    /// Logs when the disk stops answering and when it answers again; never ends.
    pub async fn watch_disk(&self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        let mut stalled = false;
        loop {
            ticks.tick().await;
            let busy = self.stalled_for();
            match (stalled, busy) {
                (false, Some(busy)) => {
                    tracing::error!(seconds = busy.as_secs(), "the disk of the store does not answer");
                }
                (true, None) => tracing::warn!("the disk of the store answers again"),
                (false, None) | (true, Some(_)) => {}
            }
            stalled = busy.is_some();
        }
    }

    fn stalled_for(&self) -> Option<Duration> {
        self.store().stats().disk_busy.filter(|busy| busy.as_secs() >= STALLED_SECONDS)
    }

    /// The problem of the disk, if there is one.
    pub(crate) fn disk_trouble(&self) -> Option<String> {
        if let Some(cause) = self.store().stats().read_only {
            return Some(format!("the store is read-only: {cause}"));
        }
        self.stalled_for().map(|busy| format!("the disk has not answered for {} s", busy.as_secs()))
    }

    /// Hands a write to the store and waits until it is durable.
    pub(crate) async fn commit(&self, ops: Vec<Op>) -> Result<Committed, TxnError> {
        self.commit_within(ops, object::OBJECT_BYTES_MAX, None).await
    }

    /// The same for a write that gives a claim devices: they are reserved until the store has answered, whoever still waits for that.
    pub(crate) async fn commit_giving(
        &self,
        ops: Vec<Op>,
        devices: &Arc<ReservedDevices>,
    ) -> Result<Committed, TxnError> {
        self.commit_within(ops, object::OBJECT_BYTES_MAX, Some(devices)).await
    }

    /// The same for the server's own addition to an object of a client.
    pub(crate) async fn commit_own(&self, ops: Vec<Op>) -> Result<Committed, TxnError> {
        self.commit_within(ops, object::OBJECT_BYTES_MAX + object::OWN_BYTES_MAX, None).await
    }

    async fn commit_within(
        &self,
        ops: Vec<Op>,
        bytes_max: usize,
        devices: Option<&Arc<ReservedDevices>>,
    ) -> Result<Committed, TxnError> {
        limits::check_sizes(self.store(), &ops, bytes_max)?;
        let started = clock::instant();
        let committed = self.write(ops, devices).await;
        self.metrics().committed(started.elapsed());
        committed
    }

    /// Runs a transaction, and gives up waiting for a disk that does not answer.
    async fn write(
        &self,
        ops: Vec<Op>,
        devices: Option<&Arc<ReservedDevices>>,
    ) -> Result<Committed, TxnError> {
        let limit = Duration::from_secs(WRITE_SECONDS_MAX);
        let done = match devices {
            None => tokio::time::timeout(limit, self.store().txn(ops)).await,
            Some(devices) => tokio::time::timeout(limit, self.outlasting(ops, Arc::clone(devices))).await,
        };
        done.unwrap_or_else(|_| {
            let why = format!("no answer in {WRITE_SECONDS_MAX} s");
            Err(unknown(io::Error::new(io::ErrorKind::TimedOut, why)))
        })
    }

    /// Runs a transaction to its end, also when nobody waits for it any longer: until then what it gives is reserved.
    #[allow(clippy::disallowed_methods, reason = "the task ends with the answer of the store")]
    async fn outlasting(&self, ops: Vec<Op>, devices: Arc<ReservedDevices>) -> Result<Committed, TxnError> {
        let store = self.shared_store();
        let task = tokio::spawn(async move {
            let done = store.txn(ops).await;
            drop(devices);
            done
        });
        task.await.unwrap_or_else(|error| Err(unknown(io::Error::other(error))))
    }

    /// Writes a snapshot and removes the log before it.
    pub(crate) async fn compact_store(&self) -> Result<Answer, ApiError> {
        match self.store().snapshot().await {
            Ok(done) => {
                let (revision, items, bytes) = (done.revision, done.items, done.bytes);
                Ok(Answer::value(200, &json!({"revision": revision, "items": items, "bytes": bytes})))
            }
            Err(error @ (SnapshotError::Busy | SnapshotError::ReadOnly(_) | SnapshotError::Closed)) => {
                Err(ApiError::unavailable(error.to_string()))
            }
            Err(error @ SnapshotError::Ephemeral) => Err(ApiError::bad_request(error.to_string())),
            Err(error @ SnapshotError::Failed(_)) => Err(ApiError::internal(error)),
        }
    }
}

fn unknown(source: io::Error) -> TxnError {
    TxnError::Unknown(Arc::new(StorageError { doing: "write to", file: "the disk".into(), source }))
}

/// The error for a client whose write was not acknowledged.
pub(crate) fn refusal(error: &TxnError) -> ApiError {
    match error {
        TxnError::Invalid(TxnInvalid::TooLarge { .. }) => limits::object_too_large(),
        TxnError::Invalid(why) => ApiError::too_large(why.to_string()),
        // Not 503: clients send again what was refused with that, and this may have been done.
        TxnError::Unknown(_) => ApiError::outcome_unknown(error.to_string()),
        TxnError::Conflict { .. } | TxnError::ReadOnly(_) | TxnError::Closed => {
            ApiError::unavailable(error.to_string())
        }
    }
}
