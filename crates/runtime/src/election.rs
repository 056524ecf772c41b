//! Holds a Lease for this process.

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::coordination::v1::Lease;
use lazaret_model::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    Call, CallError, Candidate, Client, Clock, LEASES, LeaseAction, LeaseOptions, LeaseRecord, Metrics, Term,
    panics::caught, tasks::Restarts,
};

/// A term, and when it ends at the latest by the wall clock. Durations are measured by the monotonic clock, which nobody can set; but it stands
/// still while the machine is suspended, and the lease does not.
#[derive(Clone, Copy, Debug)]
struct Held {
    term: Term,
    ends: Timestamp,
}

impl Held {
    fn lasts(&self, clock: &Clock) -> bool {
        self.term.lasts(clock.monotonic()) && clock.wall() < self.ends
    }

    fn may_go_on(&self, clock: &Clock) -> bool {
        self.term.may_go_on(clock.monotonic())
    }
}

/// Whether this process may act, and in which term. Clones share the answer.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` where nobody competes.
    rivalled: Option<Rivalled>,
}

#[derive(Clone, Debug)]
struct Rivalled {
    held: watch::Receiver<Option<Held>>,
    clock: Clock,
}

impl Leadership {
    /// For who has no rival: it always leads.
    #[must_use]
    pub fn unrivalled() -> Self {
        Self { rivalled: None }
    }

    /// Whether others may act when this process does not.
    #[must_use]
    pub fn is_rivalled(&self) -> bool {
        self.rivalled.is_some()
    }

    /// The number of the term in which this process may act now. Never out of date: a term that was not renewed in time is
    /// over, even if nobody has had the time to say so.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        match &self.rivalled {
            None => Some(0),
            Some(Rivalled { held, clock }) => {
                held.borrow().filter(|held| held.lasts(clock)).map(|held| held.term.number)
            }
        }
    }

    /// The number of the term in which this process may act now, or may act again once a renewal that is late succeeds. While it is there and
    /// [`term`](Self::term) is not, nothing is begun, and nothing that was begun is given up.
    #[must_use]
    pub fn standing(&self) -> Option<u64> {
        match &self.rivalled {
            None => Some(0),
            Some(Rivalled { held, clock }) => {
                held.borrow().filter(|held| held.may_go_on(clock)).map(|held| held.term.number)
            }
        }
    }

    /// Whether it leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.term().is_some()
    }

    /// Waits until a term begins, pauses, goes on or ends.
    pub(crate) async fn changed(&mut self) {
        if let Some(Rivalled { held, .. }) = &mut self.rivalled
            && held.changed().await.is_ok()
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
    /// When the wall clock ends the term.
    ends: Timestamp,
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
        let candidate = Candidate::new(identity, options);
        let rivalled = Rivalled { held: term, clock: client.clock().clone() };
        let leader = Self {
            client,
            namespace: namespace.into(),
            name: name.into(),
            candidate,
            ends: Timestamp::EPOCH,
            told,
        };
        (leader, Leadership { rivalled: Some(rivalled) })
    }

    /// Runs until `stop`, then gives the lease back.
    pub async fn run(mut self, metrics: Metrics, stop: watch::Receiver<bool>) {
        let mut restarts = Restarts::new(format!("lease/{}", self.name), metrics);
        while let Err(panic) = caught(self.compete(stop.clone())).await {
            // It does not know whether it wrote: it leads no more before it has read the lease again.
            self.candidate.lapse();
            self.tell(self.client.clock().monotonic());
            restarts.pause(&panic).await;
        }
    }

    async fn compete(&mut self, mut stop: watch::Receiver<bool>) {
        let clock = self.client.clock().clone();
        while !*stop.borrow() {
            let now = clock.monotonic();
            if self.candidate.holds(now) && clock.wall() >= self.ends {
                self.candidate.lapse();
            }
            self.tell(now);
            let until = match self.candidate.next(now) {
                LeaseAction::Read => {
                    self.read().await;
                    continue;
                }
                LeaseAction::Write { transitions, resource_version, acquire } => {
                    self.write(now, transitions, &resource_version, acquire).await;
                    continue;
                }
                LeaseAction::Wait(until) => until,
            };
            let wait = Duration::from_millis(until.millis_since(now).max(0).unsigned_abs());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Leading may end before there is anything to do.
                () = tokio::time::sleep(Duration::from_millis(500)), if self.candidate.holds(now) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        self.release().await;
    }

    /// Nobody is woken for a renewal that is in time.
    fn tell(&self, now: Timestamp) {
        let held = self.candidate.standing(now).map(|term| Held { term, ends: self.ends });
        let clock = self.client.clock();
        self.told.send_if_modified(|before| {
            let number = held.map(|held| held.term.number);
            let changed = before.map(|held| held.term.number) != number;
            if changed {
                info!(lease = %self.name, identity = self.candidate.identity(), term = number, "leadership");
            }
            // Those who act may have seen that it was late, and wait.
            let was_late = before.is_some_and(|held| !held.lasts(clock));
            *before = held;
            changed || was_late && held.is_some_and(|held| held.lasts(clock))
        });
    }

    /// An answer that comes after the lease is over is of no use.
    async fn send(&self, call: Call) -> Result<Bytes, CallError> {
        let patience = Duration::from_millis(self.candidate.renew_deadline_ms().max(0).unsigned_abs());
        match tokio::time::timeout(patience, self.client.send(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Unknown("no answer in time".into())),
        }
    }

    /// Whoever waits is content with what the server remembers: a lease is replaced only at the version that was read.
    async fn read(&mut self) {
        let call = if self.candidate.standing(self.client.clock().monotonic()).is_some() {
            Call::get(&LEASES, &self.namespace, &self.name)
        } else {
            Call::get_at(format!("{}?resourceVersion=0", LEASES.path(&self.namespace, &self.name, "")))
        };
        let read = self.send(call).await;
        let now = self.client.clock().monotonic();
        match read.map(|bytes| record(&bytes)) {
            Ok(Some(found)) => self.candidate.read(now, Some(found)),
            Err(CallError::NotFound(_)) => self.candidate.read(now, None),
            Ok(None) => self.failed(now, "it cannot be understood"),
            Err(error) => self.failed(now, &error.to_string()),
        }
    }

    async fn write(&mut self, now: Timestamp, transitions: i64, version: &str, acquire: bool) {
        let wall = self.client.clock().wall();
        let body = self.body(wall, self.candidate.identity(), transitions, version, acquire);
        let call = if version.is_empty() {
            Call::create(&LEASES, &self.namespace, body)
        } else {
            Call::patch(&LEASES, &self.namespace, &self.name, "", crate::PatchKind::Merge, body)
        };
        let ends = wall.plus_millis(self.candidate.renew_deadline_ms());
        match self.send(call).await.map(|bytes| record(&bytes)) {
            Ok(Some(written)) => {
                self.candidate.written(now, self.client.clock().monotonic(), written);
                self.ends = ends;
            }
            Ok(None) => self.failed(now, "the answer cannot be understood"),
            Err(error) => self.failed(now, &error.to_string()),
        }
    }

    fn failed(&mut self, now: Timestamp, why: &str) {
        warn!(lease = %self.name, why, "the lease could not be read or written");
        self.candidate.failed(now);
    }

    async fn release(&mut self) {
        if !self.candidate.holds(self.client.clock().monotonic()) {
            return;
        }
        let _ = self.told.send(None);
        if let LeaseAction::Write { transitions, resource_version, .. } =
            self.candidate.next(Timestamp::from_millis(i64::MAX))
        {
            let body = self.body(self.client.clock().wall(), "", transitions, &resource_version, false);
            let call = Call::patch(&LEASES, &self.namespace, &self.name, "", crate::PatchKind::Merge, body);
            // If it fails, the next one waits until the lease is over.
            let _ = self.send(call).await;
        }
        self.candidate.released();
    }

    fn body(&self, wall: Timestamp, holder: &str, transitions: i64, version: &str, acquire: bool) -> Vec<u8> {
        let time = micro_time(wall);
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        if !version.is_empty() {
            metadata["resourceVersion"] = version.into();
        }
        let mut spec = json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": (self.candidate.duration_ms().saturating_add(999) / 1_000).max(1),
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
