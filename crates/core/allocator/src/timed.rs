//! Tolerations that end: a claim that tolerates a NoExecute taint for some seconds can have the device, and its pods are evicted when the
//! seconds are over.
//!
//! Kubernetes' allocator does not look at the seconds. It gives such a device out again as soon as the pod was evicted, and again after that.

use alloc::sync::Arc;

use lazaret_model::{
    DeviceRequest, Effect, Patience, RequestKind, ResourceClaim, Taint, Timestamp, Toleration, patience,
    tolerates,
};

// DEVIATION(timed-tolerations): Kubernetes has `LikeAnyOther` alone.
/// How a toleration with `tolerationSeconds` counts when devices are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimedTolerations {
    /// As much as one without: what Kubernetes does.
    #[default]
    LikeAnyOther,
    /// Nothing: to look first for devices that the pod can keep.
    Ignored,
    /// Such a device comes after all others, and not at all from this instant's view once the seconds since the taint was set are over.
    LastUntilOver(Timestamp),
}

impl TimedTolerations {
    /// Whether a claim with these tolerations can be given a device with this taint.
    #[must_use]
    pub fn permit(self, taint: &Taint, tolerations: &[Toleration]) -> bool {
        if !tolerations.iter().any(|toleration| tolerates(toleration, taint)) {
            return false;
        }
        match (self, patience(taint, tolerations)) {
            (Self::LikeAnyOther, _) | (_, Patience::Forever) => true,
            // Seconds mean something for taints that evict, and for no others.
            _ if !taint.effect.evicts() => true,
            (Self::Ignored, Patience::Seconds(_)) => false,
            (Self::LastUntilOver(now), ends @ Patience::Seconds(_)) => {
                ends.ends(taint.time_added.unwrap_or(now)) > now
            }
        }
    }

    /// Whether two devices with the same taints can differ by when these were set.
    pub(crate) fn depend_on_time(self) -> bool {
        matches!(self, Self::LastUntilOver(_))
    }
}

/// Whether some request of these claims has a toleration that ends: then it matters what such tolerations are worth.
#[must_use]
pub fn have_timed_tolerations(claims: &[Arc<ResourceClaim>]) -> bool {
    let ends = |request: &DeviceRequest| request.tolerations.iter().any(is_timed);
    claims.iter().flat_map(|claim| &claim.spec.requests).any(|request| match &request.kind {
        RequestKind::Exactly(request) => ends(request),
        RequestKind::FirstAvailable(alternatives) => alternatives.iter().any(ends),
        RequestKind::Unknown => false,
    })
}

/// Whether the taint is tolerated for a time only.
pub(crate) fn is_tolerated_for_a_time(taint: &Taint, tolerations: &[Toleration]) -> bool {
    taint.effect.evicts()
        && tolerations.iter().any(|toleration| tolerates(toleration, taint))
        && patience(taint, tolerations) != Patience::Forever
}

fn is_timed(toleration: &Toleration) -> bool {
    toleration.seconds.is_some()
        && toleration.effect.as_ref().is_none_or(|effect| matches!(effect, Effect::NoExecute))
}
