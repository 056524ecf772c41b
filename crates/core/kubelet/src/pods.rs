//! Pods: from bound to running, ended, stopped and gone.

use alloc::{collections::BTreeSet, format, sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, PodPhase, Timestamp, Uid};

use crate::{
    effect::{EffectKind, EndPod, RemovePod, StartPod, Warning},
    machine::{Item, Kubelet, RECHECK_MS},
    pod::SeenPod,
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
#[derive(Clone, Debug)]
pub(crate) struct PodSlot {
    pub(crate) seen: Arc<SeenPod>,
    /// When it was first started.
    started: Option<Timestamp>,
    pub(crate) node: usize,
    /// The last part of its address.
    number: Option<u8>,
    progress: Progress,
    /// The effect in flight.
    doing: Option<Doing>,
    waiting_since: Option<Timestamp>,
    complained: bool,
    stopping_since: Option<Timestamp>,
    /// Its containers have stopped for good: nothing is prepared for it any more.
    has_stopped: bool,
    /// The revision of the node that says that nothing is prepared for it any more.
    pub(crate) left: Option<u64>,
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
    /// Whether its containers run, here or as the process before this one left them.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.progress, Progress::Running { .. }) && !self.has_stopped
    }

    fn has_claims(&self) -> bool {
        !self.seen.pod.claims.is_empty() || self.seen.pod.extended_claim.is_some()
    }

    pub(crate) fn forget_work(&mut self) {
        (self.doing, self.settled_until) = (None, None);
    }

    fn end(&self, phase: PodPhase, exit_code: i32, at: Timestamp, restarts: u32) -> EndPod {
        let (node, pod, started) = (self.node, Arc::clone(&self.seen), self.started);
        EndPod { node, pod, phase, exit_code, started, at, restarts }
    }

    /// When its containers exit by themselves, and when they are started again after that.
    fn exit(&self, since: Timestamp, restarts: u32, job_run_ms: i64) -> (Timestamp, Timestamp) {
        let exit =
            self.seen.run_for_ms(job_run_ms).map_or(Timestamp::NEVER, |millis| since.plus_millis(millis));
        let pause = match restarts {
            0 => 0,
            n => CRASH_PAUSE_MS.saturating_mul(1 << (n - 1).min(10)).min(CRASH_PAUSE_MS_MAX),
        };
        (exit, exit.plus_millis(pause))
    }
}

impl Kubelet {
    /// A pod as it is now.
    pub(crate) fn hear_pod(&mut self, now: Timestamp, seen: Arc<SeenPod>) {
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
        let (node, has_ended) = (slot.node, seen.pod.phase.is_finished());
        if has_ended {
            slot.progress = Progress::Ended;
        }
        let newly_deleted = seen.pod.deleting_since.is_some() && slot.seen.pod.deleting_since.is_none();
        if newly_deleted {
            slot.settled_until = None;
        }
        slot.started = seen.start_time;
        let uid = seen.pod.uid.clone();
        slot.seen = seen;
        if has_ended {
            // Another client may have written it: the process before this one, or the garbage collection of pods.
            self.unprepare_for(node, &uid);
        }
        self.touch(Item::Pod(key));
    }

    /// This incarnation of a pod is gone.
    pub(crate) fn miss_pod(&mut self, key: &ObjectKey, uid: &Uid) {
        if self.pods.get(key).is_some_and(|slot| slot.seen.pod.uid == *uid) {
            self.drop_pod(key);
        }
    }

    /// All pods there are.
    pub(crate) fn list_pods(&mut self, now: Timestamp, pods: Vec<Arc<SeenPod>>) {
        let there: BTreeSet<Uid> = pods.iter().map(|seen| seen.pod.uid.clone()).collect();
        let gone = self.pods.iter().filter(|(_, slot)| !there.contains(&slot.seen.pod.uid));
        let gone: Vec<ObjectKey> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.drop_pod(key));
        pods.into_iter().for_each(|seen| self.hear_pod(now, seen));
    }

    /// Takes over a pod, as far as it is: it may have been run by a process before this one.
    fn adopt(&mut self, now: Timestamp, seen: Arc<SeenPod>, node: usize) {
        let progress = match seen.pod.phase {
            PodPhase::Pending | PodPhase::Unknown => Progress::Waiting,
            PodPhase::Running => {
                Progress::Running { since: seen.start_time.unwrap_or(now), restarts: seen.restarts }
            }
            PodPhase::Succeeded | PodPhase::Failed => Progress::Ended,
        };
        let number = seen.address.filter(|_| !seen.host_network);
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
            has_stopped: false,
            left: None,
            settled_until: None,
            started: seen.start_time,
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
            if let Some(waiting) = self.waiting_for_node.get_mut(&slot.node) {
                waiting.remove(key);
            }
            self.agenda.forget(&Item::Pod(key.clone()));
        }
    }

    pub(crate) fn look_at_pod(&mut self, now: Timestamp, key: &ObjectKey) -> Option<EffectKind> {
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

    fn try_start(&mut self, now: Timestamp, key: &ObjectKey) -> Option<EffectKind> {
        let slot = self.pods.get(key)?;
        let node = slot.node;
        let pod = Arc::clone(&slot.seen.pod);
        let lack = self.lack(&pod).or_else(|| self.lack_of_word(node, &pod));
        let lack = lack.or_else(|| self.lack_of_notes(node, &pod));
        let lack = lack.or_else(|| self.lack_of_device(node, &pod)).or_else(|| {
            self.prepare(key);
            self.lack_of_save(node, &pod)
        });
        let Some(lack) = lack else { return self.start(now, key, now, 0) };
        self.wait_for(lack.wait, node, key);
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
        let (pod, reason) = (Arc::clone(&slot.seen), "FailedPrepareDynamicResources");
        let holders = self.told_to_holders(node, &pod.pod);
        Some(EffectKind::Warn(Warning { node, pod, reason, message, at: now, holders }))
    }

    fn go_on(
        &mut self,
        now: Timestamp,
        key: &ObjectKey,
        since: Timestamp,
        restarts: u32,
    ) -> Option<EffectKind> {
        let slot = self.pods.get(key)?;
        let (exit_at, restart_at) = slot.exit(since, restarts, self.options.job_run_ms);
        let phase = slot.seen.phase_after_exit();
        let delay = if slot.has_claims() { self.unprepare_ms(slot.node) } else { 0 };
        let next = if phase.is_some() { exit_at.plus_millis(delay) } else { restart_at };
        if now < next && slot.seen.is_unready && slot.seen.pod.phase == PodPhase::Running {
            let slot = self.pods.get_mut(key)?;
            slot.doing = Some(Doing::Correcting);
            let pod = Arc::clone(&slot.seen);
            return Some(EffectKind::SetPodReady { node: slot.node, pod, at: now });
        }
        if now < next {
            if next < Timestamp::NEVER {
                self.agenda.later(next, Item::Pod(key.clone()));
            }
            return None;
        }
        let Some(phase) = phase else { return self.start(now, key, now, restarts.saturating_add(1)) };
        // A pod that has ended has nothing prepared any more.
        if self.has_left_prepared(key) {
            return None;
        }
        let slot = self.pods.get_mut(key)?;
        slot.doing = Some(Doing::Ending);
        Some(EffectKind::End(slot.end(phase, slot.seen.script.exit_code, now, restarts)))
    }

    fn start(
        &mut self,
        now: Timestamp,
        key: &ObjectKey,
        since: Timestamp,
        restarts: u32,
    ) -> Option<EffectKind> {
        let slot = self.pods.get_mut(key)?;
        let address = (!slot.seen.host_network)
            .then(|| *slot.number.get_or_insert_with(|| self.nodes[slot.node].take_address()));
        slot.doing = Some(Doing::Starting { since, restarts });
        let started = *slot.started.get_or_insert(now);
        let pod = Arc::clone(&slot.seen);
        Some(EffectKind::Start(StartPod { node: slot.node, pod, address, started, since, restarts }))
    }

    /// Waits for the containers to stop, writes how they ended, and deletes the object.
    fn stop(&mut self, now: Timestamp, key: &ObjectKey) -> Option<EffectKind> {
        let slot = self.pods.get_mut(key)?;
        let since = *slot.stopping_since.get_or_insert(now);
        let mut end = None;
        if let Progress::Running { restarts, .. } = slot.progress {
            let removal = if slot.seen.grace_ms == 0 { REMOVAL_MS } else { 0 };
            let stopped = since.plus_millis(slot.seen.stop_ms() + removal);
            let (node, has_claims) = (slot.node, slot.has_claims());
            let delay = if has_claims { self.unprepare_ms(node) } else { 0 };
            let unprepared = stopped.plus_millis(delay);
            if now < unprepared {
                self.agenda.later(unprepared, Item::Pod(key.clone()));
                return None;
            }
            if self.has_left_prepared(key) {
                return None;
            }
            let slot = self.pods.get_mut(key)?;
            end = Some(slot.end(PodPhase::Failed, TERMINATED, now, restarts));
        }
        let slot = self.pods.get_mut(key)?;
        slot.doing = Some(Doing::Removing);
        Some(EffectKind::Remove(RemovePod { node: slot.node, pod: Arc::clone(&slot.seen), end }))
    }

    /// Unprepares what only this pod used, whose containers have stopped. Whether the Node may still say that something is prepared for it.
    fn has_left_prepared(&mut self, key: &ObjectKey) -> bool {
        let Some(slot) = self.pods.get_mut(key) else { return false };
        slot.has_stopped = true;
        let (node, uid) = (slot.node, slot.seen.pod.uid.clone());
        if self.unprepare_for(node, &uid) {
            let revision = self.nodes[node].notes.change();
            if let Some(slot) = self.pods.get_mut(key) {
                slot.left = Some(revision);
            }
        }
        self.is_noted_for(key)
    }

    pub(crate) fn pod_written(&mut self, now: Timestamp, key: &ObjectKey, done: bool) {
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
