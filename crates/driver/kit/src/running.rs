//! A driver that runs.

use std::{sync::Arc, time::Duration};

use thiserror::Error;
use tokio::sync::{Mutex, mpsc, watch};
use tracing::warn;

use crate::{
    ClaimRef, MetadataError, PreparedDevice, ProbeError, Publisher, Sockets, calls::Calls,
    metadata::MetadataFiles, probe, sockets::Bound, tasks::Tasks,
};

/// How long answers may take to reach kubelet when a driver ends.
pub(crate) const ANSWERS_MAX: Duration = Duration::from_secs(1);
/// Problems that were not read.
const PROBLEMS_MAX: usize = 64;

/// The state of the registration with kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// It has not asked yet.
    Waiting,
    /// It will call.
    Registered,
    /// It will not call, and this is why.
    Refused(String),
}

/// Something that is worth knowing and does not end the driver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Of publishing.
    #[error("{0}")]
    Publish(lazaret_publisher::Problem),
    /// Slices cannot be listed or watched, so nothing is published. It is tried again.
    #[error("the slices of this driver cannot be read, and none is written: {0}")]
    Watch(String),
    /// [`Driver::health`](crate::Driver::health) has not returned for too long.
    #[error("the health of the devices is not known any more")]
    StaleHealth,
}

/// The queue of problems. When they are not read, the newest are only logged.
#[derive(Clone, Debug)]
pub(crate) struct Problems(mpsc::Sender<Problem>);

impl Problems {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Problem>) {
        let (sender, receiver) = mpsc::channel(PROBLEMS_MAX);
        (Self(sender), receiver)
    }

    pub(crate) fn report(&self, problem: Problem) {
        warn!(%problem);
        let _ = self.0.try_send(problem);
    }
}

/// The registration socket, and what kubelet said on it.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) _socket: Bound,
    pub(crate) status: watch::Receiver<Registration>,
}

/// A driver that runs. It ends when this is dropped; [`stop`](Self::stop) lets calls in flight finish first.
#[derive(Debug)]
pub struct Running {
    pub(crate) name: String,
    pub(crate) sockets: Sockets,
    /// In the order in which they go: kubelet should look for another instance before this one stops answering.
    pub(crate) registered: Registered,
    pub(crate) service_socket: Bound,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) servers: Tasks,
    pub(crate) _background: Tasks,
    pub(crate) calls: Arc<Calls>,
    pub(crate) problems: Mutex<mpsc::Receiver<Problem>>,
    pub(crate) publisher: Publisher,
    pub(crate) metadata: Option<Arc<MetadataFiles>>,
}

impl Running {
    /// Publishes devices.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Where it listens.
    #[must_use]
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The state of the registration with kubelet.
    #[must_use]
    pub fn registration(&self) -> watch::Receiver<Registration> {
        self.registered.status.clone()
    }

    /// Writes the metadata file of a request anew, under its next generation: when something of the devices became known
    /// after the claim was prepared. `devices` are those that `prepare` gave for it.
    ///
    /// # Errors
    /// When the request is not prepared, or its file cannot be written.
    pub fn update_metadata(
        &self,
        claim: &ClaimRef,
        request: &str,
        devices: &[PreparedDevice],
    ) -> Result<(), MetadataError> {
        self.metadata.as_ref().ok_or(MetadataError::Off)?.update(claim, request, devices)
    }

    /// The next problem. All are logged too.
    pub async fn problem(&self) -> Option<Problem> {
        self.problems.lock().await.recv().await
    }

    /// Whether it answers, asked from outside.
    ///
    /// # Errors
    /// When it does not answer, or another driver does.
    pub async fn probe(&self) -> Result<(), ProbeError> {
        probe(&self.name, &self.sockets).await
    }

    /// Ends it: the registration socket is removed, by which kubelet notices, calls in flight are answered, then the service ends.
    /// Slices stay: another instance takes over, or kubelet removes them after a while.
    pub async fn stop(self) {
        let Self { registered, service_socket, mut servers, closing, calls, _background, .. } = self;
        drop(registered);
        calls.drain().await;
        closing.send_replace(true);
        // A peer that does not read its answer is not waited for.
        let _ = tokio::time::timeout(ANSWERS_MAX, servers.join()).await;
        drop(service_socket);
    }
}
