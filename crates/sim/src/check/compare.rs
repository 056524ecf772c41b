//! The machines against the reference, a sample at a time, and everything at rest.

use std::sync::Arc;

use lazaret_eviction::Phase;
use lazaret_fleet::{EffectiveTaint, Fleet, Origin};
use lazaret_model::{DeviceId, Pod, Taint};

use crate::{
    coverage::Mark,
    palette::{self, Traits as _},
    reference::{self, Patched, Source},
    view::View,
    world::{CLIENTS, SCHEDULER, World},
};

/// Between two samples.
const STEPS: u64 = 8;
/// Pods in a sample.
const SAMPLE: usize = 6;
/// Every so many samples, what devices are like is compared too.
const DEVICES_EVERY: u64 = 4;

impl World {
    /// After every step; cheap.
    pub(crate) fn check_step(&mut self) {
        self.note_pace_edits();
        if !self.steps.is_multiple_of(STEPS) || self.api.pods.log().is_empty() {
            return;
        }
        let number = usize::try_from(self.rng.below(CLIENTS as u64)).unwrap_or(0);
        let start = self.rng.below(self.api.pods.log().len() as u64);
        let start = self.api.pods.log()[usize::try_from(start).unwrap_or(0)].key.clone();
        let sample: Vec<Arc<Pod>> =
            self.clients[number].view.pods.iter_from(&start).take(SAMPLE).cloned().collect();
        let devices = (self.steps / STEPS).is_multiple_of(DEVICES_EVERY);
        self.compare(number, &sample, devices);
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

    /// These pods of a client's view, in its machines and by the reference; with what their devices are like, or with
    /// their taints alone.
    pub(crate) fn compare(&mut self, number: usize, pods: &[Arc<Pod>], devices: bool) {
        if self.clients[number].down {
            return;
        }
        for pod in pods {
            self.coverage.hit(Mark::Compared);
            if let Some((invariant, detail)) = self.difference(number, pod, devices) {
                return self.violate(invariant, format!("client {number}: {detail}"));
            }
        }
    }

    fn difference(&self, number: usize, pod: &Pod, devices: bool) -> Option<(&'static str, String)> {
        let client = &self.clients[number];
        let (view, fleet) = (&client.view, &client.fleet);
        for claim in reference::claims(view, pod) {
            for result in claim.allocation.iter().flat_map(|allocation| &allocation.results) {
                if let Some(detail) = taints_differ(view, fleet, &result.device) {
                    return Some(("taints are as the reference finds them", detail));
                }
                if devices && let Some(detail) = device_differs(view, fleet, &result.device) {
                    return Some(("devices are as the reference finds them", detail));
                }
            }
        }
        if number == SCHEDULER {
            return None;
        }
        self.plan_differs(number, pod).map(|detail| ("plans are as the reference finds them", detail))
    }

    fn plan_differs(&self, number: usize, pod: &Pod) -> Option<String> {
        let client = &self.clients[number];
        let controller = &self.controllers[number];
        let Some(ix) = client.fleet.pod_ix(&pod.key) else {
            return Some(format!("{} is not in the fleet", pod.key));
        };
        let plan = controller.eviction.plan(ix);
        let evicted = self.checker.heard_gone.contains(&(number, controller.life, pod.uid.clone()));
        let causes = reference::causes(&client.view, pod);
        let due = causes.iter().map(|cause| cause.deadline).min();
        match (plan, due) {
            (None, None) => None,
            (None, Some(_)) if evicted => None,
            (Some(plan), Some(due)) if plan.due == due && plan.uid == pod.uid => None,
            // Its last eviction is under way: whatever changed since, the pod is dealt with by the answer.
            (Some(plan), _) if matches!(plan.phase, Phase::InFlight(_)) && plan.uid == pod.uid => None,
            (plan, due) => Some(format!("{}: plan {plan:?}, reference {due:?} for {causes:?}", pod.key)),
        }
    }
}

/// Where a fleet and the reference say different things about a device.
pub(crate) fn taints_differ(view: &View, fleet: &Fleet, device: &DeviceId) -> Option<String> {
    let ours = reference::taints(view, device);
    let theirs: Vec<(Source, Taint)> =
        fleet.effective_taints(device).map(|effective| plain(&effective)).collect();
    (ours != theirs).then(|| format!("{device}: fleet {theirs:?}, reference {ours:?}"))
}

/// Where a fleet and the reference disagree on what a published device is like, or how much of it is taken.
pub(crate) fn device_differs(view: &View, fleet: &Fleet, id: &DeviceId) -> Option<String> {
    let (ours, theirs) = (Patched::of(view, id).filter(|_| view.published(id).is_some()), fleet.device(id));
    let (ours, theirs) = match (ours, theirs) {
        (None, None) => return None,
        (Some(ours), Some(theirs)) => (ours, theirs),
        (ours, theirs) => {
            return Some(format!("{id}: published {}, for the fleet {}", ours.is_some(), theirs.is_some()));
        }
    };
    let of = |domain: &str, name: &str, key: &str| match key.split_once('/') {
        Some((of, rest)) => of == domain && rest == name,
        None => *id.driver == *domain && key == name,
    };
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
    let bandwidth = theirs.consumed_capacity().iter().filter_map(|(_, amount)| amount.as_i64()).sum();
    let used = view.used(id);
    let same =
        (used.whole > 0) == theirs.in_use() && used.shares == theirs.shares() && used.bandwidth == bandwidth;
    (!same).then(|| {
        let (whole, shares) = (theirs.in_use(), theirs.shares());
        format!("{id}: {used:?}, for the fleet whole {whole}, {shares} shares of {bandwidth}")
    })
}

fn plain(effective: &EffectiveTaint<'_>) -> (Source, Taint) {
    let source = match effective.origin {
        Origin::Device { slice, index } => Source::Device(slice.clone(), index as usize),
        Origin::TaintSlice { slice, index } => Source::TaintSlice(slice.clone(), index as usize),
        Origin::Patch { name, index } => Source::Patch(name.clone(), index as usize),
        Origin::Rule { name, uid, .. } => Source::Rule(name.clone(), uid.clone()),
    };
    (source, effective.taint.clone())
}
