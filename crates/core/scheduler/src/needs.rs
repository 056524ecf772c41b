//! A pod's claims as far as they concern where it can go, and the place that was found.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use lazaret_model::{Allocation, ObjectKey, ResourceClaim, Text};

use crate::{Amounts, Claim, filter::Usable, flight::ExtendedClaim, shares::Footprint};

/// Where a pod goes and what it gets.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) node: Text,
    /// Its claims, each with the devices it is to get if it has none.
    pub(crate) claims: Vec<(Arc<Claim>, Option<Allocation>)>,
    /// The claim to be made for it.
    pub(crate) extended: Option<ExtendedClaim>,
    /// The amounts that its claims take of the node.
    pub(crate) footprint: Option<Footprint>,
}

/// A placement that counts and of which nothing is written.
pub(crate) struct AssumedPlacement {
    /// The claims that are to be written.
    pub(crate) reserving: BTreeSet<ObjectKey>,
}

/// A pod's claims, as far as they concern where it can go.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) claims: Vec<Arc<Claim>>,
    /// The allocations of allocated claims, by claim.
    pub(crate) allocations: Vec<Option<Arc<Allocation>>>,
    /// Resources that devices can stand in for where nodes have none of their own.
    pub(crate) extended: Vec<Text>,
    /// The amounts that the allocated claims take of the node.
    pub(crate) footprint: Option<Footprint>,
}

impl Needs {
    /// The amounts that the claims take of the node beside the pod's requests, as far as is known before a node is chosen.
    pub(crate) fn extra(&self) -> Option<&Amounts> {
        self.footprint.as_ref().map(|footprint| &*footprint.extra)
    }

    /// The allocations of all claims, with those that were found for open ones, in order.
    pub(crate) fn all<'a>(
        &'a self,
        found: &'a [Allocation],
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Allocation)> {
        let mut found = found.iter();
        self.claims.iter().zip(&self.allocations).filter_map(move |(claim, given)| {
            let allocation = match given {
                Some(given) => Some(&**given),
                None => found.next(),
            };
            allocation.map(|allocation| (&claim.claim.key, allocation))
        })
    }

    /// The claims that have nothing yet.
    pub(crate) fn open(&self) -> Vec<Arc<ResourceClaim>> {
        let claims = self.claims.iter().zip(&self.allocations);
        claims.filter(|(_, given)| given.is_none()).map(|(claim, _)| claim.claim.clone()).collect()
    }

    /// Where the others can be used.
    pub(crate) fn usable(&self) -> Usable<'_> {
        Usable::of(self.allocations.iter().flatten().map(|given| &**given))
    }
}
