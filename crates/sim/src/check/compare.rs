//! The machines against the reference, a sample at a time, and everything at rest.

use std::sync::Arc;

use lazaret_eviction::Phase;
use lazaret_fleet::{EffectiveTaint, Fleet, Origin};
use lazaret_model::{DeviceId, Pod, Taint};

use crate::{
    coverage::Mark,
    reference::{self, Source},
    view::View,
    world::{CLIENTS, SCHEDULER, World},
};

/// Between two samples.
const STEPS: u64 = 8;
/// Pods in a sample.
const SAMPLE: usize = 6;

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
        self.compare(number, &sample);
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

    /// These pods of a client's view, in its machines and by the reference.
    pub(crate) fn compare(&mut self, number: usize, pods: &[Arc<Pod>]) {
        if self.clients[number].down {
            return;
        }
        for pod in pods {
            self.coverage.hit(Mark::Compared);
            if let Some((invariant, detail)) = self.difference(number, pod) {
                return self.violate(invariant, format!("client {number}: {detail}"));
            }
        }
    }

    fn difference(&self, number: usize, pod: &Pod) -> Option<(&'static str, String)> {
        let client = &self.clients[number];
        let (view, fleet) = (&client.view, &client.fleet);
        for claim in reference::claims(view, pod) {
            for result in claim.allocation.iter().flat_map(|allocation| &allocation.results) {
                let found = taints_differ(view, fleet, &result.device);
                if found.is_some() {
                    return found.map(|detail| ("taints are as the reference finds them", detail));
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

fn plain(effective: &EffectiveTaint<'_>) -> (Source, Taint) {
    let source = match effective.origin {
        Origin::Device { slice, index } => Source::Device(slice.clone(), index as usize),
        Origin::TaintSlice { slice, index } => Source::TaintSlice(slice.clone(), index as usize),
        Origin::Patch { name, index } => Source::Patch(name.clone(), index as usize),
        Origin::Rule { name, uid, .. } => Source::Rule(name.clone(), uid.clone()),
    };
    (source, effective.taint.clone())
}
