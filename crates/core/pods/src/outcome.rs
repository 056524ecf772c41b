//! Handles the outcomes of actions.

use alloc::{format, string::String};

use lazaret_invariant::invariant;

use crate::{
    Exit, Millis, Outcome, ProbeKind,
    backoff::{PULL, RETRY},
    container::{CANNOT_RUN, Hook, Instance, InstancePhase, Stopping, Waiting, Work},
    machine::{ActionTarget, Out},
    pod::{Deletion, Pod, Sandbox, Volumes, Writing},
    probe::Verdict,
};

/// After a failed pull, the status says this long that it failed, then that it is waited for.
const PULL_SHOWN_MS: Millis = 1_000;
/// A container that was stopped should be seen to have ended by then.
const STOP_AGAIN_MS: Millis = 5_000;
/// A pod that was removed should be seen to be gone by then; if not, something else kept it.
const DELETE_AGAIN_MS: Millis = 60_000;
/// Before a status is written again that could not be.
const WRITE_AGAIN_MS: Millis = 2_000;

#[allow(clippy::wildcard_enum_match_arm, reason = "an answer to another question is none")]
impl Pod {
    pub(crate) fn outcome(&mut self, now: Millis, about: ActionTarget, outcome: Outcome, out: &mut Out) {
        match about {
            ActionTarget::Pull(index) => self.pulled(now, index, outcome, out),
            ActionTarget::Volumes => {
                let is_done = self.tried(now, "FailedMount", "", &outcome, out);
                self.volumes = if is_done { Volumes::Made } else { Volumes::Wanted };
            }
            ActionTarget::Sandbox => self.sandbox_made(now, outcome, out),
            ActionTarget::Start(index) => self.started(now, index, outcome, out),
            ActionTarget::PostStart(index, id) => self.post_started(now, index, &id, &outcome, out),
            ActionTarget::PreStop(index, id) => self.pre_stopped(now, index, &id, &outcome, out),
            ActionTarget::Stop(index, id) => self.stop_ended(now, index, &id, out),
            ActionTarget::Probe(index, id, kind) => self.probed(now, index, &id, kind, outcome, out),
            // One that is left behind is found by the next agent, and goes with its sandbox.
            ActionTarget::RemoveContainer => {}
            ActionTarget::Resize(index, id, resources) => {
                self.resized(now, (index, &id), resources, &outcome, out)
            }
            ActionTarget::StopSandbox => self.sandbox_left(now, &outcome, out),
            ActionTarget::RemoveSandbox => self.sandbox_removed(now, &outcome, out),
            ActionTarget::RemoveVolumes => {
                let is_done = self.tried(now, "FailedToCleanUpPod", "clean up: ", &outcome, out);
                if let Volumes::Removing { with_logs } = self.volumes {
                    self.volumes = if is_done { Volumes::Removed { with_logs } } else { Volumes::Made };
                }
            }
            ActionTarget::Status(status) => match outcome {
                Outcome::Failed { .. } => self.writing = Writing::NotBefore(now + WRITE_AGAIN_MS),
                Outcome::Done
                | Outcome::Image { .. }
                | Outcome::Sandbox { .. }
                | Outcome::Started { .. }
                | Outcome::CannotRun { .. }
                | Outcome::Probed { .. }
                | Outcome::Found(_)
                | Outcome::Observed(_)
                | Outcome::Measured(_) => (self.writing, self.shown) = (Writing::Idle, Some(*status)),
            },
            ActionTarget::Delete => {
                let pause = if is_failed(&outcome) { RETRY.millis_after(3) } else { DELETE_AGAIN_MS };
                self.deletion = Deletion::NotBefore(now + pause);
            }
        }
    }

    /// Whether it worked. If not, it is retried later, with an event.
    fn tried(
        &mut self,
        now: Millis,
        reason: &'static str,
        prefix: &str,
        outcome: &Outcome,
        out: &mut Out,
    ) -> bool {
        let Outcome::Failed { message, .. } = outcome else {
            self.failures = 0;
            return true;
        };
        self.failures += 1;
        self.retry_at = now + RETRY.millis_after(self.failures);
        self.warn(now, out, reason, format!("{prefix}{message}"));
        false
    }

    fn pulled(&mut self, now: Millis, index: usize, outcome: Outcome, out: &mut Out) {
        let container = &mut self.containers[index];
        if container.work != Work::Pulling {
            return;
        }
        container.work = Work::Idle;
        let image = self.view.containers[index].image.clone();
        match outcome {
            Outcome::Image { id, pulled_in_ms } => {
                (container.image_id, container.pull_failures) = (Some(id), 0);
                let is_news = container.start_failures == 0 || pulled_in_ms.is_some();
                let text = match pulled_in_ms {
                    Some(ms) => {
                        format!("Successfully pulled image {image:?} in {ms}ms ({ms}ms including waiting).")
                    }
                    None => format!("Container image {image:?} already present on machine"),
                };
                if is_news {
                    self.event(out, Some(index), false, "Pulled", text);
                }
            }
            Outcome::Failed { reason, message } => {
                container.pull_failures += 1;
                container.retry_at = now + PULL.millis_after(container.pull_failures);
                let is_pull = reason == "ErrImagePull";
                let backs_off_at = is_pull.then_some(now + PULL_SHOWN_MS);
                container.waiting = Some(Waiting { reason, message: message.clone(), backs_off_at });
                if is_pull {
                    self.event(
                        out,
                        Some(index),
                        true,
                        "Failed",
                        format!("Failed to pull image {image:?}: {message}"),
                    );
                }
                self.event(out, Some(index), true, "Failed", format!("Error: {reason}"));
            }
            Outcome::Done
            | Outcome::Sandbox { .. }
            | Outcome::Started { .. }
            | Outcome::CannotRun { .. }
            | Outcome::Probed { .. }
            | Outcome::Found(_)
            | Outcome::Observed(_)
            | Outcome::Measured(_) => {}
        }
    }

    fn sandbox_made(&mut self, now: Millis, outcome: Outcome, out: &mut Out) {
        self.sandbox = match outcome {
            Outcome::Sandbox { id, ips } => {
                self.failures = 0;
                Sandbox::Ready { id, ips, known_since: out.last_id() }
            }
            Outcome::Done
            | Outcome::Failed { .. }
            | Outcome::Image { .. }
            | Outcome::Started { .. }
            | Outcome::CannotRun { .. }
            | Outcome::Probed { .. }
            | Outcome::Found(_)
            | Outcome::Observed(_)
            | Outcome::Measured(_) => {
                self.tried(now, "FailedCreatePodSandBox", "Failed to create pod sandbox: ", &outcome, out);
                out.wants_list = true;
                Sandbox::Unsure { since: out.last_id() }
            }
        };
    }

    fn started(&mut self, now: Millis, index: usize, outcome: Outcome, out: &mut Out) {
        let (view, container) = (&self.view.containers[index], &mut self.containers[index]);
        container.work = Work::Idle;
        let image_id = container.image_id.take().unwrap_or_default();
        match outcome {
            Outcome::Started { id, not_applied } => {
                (container.start_failures, container.waiting) = (0, None);
                let mut instance = Instance::running(id, image_id, out.last_id(), now, view);
                instance.resources = container.starting;
                container.instance = Some(instance);
                self.event(out, Some(index), false, "Created", "Container created".into());
                self.event(out, Some(index), false, "Started", "Container started".into());
                if !not_applied.is_empty() && !self.has_said_not_applied {
                    self.has_said_not_applied = true;
                    let text = format!("The runtime does not apply: {}", not_applied.join(", "));
                    self.event(out, Some(index), true, "NotApplied", text);
                }
            }
            Outcome::CannotRun { id, message } => {
                (container.start_failures, container.waiting) = (0, None);
                let text = format!("Error: {message}");
                let exit = Exit {
                    started_at: None,
                    finished_at: now,
                    code: CANNOT_RUN,
                    signal: None,
                    reason: "ContainerCannotRun",
                    message: Some(message),
                };
                let mut instance = Instance::running(id, image_id, out.last_id(), now, view);
                instance.phase = InstancePhase::Exited(exit);
                container.instance = Some(instance);
                self.event(out, Some(index), true, "Failed", text);
            }
            Outcome::Failed { reason, message } => {
                let reason = if reason.is_empty() { "RunContainerError" } else { reason };
                let text = format!("Error: {message}");
                container.start_failures += 1;
                container.retry_at = now + RETRY.millis_after(container.start_failures);
                container.waits(reason, message);
                container.work = Work::Unsure { since: out.last_id() };
                out.wants_list = true;
                self.warn(now, out, "Failed", text);
            }
            Outcome::Done
            | Outcome::Image { .. }
            | Outcome::Sandbox { .. }
            | Outcome::Probed { .. }
            | Outcome::Found(_)
            | Outcome::Observed(_)
            | Outcome::Measured(_) => {}
        }
    }

    /// The instance with this id, while it is the newest and runs.
    pub(crate) fn current(&mut self, index: usize, id: &str) -> Option<&mut Instance> {
        let instance = self.containers[index].instance.as_mut();
        instance.filter(|instance| instance.id == id && instance.is_running())
    }

    fn post_started(&mut self, now: Millis, index: usize, id: &str, outcome: &Outcome, out: &mut Out) {
        let grace_ms = self.view.grace_s.saturating_mul(1_000);
        // It has ended meanwhile.
        let Some(instance) = self.current(index, id) else { return };
        instance.hook = Hook::Over;
        if is_failed(outcome) {
            instance.doomed = Some(now.saturating_add(grace_ms));
            instance.doomed_why = "FailedPostStartHook".into();
            self.event(out, Some(index), true, "FailedPostStartHook", "PostStartHook failed".into());
        }
    }

    fn pre_stopped(&mut self, now: Millis, index: usize, id: &str, outcome: &Outcome, out: &mut Out) {
        // It has ended meanwhile.
        let Some(instance) = self.current(index, id) else { return };
        // Its time was over before its hook was.
        let Stopping::Hook { deadline } = instance.stopping else { return };
        if is_failed(outcome) {
            self.event(out, Some(index), true, "FailedPreStopHook", "PreStopHook failed".into());
        }
        self.ask_to_stop(now, index, deadline, out);
    }

    fn stop_ended(&mut self, now: Millis, index: usize, id: &str, out: &mut Out) {
        // It has ended.
        let Some(instance) = self.current(index, id) else { return };
        // Its exit code is in the list; when it is not, it has to be stopped again.
        instance.stopping = Stopping::Again { at: now + STOP_AGAIN_MS };
        out.wants_list = true;
    }

    fn probed(
        &mut self,
        now: Millis,
        index: usize,
        id: &str,
        kind: ProbeKind,
        outcome: Outcome,
        out: &mut Out,
    ) {
        let (is_success, message) = match outcome {
            Outcome::Probed { is_success, message } => (is_success, message),
            Outcome::Failed { message, .. } => (false, message),
            Outcome::Done
            | Outcome::Image { .. }
            | Outcome::Sandbox { .. }
            | Outcome::Started { .. }
            | Outcome::CannotRun { .. }
            | Outcome::Found(_)
            | Outcome::Observed(_)
            | Outcome::Measured(_) => (false, String::new()),
        };
        let (name, grace_s) = (self.view.containers[index].name.clone(), self.view.grace_s);
        let (title, word) = match kind {
            ProbeKind::Startup => ("Startup", "startup"),
            ProbeKind::Readiness => ("Readiness", "readiness"),
            ProbeKind::Liveness => ("Liveness", "liveness"),
        };
        // It has ended meanwhile.
        let Some(instance) = self.current(index, id) else { return };
        if let Verdict::Stop(grace) = instance.probes.answered(now, kind, is_success) {
            instance.doomed = Some(now.saturating_add(grace.unwrap_or(grace_s).saturating_mul(1_000)));
            instance.doomed_why = format!("Container {name} failed {word} probe, will be restarted");
        }
        if !is_success {
            self.event(out, Some(index), true, "Unhealthy", format!("{title} probe failed: {message}"));
        }
    }

    fn sandbox_left(&mut self, now: Millis, outcome: &Outcome, out: &mut Out) {
        let is_done = self.tried(now, "FailedKillPod", "error killing pod: ", outcome, out);
        let Sandbox::Stopping { id } = &self.sandbox else {
            invariant!(false, "a sandbox is being stopped until the answer");
            return;
        };
        let id = id.clone();
        self.sandbox = match is_done {
            true => Sandbox::Dead { id },
            false => Sandbox::Ready { id, ips: alloc::vec::Vec::new(), known_since: out.last_id() },
        };
    }

    fn sandbox_removed(&mut self, now: Millis, outcome: &Outcome, out: &mut Out) {
        let is_done = self.tried(now, "FailedKillPod", "error killing pod: ", outcome, out);
        let Sandbox::Removing { id } = &self.sandbox else {
            invariant!(false, "a sandbox is being removed until the answer");
            return;
        };
        self.sandbox = if is_done { Sandbox::None } else { Sandbox::Dead { id: id.clone() } };
    }
}

fn is_failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. })
}
