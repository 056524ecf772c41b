//! The reference: who must go and when, said in plain loops over the objects of a view. It shares nothing with the
//! machines under test but the words of `model` and its one function on tolerations.

use std::cell::OnceCell;

use lazaret_model::{
    AttrValue, CapacityValue, ClaimSource, Device, DeviceId, DevicePatch, DeviceSelector, ObjectKey, Pod,
    ResourceClaim, ResourceSlicePatch, Taint, Text, Timestamp, Toleration, Uid, tolerates,
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

/// What is known of a device, with the patches that speak of it, the strongest first.
#[derive(Debug)]
pub struct Patched<'a> {
    driver: &'a str,
    device: &'a Device,
    patches: Vec<&'a DevicePatch>,
}

impl<'a> Patched<'a> {
    /// As its driver has it; `None`: nobody knows.
    fn bare(view: &'a View, id: &'a DeviceId) -> Option<Self> {
        Some(Self { driver: &id.driver, device: view.known(id)?, patches: Vec::new() })
    }

    /// As everyone but patches sees it.
    #[must_use]
    pub fn of(view: &'a View, id: &'a DeviceId) -> Option<Self> {
        let bare = Self::bare(view, id)?;
        Some(Self { patches: patches(view, id).map(|patch| &patch.patch).collect(), ..bare })
    }

    /// Whether some patch overrides a value.
    #[must_use]
    pub fn is_patched(&self) -> bool {
        self.patches.iter().any(|patch| !patch.attributes.is_empty() || !patch.capacity.is_empty())
    }

    /// The strongest patch that names the key decides, and within it the last entry; else the driver.
    fn value<T>(
        &self,
        (domain, name): (&str, &str),
        patched: impl Fn(&'a DevicePatch) -> &'a [(Text, Option<T>)],
        published: &'a [(Text, T)],
    ) -> Option<&'a T>
    where
        T: 'a,
    {
        let is_it = |key: &Text| match key.split_once('/') {
            Some((of, rest)) => of == domain && rest == name,
            None => self.driver == domain && *key == *name,
        };
        for patch in &self.patches {
            if let Some((_, value)) = patched(patch).iter().rev().find(|(key, _)| is_it(key)) {
                return value.as_ref();
            }
        }
        published.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
    }
}

impl palette::Traits for Patched<'_> {
    fn driver(&self) -> &str {
        self.driver
    }

    fn attribute(&self, domain: &str, name: &str) -> Option<&AttrValue> {
        self.value((domain, name), |patch| &patch.attributes, &self.device.attributes)
    }

    fn capacity(&self, domain: &str, name: &str) -> Option<&CapacityValue> {
        self.value((domain, name), |patch| &patch.capacity, &self.device.capacity)
    }
}

/// The patches that speak of a device, by priority, then name. They see what the driver says, not one another.
fn patches<'a>(view: &'a View, id: &'a DeviceId) -> impl Iterator<Item = &'a ResourceSlicePatch> {
    let device = OnceCell::new();
    let bare = || device.get_or_init(|| Patched::bare(view, id)).as_ref();
    let mut found: Vec<&ResourceSlicePatch> = view
        .patches
        .iter()
        .map(|patch| &**patch)
        .filter(|patch| means(view, patch.selector.as_ref(), id, bare))
        .collect();
    found.sort_by(|a, b| b.patch.priority.cmp(&a.patch.priority).then_with(|| a.name.cmp(&b.name)));
    found.into_iter()
}

/// Whether a selector means a device, known by what the view knows of it.
fn means<'d, 'v: 'd>(
    view: &View,
    selector: Option<&DeviceSelector>,
    id: &DeviceId,
    device: impl FnOnce() -> Option<&'d Patched<'v>>,
) -> bool {
    let Some(selector) = selector else { return false };
    if !selector.names_match(id) {
        return false;
    }
    if selector.by_names_only() {
        return true;
    }
    let Some(device) = device() else { return false };
    let true_of = |expression: &Text| palette::holds(expression, device) == Some(true);
    let class = selector.class.as_ref().is_none_or(|name| {
        let class = view.classes.get(name);
        class.is_some_and(|class| class.selectors.iter().all(|text| text.as_ref().is_some_and(true_of)))
    });
    class && selector.cel.iter().all(true_of)
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
    let device = OnceCell::new();
    let patched = || device.get_or_init(|| Patched::of(view, id)).as_ref();
    for rule in view.rules.iter().filter(|rule| means(view, rule.selector.as_ref(), id, patched)) {
        found.push((Source::Rule(rule.name.clone(), rule.uid.clone()), rule.taint.clone()));
    }
    found
}

/// A taint with the key and effect of one that a stronger patch has loses, and the driver's own lose against any
/// patch.
fn patch_taints(view: &View, id: &DeviceId, found: &mut Vec<(Source, Taint)>) {
    let mut given: Vec<(Source, Taint)> = Vec::new();
    for patch in patches(view, id) {
        let stronger = given.len();
        for (index, taint) in patch.patch.taints.iter().enumerate() {
            let same = |(_, other): &(Source, Taint)| other.key == taint.key && other.effect == taint.effect;
            if !given[..stronger].iter().any(same) {
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
    let find = |name: &Text| {
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        view.claims.get(&key).map(|claim| &**claim)
    };
    let owned = |claim: &&ResourceClaim| claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid);
    let shared = |claim: &&ResourceClaim| {
        claim
            .owner
            .as_ref()
            .is_some_and(|owner| owner.kind == "PodGroup" && pod.group.as_ref() == Some(&owner.name))
    };
    let reserved = |claim: &&ResourceClaim| {
        claim.reserved_for.iter().any(|user| match user.resource.as_str() {
            "pods" => user.uid == pod.uid,
            "podgroups" => pod.group.as_ref() == Some(&user.name),
            _ => false,
        })
    };
    let mut found: Vec<&ResourceClaim> = Vec::new();
    for entry in &pod.claims {
        let claim = match &entry.source {
            ClaimSource::Claim(name) => find(name),
            ClaimSource::Template { resolved: Some(Some(name)), .. } => {
                find(name).filter(|claim| owned(claim) || shared(claim))
            }
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
