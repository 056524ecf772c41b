//! The reference: who must go and when, said in plain loops over the objects of a view. It shares nothing with the
//! machines under test but the words of `model` and its one function on tolerations.

use std::cell::OnceCell;

use lazaret_model::{
    AttrValue, CapacityValue, ClaimSource, Device, DeviceId, DevicePatch, DeviceSelector, EvictionPreference,
    Pod, ResourceClaim, ResourceSlicePatch, Taint, Text, Timestamp, Toleration, Uid, tolerates,
};

use crate::{
    api::claim_name,
    palette,
    view::{Named, Seen, SeenClaim, SeenPod},
};

/// Where a taint comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// The device itself: slice and position.
    Device(&'a Text, usize),
    /// A slice of taints and the position in it.
    TaintSlice(&'a Text, usize),
    /// A patch and the position in it.
    Patch(&'a Text, usize),
    /// A rule.
    Rule(&'a Text, &'a Uid),
}

/// A taint of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Where it comes from.
    pub source: Source<'a>,
    /// The taint.
    pub taint: &'a Taint,
    /// Since when the rule is in force, if something held it or it had expired.
    pub since: Option<Timestamp>,
}

/// One reason for a pod to go.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// Where the taint comes from.
    pub source: Source<'a>,
    /// The taint.
    pub taint: &'a Taint,
    /// The device that has it.
    pub device: Named<'a>,
    /// When patience with it ends.
    pub deadline: Timestamp,
}

/// The known state of a device, with the patches that apply to it, the strongest first.
#[derive(Debug)]
pub struct Patched<'a> {
    driver: &'a str,
    device: &'a Device,
    patches: Vec<&'a DevicePatch>,
}

impl<'a> Patched<'a> {
    /// As its driver has it; `None`: nobody knows.
    fn bare(seen: Seen<'a>, device: Named<'a>) -> Option<Self> {
        Some(Self { driver: &device.id.driver, device: seen.known(device)?, patches: Vec::new() })
    }

    /// As everyone but patches sees it.
    #[must_use]
    pub fn of(seen: Seen<'a>, device: Named<'a>) -> Option<Self> {
        Self::by(seen, device, &patches(seen, device))
    }

    /// The same, when it is known which patches speak of it.
    fn by(seen: Seen<'a>, device: Named<'a>, patches: &[&'a ResourceSlicePatch]) -> Option<Self> {
        let bare = Self::bare(seen, device)?;
        Some(Self { patches: patches.iter().map(|patch| &patch.patch).collect(), ..bare })
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
        let is_it = |key: &Text| palette::is_key(self.driver, key, domain, name);
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
fn patches<'a>(seen: Seen<'a>, named: Named<'a>) -> Vec<&'a ResourceSlicePatch> {
    let device = OnceCell::new();
    let bare = || device.get_or_init(|| Patched::bare(seen, named)).as_ref();
    let mut found: Vec<&ResourceSlicePatch> = seen
        .patches()
        .map(|patch| &**patch)
        .filter(|patch| means(seen, patch.selector.as_ref(), named.id, bare))
        .collect();
    found.sort_by(|a, b| b.patch.priority.cmp(&a.patch.priority).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Whether a selector means a device, known by what the view knows of it.
fn means<'d, 'v: 'd>(
    seen: Seen<'_>,
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
        let class = seen.class(name);
        class.is_some_and(|class| class.selectors.iter().all(|text| text.as_ref().is_some_and(true_of)))
    });
    class && selector.cel.iter().all(true_of)
}

/// Whether a guard's selector means a device; without one it means all.
#[must_use]
pub fn selects(seen: Seen<'_>, selector: Option<&DeviceSelector>, named: Named<'_>) -> bool {
    let patched = Patched::of(seen, named);
    selector.is_none() || means(seen, selector, named.id, || patched.as_ref())
}

/// Whether it is not known if a guard is about a device: an expression is broken or fails on it, or the class is not there.
#[must_use]
pub fn is_unclear(seen: Seen<'_>, selector: Option<&DeviceSelector>, named: Named<'_>) -> bool {
    let Some(selector) = selector.filter(|one| !one.by_names_only() && one.names_match(named.id)) else {
        return false;
    };
    let class = selector.class.as_ref().map(|name| seen.class(name));
    let Some(class) = class.map_or(Some(None), |class| class.map(Some)) else { return true };
    let of_class = class.map_or(&[][..], |class| &class.selectors[..]).iter();
    let mut all = of_class.map(Option::as_ref).chain(selector.cel.iter().map(Some));
    if all.clone().any(|text| text.is_none_or(|text| palette::is_broken(text))) {
        return true;
    }
    let Some(device) = Patched::of(seen, named) else { return false };
    let first = all.find_map(|text| {
        let holds = text.and_then(|text| palette::holds(text, &device));
        (holds != Some(true)).then_some(holds)
    });
    first == Some(None)
}

/// The taints of a device: its own, those of slices of taints, of patches, of rules, in this order.
#[must_use]
pub fn taints<'a>(seen: Seen<'a>, named: Named<'a>) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    if let Some((slice, device)) = seen.published(named) {
        for (index, taint) in device.taints.iter().enumerate() {
            found.push(Found { source: Source::Device(&slice.name, index), taint, since: None });
        }
        for slice in seen.taint_slices(named, slice.pool.generation) {
            let entries = slice.taints.iter().enumerate();
            for (index, entry) in entries.filter(|(_, entry)| entry.device == named.id.device) {
                let source = Source::TaintSlice(&slice.name, index);
                found.push(Found { source, taint: &entry.taint, since: None });
            }
        }
    }
    let patches = patches(seen, named);
    patch_taints(&patches, &mut found);
    let device = OnceCell::new();
    let patched = || device.get_or_init(|| Patched::by(seen, named, &patches)).as_ref();
    for rule in seen.rules().filter(|rule| means(seen, rule.active_selector(), named.id, patched)) {
        let since = rule.effective_since;
        found.push(Found { source: Source::Rule(&rule.name, &rule.uid), taint: &rule.taint, since });
    }
    found
}

/// A taint with the key and effect of one that a stronger patch has loses, and the driver's own lose against any
/// patch.
fn patch_taints<'a>(patches: &[&'a ResourceSlicePatch], found: &mut Vec<Found<'a>>) {
    let mut given: Vec<Found<'a>> = Vec::new();
    for patch in patches {
        let stronger = given.len();
        for (index, taint) in patch.patch.taints.iter().enumerate() {
            let same = |other: &Found<'_>| other.taint.key == taint.key && other.taint.effect == taint.effect;
            if !given[..stronger].iter().any(same) {
                given.push(Found { source: Source::Patch(&patch.name, index), taint, since: None });
            }
        }
    }
    found.retain(|own| {
        !given.iter().any(|by| by.taint.key == own.taint.key && by.taint.effect == own.taint.effect)
    });
    found.extend(given);
}

/// When patience with a taint ends that is in force `since` an instant, if not since it was set; `None`: never.
#[must_use]
pub fn deadline(taint: &Taint, since: Option<Timestamp>, tolerations: &[Toleration]) -> Option<Timestamp> {
    let matching = || tolerations.iter().filter(|toleration| tolerates(toleration, taint));
    if matching().any(|toleration| toleration.seconds.is_none()) {
        return None;
    }
    let seconds = matching().filter_map(|toleration| toleration.seconds).min().unwrap_or(0).max(0);
    let since = taint.time_added.max(since.filter(|_| taint.time_added.is_some()))?;
    // Time that a pod is given counts while a window is open at first.
    let spec = taint.eviction.as_ref().filter(|_| seconds > 0);
    let end = spec.map_or(since, |spec| spec.counts_from(since)).plus_secs(seconds);
    (end != Timestamp::NEVER).then_some(end)
}

/// The claims whose devices a pod uses.
pub fn claims<'a>(seen: Seen<'a>, pod: SeenPod<'a>) -> impl Iterator<Item = SeenClaim<'a>> {
    // How each of them comes to be named, in the same order.
    let named = pod.pod.claims.iter().filter(|entry| claim_name(&entry.source).is_some());
    let listed = named.map(|entry| Some(&entry.source));
    let extended = pod.pod.extended_claim.iter().map(|_| None);
    let found = listed.chain(extended).zip(seen.claims_of(pod));
    found
        .filter_map(|(source, claim)| Some((source, claim?)))
        .filter(move |(source, seen)| match source {
            Some(ClaimSource::Claim(_)) => true,
            Some(ClaimSource::Template { .. }) => owned(seen.claim, &pod) || shared(seen.claim, &pod),
            Some(ClaimSource::Unknown) => false,
            None => owned(seen.claim, &pod),
        })
        .map(|(_, claim)| claim)
        .filter(move |seen| reserved(seen.claim, &pod))
}

fn owned(claim: &ResourceClaim, pod: &Pod) -> bool {
    claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid)
}

fn shared(claim: &ResourceClaim, pod: &Pod) -> bool {
    let owner = claim.owner.as_ref();
    owner.is_some_and(|owner| owner.kind == "PodGroup" && pod.group.as_ref() == Some(&owner.name))
}

fn reserved(claim: &ResourceClaim, pod: &Pod) -> bool {
    claim.reserved_for.iter().any(|user| match user.resource.as_str() {
        "pods" => user.uid == pod.uid,
        "podgroups" => pod.group.as_ref() == Some(&user.name),
        _ => false,
    })
}

/// Whether a pod uses devices: it was bound, and neither ended nor leaves.
#[must_use]
pub fn may_be_evicted(pod: &Pod) -> bool {
    pod.node.is_some() && pod.deleting_since.is_none() && !pod.phase.is_finished()
}

/// Why a pod must go, at whatever time; empty: it may stay.
#[must_use]
pub fn causes<'a>(seen: Seen<'a>, pod: SeenPod<'a>) -> Vec<Cause<'a>> {
    let mut found = Vec::new();
    if !may_be_evicted(&pod) {
        return found;
    }
    for claim in claims(seen, pod) {
        for (result, device) in seen.results(claim) {
            let say = pod.eviction_preference.unwrap_or_default();
            found.extend(causes_of(&taints(seen, device), device, &result.tolerations, say));
        }
    }
    found
}

/// Those of a device's taints that make who has it go.
pub fn causes_of<'a>(
    taints: &[Found<'a>],
    device: Named<'a>,
    tolerations: &[Toleration],
    say: EvictionPreference,
) -> impl Iterator<Item = Cause<'a>> {
    taints.iter().filter(|found| found.taint.effect.evicts()).filter_map(
        move |Found { source, taint, since }| {
            let granted = taint.eviction.as_ref().map_or(0, |spec| spec.granted_seconds(say));
            let deadline = deadline(taint, *since, tolerations)?.plus_secs(i64::from(granted));
            Some(Cause { source: *source, taint, device, deadline })
        },
    )
}
