//! The actions that start a pod and keep it running.

use alloc::{format, string::String};

use lazaret_invariant::invariant;

use crate::{
    Action, Exit, Kind, Millis,
    container::{Hook, Instance, InstancePhase, Work, pod_text},
    machine::{ActionTarget, Out},
    pod::{EndReason, Ending, Pod, Sandbox, Volumes},
};

impl Pod {
    pub(crate) fn advance_start(&mut self, now: Millis, out: &mut Out) {
        if self.is_main_over() {
            return self.complete(now, out);
        }
        let may_try = self.retry_at <= now;
        if !may_try {
            out.later(self.retry_at);
        }
        if self.volumes == Volumes::Wanted && may_try {
            self.volumes = Volumes::Making;
            out.ask(&self.view.pod.uid, ActionTarget::Volumes, Action::MakeVolumes { pod: self.reference() });
        }
        let is_provided = self.volumes == Volumes::Made && self.has_claims_ready();
        match &self.sandbox {
            Sandbox::None if is_provided && may_try => {
                self.sandbox = Sandbox::Making;
                out.ask(
                    &self.view.pod.uid,
                    ActionTarget::Sandbox,
                    Action::RunSandbox { pod: self.reference() },
                );
            }
            Sandbox::Dead { id } if may_try && !self.is_alive() => {
                let id = id.clone();
                self.event(
                    out,
                    None,
                    false,
                    "SandboxChanged",
                    "Pod sandbox changed, it will be killed and re-created.".into(),
                );
                self.remove_sandbox(id, out);
            }
            Sandbox::Ready { .. } => {
                self.tend_all(now, out);
                if is_provided {
                    self.run_containers(now, out);
                }
            }
            Sandbox::None
            | Sandbox::Dead { .. }
            | Sandbox::Making
            | Sandbox::Unsure { .. }
            | Sandbox::Stopping { .. }
            | Sandbox::Removing { .. } => {}
        }
    }

    /// Starts what is to run now: init containers one after another, then the others at once.
    fn run_containers(&mut self, now: Millis, out: &mut Out) {
        let (inits, mains_end) = (self.init_count(), self.mains_end());
        for index in mains_end..self.containers.len() {
            self.note_lost(now, index, out);
            self.keep(now, index, out);
        }
        for index in 0..inits {
            let is_done = index < self.initialized;
            match self.view.containers[index].kind {
                Kind::Sidecar => {
                    self.keep(now, index, out);
                    if !is_done && !self.containers[index].is_started() {
                        return;
                    }
                }
                Kind::Init | Kind::Main | Kind::Ephemeral if is_done => continue,
                Kind::Init | Kind::Main | Kind::Ephemeral => {
                    if self.containers[index].exit().is_none_or(|exit| exit.code != 0) {
                        return self.run_init(now, index, out);
                    }
                }
            }
            self.initialized = self.initialized.max(index + 1);
        }
        for index in inits..mains_end {
            self.keep(now, index, out);
        }
    }

    /// An ephemeral container that another agent started, and that the runtime does not have any more, has ended and does not run again.
    fn note_lost(&mut self, now: Millis, index: usize, out: &Out) {
        let (view, container) = (&self.view.containers[index], &mut self.containers[index]);
        if container.instance.is_some() || !container.before.has_run {
            return;
        }
        let mut instance = Instance::running(String::new(), String::new(), out.last_id(), now, view);
        instance.phase = InstancePhase::Exited(Exit::unknown(now, None));
        (container.instance, container.restarts) = (Some(instance), container.before.restarts);
    }

    /// Whether all main containers have ended and none is started again.
    fn is_main_over(&self) -> bool {
        let is_over = |index: usize| {
            let exit = self.containers[index].exit();
            exit.is_some_and(|exit| !self.view.containers[index].restarts_after(self.view.restart, exit.code))
        };
        (self.init_count()..self.mains_end()).all(is_over)
    }

    pub(crate) fn init_count(&self) -> usize {
        let is_init = |kind: Kind| matches!(kind, Kind::Init | Kind::Sidecar);
        self.view.containers.iter().filter(|container| is_init(container.kind)).count()
    }

    /// Where main containers end, and ephemeral ones begin.
    pub(crate) fn mains_end(&self) -> usize {
        self.view.containers.iter().filter(|container| container.kind != Kind::Ephemeral).count()
    }

    /// Runs an init container that has not ended well yet.
    fn run_init(&mut self, now: Millis, index: usize, out: &mut Out) {
        let view = &self.view.containers[index];
        let code = self.containers[index].exit().map(|exit| exit.code);
        match code {
            Some(code) if !view.restarts_after(self.view.restart, code) => self.complete(now, out),
            Some(_) | None => self.keep(now, index, out),
        }
    }

    /// Its containers have ended: what is left of it ends as well.
    fn complete(&mut self, now: Millis, out: &mut Out) {
        let deadline = now.saturating_add(self.view.grace_s.saturating_mul(1_000));
        self.ending = Some(Ending { why: EndReason::Completed, deadline });
        self.advance_end(now, out);
    }

    /// Starts a container that is not there, or that ended and is to be started again.
    fn keep(&mut self, now: Millis, index: usize, out: &mut Out) {
        let Some(exit) = self.containers[index].exit() else {
            if self.containers[index].instance.is_none() {
                self.begin(now, index, out);
            }
            return;
        };
        let (code, ended_at) = (exit.code, exit.finished_at);
        let view = &self.view.containers[index];
        if !view.restarts_after(self.view.restart, code) {
            return;
        }
        if let Some((until, pause)) =
            self.containers[index].crash.until(ended_at).filter(|(until, _)| *until > now)
        {
            out.later(until);
            if self.containers[index].waiting.is_none() {
                let (name, pod) = (view.name.clone(), pod_text(&self.view.pod));
                let message =
                    format!("back-off {} restarting failed container={name} pod={pod}", duration(pause));
                self.containers[index].waits("CrashLoopBackOff", message);
                let text = format!("Back-off restarting failed container {name} in pod {pod}");
                self.event(out, Some(index), true, "BackOff", text);
            }
            return;
        }
        let container = &mut self.containers[index];
        container.crash.started(now, ended_at);
        self.retire(index, out);
        self.containers[index].restarts += 1;
        self.begin(now, index, out);
    }

    /// The instance becomes the one before, and the one before that is removed.
    pub(crate) fn retire(&mut self, index: usize, out: &mut Out) {
        let container = &mut self.containers[index];
        let Some(instance) =
            invariant!(container.instance.take(), "a container that is retired has an instance")
        else {
            return;
        };
        let Some(exit) = invariant!(instance.exit().cloned(), "a container that is retired has ended") else {
            return;
        };
        (container.image_id, container.waiting) = (None, None);
        (container.pull_failures, container.start_failures) = (0, 0);
        let before = container.last.replace((instance.id, exit));
        if let Some((id, _)) = before.filter(|(id, _)| !id.is_empty()) {
            let pod = self.reference();
            out.ask(&self.view.pod.uid, ActionTarget::RemoveContainer, Action::RemoveContainer { pod, id });
        }
    }

    /// Pulls the image of a container, then makes and starts it.
    fn begin(&mut self, now: Millis, index: usize, out: &mut Out) {
        self.back_off_pull(now, index, out);
        let Sandbox::Ready { id: sandbox, .. } = &self.sandbox else {
            invariant!(false, "a container begins in a sandbox that is ready");
            return;
        };
        let (pod, sandbox) = (self.reference(), sandbox.clone());
        let (view, container) = (&self.view.containers[index], &mut self.containers[index]);
        if container.work != Work::Idle {
            return;
        }
        if container.retry_at > now {
            return out.later(container.retry_at);
        }
        let name = view.name.clone();
        if container.image_id.is_none() {
            container.work = Work::Pulling;
            let action = Action::Pull { pod, container: name, image: view.image.clone(), policy: view.pull };
            out.ask(&self.view.pod.uid, ActionTarget::Pull(index), action);
        } else {
            (container.work, container.starting) = (Work::Starting, view.resources);
            let action = Action::Start { pod, sandbox, container: name, attempt: container.restarts };
            out.ask(&self.view.pod.uid, ActionTarget::Start(index), action);
        }
    }

    /// A while after a pull failed, the status says that it is waited for.
    fn back_off_pull(&mut self, now: Millis, index: usize, out: &mut Out) {
        // Nothing is waited for.
        let Some(waiting) = &mut self.containers[index].waiting else { return };
        // It does not wait for an image, or says so already.
        let Some(at) = waiting.backs_off_at else { return };
        if at > now {
            return out.later(at);
        }
        let image = &self.view.containers[index].image;
        let text = format!("Back-off pulling image {image:?}");
        waiting.message = format!("{text}: {}: {}", waiting.reason, waiting.message);
        (waiting.reason, waiting.backs_off_at) = ("ImagePullBackOff", None);
        self.event(out, Some(index), false, "BackOff", text);
    }

    /// Hooks, probes and stops of containers that run.
    fn tend_all(&mut self, now: Millis, out: &mut Out) {
        for index in 0..self.containers.len() {
            self.tend(now, index, out);
        }
    }

    fn tend(&mut self, now: Millis, index: usize, out: &mut Out) {
        let (pod, container) = (self.reference(), self.view.containers[index].name.clone());
        let uid = &self.view.pod.uid;
        // It does not run.
        let Some(instance) =
            self.containers[index].instance.as_mut().filter(|instance| instance.is_running())
        else {
            return;
        };
        let id = instance.id.clone();
        if let Some(deadline) = instance.doomed {
            return self.stop(now, index, deadline, out);
        }
        match instance.hook {
            Hook::Wanted => {
                instance.hook = Hook::InFlight;
                let about = ActionTarget::PostStart(index, id.clone());
                out.ask(uid, about, Action::PostStart { pod, container, id });
            }
            Hook::InFlight => {}
            Hook::Over => {
                self.probe(now, index, out);
                self.resize(now, index, out);
            }
        }
    }

    /// Asks a container how it is, as often as that is due.
    fn probe(&mut self, now: Millis, index: usize, out: &mut Out) {
        let (pod, container) = (self.reference(), self.view.containers[index].name.clone());
        let uid = &self.view.pod.uid;
        let Some(instance) = invariant!(
            self.containers[index].instance.as_mut(),
            "a container that is probed has an instance"
        ) else {
            return;
        };
        let id = instance.id.clone();
        loop {
            let (due, wake) = instance.probes.due(now);
            wake.into_iter().for_each(|at| out.later(at));
            // No probe is due.
            let Some((kind, timeout_ms)) = due else { break };
            let (pod, container, id) = (pod.clone(), container.clone(), id.clone());
            let about = ActionTarget::Probe(index, id.clone(), kind);
            out.ask(uid, about, Action::Probe { pod, container, id, kind, timeout_ms });
        }
    }

    pub(crate) fn remove_sandbox(&mut self, id: String, out: &mut Out) {
        self.sandbox = Sandbox::Removing { id: id.clone() };
        out.ask(
            &self.view.pod.uid,
            ActionTarget::RemoveSandbox,
            Action::RemoveSandbox { pod: self.reference(), id },
        );
    }
}

/// As Go prints it: `10s`, `2m40s`.
fn duration(ms: Millis) -> String {
    let seconds = ms / 1_000;
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}
