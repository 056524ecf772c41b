//! Devices for a pod on one of some nodes.

use alloc::{sync::Arc, vec::Vec};

use lazaret_allocator::{AllocateError, Allocator, Found, NodeGroup, NodeSearch, Options, Overlay};
use lazaret_fleet::Snapshot;
use lazaret_model::{Allocation, ObjectKey, ResourceClaim, Text, Uid};

use crate::{
    Mapping, Pod,
    extended::{self, Delegated},
    flight::ExtendedClaim,
    nodes::NodeState,
    share::ShareIds,
};

/// No claim can have this name: it stands for one that is yet to be made.
const UNMADE: &str = "<extended-resources>";

/// What to look with, and for what.
pub(crate) struct Devices<'a> {
    pub(crate) allocator: &'a mut Allocator,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) overlay: &'a Overlay,
    /// The pod's claims that have nothing yet.
    pub(crate) open: &'a [Arc<ResourceClaim>],
    pub(crate) extended: ExtendedNeed<'a>,
    pub(crate) prefer_healthy: bool,
    pub(crate) ids: ShareIds<'a>,
}

/// Resources that devices can stand in for.
#[derive(Clone, Copy)]
pub(crate) struct ExtendedNeed<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) resources: &'a [Text],
    pub(crate) delegated: &'a Delegated,
}

/// A node, and what the pod gets there.
pub(crate) struct Chosen<'a> {
    pub(crate) node: &'a NodeState,
    /// For each open claim, in order.
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) extended: Option<ExtendedClaim>,
}

impl<'a> Chosen<'a> {
    /// Just the node.
    pub(crate) fn bare(node: &'a NodeState) -> Self {
        Self { node, allocations: Vec::new(), extended: None }
    }
}

/// Nodes on which devices stand in for the same resources.
struct Alike<'a> {
    resources: Vec<Text>,
    nodes: Vec<&'a NodeState>,
}

impl Devices<'_> {
    /// The first of the nodes on which all that is needed can be had, or why on none.
    pub(crate) fn choose<'n>(
        &mut self,
        nodes: &[&'n NodeState],
    ) -> Result<Result<Chosen<'n>, Vec<NodeGroup>>, AllocateError> {
        let mut refused = Vec::new();
        for alike in self.alike(nodes) {
            let made = self.unmade(&alike.resources);
            let mut claims = self.open.to_vec();
            claims.extend(made.as_ref().map(|(claim, _)| claim.clone()));
            let Some(first) = alike.nodes.first().filter(|_| claims.is_empty()) else {
                match self.find(&alike.nodes, &claims) {
                    Found::Node { index, allocations } => {
                        return Ok(Ok(chosen(alike.nodes[index], allocations, made)));
                    }
                    Found::Nowhere(groups) => refused.extend(groups),
                    Found::Failed(error) => return Err(error),
                }
                continue;
            };
            return Ok(Ok(Chosen::bare(first)));
        }
        Ok(Err(refused))
    }

    fn find(&mut self, nodes: &[&NodeState], claims: &[Arc<ResourceClaim>]) -> Found {
        let facts: Vec<_> =
            nodes.iter().filter_map(|state| state.node.as_ref().map(|node| node.facts.clone())).collect();
        let options = Options { prefer_healthy: self.prefer_healthy, ..Options::default() };
        let search = NodeSearch {
            snapshot: self.snapshot,
            nodes: &facts,
            claims,
            in_flight: self.overlay,
            options: &options,
        };
        self.allocator.find_node(&search, &mut || self.ids.next())
    }

    /// The nodes by the resources that devices must stand in for there; those of the best node first.
    fn alike<'n>(&self, nodes: &[&'n NodeState]) -> Vec<Alike<'n>> {
        if self.extended.resources.is_empty() {
            return [Alike { resources: Vec::new(), nodes: nodes.to_vec() }].into();
        }
        let mut found: Vec<Alike<'n>> = Vec::new();
        for &state in nodes {
            let lacks =
                |name: &&Text| state.node.as_ref().is_some_and(|node| node.allocatable.other(name) == 0);
            let resources: Vec<Text> = self.extended.resources.iter().filter(lacks).cloned().collect();
            match found.iter_mut().find(|known| known.resources == resources) {
                Some(known) => known.nodes.push(state),
                None => found.push(Alike { resources, nodes: [state].into() }),
            }
        }
        found
    }

    /// The claim that would have to be made.
    fn unmade(&self, resources: &[Text]) -> Option<(Arc<ResourceClaim>, Arc<[Mapping]>)> {
        if resources.is_empty() {
            return None;
        }
        let pod = self.extended.pod;
        let (spec, mappings) = extended::requests(pod, resources, self.extended.delegated);
        let claim = ResourceClaim {
            key: ObjectKey { namespace: pod.key.namespace.clone(), name: UNMADE.into() },
            uid: stand_in(pod),
            extended_resource: true,
            spec: Arc::new(spec),
            ..ResourceClaim::default()
        };
        (!claim.spec.requests.is_empty()).then(|| (Arc::new(claim), mappings.into()))
    }
}

/// Under which the devices of a claim are held as long as it is not made.
fn stand_in(pod: &Pod) -> Uid {
    alloc::format!("{UNMADE}{}", pod.uid).into()
}

fn chosen<'n>(
    node: &'n NodeState,
    mut allocations: Vec<Allocation>,
    made: Option<(Arc<ResourceClaim>, Arc<[Mapping]>)>,
) -> Chosen<'n> {
    // The claim that is to be made was asked for last.
    let last = if made.is_some() { allocations.pop() } else { None };
    let extended = made.zip(last).map(|((claim, mappings), allocation)| ExtendedClaim {
        stand_in: claim.uid.clone(),
        spec: claim.spec.clone(),
        mappings,
        allocation: Arc::new(allocation),
        made: None,
    });
    Chosen { node, allocations, extended }
}
