//! The objects around a device on which the next step of its incident depends.

use alloc::sync::Arc;

use lazaret_model::{Text, Timestamp};

use super::{Child, ChildKind, Reconciler, state::child_key};
use crate::{
    effect::Input as CoreInput,
    incident::{Incident, Stage},
    machine::Lifecycle,
    wanted::Task,
};

/// The objects around the device of an incident that its next step depends on.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) has_rule: bool,
    pub(super) has_drain: bool,
    /// The Job of the task that is wanted.
    pub(super) has_job: bool,
    /// The rule that taints it as its stage says, and that no guard holds.
    pub(super) rule: Option<Child>,
    /// Why that has no effect yet.
    pub(super) held: Text,
    /// Why its pods stay.
    pub(super) blocked: Text,
    /// The Job of an earlier task, whose pod may still run.
    pub(super) last: Text,
}

impl Scene {
    pub(super) fn takes_place(&mut self, kind: ChildKind) {
        match kind {
            ChildKind::Rule => self.has_rule = true,
            ChildKind::Drain => self.has_drain = true,
            ChildKind::Job => self.has_job = true,
            ChildKind::Claim => {}
        }
    }

    /// The obstacle of an incident, for people.
    fn why(&self, incident: &Incident, lifecycle: &Lifecycle, begins_task: bool) -> Option<Text> {
        let name = &incident.name;
        if !self.held.is_empty() {
            return Some(
                alloc::format!("approval of the taint {name}, which a guard holds: {}", self.held).into(),
            );
        }
        if incident.stage == Stage::Draining {
            let stays = lifecycle.stays(&incident.device);
            return [&stays, &self.blocked].into_iter().find(|why| !why.is_empty()).cloned();
        }
        if !begins_task {
            return None;
        }
        if self.rule.is_none() {
            return Some(alloc::format!("the taint {name}, which is being written, to be in force").into());
        }
        if !self.last.is_empty() {
            return Some(alloc::format!("Job {}, the task before, to end with its pod", self.last).into());
        }
        if lifecycle.is_used(&incident.device) == Some(true) {
            let stays = lifecycle.stays(&incident.device);
            return Some(if stays.is_empty() {
                "the pods that use its device to leave".into()
            } else {
                stays
            });
        }
        None
    }
}

impl Reconciler {
    /// Whether the next task of an incident may begin. Says what keeps it, or what else the incident waits for; an incident whose device is drained
    /// goes on when it is.
    pub(super) fn may_begin(
        &mut self,
        now: Timestamp,
        incident: &Arc<Incident>,
        task: Option<Task>,
        scene: &Scene,
    ) -> bool {
        let number = incident.number;
        if incident.stage == Stage::Draining && self.is_clear(now, incident, scene.rule.as_ref()) {
            self.lifecycle.handle(now, CoreInput::Idle { incident: number });
            return false;
        }
        // A request goes on, and is only looked at.
        let is_begun = incident.task.as_ref().is_some_and(|made| made.name == incident.task_name())
            && task.is_some_and(|task| self.lifecycle.is_request(incident, task));
        let begins = task.filter(|_| !is_begun);
        let why = scene.why(incident, &self.lifecycle, begins.is_some());
        let obstacle = self.obstacles.get(&incident.name).filter(|(of, _)| *of == incident.task_name());
        let obstacle = obstacle.map(|(_, why)| why.clone());
        if begins.is_none() {
            if incident.stage != Stage::Draining {
                self.looks.forget(&incident.name);
            }
            self.lifecycle.keep(now, number, false);
            self.lifecycle.explain(number, why.or(obstacle));
            return is_begun;
        }
        let is_kept = why.is_some();
        self.lifecycle.keep(now, number, is_kept);
        self.lifecycle.explain(number, why.or(obstacle));
        if is_kept {
            self.looks.renew(&incident.name);
            return false;
        }
        // It may have been given up by what was just said.
        let is_current = self.lifecycle.incident(number).is_some_and(|now| now.tries == incident.tries);
        let key = child_key(ChildKind::Job, &incident.task_name());
        is_current && self.is_free(now, &key) && self.is_clear(now, incident, scene.rule.as_ref())
    }
}
