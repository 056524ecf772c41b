//! A node that is short of something: what the Node says, which pods it refuses, and which one goes.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use lazaret_invariant::invariant;

use crate::{
    Action, CrossedThreshold, Levels, Millis, Outcome, PodView, Pods, PressureKind, Signal, SoftThreshold,
    Thresholds,
    machine::Out,
    rank::{self, PodUse},
};

/// Kubelet's own: how often thresholds are looked at.
const OBSERVE_EVERY_MS: Millis = 10_000;
/// Disk usage of pods is measured this often; it reads all their directories.
const STORAGE_EVERY_MS: Millis = 30_000;
/// A pod that was evicted is waited for this long before the next one goes, as kubelet has it.
const LEAVING_MS_MAX: Millis = 30_000;
/// An event about the same shortage is repeated after this time.
const ANNOUNCE_EVERY_MS: Millis = 300_000;
/// Kubelet never evicts pods of this priority and above, and takes them on whatever the node lacks.
pub(crate) const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// How a node responds to pressure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureOptions {
    /// With less than this it is short of something.
    pub thresholds: Thresholds,
    /// With less than this it says so, and after a while evicts pods, which then have time to end.
    pub soft: BTreeMap<Signal, SoftThreshold>,
    /// The grace of a pod that is evicted by a soft threshold, at most: its own if that is shorter.
    pub soft_grace_ms_max: Millis,
    /// A condition stays true this long after it was seen last.
    pub transition_ms: Millis,
}

/// The state of the node's pressure.
#[derive(Debug)]
pub(crate) struct Pressure {
    options: PressureOptions,
    step: Step,
    storage_at: Millis,
    /// Thresholds that were crossed at the last observation, and for which pods are evicted.
    crossed: Vec<CrossedThreshold>,
    /// Since when there is less than soft thresholds want.
    soft_since: BTreeMap<Signal, Millis>,
    /// Conditions of the Node, and when each was seen last.
    conditions: BTreeMap<PressureKind, (CrossedThreshold, Millis)>,
    /// The pod that was evicted last, and until when it is waited for.
    leaving: Option<(String, Millis)>,
    /// The shortage of the last event, and its time.
    announced: Option<(Signal, Millis)>,
}

/// How far a look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle {
        at: Millis,
    },
    Observing {
        id: u64,
        /// Images were removed just before: what is missing now, pods have to give.
        has_reclaimed: bool,
    },
    Reclaiming {
        id: u64,
    },
    Measuring {
        id: u64,
    },
}

impl Pressure {
    pub(crate) fn new(options: PressureOptions) -> Self {
        Self {
            options,
            step: Step::Idle { at: 0 },
            storage_at: 0,
            crossed: Vec::new(),
            soft_since: BTreeMap::new(),
            conditions: BTreeMap::new(),
            leaving: None,
            announced: None,
        }
    }

    /// When there is something to do next.
    pub(crate) fn wake(&self) -> Option<Millis> {
        match self.step {
            Step::Idle { at } => Some(at),
            Step::Observing { .. } | Step::Reclaiming { .. } | Step::Measuring { .. } => None,
        }
    }

    /// A condition is true at once; pods go for a soft threshold when it was crossed for its grace.
    fn note(&mut self, now: Millis, levels: &Levels) {
        let Self { options, soft_since, .. } = self;
        let hard = options.thresholds.crossed(levels);
        let mut soft: Vec<CrossedThreshold> = options
            .soft
            .iter()
            .filter_map(|(signal, soft)| soft.threshold.crossed(*signal, levels, true))
            .filter(|one| hard.iter().all(|hard| hard.signal != one.signal))
            .collect();
        let mut crossed = hard;
        crossed.append(&mut soft);
        crossed.sort_by_key(|one| one.signal);
        soft_since.retain(|signal, _| crossed.iter().any(|one| one.signal == *signal));
        for signal in crossed.iter().map(|one| one.signal) {
            soft_since.entry(signal).or_insert(now);
        }
        // Of two that make one condition, the first says why.
        for one in crossed.iter().rev() {
            self.conditions.insert(one.signal.pressure(), (*one, now));
        }
        let is_due = |one: &CrossedThreshold| {
            let grace_ms = options.soft.get(&one.signal).map_or(0, |soft| soft.grace_ms);
            !one.is_soft || soft_since.get(&one.signal).is_some_and(|since| now - since >= grace_ms)
        };
        crossed.retain(is_due);
        let transition_ms = self.options.transition_ms;
        self.conditions.retain(|_, (_, at)| now < at.saturating_add(transition_ms) || *at == now);
        self.crossed = crossed;
    }

    /// Why a pod is not taken.
    pub(crate) fn refusal(&self, view: &PodView) -> Option<(String, String)> {
        if self.conditions.is_empty() || view.priority >= CRITICAL_PRIORITY {
            return None;
        }
        let is_memory_alone = self.conditions.keys().eq([&PressureKind::Memory]);
        if is_memory_alone && (!view.is_best_effort || view.tolerates_memory_pressure) {
            return None;
        }
        let names: Vec<&str> = self.conditions.keys().map(|kind| kind.name()).collect();
        Some(("Evicted".to_string(), format!("The node had condition: [{}]. ", names.join(" "))))
    }

    fn ask(&mut self, out: &mut Out, action: Action, step: impl FnOnce(u64) -> Step) {
        out.act(action);
        self.step = step(out.last_id());
    }
}

impl Pods {
    /// Conditions of the Node that are true, and what was seen last of each.
    pub fn pressure(&self) -> impl Iterator<Item = (PressureKind, CrossedThreshold)> + '_ {
        self.pressure.conditions.iter().map(|(kind, (crossed, _))| (*kind, *crossed))
    }

    /// Looks at thresholds when it is time.
    pub(crate) fn observe(&mut self, now: Millis) {
        if matches!(self.pressure.step, Step::Idle { at } if at <= now) {
            let step = |id| Step::Observing { id, has_reclaimed: false };
            self.pressure.ask(&mut self.out, Action::Observe, step);
        }
    }

    /// Whether this was an answer to something asked here.
    #[allow(clippy::wildcard_enum_match_arm, reason = "an answer to another question is none")]
    pub(crate) fn pressure_outcome(&mut self, now: Millis, id: u64, outcome: &Outcome) -> bool {
        match (self.pressure.step, outcome) {
            (Step::Observing { id: asked, has_reclaimed }, outcome) if asked == id => match outcome {
                Outcome::Observed(levels) => self.observed(now, levels, has_reclaimed),
                _ => self.rest(now),
            },
            (Step::Reclaiming { id: asked }, _) if asked == id => {
                let step = |id| Step::Observing { id, has_reclaimed: true };
                self.pressure.ask(&mut self.out, Action::Observe, step);
            }
            (Step::Measuring { id: asked }, outcome) if asked == id => {
                if let Outcome::Measured(uses) = outcome {
                    self.measured(now, uses);
                }
                self.rest(now);
            }
            _ => return false,
        }
        true
    }

    fn rest(&mut self, now: Millis) {
        self.pressure.step = Step::Idle { at: now + OBSERVE_EVERY_MS };
    }

    fn observed(&mut self, now: Millis, levels: &Levels, has_reclaimed: bool) {
        self.pressure.note(now, levels);
        let first = self.pressure.crossed.first().copied().filter(|_| !self.is_leaving(now));
        let is_storage_due = self.pressure.storage_at <= now;
        let storage =
            is_storage_due || first.is_some_and(|crossed| crossed.signal.pressure() == PressureKind::Disk);
        match first {
            Some(crossed) if crossed.signal.pressure() == PressureKind::Disk && !has_reclaimed => {
                self.announce(now, crossed);
                self.pressure.ask(&mut self.out, Action::Reclaim, |id| Step::Reclaiming { id });
            }
            Some(_) if self.is_complete() => self.measure(now, true, storage),
            None if is_storage_due && self.is_complete() => self.measure(now, false, storage),
            Some(_) | None => self.rest(now),
        }
    }

    fn announce(&mut self, now: Millis, crossed: CrossedThreshold) {
        let is_old =
            |(signal, at): &(Signal, Millis)| *signal == crossed.signal && now < at + ANNOUNCE_EVERY_MS;
        if self.pressure.announced.as_ref().is_some_and(is_old) {
            return;
        }
        self.pressure.announced = Some((crossed.signal, now));
        let message = format!("Attempting to reclaim {}", crossed.signal.resource());
        self.out.act(Action::NodeEvent { reason: "EvictionThresholdMet", message });
    }

    fn measure(&mut self, now: Millis, usage: bool, storage: bool) {
        if storage {
            self.pressure.storage_at = now + STORAGE_EVERY_MS;
        }
        self.pressure.ask(&mut self.out, Action::Measure { usage, storage }, |id| Step::Measuring { id });
    }

    /// Whether the pod that was evicted last still has something that runs.
    fn is_leaving(&self, now: Millis) -> bool {
        // No pod was evicted yet.
        let Some((uid, until)) = &self.pressure.leaving else { return false };
        *until > now && self.pods.get(uid).is_some_and(|pod| !pod.is_cleaned())
    }

    fn measured(&mut self, now: Millis, uses: &BTreeMap<String, PodUse>) {
        let over = uses.iter().filter_map(|(uid, taken)| Some((uid.clone(), taken.violation.clone()?)));
        let over: Vec<(String, String)> =
            over.filter(|(uid, _)| self.pods.get(uid).is_some_and(crate::pod::Pod::is_evictable)).collect();
        if !over.is_empty() {
            return over.into_iter().for_each(|(uid, message)| self.evict(now, &uid, message, None));
        }
        // Where nothing was short, only limits were looked at; while a pod leaves, no other one is evicted.
        let Some(crossed) = self.pressure.crossed.first().copied().filter(|_| !self.is_leaving(now)) else {
            return;
        };
        if crossed.signal.pressure() != PressureKind::Disk {
            self.announce(now, crossed);
        }
        let candidates = self.pods.values().filter(|pod| pod.is_evictable()).map(|pod| &pod.view);
        let chosen = rank::choose(crossed.signal, candidates, uses);
        // No pod may be evicted.
        let Some(view) = chosen else { return };
        let message = message(&crossed, view, uses.get(&view.pod.uid));
        let uid = view.pod.uid.clone();
        self.evict(now, &uid, message, Some(crossed));
        self.pressure.leaving = Some((uid, now + LEAVING_MS_MAX));
    }

    /// For something that the node is short of, or because the pod has more than it may.
    fn evict(&mut self, now: Millis, uid: &str, message: String, crossed: Option<CrossedThreshold>) {
        let grace_ms_max = match crossed {
            Some(CrossedThreshold { is_soft: true, .. }) => self.pressure.options.soft_grace_ms_max,
            Some(_) | None => 0,
        };
        let Some(pod) = invariant!(self.pods.get_mut(uid), "a pod that is evicted is known") else { return };
        pod.event(&mut self.out, None, true, "Evicted", message.clone());
        pod.evict(now, message, crossed.is_some(), grace_ms_max);
        self.advance(now, uid);
    }
}

/// Why a pod goes, in kubelet's words: what the node lacks, and which containers use more than they asked for.
fn message(crossed: &CrossedThreshold, view: &PodView, taken: Option<&PodUse>) -> String {
    let signal = crossed.signal;
    let resource = signal.resource();
    let mut text = format!(
        "The node was low on resource: {resource}. Threshold quantity: {}, available: {}. ",
        signal.text(crossed.threshold),
        signal.text(crossed.level.available)
    );
    // It was not measured.
    let Some(taken) = taken else { return text };
    for container in &view.containers {
        // It was not measured.
        let Some(own) = taken.containers.get(&container.name) else { continue };
        let (used, asked) = match signal {
            Signal::MemoryAvailable => (own.memory, container.resources.requests.memory),
            Signal::NodefsAvailable => (own.storage, container.resources.requests.ephemeral_storage),
            Signal::NodefsInodesFree | Signal::PidAvailable => continue,
        };
        if used > asked {
            text.push_str(&format!(
                "Container {} was using {}, request is {}, has larger consumption of {resource}. ",
                container.name,
                signal.text(used),
                signal.text(asked)
            ));
        }
    }
    text
}
