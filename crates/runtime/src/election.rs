//! Holds a Lease for this process.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::coordination::v1::Lease;
use lazaret_model::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    Call, CallError, Candidate, Client, LEASES, LeaseAction, LeaseOptions, LeaseRecord, Term, clock,
};

/// Whether this process may act, and in which term. Clones share the answer.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` where nobody competes.
    term: Option<watch::Receiver<Option<Term>>>,
}

impl Leadership {
    /// For who has no rival: it always leads.
    #[must_use]
    pub fn unrivalled() -> Self {
        Self { term: None }
    }

    /// Whether others may act when this process does not.
    #[must_use]
    pub fn is_rivalled(&self) -> bool {
        self.term.is_some()
    }

    /// The number of the term in which this process may act now. Never out of date: a term that was not renewed in time is
    /// over, even if nobody has had the time to say so.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        match &self.term {
            None => Some(0),
            Some(term) => term.borrow().filter(|term| term.lasts(clock::now())).map(|term| term.number),
        }
    }

    /// Whether it leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.term().is_some()
    }

    /// Waits until a term begins or ends.
    pub(crate) async fn changed(&mut self) {
        if let Some(term) = &mut self.term
            && term.changed().await.is_ok()
        {
            return;
        }
        // A leadership without rivals or without a holder never changes again.
        std::future::pending().await
    }
}

/// Competes for a Lease until stopped.
#[derive(Debug)]
pub struct Leader {
    client: Client,
    namespace: String,
    name: String,
    candidate: Candidate,
    options: LeaseOptions,
    told: watch::Sender<Option<Term>>,
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
        let candidate = Candidate::new(identity, options);
        let leader =
            Self { client, namespace: namespace.into(), name: name.into(), candidate, options, told };
        (leader, Leadership { term: Some(term) })
    }

    /// Runs until `stop`, then gives the lease back.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let now = clock::now();
            self.tell(now);
            let until = match self.candidate.next(now) {
                LeaseAction::Read => {
                    self.read(now).await;
                    continue;
                }
                LeaseAction::Write { transitions, resource_version, acquire } => {
                    self.write(now, transitions, &resource_version, acquire).await;
                    continue;
                }
                LeaseAction::Wait(until) => until,
            };
            tokio::select! {
                () = clock::sleep_until(Some(until)) => {}
                // Leading may end before there is anything to do.
                () = tokio::time::sleep(Duration::from_millis(500)), if self.candidate.holds(now) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        self.release().await;
    }

    /// Nobody is woken for a renewal.
    fn tell(&self, now: Timestamp) {
        let term = self.candidate.term(now);
        self.told.send_if_modified(|before| {
            let number = term.map(|term| term.number);
            let changed = before.map(|term| term.number) != number;
            if changed {
                info!(lease = %self.name, identity = self.candidate.identity(), term = number, "leadership");
            }
            *before = term;
            changed
        });
    }

    /// An answer that comes after the lease is over is of no use.
    async fn send(&self, call: Call) -> Result<Bytes, CallError> {
        let patience = Duration::from_millis(self.options.renew_deadline_ms.max(0).unsigned_abs());
        match tokio::time::timeout(patience, self.client.send(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Unknown("no answer in time".into())),
        }
    }

    async fn read(&mut self, now: Timestamp) {
        let read = self.send(Call::get(&LEASES, &self.namespace, &self.name)).await;
        match read.map(|bytes| record(&bytes)) {
            Ok(Some(found)) => self.candidate.read(now, Some(found)),
            Err(CallError::NotFound(_)) => self.candidate.read(now, None),
            Ok(None) => self.failed(now, "it cannot be understood"),
            Err(error) => self.failed(now, &error.to_string()),
        }
    }

    async fn write(&mut self, now: Timestamp, transitions: i64, version: &str, acquire: bool) {
        let body = self.body(now, self.candidate.identity(), transitions, version, acquire);
        let call = if version.is_empty() {
            Call::create(&LEASES, &self.namespace, body)
        } else {
            Call::patch(&LEASES, &self.namespace, &self.name, "", crate::PatchKind::Merge, body)
        };
        match self.send(call).await.map(|bytes| record(&bytes)) {
            Ok(Some(written)) => self.candidate.written(now, clock::now(), written),
            Ok(None) => self.failed(now, "the answer cannot be understood"),
            Err(error) => self.failed(now, &error.to_string()),
        }
    }

    fn failed(&mut self, now: Timestamp, why: &str) {
        warn!(lease = %self.name, why, "the lease could not be read or written");
        self.candidate.failed(now);
    }

    async fn release(&mut self) {
        let now = clock::now();
        if !self.candidate.holds(now) {
            return;
        }
        let _ = self.told.send(None);
        if let LeaseAction::Write { transitions, resource_version, .. } =
            self.candidate.next(Timestamp::from_millis(i64::MAX))
        {
            let body = self.body(now, "", transitions, &resource_version, false);
            let call = Call::patch(&LEASES, &self.namespace, &self.name, "", crate::PatchKind::Merge, body);
            // If it fails, the next one waits until the lease is over.
            let _ = self.send(call).await;
        }
        self.candidate.released();
    }

    fn body(&self, now: Timestamp, holder: &str, transitions: i64, version: &str, acquire: bool) -> Vec<u8> {
        let time = micro_time(now);
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        if !version.is_empty() {
            metadata["resourceVersion"] = version.into();
        }
        let mut spec = json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": (self.options.duration_ms / 1_000).max(1),
            "renewTime": time,
            "leaseTransitions": transitions,
        });
        if acquire {
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
