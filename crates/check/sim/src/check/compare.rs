//! The machines against the reference: after each step whoever moved, on all of its pods and their devices; and everything at rest.

use lazaret_eviction::Phase;
use lazaret_fleet::{EffectiveTaint, Fleet, Origin};
use lazaret_model::Timestamp;

use crate::{
    coverage::Mark,
    palette::{self, Traits as _},
    reference::{self, Found, Patched, Source},
    view::{Named, Seen, SeenPod},
    world::World,
};

/// In worlds with more pods at the start, only the pod that a step is about is compared after it, or any one if it is about none: a world of 1,000 pods would
/// take a hundred times as long. Everything is compared at rest in these, too.
const COMPARED_PODS_MAX: u32 = 100;

/// A client that heard something in a step, and the pod that it is about, if it is about one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) client: usize,
    /// The number of its key.
    pub(crate) pod: Option<u32>,
    /// Devices may be other than before, in the eyes of its fleet.
    pub(crate) devices: bool,
}

/// The part of a pod that is compared beside its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beside {
    Nothing,
    /// The taints of its devices, and their attributes.
    Devices,
}

impl World {
    /// After every step. The state of a client and of the reference follow from the events that it got: a step without an event for a client leaves
    /// nothing to compare.
    pub(crate) fn check_step(&mut self) {
        self.note_pace_edits();
        self.check_parties();
        self.check_leaving();
        let Some(Moved { client, pod, devices }) = self.moved.take() else { return };
        let beside = if devices { Beside::Devices } else { Beside::Nothing };
        if self.config.pods <= COMPARED_PODS_MAX {
            let all: Vec<u32> = self.seen(client).pods().map(|pod| pod.place).collect();
            return all.into_iter().for_each(|pod| self.compare(client, pod, beside));
        }
        let number = pod.unwrap_or_else(|| {
            let any = self.rng.below(self.api.pods.keys() as u64);
            u32::try_from(any).unwrap_or(0)
        });
        if let Some(pod) = self.seen(client).pod_from(number).map(|pod| pod.place) {
            self.compare(client, pod, beside);
        }
    }

    /// Edits of a rule's pace, as the server sees them.
    fn note_pace_edits(&mut self) {
        let log = self.api.rules.log();
        for logged in &log[self.checker.rules_seen..] {
            let Some(rule) = &logged.object else { continue };
            let pace = rule.taint.evictions_per_second;
            let seen = self.checker.pace_edits.entry(rule.uid.clone()).or_insert((pace, 0));
            if seen.0 != pace {
                *seen = (pace, seen.1 + 1);
            }
        }
        self.checker.rules_seen = log.len();
    }

    /// A pod of a client's view, by the place of its write, in its machines and by the reference.
    pub(crate) fn compare(&mut self, number: usize, place: u32, beside: Beside) {
        let Some(pod) = self.seen(number).pod_written(place).filter(|_| !self.clients[number].down) else {
            return;
        };
        let difference = self.difference(number, pod, beside);
        self.coverage.hit(Mark::Compared);
        if beside == Beside::Devices && self.knows_from_claim(number, place) {
            self.coverage.hit(Mark::FromClaim);
        }
        if let Some((invariant, detail)) = difference {
            self.violate(invariant, format!("client {number}: {detail}"));
        }
    }

    /// Whether a device of a pod is known from its claim alone.
    fn knows_from_claim(&self, number: usize, place: u32) -> bool {
        let seen = self.seen(number);
        let claims = seen.pod_written(place).into_iter().flat_map(|pod| reference::claims(seen, pod));
        claims.flat_map(|claim| seen.results(claim)).any(|(_, device)| seen.knows_from_claim(device))
    }

    fn difference(&self, number: usize, pod: SeenPod<'_>, beside: Beside) -> Option<(&'static str, String)> {
        let (seen, fleet) = (self.seen(number), &self.clients[number].fleet);
        let mut due: Option<Timestamp> = None;
        // A pod that cannot be evicted has no plan, whatever its devices are like.
        let looked_at = beside > Beside::Nothing || reference::may_be_evicted(&pod);
        for claim in reference::claims(seen, pod).filter(|_| looked_at) {
            for (result, device) in seen.results(claim) {
                let mut taints = reference::taints(seen, device);
                for found in &mut taints {
                    // A controller knows it before its status is stored, and its followers before they have seen that.
                    if let Source::Rule(name, _) = found.source {
                        found.since = self.controllers[number].in_force.since(seen.rules(), name);
                    }
                }
                if beside == Beside::Devices
                    && let Some(detail) = taints_differ(&taints, fleet, device)
                {
                    return Some(("taints are as the reference finds them", detail));
                }
                if beside == Beside::Devices
                    && let Some(detail) = device_differs(seen, fleet, device)
                {
                    return Some(("devices are as the reference finds them", detail));
                }
                let causes = {
                    let say = pod.eviction_preference.unwrap_or_default();
                    reference::causes_of(&taints, device, &result.tolerations, say)
                };
                due = causes.map(|cause| cause.deadline).chain(due).min();
            }
        }
        let due = due.filter(|_| reference::may_be_evicted(&pod));
        self.plan_differs(number, pod, due).map(|detail| ("plans are as the reference finds them", detail))
    }

    fn plan_differs(&self, number: usize, pod: SeenPod<'_>, due: Option<Timestamp>) -> Option<String> {
        let client = &self.clients[number];
        let controller = &self.controllers[number];
        let Some(ix) = client.fleet.pod_ix(&pod.key) else {
            return Some(format!("{} is not in the fleet", pod.key));
        };
        let plan = controller.eviction.plan(ix);
        let evicted = || self.checker.heard_gone.contains(&(number, controller.life, pod.uid.clone()));
        match (plan, due) {
            (None, None) => None,
            (None, Some(_)) if evicted() => None,
            (Some(plan), Some(due)) if plan.due == due && plan.uid == pod.uid => None,
            // Its last eviction is in flight: whatever changed since, the pod is dealt with by the answer.
            (Some(plan), _) if matches!(plan.phase, Phase::InFlight(_)) && plan.uid == pod.uid => None,
            (plan, due) => {
                let causes = reference::causes(self.seen(number), pod);
                Some(format!("{}: plan {plan:?}, reference {due:?} for {causes:?}", pod.key))
            }
        }
    }
}

/// Where a fleet says something else about a device than the reference found.
pub(crate) fn taints_differ(ours: &[Found<'_>], fleet: &Fleet, device: Named<'_>) -> Option<String> {
    let theirs = || fleet.effective_taints(device.id).map(|effective| plain(&effective));
    // A fleet does not say since when a rule is in force.
    let ours: Vec<Found<'_>> = ours.iter().map(|found| Found { since: None, ..*found }).collect();
    (!theirs().eq(ours.iter().copied())).then(|| {
        let theirs: Vec<Found<'_>> = theirs().collect();
        format!("{}: fleet {theirs:?}, reference {ours:?}", device.id)
    })
}

/// Where a fleet and the reference disagree on what a published device is like, or how much of it is taken.
pub(crate) fn device_differs(seen: Seen<'_>, fleet: &Fleet, device: Named<'_>) -> Option<String> {
    let id = device.id;
    let ours = Patched::of(seen, device).filter(|_| seen.published(device).is_some());
    let theirs = fleet.device(id);
    let (ours, theirs) = match (ours, theirs) {
        (None, None) => return None,
        (Some(ours), Some(theirs)) => (ours, theirs),
        (ours, theirs) => {
            return Some(format!("{id}: published {}, for the fleet {}", ours.is_some(), theirs.is_some()));
        }
    };
    let of = |domain: &str, name: &str, key: &str| palette::is_key(&id.driver, key, domain, name);
    for (domain, name) in [("model", 0), ("index", 0), ("serial", 0), ("serial", 1)]
        .map(|(name, driver)| (palette::DRIVERS[driver], name))
    {
        let theirs = theirs.attributes().find(|(key, _, _)| of(domain, name, key)).map(|(_, _, value)| value);
        if ours.attribute(domain, name) != theirs {
            return Some(format!("{id}: {name} is {theirs:?} instead of {:?}", ours.attribute(domain, name)));
        }
    }
    let memory = theirs.capacity().find(|(key, _, _)| of(palette::DRIVERS[0], "memory", key));
    let memory = memory.map(|(_, _, capacity)| capacity);
    if ours.capacity(palette::DRIVERS[0], "memory") != memory {
        return Some(format!("{id}: memory is {memory:?}, which is not what the reference has"));
    }
    let bandwidth: i64 = theirs.consumed_capacity().iter().filter_map(|(_, amount)| amount.as_i64()).sum();
    let used = seen.used(device);
    let same =
        (used.whole > 0) == theirs.in_use() && used.shares == theirs.shares() && used.bandwidth == bandwidth;
    (!same).then(|| {
        let (whole, shares) = (theirs.in_use(), theirs.shares());
        format!("{id}: {used:?}, for the fleet whole {whole}, {shares} shares of {bandwidth}")
    })
}

fn plain<'a>(effective: &EffectiveTaint<'a>) -> Found<'a> {
    let source = match effective.origin {
        Origin::Device { slice, index } => Source::Device(slice, index as usize),
        Origin::TaintSlice { slice, index } => Source::TaintSlice(slice, index as usize),
        Origin::Patch { name, index } => Source::Patch(name, index as usize),
        Origin::Rule { name, uid, .. } => Source::Rule(name, uid),
    };
    Found { source, taint: effective.taint, since: None }
}
