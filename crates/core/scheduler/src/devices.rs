//! Devices for a pod on one of some nodes.

use alloc::{sync::Arc, vec::Vec};

use lazaret_allocator::{
    AllocateError, Allocator, Found, NodeGroup, NodeSearch, Options, Overlay, TimedTolerations,
};
use lazaret_fleet::Snapshot;
use lazaret_model::{Allocation, ObjectKey, Request, RequestKind, ResourceClaim, Text, Uid};

use crate::{
    Mapping, Pod,
    extended::{self, ClassesByResource},
    flight::ExtendedClaim,
    nodes::NodeState,
    share::ShareIds,
};

/// No claim can have this name: it stands for one that is yet to be made.
const UNMADE: &str = "<extended-resources>";

/// Nodes on which alternatives are compared at most.
const ALTERNATIVES_TRIED_MAX: usize = 16;

/// The inputs of a search for devices.
pub(crate) struct Devices<'a> {
    pub(crate) allocator: &'a mut Allocator,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) overlay: &'a Overlay,
    /// The pod's claims that have nothing yet.
    pub(crate) open: &'a [Arc<ResourceClaim>],
    pub(crate) extended: ExtendedNeed<'a>,
    pub(crate) prefer_healthy: bool,
    pub(crate) timed_tolerations: TimedTolerations,
    pub(crate) ids: ShareIds<'a>,
}

/// The result of a search.
pub(crate) enum SearchResult<T> {
    /// It can be had there.
    On(T),
    /// On none of the nodes, for these reasons.
    Nowhere(Vec<NodeGroup>),
    /// The units are spent. Some were refused for these reasons, and these are to be tried yet.
    Unfinished(Vec<NodeGroup>, Vec<Text>),
}

/// Resources that devices can stand in for.
#[derive(Clone, Copy)]
pub(crate) struct ExtendedNeed<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) resources: &'a [Text],
    pub(crate) delegated: &'a ClassesByResource,
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
struct ResourceGroup<'a> {
    resources: Vec<Text>,
    nodes: Vec<&'a NodeState>,
}

impl Devices<'_> {
    // DEVIATION(rank-before-devices): Kubernetes allocates on every node of the sample before it compares them.
    /// The first of the nodes on which all that is needed can be had, or why on none.
    pub(crate) fn choose<'n>(
        &mut self,
        nodes: &[&'n NodeState],
    ) -> Result<SearchResult<Chosen<'n>>, AllocateError> {
        let mut refused = Vec::new();
        let mut groups = self.group_by_resources(nodes).into_iter();
        while let Some(group) = groups.next() {
            let made = self.planned_claim(&group.resources);
            let mut claims = self.open.to_vec();
            claims.extend(made.as_ref().map(|(claim, _)| claim.clone()));
            if let Some(first) = group.nodes.first().filter(|_| claims.is_empty()) {
                return Ok(SearchResult::On(Chosen::bare(first)));
            }
            match self.find_best(&group.nodes, &claims)? {
                SearchResult::On((node, allocations)) => {
                    return Ok(SearchResult::On(chosen(node, allocations, made)));
                }
                SearchResult::Nowhere(groups) => refused.extend(groups),
                SearchResult::Unfinished(some, mut left) => {
                    refused.extend(some);
                    left.extend(groups.flat_map(|group| names(&group.nodes)));
                    return Ok(SearchResult::Unfinished(refused, left));
                }
            }
        }
        Ok(SearchResult::Nowhere(refused))
    }

    /// The first of the nodes that has the devices; where requests have alternatives, of some that have them the one
    /// with the better alternatives.
    fn find_best<'n>(
        &mut self,
        nodes: &[&'n NodeState],
        claims: &[Arc<ResourceClaim>],
    ) -> Result<SearchResult<(&'n NodeState, Vec<Allocation>)>, AllocateError> {
        let mut best: Option<(i64, &'n NodeState, Vec<Allocation>)> = None;
        let mut rest = nodes;
        for _ in 0..ALTERNATIVES_TRIED_MAX {
            match self.find(rest, claims) {
                Found::Node { index, allocations } => {
                    let missed = missed(claims, &allocations);
                    let node = rest[index];
                    if best.as_ref().is_none_or(|(least, ..)| missed < *least) {
                        best = Some((missed, node, allocations));
                    }
                    rest = &rest[index + 1..];
                    if missed == 0 || rest.is_empty() {
                        break;
                    }
                }
                Found::Nowhere(groups) if best.is_none() => return Ok(SearchResult::Nowhere(groups)),
                Found::Nowhere(_) => break,
                Found::Failed(error) if best.is_none() => return Err(error),
                Found::Failed(_) => break,
                Found::Unfinished { tried, refused } if best.is_none() => {
                    return Ok(SearchResult::Unfinished(refused, names(&rest[tried..])));
                }
                Found::Unfinished { .. } => break,
            }
        }
        Ok(match best {
            Some((_, node, allocations)) => SearchResult::On((node, allocations)),
            None => SearchResult::Nowhere(Vec::new()),
        })
    }

    // DEVIATION(allocator-budget): a search ends after a number of steps, not after a time.
    fn find(&mut self, nodes: &[&NodeState], claims: &[Arc<ResourceClaim>]) -> Found {
        let facts: Vec<_> =
            nodes.iter().filter_map(|state| state.node.as_ref().map(|node| node.facts.clone())).collect();
        let options = Options {
            prefer_healthy: self.prefer_healthy,
            timed_tolerations: self.timed_tolerations,
            ..Options::default()
        };
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
    fn group_by_resources<'n>(&self, nodes: &[&'n NodeState]) -> Vec<ResourceGroup<'n>> {
        if self.extended.resources.is_empty() {
            return [ResourceGroup { resources: Vec::new(), nodes: nodes.to_vec() }].into();
        }
        let mut found: Vec<ResourceGroup<'n>> = Vec::new();
        for &state in nodes {
            let lacks =
                |name: &&Text| state.node.as_ref().is_some_and(|node| node.allocatable.other(name) == 0);
            let resources: Vec<Text> = self.extended.resources.iter().filter(lacks).cloned().collect();
            match found.iter_mut().find(|known| known.resources == resources) {
                Some(known) => known.nodes.push(state),
                None => found.push(ResourceGroup { resources, nodes: [state].into() }),
            }
        }
        found
    }

    /// The claim that would have to be made.
    fn planned_claim(&self, resources: &[Text]) -> Option<(Arc<ResourceClaim>, Arc<[Mapping]>)> {
        if resources.is_empty() {
            return None;
        }
        let pod = self.extended.pod;
        let (spec, mappings) = extended::requests(pod, resources, self.extended.delegated);
        let claim = ResourceClaim {
            key: ObjectKey { namespace: pod.key.namespace.clone(), name: UNMADE.into() },
            uid: planned_claim_uid(pod),
            extended_resource: true,
            spec: Arc::new(spec),
            ..ResourceClaim::default()
        };
        (!claim.spec.requests.is_empty()).then(|| (Arc::new(claim), mappings.into()))
    }
}

fn names(nodes: &[&NodeState]) -> Vec<Text> {
    nodes.iter().map(|state| state.name.clone()).collect()
}

/// How far the alternatives that were taken are from the first ones, in sum.
fn missed(claims: &[Arc<ResourceClaim>], allocations: &[Allocation]) -> i64 {
    let of = |request: &Request, allocation: &Allocation| {
        let RequestKind::FirstAvailable(alternatives) = &request.kind else { return 0 };
        let taken = |at: &usize| {
            let name = alloc::format!("{}/{}", request.name, alternatives[*at].name);
            allocation.results.iter().any(|result| result.request == *name)
        };
        (0..alternatives.len()).find(taken).and_then(|at| i64::try_from(at).ok()).unwrap_or(0)
    };
    let pairs = claims.iter().zip(allocations);
    pairs.flat_map(|(claim, given)| claim.spec.requests.iter().map(move |request| of(request, given))).sum()
}

/// Under which the devices of a claim are held as long as it is not made.
fn planned_claim_uid(pod: &Pod) -> Uid {
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
        planned_claim_uid: claim.uid.clone(),
        spec: claim.spec.clone(),
        mappings,
        allocation: Arc::new(allocation),
        made: None,
    });
    Chosen { node, allocations, extended }
}
