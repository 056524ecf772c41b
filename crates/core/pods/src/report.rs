//! The status of a pod, from what is known of it.

use alloc::{format, string::String, vec::Vec};

use crate::{
    Action, Condition, ConditionKind, ContainerStatus, Kind, Millis, Phase, Status,
    machine::{ActionTarget, Out},
    pod::{EndReason, Pod, Sandbox, Writing},
};

/// A status without news for other components is written this much later, so that further changes are merged.
const MERGE_MS: Millis = 200;

impl Pod {
    /// Writes the status, when it is not what the API has.
    pub(crate) fn show(&mut self, now: Millis, out: &mut Out) {
        if self.is_frozen || self.is_gone {
            return;
        }
        match self.writing {
            Writing::InFlight => return,
            Writing::NotBefore(at) if at > now => return out.later(at),
            Writing::NotBefore(_) | Writing::Idle => {}
        }
        let status = self.status(now);
        let is_overwritten = self.correct_at.is_some_and(|at| at <= now);
        let (is_same, is_news) = match &self.shown {
            Some(shown) => {
                (status == *shown && !self.must_rewrite && !is_overwritten, status.is_news_to(shown))
            }
            None => (false, status.phase != Phase::Pending),
        };
        if is_same {
            (self.unshown_since, self.writing) = (None, Writing::Idle);
            self.correct_at.into_iter().for_each(|at| out.later(at));
            return;
        }
        let due = *self.unshown_since.get_or_insert(now) + if is_news { 0 } else { MERGE_MS };
        if due > now {
            return out.later(due);
        }
        (self.unshown_since, self.must_rewrite, self.writing) = (None, false, Writing::InFlight);
        self.correct_at = None;
        let about = ActionTarget::Status(alloc::boxed::Box::new(status.clone()));
        out.ask(&self.view.pod.uid, about, Action::WriteStatus { pod: self.reference(), status });
    }

    pub(crate) fn status(&mut self, now: Millis) -> Status {
        let phase = self.phase();
        let ips = match &self.sandbox {
            Sandbox::Ready { ips, .. } => ips.clone(),
            Sandbox::None
            | Sandbox::Making
            | Sandbox::Unsure { .. }
            | Sandbox::Dead { .. }
            | Sandbox::Stopping { .. }
            | Sandbox::Removing { .. } => {
                self.shown.as_ref().map(|shown| shown.ips.clone()).unwrap_or_default()
            }
        };
        let is_refused =
            matches!(self.ending.as_ref().map(|ending| &ending.why), Some(EndReason::Refused { .. }));
        let inits = self.init_count();
        let all = (0..self.containers.len()).map(|index| self.container_status(index));
        let mut init: Vec<ContainerStatus> = if is_refused { Vec::new() } else { all.collect() };
        let mut main = init.split_off(inits.min(init.len()));
        let ephemeral = main.split_off((self.mains_end() - inits).min(main.len()));
        let conditions = self.conditions(now, phase, &init, &main);
        let failure = self.failure().filter(|_| phase == Phase::Failed);
        let (reason, message) = failure.map(|(reason, message)| (reason.into(), message.into())).unzip();
        let message = if is_refused {
            message.map(|text: String| format!("Pod was rejected: {text}"))
        } else {
            message
        };
        Status { phase, reason, message, started_at: self.started_at, ips, conditions, init, main, ephemeral }
    }

    fn phase(&self) -> Phase {
        let inits = self.init_count();
        let mains = &self.containers[inits..self.mains_end()];
        if self.is_stopped {
            let is_well = self.failure().is_none()
                && !mains.is_empty()
                && mains.iter().all(|container| container.exit().is_some_and(|exit| exit.code == 0));
            return if is_well { Phase::Succeeded } else { Phase::Failed };
        }
        let has_begun = |container: &crate::container::Container| {
            container.instance.is_some() || container.last.is_some()
        };
        if mains.iter().all(has_begun) { Phase::Running } else { Phase::Pending }
    }

    fn container_status(&self, index: usize) -> ContainerStatus {
        let (view, container) = (&self.view.containers[index], &self.containers[index]);
        let default = if self.init_count() > 0 { "PodInitializing" } else { "ContainerCreating" };
        let instance = container.instance.as_ref();
        let has_ended_well = container.exit().is_some_and(|exit| exit.code == 0);
        let is_ready = match view.kind {
            Kind::Init => has_ended_well,
            Kind::Sidecar | Kind::Main => instance.is_some_and(crate::container::Instance::is_ready),
            Kind::Ephemeral => false,
        };
        let image_id =
            instance.map(|instance| instance.image_id.clone()).or_else(|| container.image_id.clone());
        let last_id = container.last.as_ref().map(|(id, _)| id.clone());
        let is_retired = container.instance.is_none() && container.last.is_some();
        ContainerStatus {
            name: view.name.clone(),
            image: view.image.clone(),
            image_id: image_id.unwrap_or_default(),
            id: instance.map(|instance| instance.id.clone()).or(last_id).filter(|id| !id.is_empty()),
            state: container.state(default),
            last: container.last_state(),
            // A start that has not happened is not counted.
            restarts: container.restarts.saturating_sub(u32::from(is_retired)),
            is_ready,
            is_started: container.is_started(),
            resources: instance.filter(|instance| instance.is_running()).map(|instance| instance.resources),
            allocated: match (&self.resize_deferred, instance) {
                (Some(_), Some(instance)) => instance.resources,
                (Some(_), None) | (None, _) => view.resources,
            },
        }
    }

    fn conditions(
        &mut self,
        now: Millis,
        phase: Phase,
        init: &[ContainerStatus],
        main: &[ContainerStatus],
    ) -> Vec<Condition> {
        let has_sandbox = matches!(self.sandbox, Sandbox::Ready { .. });
        let containers = self.containers_ready(phase, init, main);
        let ready = match containers.0 {
            true => self.gates_ready(),
            false => containers.clone(),
        };
        let of = |kind: ConditionKind| match kind {
            ConditionKind::PodReadyToStartContainers => (has_sandbox, None, None),
            ConditionKind::Initialized => self.is_initialized(phase, init),
            ConditionKind::Ready => ready.clone(),
            ConditionKind::ContainersReady => containers.clone(),
            ConditionKind::PodScheduled => (true, None, None),
            ConditionKind::DisruptionTarget => {
                let message = self.failure().map(|(_, message)| message.into());
                (true, Some("TerminationByKubelet"), message)
            }
            ConditionKind::PodResizePending => (true, Some("Deferred"), self.resize_deferred.clone()),
            ConditionKind::PodResizeInProgress => {
                let error = self.resize_error();
                (true, error.as_ref().map(|_| "Error"), error)
            }
        };
        let (wants, waits) = (self.wants_resize(), self.resize_deferred.is_some());
        let further = [
            // With the end alone: an agent that comes after this one does not know of an eviction that was not over.
            (ConditionKind::DisruptionTarget, self.is_disrupted() && phase == Phase::Failed),
            (ConditionKind::PodResizePending, wants && waits),
            (ConditionKind::PodResizeInProgress, wants && !waits),
        ];
        let further = further.into_iter().filter(|(_, is_so)| *is_so).map(|(kind, _)| kind);
        let kinds: Vec<ConditionKind> = ConditionKind::ALL.into_iter().chain(further).collect();
        let found: Vec<_> = kinds.iter().map(|kind| (*kind, of(*kind))).collect();
        self.conditions.retain(|kind, _| kinds.contains(kind));
        let mut conditions = Vec::with_capacity(found.len());
        for (kind, (is_true, reason, message)) in found {
            let known = self.conditions.entry(kind).or_insert((is_true, now));
            if known.0 != is_true {
                *known = (is_true, now);
            }
            conditions.push(Condition { kind, is_true, reason, message, changed_at: known.1 });
        }
        conditions
    }

    fn is_disrupted(&self) -> bool {
        let why = self.ending.as_ref().map(|ending| &ending.why);
        matches!(why, Some(EndReason::Evicted { is_disruption: true, .. }))
    }

    fn is_initialized(&self, phase: Phase, init: &[ContainerStatus]) -> ConditionVerdict {
        if phase == Phase::Succeeded {
            return (true, Some("PodCompleted"), None);
        }
        let inits = self.init_count();
        let has_main = self.containers[inits..self.mains_end()]
            .iter()
            .any(|container| container.instance.is_some() || container.last.is_some());
        if self.initialized >= inits || has_main {
            return (true, None, None);
        }
        let missing = init.iter().skip(self.initialized).map(|status| status.name.as_str());
        let missing: Vec<&str> = missing.collect();
        (
            false,
            Some("ContainersNotInitialized"),
            Some(format!("containers with incomplete status: [{}]", missing.join(" "))),
        )
    }

    fn containers_ready(
        &self,
        phase: Phase,
        init: &[ContainerStatus],
        main: &[ContainerStatus],
    ) -> ConditionVerdict {
        match phase {
            Phase::Succeeded => return (false, Some("PodCompleted"), None),
            Phase::Failed => return (false, Some("PodFailed"), None),
            Phase::Pending | Phase::Running => {}
        }
        let is_sidecar = |name: &str| {
            self.view.containers.iter().any(|view| view.name == name && view.kind == Kind::Sidecar)
        };
        let all = init.iter().filter(|status| is_sidecar(&status.name)).chain(main);
        let unready: Vec<&str> =
            all.filter(|status| !status.is_ready).map(|status| status.name.as_str()).collect();
        if unready.is_empty() {
            return (true, None, None);
        }
        let message = format!("containers with unready status: [{}]", unready.join(" "));
        (false, Some("ContainersNotReady"), Some(message))
    }

    fn gates_ready(&self) -> ConditionVerdict {
        let texts = self.view.gates.iter().filter_map(|gate| match gate.status.as_deref() {
            Some("True") => None,
            Some(status) => Some(format!(
                "the status of pod readiness gate {:?} is not \"True\", but {status}",
                gate.name
            )),
            None => {
                Some(format!("corresponding condition of pod readiness gate {:?} does not exist.", gate.name))
            }
        });
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() {
            return (true, None, None);
        }
        (false, Some("ReadinessGatesNotReady"), Some(texts.join(", ")))
    }
}

/// Whether something is so, one word and a sentence for why not.
type ConditionVerdict = (bool, Option<&'static str>, Option<String>);
