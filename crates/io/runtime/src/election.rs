//! Holds a Lease for this process.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::coordination::v1::Lease;
use lazaret_leader::{Election, ElectionStep, Held, LONGEST_FLIGHT_MS, LeaseWrite, TermNotice, WRITE_MS_MAX};
use lazaret_model::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    Call, CallError, Client, LEASES, Leadership, LeaseOptions, LeaseRecord, Metrics, panics::caught,
    tasks::Restarts,
};

/// Competes for a Lease until stopped.
#[derive(Debug)]
pub struct Leader {
    client: Client,
    namespace: String,
    name: String,
    election: Election,
    told: watch::Sender<Option<Held>>,
}

impl Leader {
    /// A candidate for `namespace/name`; run it, and give the leadership to those who act.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        options: LeaseOptions,
    ) -> (Self, Leadership) {
        let (told, term) = watch::channel(None);
        let leadership = Leadership::rivalled(term, client.clock().clone());
        let election = Election::new(identity, options);
        let leader = Self { client, namespace: namespace.into(), name: name.into(), election, told };
        (leader, leadership)
    }

    /// The same for those whose writes do harm when they arrive after the next leader has begun: each write is given up after
    /// [`WRITE_MS_MAX`], and a leader that took the lease from one that did not give it back begins after [`LONGEST_FLIGHT_MS`].
    #[must_use]
    pub fn with_bounded_writes((leader, leadership): (Self, Leadership)) -> (Self, Leadership) {
        let election = leader.election.waiting_out(LONGEST_FLIGHT_MS);
        (Self { election, ..leader }, leadership.with_writes_within(WRITE_MS_MAX))
    }

    /// Runs until `stop`, then gives the lease back.
    pub async fn run(mut self, metrics: Metrics, stop: watch::Receiver<bool>) {
        let mut restarts = Restarts::new(format!("lease/{}", self.name), metrics);
        while let Err(panic) = caught(self.compete(stop.clone())).await {
            self.election.panicked();
            self.tell();
            restarts.pause(&panic).await;
        }
    }

    async fn compete(&mut self, mut stop: watch::Receiver<bool>) {
        let clock = self.client.clock().clone();
        while !*stop.borrow() {
            let now = clock.instants();
            self.election.pass(now);
            self.tell();
            match self.election.next(now) {
                ElectionStep::Read { newest } => self.read(newest).await,
                ElectionStep::Write(write) => self.write(&write).await,
                ElectionStep::Wait(until) => {
                    let wait = Duration::from_millis(until.millis_since(now.monotonic).max(0).unsigned_abs());
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        _ = stop.wait_for(|stop| *stop) => {}
                    }
                }
            }
        }
        self.release().await;
    }

    fn tell(&mut self) {
        let TermNotice { held, is_another, wakes } = self.election.tell(self.client.clock().instants());
        if is_another {
            let term = held.map(|held| held.number());
            info!(lease = %self.name, identity = self.election.identity(), term, "leadership");
        }
        self.told.send_if_modified(|before| {
            *before = held;
            wakes
        });
    }

    /// An answer that comes after the lease is over is of no use.
    async fn send(&self, call: Call) -> Result<Bytes, CallError> {
        let patience = Duration::from_millis(self.election.patience_ms().unsigned_abs());
        match tokio::time::timeout(patience, self.client.send(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Unknown("no answer in time".into())),
        }
    }

    async fn read(&mut self, newest: bool) {
        let call = if newest {
            Call::get(&LEASES, &self.namespace, &self.name)
        } else {
            Call::get_at(format!("{}?resourceVersion=0", LEASES.path(&self.namespace, &self.name, "")))
        };
        let read = self.send(call).await;
        let now = self.client.clock().instants();
        match read.map(|bytes| record(&bytes)) {
            Ok(Some(found)) => self.election.read(now, Some(found)),
            Err(CallError::NotFound(_)) => self.election.read(now, None),
            Ok(None) => {
                self.warn("it cannot be understood");
                self.election.not_read(now);
            }
            Err(error) => {
                self.warn(&error.to_string());
                self.election.not_read(now);
            }
        }
    }

    async fn write(&mut self, write: &LeaseWrite) {
        let body = self.body(write);
        let call = if write.resource_version.is_empty() {
            Call::create(&LEASES, &self.namespace, body)
        } else {
            Call::patch(&LEASES, &self.namespace, &self.name, "", crate::PatchKind::Merge, body)
        };
        match self.send(call).await.map(|bytes| record(&bytes)) {
            Ok(Some(written)) => self.election.written(self.client.clock().instants(), write, written),
            Ok(None) => {
                self.warn("the answer cannot be understood");
                self.election.not_written(write);
            }
            Err(error) => {
                self.warn(&error.to_string());
                self.election.not_written(write);
            }
        }
    }

    fn warn(&self, why: &str) {
        warn!(lease = %self.name, why, "the lease could not be read or written");
    }

    async fn release(&mut self) {
        let write = self.election.release(self.client.clock().instants());
        let _ = self.told.send(None);
        let Some(write) = write else { return };
        let body = self.body(&write);
        let call = Call::patch(&LEASES, &self.namespace, &self.name, "", crate::PatchKind::Merge, body);
        // If it fails, the next one waits until the lease is over.
        let _ = self.send(call).await;
    }

    fn body(&self, write: &LeaseWrite) -> Vec<u8> {
        let time = micro_time(write.sent.wall);
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        if !write.resource_version.is_empty() {
            metadata["resourceVersion"] = write.resource_version.as_str().into();
        }
        let mut spec = json!({
            "holderIdentity": write.holder,
            "leaseDurationSeconds": (write.duration_ms.saturating_add(999) / 1_000).max(1),
            "renewTime": time,
            "leaseTransitions": write.transitions,
        });
        if write.acquires {
            spec["acquireTime"] = time.into();
        }
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
            .to_string()
            .into_bytes()
    }
}

fn micro_time(now: Timestamp) -> String {
    let text = lazaret_api::format_time(Timestamp::from_millis(now.as_millis().div_euclid(1_000) * 1_000));
    format!("{}.{:03}000Z", text.trim_end_matches('Z'), now.as_millis().rem_euclid(1_000))
}

fn record(bytes: &[u8]) -> Option<LeaseRecord> {
    let lease: Lease = serde_json::from_slice(bytes).ok()?;
    let spec = lease.spec.unwrap_or_default();
    Some(LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration_ms: i64::from(spec.lease_duration_seconds.unwrap_or_default()) * 1_000,
        renewed: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
        transitions: i64::from(spec.lease_transitions.unwrap_or_default()),
        resource_version: lease.metadata.resource_version.unwrap_or_default(),
    })
}
