//! The server's handling of the writes of kubelets.

use lazaret_kubelet::{Checkpoint, EffectKind, RemovePod, SeenPod};
use lazaret_machine::Outcome;
use lazaret_model::{PodPhase, Text, Uid};
use std::collections::BTreeSet;

use crate::{palette, world::World};

fn name_of(node: usize) -> Text {
    palette::node(u32::try_from(node).unwrap_or(u32::MAX))
}

impl World {
    /// The server does what an effect says. `in_part`: of several writes the first alone.
    pub(super) fn write_for_kubelet(&mut self, kind: &EffectKind, in_part: bool) -> Outcome {
        match kind {
            EffectKind::Report { node, uid, unprepared } => self.report_for(*node, uid, unprepared),
            EffectKind::Save { node, uid, version, checkpoint } => {
                self.save_for(*node, uid, version, checkpoint)
            }
            EffectKind::Start(start) => self.set_phase(&start.pod, PodPhase::Running),
            EffectKind::End(end) => self.set_phase(&end.pod, end.phase),
            EffectKind::Remove(remove) => self.remove_for_kubelet(remove, in_part),
            // No core of these worlds reads these.
            EffectKind::SetPodReady { .. } | EffectKind::RenewLease { .. } | EffectKind::Warn(_) => {
                Outcome::Done
            }
            EffectKind::Register { node, .. } => {
                self.register_node(&name_of(*node));
                Outcome::Done
            }
            // All nodes are registered as ready, and have no taints.
            EffectKind::SetNodeReady { .. } | EffectKind::RemoveNotReadyTaint { .. } => {
                self.violate("a node that is ready is left alone", format!("{kind:?}"));
                Outcome::Gone
            }
        }
    }

    fn report_for(&mut self, node: usize, uid: &Uid, unprepared: &BTreeSet<Uid>) -> Outcome {
        let name = name_of(node);
        match self.reports.by_node.get(&name) {
            Some(report) if report.uid == *uid => {
                if !report.reports {
                    self.answer_for_all_on(&name);
                }
                self.write_report(&name, |report| {
                    report.reports = true;
                    report.unprepared.clone_from(unprepared);
                });
                Outcome::Done
            }
            Some(_) => Outcome::Conflict,
            None => Outcome::Gone,
        }
    }

    fn save_for(&mut self, node: usize, uid: &Uid, version: &Text, checkpoint: &Checkpoint) -> Outcome {
        let name = name_of(node);
        match self.reports.by_node.get(&name) {
            Some(report) if report.uid == *uid && report.version == *version => {
                self.kubelets.checkpoints.insert(uid.clone(), checkpoint.clone());
                self.write_report(&name, |_| {});
                Outcome::Done
            }
            Some(_) => Outcome::Conflict,
            None => Outcome::Gone,
        }
    }

    fn set_phase(&mut self, pod: &SeenPod, phase: PodPhase) -> Outcome {
        let pod = &pod.pod;
        if self.api.edit_pod(&pod.key, &pod.uid, |stored| stored.phase = phase) {
            return Outcome::Done;
        }
        match self.api.pods.get(&pod.key) {
            Some(_) => Outcome::Conflict,
            None => Outcome::Gone,
        }
    }

    /// The end is written first, by a request of its own.
    fn remove_for_kubelet(&mut self, remove: &RemovePod, in_part: bool) -> Outcome {
        let pod = &remove.pod.pod;
        if let Some(end) = &remove.end {
            let outcome = self.set_phase(&end.pod, end.phase);
            if outcome != Outcome::Done || in_part {
                return outcome;
            }
        }
        match self.api.pods.get(&pod.key) {
            Some(stored) if stored.object.uid == pod.uid => {
                self.api.remove_pod(self.now, &pod.key);
                Outcome::Done
            }
            Some(_) => Outcome::Conflict,
            None => Outcome::Gone,
        }
    }
}
