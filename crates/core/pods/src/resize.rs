//! Containers whose limits are changed while they run.

use alloc::{format, string::String};

use lazaret_invariant::invariant;

use crate::{
    Action, Amounts, Kind, Millis, Outcome,
    backoff::RETRY,
    machine::{ActionTarget, Out},
    pod::Pod,
};

/// A resize that waits for room is looked at again this often.
const DEFERRED_EVERY_MS: Millis = 10_000;

/// Requests and limits of a container. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Requests.
    pub requests: Amounts,
    /// Limits.
    pub limits: Amounts,
}

/// How far a change of a container's limits is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resizing {
    #[default]
    No,
    InFlight,
    /// It failed, and is tried again.
    Failed {
        failures: u32,
        at: Millis,
        message: String,
    },
}

impl Pod {
    /// Whether a container runs with other limits than it is to have.
    pub(crate) fn wants_resize(&self) -> bool {
        self.ending.is_none() && (0..self.containers.len()).any(|index| self.is_outgrown(index))
    }

    fn is_outgrown(&self, index: usize) -> bool {
        let view = &self.view.containers[index];
        let instance = self.containers[index].instance.as_ref().filter(|instance| instance.is_running());
        matches!(view.kind, Kind::Main | Kind::Sidecar)
            && instance.is_some_and(|instance| instance.resources != view.resources)
    }

    /// Changes the limits of a container, or starts it again where its policy wants that.
    pub(crate) fn resize(&mut self, now: Millis, index: usize, out: &mut Out) {
        if !self.is_outgrown(index) {
            return;
        }
        if self.resize_deferred.is_some() {
            return out.later(now + DEFERRED_EVERY_MS);
        }
        let (pod, grace_ms) = (self.reference(), self.view.grace_s.saturating_mul(1_000));
        let view = &self.view.containers[index];
        let Some(instance) = invariant!(
            self.containers[index].instance.as_mut(),
            "a container that has outgrown its limits runs"
        ) else {
            return;
        };
        match &instance.resizing {
            Resizing::InFlight => return,
            Resizing::Failed { at, .. } if *at > now => return out.later(*at),
            Resizing::No | Resizing::Failed { .. } => {}
        }
        let differs = |of: fn(&Amounts) -> u64| {
            let (has, wants) = (instance.resources, view.resources);
            of(&has.requests) != of(&wants.requests) || of(&has.limits) != of(&wants.limits)
        };
        let needs_restart = view.restarts_on_cpu && differs(|amounts| amounts.cpu_milli)
            || view.restarts_on_memory && differs(|amounts| amounts.memory);
        if needs_restart {
            instance.doomed = Some(now.saturating_add(grace_ms));
            instance.doomed_why = format!("Container {} resize requires restart", view.name);
            return out.later(now);
        }
        instance.resizing = Resizing::InFlight;
        let (container, id) = (view.name.clone(), instance.id.clone());
        let about = ActionTarget::Resize(index, id.clone(), view.resources);
        out.ask(&self.view.pod.uid, about, Action::Resize { pod, container, id });
    }

    pub(crate) fn resized(
        &mut self,
        now: Millis,
        (index, id): (usize, &str),
        resources: Resources,
        outcome: &Outcome,
        out: &mut Out,
    ) {
        let failures = match self.containers[index].instance.as_ref().map(|instance| &instance.resizing) {
            Some(Resizing::Failed { failures, .. }) => *failures,
            Some(Resizing::No | Resizing::InFlight) | None => 0,
        };
        // It has ended meanwhile.
        let Some(instance) = self.current(index, id) else { return };
        if let Outcome::Failed { message, .. } = outcome {
            let (failures, message) = (failures + 1, message.clone());
            let at = now + RETRY.millis_after(failures);
            instance.resizing = Resizing::Failed { failures, at, message: message.clone() };
            return self.warn(now, out, "ResizeError", format!("Error resizing: {message}"));
        }
        (instance.resizing, instance.resources) = (Resizing::No, resources);
        self.event(out, Some(index), false, "ResizeCompleted", "Container resized".into());
    }

    /// Why the last change of limits failed, while one is in progress.
    pub(crate) fn resize_error(&self) -> Option<String> {
        let instances = self.containers.iter().filter_map(|container| container.instance.as_ref());
        instances.into_iter().find_map(|instance| match &instance.resizing {
            Resizing::Failed { message, .. } => Some(message.clone()),
            Resizing::No | Resizing::InFlight => None,
        })
    }
}
