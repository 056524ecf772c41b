//! Kubelets: pods start, end, and take their time to terminate.

use lazaret_model::{ObjectKey, Pod, PodPhase, Uid};

use crate::world::{Step, World};

/// A slow kubelet takes so much longer.
const SLOW_MS: u64 = 30_000;
/// A kubelet that is asked about a claim prepares it for nobody. It looks again after this time.
const WAIT_MS: u64 = 500;
/// A pod starts within this time.
const START_MS_MAX: u32 = 800;

impl World {
    /// A pod was written: its kubelet may have to act.
    pub(crate) fn kubelet_sees(&mut self, key: &ObjectKey, pod: Option<&Pod>) {
        let Some(pod) = pod else { return };
        let Some(node) = &pod.node else { return };
        if pod.deleting_since.is_some() {
            if self.workloads.terminating.insert(pod.uid.clone()) {
                let slow = if self.workloads.slow_nodes.contains(node) { SLOW_MS } else { 0 };
                let grace = self.rng.below(u64::from(self.config.grace_ms) + 1);
                self.push(self.now + grace + slow, Step::RemovePod(key.clone(), pod.uid.clone()));
            }
        } else if pod.phase == PodPhase::Pending && self.workloads.starting.insert(pod.uid.clone()) {
            self.push_soon(START_MS_MAX, Step::StartPod(key.clone(), pod.uid.clone()));
        }
    }

    pub(crate) fn start_pod(&mut self, key: &ObjectKey, uid: &Uid) {
        let found = self.api.pods.get(key).filter(|stored| stored.object.uid == *uid);
        if found.is_some_and(|stored| self.must_wait(stored.object)) {
            return self.push(self.now + WAIT_MS, Step::StartPod(key.clone(), uid.clone()));
        }
        let mut has_ended = false;
        let is_there = self.api.edit_pod(key, uid, |pod| {
            has_ended = pod.phase.is_finished();
            if pod.phase == PodPhase::Pending {
                pod.phase = PodPhase::Running;
            }
        });
        // Nothing is prepared for a pod that has ended.
        if is_there && !has_ended {
            self.prepare(key);
            self.plan_end(key, uid);
        }
    }

    /// A pod ends, well or badly. A terminating pod may still do so.
    pub(crate) fn end_pod(&mut self, key: &ObjectKey, uid: &Uid, well: bool) {
        // Nothing has ended whose devices are prepared.
        self.unprepare(uid);
        self.api.edit_pod(key, uid, |pod| {
            if pod.node.is_some() && !pod.phase.is_finished() {
                pod.phase = if well { PodPhase::Succeeded } else { PodPhase::Failed };
            }
        });
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey, uid: &Uid) {
        if self.api.pods.get(key).is_some_and(|stored| stored.object.uid == *uid) {
            // In order: unprepared, a terminal phase, gone.
            self.unprepare(uid);
            self.api.edit_pod(key, uid, |pod| {
                if !pod.phase.is_finished() {
                    pod.phase = PodPhase::Failed;
                }
            });
            self.api.remove_pod(self.now, key);
        }
    }
}
