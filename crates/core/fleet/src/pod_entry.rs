//! A pod in the fleet, and the claims that it names.

use alloc::sync::Arc;

use lazaret_model::{ClaimSource, Pod, Text};

use crate::few::Few;

/// A pod, as a small number. Stable while the pod (by UID) exists; not given to another before
/// [`Fleet::take_changes`](crate::Fleet::take_changes) has reported it gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIx(pub u32);

#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) pod: Arc<Pod>,
    /// Claims that it uses, ascending.
    pub(crate) claims: Few<u32>,
    /// The names of claims that it has in its spec, used or not, by number, in the order of the spec.
    pub(crate) names: Few<u32>,
    pub(crate) noted: bool,
}

impl PodEntry {
    /// The numbers of the names in its spec, each with how it comes to the claim.
    pub(crate) fn named(&self) -> impl Iterator<Item = (u32, Via)> {
        self.names.iter().copied().zip(claim_names(&self.pod).map(|(_, via)| via))
    }
}

/// How a pod comes to name a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By the claim's name.
    Name,
    /// From a template: the claim must belong to the pod or its group.
    Template,
    /// For extended resources: the claim must belong to the pod.
    Extended,
}

/// The claims that a pod names, with how it comes to them.
pub(crate) fn claim_names(pod: &Pod) -> impl Iterator<Item = (&Text, Via)> {
    let listed = pod.claims.iter().filter_map(|entry| match &entry.source {
        ClaimSource::Claim(name) => Some((name, Via::Name)),
        ClaimSource::Template { resolved: Some(Some(name)), .. } => Some((name, Via::Template)),
        ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => None,
    });
    // DEVIATION(extended-resource-eviction).
    listed.chain(pod.extended_claim.as_ref().map(|name| (name, Via::Extended)))
}
