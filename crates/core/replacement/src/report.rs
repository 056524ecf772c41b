//! Status: what is written about a policy, and when.

use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{Condition, ConditionStatus, ObjectKey, Text, Timestamp};

use crate::{
    effect::EffectKind,
    flight::{Flight, ReplacementTracker},
    input::Source,
    machine::{InFlight, Replacement},
    policy::{Spec, Strategy},
    status::{
        BREAKER_TRIPPED, DEGRADED, PODS_LISTED_MAX, PROGRESSING, PodStatus, RecordStatus, Status, Totals,
    },
    tables::KnownPolicy,
};

impl Replacement {
    /// Writes the statuses that have changed, each at most once per [`Options::status_ms`](crate::Options::status_ms); one that records a replacement
    /// goes at once.
    pub(crate) fn write_statuses(&mut self, now: Timestamp) {
        let due: Vec<ObjectKey> = self
            .trackers
            .iter()
            .filter(|(_, tracker)| tracker.dirty)
            .filter(|(_, tracker)| match &tracker.writing {
                // Old news, which nobody has taken yet.
                Some((id, _)) => self.effects.is_waiting(*id),
                None => tracker.not_before <= now || (tracker.urgent && tracker.failures == 0),
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            let (Some(known), Some(tracker)) = (self.tables.policies.get(&key), self.trackers.get(&key))
            else {
                continue;
            };
            let status = Arc::new(self.status(now, known, tracker));
            self.figures.looks += status.pods.len() as u64;
            // The records of an earlier leader are written once more: if that leader wrote something else in between,
            // this write is refused, and nothing is done on old news.
            let recorded = status
                .replacements
                .iter()
                .all(|entry| self.flights.get(&entry.record.uid).is_none_or(|flight| flight.recorded));
            let same = recorded && *status == *known.policy.status;
            let (uid, version) = (known.policy.uid.clone(), known.policy.version.clone());
            let waiting = tracker.writing.as_ref().map(|(id, _)| *id);
            let write = EffectKind::SetStatus { policy: key.clone(), uid, version, status: status.clone() };
            let written = match waiting {
                Some(id) if same => {
                    self.effects.withdraw(id);
                    None
                }
                Some(id) => {
                    if let Some(waiting) = self.effects.waiting_mut(id) {
                        *waiting = write;
                    }
                    Some(id)
                }
                None => (!same).then(|| self.effects.launch(InFlight::Status { policy: key.clone() }, write)),
            };
            if let Some(tracker) = self.trackers.get_mut(&key) {
                (tracker.dirty, tracker.urgent) = (false, false);
                tracker.writing = written.map(|id| (id, status));
            }
        }
    }

    fn status(&self, now: Timestamp, known: &KnownPolicy, tracker: &ReplacementTracker) -> Status {
        let policy = &known.policy;
        let flights: Vec<&Flight> =
            self.flights.values().filter(|flight| flight.policy() == policy.key).collect();
        let totals = Totals {
            selected: tracker.selected,
            in_flight: flights.len() as u64,
            replaced: tracker.replaced,
            overdue: tracker.overdue,
            domains: tracker.domains.len() as u64,
            domains_tainted: tracker.domains_tainted,
            detected: (tracker.due_at.len() as u64).saturating_sub(tracker.due),
            due: tracker.due,
        };
        let pods = self.pods(now, &policy.key, tracker, &flights);
        let mut replacements: Vec<RecordStatus> = flights
            .iter()
            .map(|flight| RecordStatus {
                record: (*flight.record).clone(),
                replacement: flight.replacement(),
                overdue: flight.overdue,
            })
            .collect();
        replacements
            .sort_by(|a, b| (a.record.started, &a.record.pod).cmp(&(b.record.started, &b.record.pod)));
        let conditions = [
            self.progressing(known, tracker, &totals),
            breaker(known, tracker),
            self.degraded(known, tracker, &flights),
        ]
        .into_iter()
        .map(|(kind, holds, reason, message)| {
            condition(now, &policy.status, policy.generation, kind, holds, reason, &message)
        })
        .collect();
        Status { observed_generation: policy.generation, pods, replacements, totals, conditions }
    }

    fn pods(
        &self,
        now: Timestamp,
        policy: &ObjectKey,
        tracker: &ReplacementTracker,
        flights: &[&Flight],
    ) -> Vec<PodStatus> {
        let mut pods = Vec::new();
        // Replacements in flight come first, even if their taint or their pod is gone.
        for flight in flights {
            let record = &flight.record;
            let watch = self.watches.get(&record.pod).filter(|watch| watch.uid == record.uid);
            if watch.and_then(|watch| watch.due_at_for(&record.policy)).is_none() {
                pods.push(PodStatus {
                    pod: record.pod.name.clone(),
                    uid: record.uid.clone(),
                    node: record.node.clone(),
                    cause: record.cause.clone(),
                    condition: record.cause.origin.replacing().into(),
                    since: record.since,
                    first_seen: false,
                    due: record.started,
                    after: record.started,
                    replacement: flight.replacement(),
                    message: flight.note.clone(),
                });
            }
        }
        for (_, key) in tracker.due_at.iter().take(PODS_LISTED_MAX) {
            let Some(watch) = invariant!(self.watches.get(key), "a pod that may be replaced is watched")
            else {
                continue;
            };
            let Some(node) = invariant!(
                self.tables.pods.get(key).and_then(|pod| pod.node.clone()),
                "a pod that may be replaced is on a node"
            ) else {
                continue;
            };
            let findings = watch.findings.iter().filter(|finding| finding.policy == policy.name);
            let flight = self.flights.get(&watch.uid);
            for finding in findings {
                if pods.len() >= PODS_LISTED_MAX {
                    break;
                }
                let held = || match self.guarded.get(key) {
                    Some(why) => why.clone(),
                    None if self.held.contains_key(key) => "held back by a disruption budget".into(),
                    None => Text::default(),
                };
                pods.push(PodStatus {
                    pod: key.name.clone(),
                    uid: watch.uid.clone(),
                    node: node.clone(),
                    cause: finding.cause.clone(),
                    condition: finding.condition(now).into(),
                    since: finding.since,
                    first_seen: watch.seen.iter().any(|seen| !seen.dated && seen.cause == finding.cause),
                    due: finding.due,
                    after: finding.after,
                    replacement: flight.and_then(Flight::replacement),
                    message: flight.map_or_else(held, |flight| flight.note.clone()),
                });
            }
        }
        pods
    }

    fn progressing(
        &self,
        known: &KnownPolicy,
        tracker: &ReplacementTracker,
        totals: &Totals,
    ) -> ConditionText {
        let guarded = self.why_guarded(&known.policy.key).map_or("", Text::as_str);
        let (holds, reason, message) = match known.active() {
            _ if totals.in_flight > 0 => (
                true,
                "Replacing",
                format!(
                    "{} under way, to be finished even if their taints go; {} due, {} detected",
                    totals.in_flight, totals.due, totals.detected
                ),
            ),
            None if !known.problems.is_empty() => (false, "InvalidSpec", String::from("See Degraded")),
            None => (false, "Disabled", String::from("automaticReplacementOptions.enabled is false")),
            Some(spec)
                if spec.node_options.is_empty() && spec.device_options.is_empty() && !spec.node_failures =>
            {
                (false, "Disabled", String::from("There are no taintReplacementOptions"))
            }
            Some(_) if tracker.selected == 0 => (
                false,
                "NothingSelected",
                String::from("spec.podSelector selects no running pod of this namespace"),
            ),
            Some(_) if tracker.tripped => (false, "BreakerTripped", String::from("See BreakerTripped")),
            Some(_) if totals.due > 0 && !guarded.is_empty() => {
                (true, "HeldByGuard", format!("{} due, {} detected; {guarded}", totals.due, totals.detected))
            }
            Some(_) if totals.due > 0 && self.is_held(&known.policy.key) => (
                true,
                "HeldByBudget",
                format!("{} due, held back by a disruption budget; {} detected", totals.due, totals.detected),
            ),
            Some(_) if totals.due > 0 => {
                (true, "Due", format!("{} due, {} detected", totals.due, totals.detected))
            }
            Some(_) if totals.detected > 0 => (false, "Detected", format!("{} detected", totals.detected)),
            Some(_) => (false, "NoTaints", String::from("No pod is on a taint that counts")),
        };
        (PROGRESSING, holds, reason, message)
    }

    /// Why guards keep a pod of this policy, if they keep one.
    fn why_guarded(&self, policy: &ObjectKey) -> Option<&Text> {
        let selected = |pod: &ObjectKey| {
            let watch = self.watches.get(pod);
            watch.is_some_and(|watch| watch.selected.iter().any(|one| one.policy == *policy))
        };
        self.guarded.iter().find(|(pod, _)| selected(pod)).map(|(_, why)| why)
    }

    /// Whether a budget holds a pod of this policy back.
    fn is_held(&self, policy: &ObjectKey) -> bool {
        let held = self.held.keys().filter_map(|pod| self.watches.get(pod));
        held.flat_map(|watch| &watch.selected).any(|one| one.policy == *policy)
    }

    fn degraded(
        &self,
        known: &KnownPolicy,
        tracker: &ReplacementTracker,
        flights: &[&Flight],
    ) -> ConditionText {
        let problems: Vec<String> = known.problems.iter().map(ToString::to_string).collect();
        let overdue: Vec<&str> =
            flights.iter().filter(|flight| flight.overdue).map(|flight| &*flight.record.pod.name).collect();
        let barred: Vec<&str> = self
            .barred
            .iter()
            .filter(|(source, _)| known.active().is_some_and(|spec| needs_source(spec, **source)))
            .map(|(_, why)| why.as_str())
            .collect();
        let (holds, reason, message) = if !problems.is_empty() {
            (true, "InvalidSpec", problems.join("; "))
        } else if !barred.is_empty() {
            (true, "MissingPermission", barred.join("; "))
        } else if let Some(refusal) = &tracker.refusal {
            (true, "Refused", refusal.to_string())
        } else if !overdue.is_empty() {
            (true, "ReplacementNotReady", format!("Not Ready in time: what replaces {}", overdue.join(", ")))
        } else {
            (false, "AsExpected", String::from("Nothing is in the way"))
        };
        (DEGRADED, holds, reason, message)
    }
}

/// Whether a policy needs to see something.
fn needs_source(spec: &Spec, source: Source) -> bool {
    match source {
        Source::Nodes => !spec.node_options.is_empty() || spec.node_failures,
        Source::Devices => !spec.device_options.is_empty(),
        Source::ReplicaSets => spec.strategy == Strategy::ReplaceFirst,
        Source::Pods => true,
    }
}

/// Type, whether it holds, reason, message.
type ConditionText = (&'static str, bool, &'static str, String);

fn breaker(known: &KnownPolicy, tracker: &ReplacementTracker) -> ConditionText {
    let share = known.active().and_then(|spec| spec.max_domains_tainted);
    let counted =
        format!("{} of {} fault domains are tainted", tracker.domains_tainted, tracker.domains.len());
    let (holds, reason, message) = match share {
        None => (false, "NoBreaker", String::from("maxFaultDomainsTainted is not set")),
        Some(share) if tracker.tripped => (
            true,
            "TooManyFaultDomains",
            format!("{counted}, more than maxFaultDomainsTainted {share}: nothing new is begun"),
        ),
        Some(share) => (false, "WithinLimit", format!("{counted}, maxFaultDomainsTainted is {share}")),
    };
    (BREAKER_TRIPPED, holds, reason, message)
}

fn condition(
    now: Timestamp,
    before: &Status,
    generation: i64,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
) -> Condition {
    let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
    let since = before.condition(kind).filter(|before| before.status == status);
    Condition {
        kind: kind.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        last_transition: since.and_then(|before| before.last_transition).or(Some(now.truncated_to_secs())),
    }
}
