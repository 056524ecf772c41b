//! From the objects around a pod to its timers.

use alloc::{sync::Arc, vec::Vec};

use lazaret_fleet::Fleet;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use crate::{
    effect::{Note, Severity, Subject},
    finding::{Cause, Finding, Origin},
    flight::{SeenTaint, Selected, Watch},
    input::Source,
    machine::Replacement,
    matching::option_for,
    objects::Pod,
    policy::Spec,
    words,
};

/// A taint around a pod, and when it was set, if it says so.
type DatedCause = (Cause, Option<Timestamp>);

impl Replacement {
    /// Makes what is known of one pod what the objects say. `resuming`: timers go on where the status left them.
    pub(crate) fn evaluate(&mut self, now: Timestamp, fleet: &Fleet, key: &ObjectKey, resuming: bool) {
        self.figures.looks += 1;
        // Guards are asked again if it is still due.
        self.guarded.remove(key);
        let before = self.retract(key);
        let Some(pod) = self.tables.pods.get(key).cloned() else {
            self.held.remove(key);
            return;
        };
        self.adopt_marked(&pod);
        let before = before.filter(|watch| watch.uid == pod.uid);
        if !pod.is_subject() {
            return self.post_spared_event(&pod, before.as_ref(), &[]);
        }
        let Some(node) = pod.node.clone() else { return };
        let selected: Vec<(ObjectKey, Arc<Spec>)> = self
            .tables
            .active_in(&key.namespace)
            .filter(|(_, spec)| spec.selector.matches(&pod.labels))
            .map(|(policy, spec)| (policy.clone(), spec.clone()))
            .collect();
        if selected.is_empty() {
            return self.post_spared_event(&pod, before.as_ref(), &[]);
        }
        let mut watch = Watch { uid: pod.uid.clone(), looked: now, ..Watch::default() };
        for (cause, added) in self.around(fleet, &pod, &node) {
            let since = self.since(now, &pod, before.as_ref(), &cause, added, resuming);
            watch.seen.push(SeenTaint { cause, since, dated: added.is_some() });
        }
        for (policy, spec) in &selected {
            for SeenTaint { cause, since, .. } in &watch.seen {
                watch.findings.extend(finding(&policy.name, spec, cause, *since));
            }
            if let Some(found) = self.failure(policy, spec, &node, &pod) {
                watch.findings.push(found);
            }
            let domain = self.tables.domain(spec, &node);
            watch.selected.push(Selected { policy: policy.clone(), domain, due: false });
        }
        watch.findings.sort_by(|a, b| (a.after, &a.cause, &a.policy).cmp(&(b.after, &b.cause, &b.policy)));
        self.announce(now, &pod, before.as_ref(), &watch, resuming);
        self.post_spared_event(&pod, before.as_ref(), &watch.findings);
        self.insert(now, key, watch);
    }

    /// All taints around a pod that can be seen now, each once.
    fn around(&self, fleet: &Fleet, pod: &Pod, node: &Text) -> Vec<DatedCause> {
        let mut around: Vec<DatedCause> = Vec::new();
        let node_taints = self.tables.nodes.get(node).filter(|_| !self.barred.contains_key(&Source::Nodes));
        for taint in node_taints.into_iter().flat_map(|node| &node.taints) {
            let cause = Cause {
                origin: Origin::Node,
                place: node.clone(),
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
            };
            around.push((cause, taint.time_added));
        }
        let ix = fleet.pod_ix(&pod.key).filter(|_| !self.barred.contains_key(&Source::Devices));
        for held in ix.into_iter().flat_map(|ix| fleet.claims_of_pod(ix)).flat_map(|claim| fleet.held(claim))
        {
            for found in held.taints() {
                let cause = Cause {
                    origin: Origin::Device,
                    place: alloc::format!("{}", held.device).into(),
                    key: found.taint.key.clone(),
                    value: found.taint.value.clone(),
                    effect: found.taint.effect.name().into(),
                };
                around.push((cause, found.taint.time_added));
            }
        }
        // The same words from two sources are one taint, as old as the older.
        around.sort_by(|a, b| (&a.0, a.1.is_none(), a.1).cmp(&(&b.0, b.1.is_none(), b.1)));
        around.dedup_by(|b, a| a.0 == b.0);
        around
    }

    /// When a taint began to count for a pod.
    fn since(
        &self,
        now: Timestamp,
        pod: &Pod,
        before: Option<&Watch>,
        cause: &Cause,
        added: Option<Timestamp>,
        resuming: bool,
    ) -> Timestamp {
        if let Some(added) = added {
            let dated = |at| self.options.set_back.map_or(at, |set_back| set_back.dated(now, at));
            return dated(added).max(dated(pod.created));
        }
        let known = before.into_iter().flat_map(|watch| &watch.seen);
        if let Some(seen) = known.into_iter().find(|seen| !seen.dated && seen.cause == *cause) {
            return seen.since;
        }
        let written = resuming.then(|| self.written_since(&pod.key.namespace, &pod.uid, cause)).flatten();
        // Whole seconds, as the API keeps them; up, so that no replacement is early.
        written.unwrap_or_else(|| now.plus_millis(999).truncated_to_secs())
    }

    /// When a machine before this one first saw a taint without a time.
    fn written_since(&self, namespace: &Text, uid: &Uid, cause: &Cause) -> Option<Timestamp> {
        let policies = self.tables.active_in(namespace).filter_map(|(key, _)| self.tables.policies.get(key));
        let listed = policies.filter_map(|known| known.policy.status.listed(uid, cause));
        // One that was dated then is another one than this.
        listed.filter(|listed| listed.first_seen).map(|listed| listed.since).min()
    }

    /// A node that is not Ready is as good as a taint of that name, with a patience of its own and no second delay.
    fn failure(&self, policy: &ObjectKey, spec: &Spec, node: &Text, pod: &Pod) -> Option<Finding> {
        let failing = self.tables.nodes.get(node).filter(|_| !self.barred.contains_key(&Source::Nodes))?;
        let failing = failing.failing.as_ref().filter(|_| spec.node_failures)?;
        let since = failing.since.max(pod.created);
        let after = in_time(since.plus_secs(spec.failure_secs));
        let cause = Cause {
            origin: Origin::Node,
            place: node.clone(),
            key: failing.key.clone(),
            value: Text::default(),
            effect: Text::default(),
        };
        Some(Finding { policy: policy.name.clone(), cause, since, due: after, after })
    }

    /// Takes a pod out of everything that is counted.
    fn retract(&mut self, key: &ObjectKey) -> Option<Watch> {
        let watch = self.watches.remove(key)?;
        // It may have slots of policies that selected it only after its replacement began.
        self.may_start |= self.flights.contains_key(&watch.uid);
        if let Some(at) = watch.timer {
            self.timers.remove(&(at, key.clone()));
        }
        if let Some(at) = watch.due_at() {
            self.due_at.remove(&(at, key.clone()));
        }
        for Selected { policy, domain, due } in &watch.selected {
            let Some(tracker) = self.trackers.get_mut(policy) else { continue };
            tracker.selected = tracker.selected.saturating_sub(1);
            tracker.due = tracker.due.saturating_sub(u64::from(*due));
            let due_at = watch.due_at_for(&policy.name);
            if let Some(at) = due_at {
                tracker.due_at.remove(&(at, key.clone()));
            }
            tracker.dirty = true;
            tracker.count_out(domain, due_at.is_some());
        }
        Some(watch)
    }

    fn insert(&mut self, now: Timestamp, key: &ObjectKey, mut watch: Watch) {
        let Watch { selected, findings, .. } = &mut watch;
        for Selected { policy, domain, due } in selected {
            let Some(tracker) = self.trackers.get_mut(policy) else { continue };
            tracker.selected += 1;
            *due = findings.iter().any(|finding| finding.policy == policy.name && finding.due <= now);
            tracker.due += u64::from(*due);
            let due_at =
                findings.iter().find(|finding| finding.policy == policy.name).map(|first| first.after);
            if let Some(at) = due_at {
                tracker.due_at.insert((at, key.clone()));
            }
            tracker.dirty = true;
            tracker.count_in(domain, due_at.is_some());
        }
        if let Some(at) = watch.due_at() {
            self.due_at.insert((at, key.clone()));
            self.may_start |= at <= now;
        }
        self.set_timer(now, key, &mut watch);
        self.watches.insert(key.clone(), watch);
    }

    fn set_timer(&mut self, now: Timestamp, key: &ObjectKey, watch: &mut Watch) {
        let times = watch.findings.iter().flat_map(|finding| [finding.due, finding.after]);
        watch.timer = times.filter(|at| *at > now && *at < Timestamp::NEVER).min();
        if let Some(at) = watch.timer {
            self.timers.insert((at, key.clone()));
        }
    }

    /// Handles the timers that have expired.
    pub(crate) fn fire_timers(&mut self, now: Timestamp) {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            let Some(mut watch) = self.watches.remove(&key) else { continue };
            if let Some(pod) = self.tables.pods.get(&key).cloned() {
                let looked = watch.looked;
                for finding in &watch.findings {
                    if looked < finding.due && finding.due <= now {
                        self.post_event(words::replacing(&pod, finding));
                    }
                }
            }
            watch.looked = now;
            let Watch { selected, findings, .. } = &mut watch;
            for Selected { policy, due, .. } in selected {
                let Some(tracker) = self.trackers.get_mut(policy) else { continue };
                tracker.dirty = true;
                let rung = findings.iter().any(|finding| finding.policy == policy.name && finding.due <= now);
                tracker.due += u64::from(rung && !*due);
                *due |= rung;
            }
            self.set_timer(now, &key, &mut watch);
            self.watches.insert(key, watch);
            self.may_start = true;
        }
    }

    /// Tells of taints that are new, once for each taint however many policies mind it.
    fn announce(&mut self, now: Timestamp, pod: &Pod, before: Option<&Watch>, watch: &Watch, resuming: bool) {
        let mut reported: Vec<&Cause> = Vec::new();
        for finding in &watch.findings {
            let known = before.is_some_and(|before| before.findings.iter().any(|f| f.cause == finding.cause));
            if known || reported.contains(&&finding.cause) {
                continue;
            }
            reported.push(&finding.cause);
            let listed = resuming
                .then(|| self.tables.policies.get(&ObjectKey::new(&*pod.key.namespace, &*finding.policy)))
                .flatten()
                .and_then(|known| known.policy.status.listed(&pod.uid, &finding.cause));
            let was_replacing = listed.is_some_and(|pod| pod.condition == finding.cause.origin.replacing());
            if finding.due <= now {
                if !was_replacing {
                    self.post_event(words::replacing(pod, finding));
                }
            } else if listed.is_none() {
                self.post_event(words::detected(pod, finding));
            }
        }
        if let Some(before) = before {
            // These findings came due between their timer and this evaluation.
            for finding in before.findings.iter().filter(|f| before.looked < f.due && f.due <= now) {
                if watch.findings.contains(finding) {
                    self.post_event(words::replacing(pod, finding));
                }
            }
        }
    }

    /// Every taint that concerned a pod went before anything was done to it.
    fn post_spared_event(&mut self, pod: &Pod, before: Option<&Watch>, now: &[Finding]) {
        let Some(first) = before.and_then(|watch| watch.findings.first()) else { return };
        if now.is_empty() && pod.is_subject() && !self.flights.contains_key(&pod.uid) {
            self.post_event(Note {
                about: Subject::Pod,
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                severity: Severity::Normal,
                reason: "TaintCleared",
                message: alloc::format!("Not to be replaced any more: {} is gone", first.cause).into(),
            });
        }
    }
}

fn finding(policy: &Text, spec: &Spec, cause: &Cause, since: Timestamp) -> Option<Finding> {
    let options = match cause.origin {
        Origin::Node => &spec.node_options,
        Origin::Device => &spec.device_options,
    };
    let option = option_for(options, &cause.key, &cause.value, &cause.effect)?;
    let due = in_time(since.plus_secs(option.secs));
    let after = in_time(due.plus_secs(spec.replacement_secs));
    Some(Finding { policy: policy.clone(), cause: cause.clone(), since, due, after })
}

/// A time beyond the year 9999 is never: the API cannot express it.
fn in_time(at: Timestamp) -> Timestamp {
    if at > LAST { Timestamp::NEVER } else { at }
}

const LAST: Timestamp = Timestamp::from_secs(253_402_300_799);
