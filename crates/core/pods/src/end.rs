//! The actions that end a pod.

use alloc::format;

use lazaret_invariant::invariant;

use crate::{
    Action, Kind, Millis,
    container::{Stopping, Work},
    machine::{ActionTarget, Out},
    pod::{Claims, Deletion, EndReason, Pod, Sandbox, Volumes, Writing},
};

/// Containers have at least this long between the signal that asks them to stop and the one that kills them, as kubelet has it.
const GRACE_MS_MIN: Millis = 2_000;

impl Pod {
    pub(crate) fn advance_end(&mut self, now: Millis, out: &mut Out) {
        for container in &mut self.containers {
            if container.work == Work::Pulling {
                container.work = Work::Idle;
            }
        }
        self.stop_all(now, out);
        let is_making = matches!(self.sandbox, Sandbox::Making | Sandbox::Unsure { .. })
            || self.volumes == Volumes::Making;
        if self.is_alive() || is_making {
            return;
        }
        match self.claims {
            Claims::Waiting | Claims::Prepared => {
                self.claims = Claims::Releasing;
                out.act(Action::ReleaseClaims { pod: self.reference() });
                return;
            }
            Claims::Releasing => return,
            Claims::Unused | Claims::Released => {}
        }
        self.is_stopped = true;
        if self.retry_at > now {
            return out.later(self.retry_at);
        }
        self.tear_down(out);
        self.delete(now, out);
    }

    /// Main and init containers at once; then sidecars, the last first. When the time is over, all that are left.
    fn stop_all(&mut self, now: Millis, out: &mut Out) {
        let Some(deadline) =
            invariant!(self.ending.as_ref().map(|ending| ending.deadline), "a pod that ends has a deadline")
        else {
            return;
        };
        let mut is_last = true;
        for index in (0..self.containers.len()).rev() {
            let is_sidecar = self.view.containers[index].kind == Kind::Sidecar;
            if !self.containers[index].is_alive() {
                continue;
            }
            if !is_sidecar || is_last || deadline <= now {
                self.stop(now, index, deadline, out);
            } else {
                out.later(deadline);
            }
            is_last = false;
        }
    }

    /// Stops a container by then: first its hook, then a signal, then another.
    pub(crate) fn stop(&mut self, now: Millis, index: usize, deadline: Millis, out: &mut Out) {
        let view = &self.view.containers[index];
        let has_hook = view.has_pre_stop;
        // It is being started: it is stopped once it runs.
        let Some(instance) =
            self.containers[index].instance.as_mut().filter(|instance| instance.is_running())
        else {
            return;
        };
        match instance.stopping {
            Stopping::No => {
                let text = match instance.doomed_why.is_empty() {
                    true => format!("Stopping container {}", view.name),
                    false => instance.doomed_why.clone(),
                };
                self.event(out, Some(index), false, "Killing", text);
                if has_hook && deadline > now {
                    self.run_pre_stop(now, index, deadline, out);
                } else {
                    self.ask_to_stop(now, index, deadline, out);
                }
            }
            Stopping::Hook { deadline: before } => {
                let deadline = deadline.min(before);
                instance.stopping = Stopping::Hook { deadline };
                if deadline <= now {
                    self.ask_to_stop(now, index, deadline, out);
                } else {
                    out.later(deadline);
                }
            }
            Stopping::Asked { deadline: before } if deadline < before => {
                self.ask_to_stop(now, index, deadline, out);
            }
            Stopping::Asked { .. } => {}
            Stopping::Again { at } if at <= now => self.ask_to_stop(now, index, deadline, out),
            Stopping::Again { at } => out.later(at),
        }
    }

    fn run_pre_stop(&mut self, now: Millis, index: usize, deadline: Millis, out: &mut Out) {
        let (pod, container) = (self.reference(), self.view.containers[index].name.clone());
        let Some(instance) = invariant!(
            self.containers[index].instance.as_mut(),
            "a container that is stopped has an instance"
        ) else {
            return;
        };
        let id = instance.id.clone();
        instance.stopping = Stopping::Hook { deadline };
        let about = ActionTarget::PreStop(index, id.clone());
        let timeout_ms = deadline - now;
        out.ask(&self.view.pod.uid, about, Action::PreStop { pod, container, id, timeout_ms });
        out.later(deadline);
    }

    pub(crate) fn ask_to_stop(&mut self, now: Millis, index: usize, deadline: Millis, out: &mut Out) {
        let (pod, container) = (self.reference(), self.view.containers[index].name.clone());
        let Some(instance) = invariant!(
            self.containers[index].instance.as_mut(),
            "a container that is stopped has an instance"
        ) else {
            return;
        };
        let id = instance.id.clone();
        instance.stopping = Stopping::Asked { deadline };
        let grace_ms = deadline.saturating_sub(now).max(GRACE_MS_MIN);
        let about = ActionTarget::Stop(index, id.clone());
        out.ask(&self.view.pod.uid, about, Action::Stop { pod, container, id, grace_ms });
    }

    /// Sandbox and volumes.
    fn tear_down(&mut self, out: &mut Out) {
        // The node needs what an evicted pod used: its containers and logs go with it, as kubelet's garbage collection has it.
        let is_to_go = self.is_to_go() || self.is_evicted();
        match &self.sandbox {
            Sandbox::Ready { id, .. } | Sandbox::Dead { id } if is_to_go => {
                let id = id.clone();
                self.remove_sandbox(id, out);
            }
            Sandbox::Ready { id, .. } => {
                let id = id.clone();
                self.sandbox = Sandbox::Stopping { id: id.clone() };
                let action = Action::StopSandbox { pod: self.reference(), id };
                out.ask(&self.view.pod.uid, ActionTarget::StopSandbox, action);
            }
            Sandbox::None
            | Sandbox::Making
            | Sandbox::Unsure { .. }
            | Sandbox::Dead { .. }
            | Sandbox::Stopping { .. }
            | Sandbox::Removing { .. } => {}
        }
        // A sandbox that is not gone yet may use the mounts of a volume.
        let is_free = matches!(self.sandbox, Sandbox::None | Sandbox::Dead { .. });
        match self.volumes {
            Volumes::Removing { .. } | Volumes::Removed { with_logs: true } => {}
            Volumes::Removed { with_logs: false } if !is_to_go => {}
            Volumes::Wanted | Volumes::Making | Volumes::Made | Volumes::Removed { .. } if is_free => {
                self.volumes = Volumes::Removing { with_logs: is_to_go };
                let action = Action::RemoveVolumes { pod: self.reference(), with_logs: is_to_go };
                out.ask(&self.view.pod.uid, ActionTarget::RemoveVolumes, action);
            }
            Volumes::Wanted | Volumes::Making | Volumes::Made | Volumes::Removed { .. } => {}
        }
    }

    /// Removes it from the API when nothing is left of it here, and its status has said how it ended.
    fn delete(&mut self, now: Millis, out: &mut Out) {
        let is_wanted = self.view.deletion_grace_s.is_some() && !self.is_gone;
        let is_cleaned =
            self.sandbox == Sandbox::None && self.volumes == (Volumes::Removed { with_logs: true });
        if !is_wanted || !is_cleaned || !self.is_shown(now) {
            return;
        }
        match self.deletion {
            Deletion::NotBefore(at) if at <= now => {
                self.deletion = Deletion::InFlight;
                out.ask(
                    &self.view.pod.uid,
                    ActionTarget::Delete,
                    Action::DeletePod { pod: self.reference() },
                );
            }
            Deletion::NotBefore(at) => out.later(at),
            Deletion::InFlight => {}
        }
    }

    /// Whether the API has the status as it is.
    fn is_shown(&mut self, now: Millis) -> bool {
        if self.is_frozen {
            return true;
        }
        let status = self.status(now);
        self.writing == Writing::Idle && self.shown.as_ref() == Some(&status)
    }

    /// Why it ended, if not because its containers did.
    pub(crate) fn failure(&self) -> Option<(&str, &str)> {
        match self.ending.as_ref().map(|ending| &ending.why) {
            Some(EndReason::Failed { reason, message } | EndReason::Refused { reason, message }) => {
                Some((reason, message))
            }
            Some(EndReason::Evicted { message, .. }) => Some(("Evicted", message)),
            Some(EndReason::Completed | EndReason::Deleted) | None => None,
        }
    }
}
