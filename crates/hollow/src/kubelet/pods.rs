//! Pods: from bound to running, ended, stopped and gone.

use std::collections::BTreeSet;

use lazaret_model::{ObjectKey, PodPhase, Timestamp, Uid};
use lazaret_runtime::{Call, PODS, PatchKind};
use serde_json::{Value, json};

use super::{Item, Kubelet, RECHECK_MS};
use crate::{
    annotations::after,
    effect::Effect,
    event, node_json,
    pod::SeenPod,
    pod_json::{self, Place},
};

/// A pod that lacks a claim for this time is reported; a shorter wait is only news that comes late.
const PATIENCE_MS: i64 = 5_000;
/// A pod without a grace period is removed by whoever deletes it. Where that does not happen within this time, its node does it.
const REMOVAL_MS: i64 = 1_000;
/// The exit code of a container that was stopped by SIGTERM.
const TERMINATED: i32 = 143;
/// The pause before the second restart; it doubles with each further one.
const CRASH_PAUSE_MS: i64 = 10_000;
const CRASH_PAUSE_MS_MAX: i64 = 300_000;

/// A pod on one of the nodes.
#[derive(Debug)]
pub(super) struct PodSlot {
    pub(super) seen: SeenPod,
    pub(super) node: usize,
    /// The last part of its address.
    number: Option<u8>,
    progress: Progress,
    /// The effect in flight.
    doing: Option<Doing>,
    waiting_since: Option<Timestamp>,
    complained: bool,
    stopping_since: Option<Timestamp>,
    /// The last write should be seen by then.
    settled_until: Option<Timestamp>,
}

/// How far a pod is. The API may not have heard of it yet, but is never further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Running { since: Timestamp, restarts: u32 },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Complaining,
    /// Another client wrote that it is not ready.
    Correcting,
    Starting {
        since: Timestamp,
        restarts: u32,
    },
    Ending,
    Removing,
}

impl PodSlot {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.progress, Progress::Running { .. })
    }

    fn has_claims(&self) -> bool {
        !self.seen.pod.claims.is_empty() || self.seen.pod.extended_claim.is_some()
    }

    pub(super) fn forget_work(&mut self) {
        (self.doing, self.settled_until) = (None, None);
    }

    /// When its containers exit by themselves, and when they are started again after that.
    fn exit(&self, since: Timestamp, restarts: u32, job_run_ms: i64) -> (Timestamp, Timestamp) {
        let exit = after(since, self.seen.run_for_ms(job_run_ms));
        let pause = match restarts {
            0 => 0,
            n => CRASH_PAUSE_MS.saturating_mul(1 << (n - 1).min(10)).min(CRASH_PAUSE_MS_MAX),
        };
        (exit, exit.plus_millis(pause))
    }
}

impl Kubelet {
    /// A pod as it is now.
    pub fn hear_pod(&mut self, now: Timestamp, seen: SeenPod) {
        let key = seen.key().clone();
        let node = seen.pod.node.as_ref().and_then(|name| self.numbers.get(name).copied());
        let known = self.pods.get_mut(&key).filter(|slot| slot.seen.pod.uid == seen.pod.uid);
        let Some(slot) = known else {
            self.drop_pod(&key);
            if let Some(node) = node {
                self.adopt(now, seen, node);
                self.touch(Item::Pod(key));
            }
            return;
        };
        if seen.pod.phase.is_finished() {
            slot.progress = Progress::Ended;
        }
        let newly_deleted = seen.pod.deleting_since.is_some() && slot.seen.pod.deleting_since.is_none();
        if newly_deleted {
            slot.settled_until = None;
        }
        slot.seen = seen;
        self.touch(Item::Pod(key));
    }

    /// This incarnation of a pod is gone.
    pub fn miss_pod(&mut self, key: &ObjectKey, uid: &Uid) {
        if self.pods.get(key).is_some_and(|slot| slot.seen.pod.uid == *uid) {
            self.drop_pod(key);
        }
    }

    /// All pods there are.
    pub fn list_pods(&mut self, now: Timestamp, pods: Vec<SeenPod>) {
        let there: BTreeSet<Uid> = pods.iter().map(|seen| seen.pod.uid.clone()).collect();
        let gone = self.pods.iter().filter(|(_, slot)| !there.contains(&slot.seen.pod.uid));
        let gone: Vec<ObjectKey> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.drop_pod(key));
        pods.into_iter().for_each(|seen| self.hear_pod(now, seen));
    }

    /// Takes over a pod, as far as it is: it may have been run by a process before this one.
    fn adopt(&mut self, now: Timestamp, seen: SeenPod, node: usize) {
        let progress = match seen.pod.phase {
            PodPhase::Pending | PodPhase::Unknown => Progress::Waiting,
            PodPhase::Running => {
                Progress::Running { since: seen.start_time.unwrap_or(now), restarts: seen.restarts }
            }
            PodPhase::Succeeded | PodPhase::Failed => Progress::Ended,
        };
        let address = seen.address.as_deref().filter(|_| !seen.host_network);
        let number = address.and_then(|address| node_json::pod_number(node, address));
        if let Some(number) = number {
            self.nodes[node].mark(number, true);
        }
        let slot = PodSlot {
            node,
            number,
            progress,
            doing: None,
            waiting_since: None,
            complained: false,
            stopping_since: None,
            settled_until: None,
            seen,
        };
        let (key, running) = (slot.seen.key().clone(), slot.is_running());
        self.pods.insert(key.clone(), slot);
        if running && self.leads {
            self.prepare(&key);
        }
    }

    fn drop_pod(&mut self, key: &ObjectKey) {
        if let Some(slot) = self.pods.remove(key) {
            self.forget_user(&slot);
            if let Some(number) = slot.number {
                self.nodes[slot.node].mark(number, false);
            }
            self.agenda.forget(&Item::Pod(key.clone()));
        }
    }

    pub(super) fn look_at_pod(&mut self, now: Timestamp, key: &ObjectKey) -> Option<Effect> {
        let slot = self.pods.get(key)?;
        if let Some(until) = slot.settled_until.filter(|until| *until > now) {
            self.agenda.later(until, Item::Pod(key.clone()));
            return None;
        }
        if slot.seen.pod.deleting_since.is_some() {
            return self.stop(now, key);
        }
        match slot.progress {
            Progress::Waiting => self.try_start(now, key),
            Progress::Running { since, restarts } => self.go_on(now, key, since, restarts),
            Progress::Ended => None,
        }
    }

    fn try_start(&mut self, now: Timestamp, key: &ObjectKey) -> Option<Effect> {
        let slot = self.pods.get(key)?;
        let pod = &slot.seen.pod;
        let Some(lack) = self.lack(pod).or_else(|| self.lack_of_device(slot.node, pod)) else {
            self.prepare(key);
            return self.start(now, key, now, 0);
        };
        if let Some(claim) = lack.claim {
            self.wait_for(claim, key);
        }
        let slot = self.pods.get_mut(key)?;
        let complain_at = slot.waiting_since.get_or_insert(now).plus_millis(PATIENCE_MS);
        if slot.complained {
            return None;
        }
        if now < complain_at {
            self.agenda.later(complain_at, Item::Pod(key.clone()));
            return None;
        }
        slot.complained = true;
        slot.doing = Some(Doing::Complaining);
        let message = format!("Failed to prepare dynamic resources: {}", lack.why);
        let node = self.options.node_name(slot.node);
        let event = event::warning(&slot.seen.pod, &node, "FailedPrepareDynamicResources", &message, now);
        Some(Effect::Calls(vec![event]))
    }

    fn go_on(&mut self, now: Timestamp, key: &ObjectKey, since: Timestamp, restarts: u32) -> Option<Effect> {
        let slot = self.pods.get(key)?;
        let (exit_at, restart_at) = slot.exit(since, restarts, self.options.job_run_ms);
        let phase = slot.seen.phase_after_exit();
        let delay = if slot.has_claims() { self.unprepare_ms(slot.node) } else { 0 };
        let next = if phase.is_some() { exit_at.plus_millis(delay) } else { restart_at };
        if now < next && slot.seen.is_unready && slot.seen.pod.phase == PodPhase::Running {
            let slot = self.pods.get_mut(key)?;
            slot.doing = Some(Doing::Correcting);
            return Some(Effect::Calls(vec![patch_status(key, &pod_json::ready(&slot.seen, now))]));
        }
        if now < next {
            if next < Timestamp::NEVER {
                self.agenda.later(next, Item::Pod(key.clone()));
            }
            return None;
        }
        let Some(phase) = phase else { return self.start(now, key, now, restarts.saturating_add(1)) };
        // A pod that has ended has nothing prepared any more.
        let (node, uid) = (slot.node, slot.seen.pod.uid.clone());
        self.unprepare_for(node, &uid);
        let slot = self.pods.get_mut(key)?;
        slot.doing = Some(Doing::Ending);
        let status = pod_json::ended(&slot.seen, phase, slot.seen.script.exit_code, now, restarts);
        Some(Effect::Calls(vec![patch_status(key, &status)]))
    }

    fn start(&mut self, now: Timestamp, key: &ObjectKey, since: Timestamp, restarts: u32) -> Option<Effect> {
        let slot = self.pods.get_mut(key)?;
        let host_ip = node_json::host_ip(slot.node);
        let pod_ip = if slot.seen.host_network {
            host_ip.clone()
        } else {
            let number = *slot.number.get_or_insert_with(|| self.nodes[slot.node].take_address());
            node_json::pod_ip(slot.node, number)
        };
        slot.doing = Some(Doing::Starting { since, restarts });
        slot.seen.start_time.get_or_insert(now);
        let status = pod_json::running(&slot.seen, &Place { host_ip, pod_ip }, since, restarts);
        Some(Effect::Calls(vec![patch_status(key, &status)]))
    }

    /// Waits for the containers to stop, tells how they ended, and lets the object go.
    fn stop(&mut self, now: Timestamp, key: &ObjectKey) -> Option<Effect> {
        let slot = self.pods.get_mut(key)?;
        let since = *slot.stopping_since.get_or_insert(now);
        let mut calls = Vec::new();
        if let Progress::Running { restarts, .. } = slot.progress {
            let (node, uid) = (slot.node, slot.seen.pod.uid.clone());
            let removal = if slot.seen.grace_ms == 0 { REMOVAL_MS } else { 0 };
            let stopped = since.plus_millis(slot.seen.stop_ms() + removal);
            let delay = if slot.has_claims() { self.unprepare_ms(node) } else { 0 };
            let unprepared = stopped.plus_millis(delay);
            if now < unprepared {
                self.agenda.later(unprepared, Item::Pod(key.clone()));
                return None;
            }
            self.unprepare_for(node, &uid);
            let slot = self.pods.get(key)?;
            let status = pod_json::ended(&slot.seen, PodPhase::Failed, TERMINATED, now, restarts);
            calls.push(patch_status(key, &status));
        }
        let slot = self.pods.get_mut(key)?;
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": &*slot.seen.pod.uid}});
        calls.push(Call::delete(&PODS, &key.namespace, &key.name, options.to_string()));
        slot.doing = Some(Doing::Removing);
        Some(Effect::Calls(calls))
    }

    pub(super) fn pod_written(&mut self, now: Timestamp, key: &ObjectKey, done: bool) {
        let Some(slot) = self.pods.get_mut(key) else { return };
        let Some(doing) = slot.doing.take() else { return };
        if !done {
            slot.settled_until = Some(now.plus_millis(RECHECK_MS));
            return;
        }
        match doing {
            Doing::Complaining => {}
            Doing::Starting { since, restarts } => slot.progress = Progress::Running { since, restarts },
            Doing::Ending => slot.progress = Progress::Ended,
            Doing::Correcting | Doing::Removing => {
                slot.settled_until = Some(now.plus_millis(RECHECK_MS));
            }
        }
    }
}

fn patch_status(key: &ObjectKey, status: &Value) -> Call {
    Call::patch(&PODS, &key.namespace, &key.name, "status", PatchKind::Strategic, status.to_string())
}
