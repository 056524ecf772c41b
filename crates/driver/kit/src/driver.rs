//! The trait that a driver's author implements.

use std::fmt;

use crate::{AllocatedDevice, Claim, ClaimRef, DeviceMetadata, Observation};

/// A driver: what is known of the hardware.
///
/// Calls of `prepare` and `unprepare` never overlap, unless [`Kit::serialize`](crate::Kit::serialize) is turned off; with
/// a rolling update, not even those of two instances. A call that was begun is finished, even if kubelet stops waiting.
pub trait Driver: Send + Sync + 'static {
    /// Makes the devices of these claims usable: one result for each claim, in their order.
    ///
    /// It may be called again for a claim that is prepared, and must then answer the same: kubelet restarts, a second pod
    /// uses the claim, or another driver of the claim failed.
    fn prepare(
        &self,
        claims: &[Claim],
    ) -> impl Future<Output = Vec<Result<Vec<PreparedDevice>, Failure>>> + Send;

    /// Undoes `prepare`: one result for each claim, in their order.
    ///
    /// The claim may be gone from the API, may never have been prepared, or may be unprepared already: that is a success.
    fn unprepare(&self, claims: &[ClaimRef]) -> impl Future<Output = Vec<Result<(), Failure>>> + Send;

    /// Looks at the devices. Called at the start, and then again and again
    /// ([`Kit::health_interval`](crate::Kit::health_interval)).
    ///
    /// While this does not return, kubelet receives no report, and shows the devices as unknown after a while.
    fn health(&self) -> impl Future<Output = HealthReport> + Send {
        std::future::ready(HealthReport::NotMonitored)
    }
}

/// The result of [`Driver::health`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthReport {
    /// This driver does not look at its devices.
    NotMonitored,
    /// Observations of all devices, or of some: the others stay as they are.
    Observed(Vec<Observation>),
}

/// A device that is ready for use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreparedDevice {
    /// The requests of the claim that it is for, as `request` or `request/subrequest`; all, if there are none.
    pub requests: Vec<String>,
    /// Its pool.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// Qualified CDI names that a container with this device needs. May be empty.
    pub cdi_ids: Vec<String>,
    /// Of a device that is shared, which share.
    pub share_id: Option<String>,
    /// The metadata that containers can read, where [`Kit::device_metadata`](crate::Kit::device_metadata) is on.
    pub metadata: Option<DeviceMetadata>,
}

impl PreparedDevice {
    /// A device as it was allocated, without CDI names.
    #[must_use]
    pub fn of(device: &AllocatedDevice) -> Self {
        Self {
            requests: vec![device.request_ref()],
            pool: device.pool.clone(),
            device: device.device.clone(),
            cdi_ids: Vec::new(),
            share_id: device.share_id.clone(),
            metadata: None,
        }
    }

    /// The same, with a CDI name.
    #[must_use]
    pub fn with_cdi(mut self, id: impl Into<String>) -> Self {
        self.cdi_ids.push(id.into());
        self
    }

    /// The same, with what containers can read of it.
    #[must_use]
    pub fn with_metadata(self, metadata: DeviceMetadata) -> Self {
        Self { metadata: Some(metadata), ..self }
    }
}

/// Why a claim could not be prepared or unprepared. Users read it in an event of the pod; kubelet tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    why: String,
    pub(crate) holder: Option<Holder>,
}

/// The claim that has what another one wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) device: String,
    pub(crate) claim_uid: String,
}

impl Failure {
    /// With this reason.
    #[must_use]
    pub fn new(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), holder: None }
    }

    /// A device, or a part of it, is in use by another claim, and nothing was done for this one. The kit sees to it that a device has one claim; what
    /// overlaps with it only the driver knows. The kit puts the name of the claim in the place of its UID, and writes events for its pods.
    #[must_use]
    pub fn in_use(device: impl fmt::Display, claim_uid: impl Into<String>) -> Self {
        let holder = Holder { device: device.to_string(), claim_uid: claim_uid.into() };
        let why = format!("{} is in use by claim {}", holder.device, holder.claim_uid);
        Self { why, holder: Some(holder) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}
