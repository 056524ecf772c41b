//! The reference: who must go and when, said in plain loops over the objects of a view. It shares nothing with the
//! machines under test but the words of `model` and its one function on tolerations.

use lazaret_model::{
    ClaimSource, DeviceId, DeviceSelector, ObjectKey, Pod, ResourceClaim, Taint, Text, Timestamp, Toleration,
    Uid, tolerates,
};

use crate::{palette, view::View};

/// Where a taint comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The device itself: slice and position.
    Device(Text, usize),
    /// A slice of taints and the position in it.
    TaintSlice(Text, usize),
    /// A patch and the position in it.
    Patch(Text, usize),
    /// A rule.
    Rule(Text, Uid),
}

/// One reason for a pod to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where the taint comes from.
    pub source: Source,
    /// The taint.
    pub taint: Taint,
    /// The device that has it.
    pub device: DeviceId,
    /// When patience with it ends.
    pub deadline: Timestamp,
}

/// Whether a selector selects a device, known by what the view knows of it.
#[must_use]
pub fn selects(view: &View, selector: Option<&DeviceSelector>, id: &DeviceId) -> bool {
    let Some(selector) = selector else { return false };
    if !selector.names_match(id) {
        return false;
    }
    if selector.by_names_only() {
        return true;
    }
    let Some(attributes) = view.attributes(id) else { return false };
    let class = match &selector.class {
        None => true,
        Some(name) => view.classes.get(name).is_some_and(|class| {
            class.selectors.iter().all(|expression| {
                expression
                    .as_ref()
                    .is_some_and(|text| palette::holds(text, &id.driver, attributes) == Some(true))
            })
        }),
    };
    class && selector.cel.iter().all(|text| palette::holds(text, &id.driver, attributes) == Some(true))
}

/// The taints of a device: its own, those of slices of taints, of patches, of rules, in this order.
#[must_use]
pub fn taints(view: &View, id: &DeviceId) -> Vec<(Source, Taint)> {
    let mut found = Vec::new();
    if let Some((slice, device)) = view.published(id) {
        for (index, taint) in device.taints.iter().enumerate() {
            found.push((Source::Device(slice.name.clone(), index), taint.clone()));
        }
        for slice in view.taint_slices(&id.pool_id(), slice.pool.generation) {
            for (index, entry) in
                slice.taints.iter().enumerate().filter(|(_, entry)| entry.device == id.device)
            {
                found.push((Source::TaintSlice(slice.name.clone(), index), entry.taint.clone()));
            }
        }
    }
    patch_taints(view, id, &mut found);
    for rule in view.rules.iter().filter(|rule| selects(view, rule.selector.as_ref(), id)) {
        found.push((Source::Rule(rule.name.clone(), rule.uid.clone()), rule.taint.clone()));
    }
    found
}

/// Patches by priority, then name. A taint with the key and effect of one that is there already loses, but the
/// driver's own lose against any patch.
fn patch_taints(view: &View, id: &DeviceId, found: &mut Vec<(Source, Taint)>) {
    let mut patches: Vec<_> = view.patches.iter().collect();
    patches.sort_by(|a, b| b.patch.priority.cmp(&a.patch.priority).then_with(|| a.name.cmp(&b.name)));
    let mut given: Vec<(Source, Taint)> = Vec::new();
    for patch in patches.into_iter().filter(|patch| selects(view, patch.selector.as_ref(), id)) {
        let taken: Vec<_> =
            given.iter().map(|(_, taint)| (taint.key.clone(), taint.effect.clone())).collect();
        for (index, taint) in patch.patch.taints.iter().enumerate() {
            if !taken.contains(&(taint.key.clone(), taint.effect.clone())) {
                given.push((Source::Patch(patch.name.clone(), index), taint.clone()));
            }
        }
    }
    found.retain(|(_, own)| {
        !given.iter().any(|(_, taint)| taint.key == own.key && taint.effect == own.effect)
    });
    found.extend(given);
}

/// When patience with a taint ends; `None`: never.
#[must_use]
pub fn deadline(taint: &Taint, tolerations: &[Toleration]) -> Option<Timestamp> {
    let matching: Vec<_> = tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
    if matching.iter().any(|toleration| toleration.seconds.is_none()) {
        return None;
    }
    let seconds = matching.iter().filter_map(|toleration| toleration.seconds).min().unwrap_or(0).max(0);
    let end = taint.time_added?.plus_secs(seconds);
    (end != Timestamp::NEVER).then_some(end)
}

/// The claims whose devices a pod uses.
#[must_use]
pub fn claims<'a>(view: &'a View, pod: &Pod) -> Vec<&'a ResourceClaim> {
    let find =
        |name: &Text| view.claims.get(&ObjectKey::new(&*pod.key.namespace, &**name)).map(|claim| &**claim);
    let owned = |claim: &&ResourceClaim| claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid);
    let reserved = |claim: &&ResourceClaim| {
        claim.reserved_for.iter().any(|user| user.resource == "pods" && user.uid == pod.uid)
    };
    let mut found: Vec<&ResourceClaim> = Vec::new();
    for entry in &pod.claims {
        let claim = match &entry.source {
            ClaimSource::Claim(name) => find(name),
            ClaimSource::Template { resolved: Some(Some(name)), .. } => find(name).filter(owned),
            ClaimSource::Template { .. } | ClaimSource::Unknown => None,
        };
        found.extend(claim.filter(reserved));
    }
    found.extend(pod.extended_claim.as_ref().and_then(find).filter(owned).filter(reserved));
    found
}

/// Why a pod must go, at whatever time; empty: it may stay.
#[must_use]
pub fn causes(view: &View, pod: &Pod) -> Vec<Cause> {
    let mut found = Vec::new();
    if pod.node.is_none() || pod.deleting_since.is_some() || pod.phase.is_finished() {
        return found;
    }
    for claim in claims(view, pod) {
        for result in claim.allocation.iter().flat_map(|allocation| &allocation.results) {
            for (source, taint) in taints(view, &result.device) {
                if !taint.effect.evicts() {
                    continue;
                }
                if let Some(deadline) = deadline(&taint, &result.tolerations) {
                    found.push(Cause { source, taint, device: result.device.clone(), deadline });
                }
            }
        }
    }
    found
}
