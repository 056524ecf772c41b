//! From devices that were picked to the allocation that goes into a claim.

use alloc::vec::Vec;

use lazaret_model::{Allocation, DeviceResult, NodeScope, Text};

use crate::{
    config::{self, Chosen},
    error::{AllocateError, ErrorKind},
    reachable,
    search::Search,
    state::Pick,
};

/// One allocation for each claim, in order.
pub(crate) fn allocations(
    search: &Search<'_, '_>,
    share_id: &mut dyn FnMut() -> Text,
) -> Result<Vec<Allocation>, AllocateError> {
    let plan = search.state.plan;
    let mut allocations = Vec::with_capacity(plan.claims.len());
    for (at, claim) in plan.claims.iter().enumerate() {
        let picks = || search.state.picks.iter().filter(move |pick| plan.asks[pick.ask].claim == at);
        let chosen: Vec<Chosen<'_>> = search.chosen[at]
            .iter()
            .map(|&ask| &plan.asks[ask])
            .map(|ask| Chosen { request: ask.name, alternative: ask.alternative, class: &ask.class.class })
            .collect();
        let scopes = picks().map(|pick| scope(search, pick));
        let node_selector = reachable::common(scopes, &search.state.view.node.name).map_err(|terms| {
            AllocateError::fatal(ErrorKind::NodeSelectorTerms { claim: claim.claim.key.clone(), terms })
        })?;
        allocations.push(Allocation {
            results: picks().map(|pick| result(search, pick, share_id)).collect(),
            config: config::collect(&claim.claim.spec, &chosen),
            node_selector,
            timestamp: None,
        });
    }
    Ok(allocations)
}

fn scope<'a>(search: &Search<'a, '_>, pick: &Pick) -> (&'a NodeScope, bool) {
    let device = search.state.view.slots[pick.slot].device;
    let slice = device.slice().nodes();
    let scope = if matches!(slice, NodeScope::PerDevice) { device.nodes().unwrap_or(slice) } else { slice };
    (scope, device.binds_to_node())
}

fn result(search: &Search<'_, '_>, pick: &Pick, share_id: &mut dyn FnMut() -> Text) -> DeviceResult {
    let state = &search.state;
    let (ask, device) = (&state.plan.asks[pick.ask], state.view.slots[pick.slot].device);
    let conditions = |conditions: Option<&[Text]>| match conditions {
        Some(conditions) if state.features.binds() => conditions.to_vec(),
        Some(_) | None => Vec::new(),
    };
    DeviceResult {
        request: ask.path(),
        device: device.id(),
        admin_access: ask.admin,
        tolerations: ask.spec.tolerations.clone(),
        binding_conditions: conditions(device.binding_conditions()),
        binding_failure_conditions: conditions(device.binding_failure_conditions()),
        share_id: pick.share.as_ref().map(|_| share_id()),
        consumed_capacity: pick.share.clone().unwrap_or_default(),
        skip_node_operations: device.slice().skip_node_operations().to_vec(),
    }
}
