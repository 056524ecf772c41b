//! When a container is asked how it is, and what its answers mean.

use lazaret_invariant::invariant;

use crate::{ContainerView, InitialContainerStatus, Millis, Probe, ProbeKind};

/// The probes of one instance.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    startup: Option<ProbeState>,
    readiness: Option<ProbeState>,
    liveness: Option<ProbeState>,
}

/// One probe.
#[derive(Clone, Debug)]
struct ProbeState {
    probe: Probe,
    next_at: Millis,
    is_in_flight: bool,
    is_success: bool,
    /// The last answers that were alike.
    consecutive: u32,
    was_success: bool,
}

/// The consequence of a probe's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Nothing,
    /// The container is to be stopped: how long it may take if not as the pod says, in seconds.
    Stop(Option<u64>),
}

impl ProbeState {
    fn new(probe: &Probe, started_at: Millis, is_success: bool) -> Self {
        let next_at = started_at + probe.initial_delay_s.saturating_mul(1_000);
        Self {
            probe: probe.clone(),
            next_at,
            is_in_flight: false,
            is_success,
            consecutive: 0,
            was_success: is_success,
        }
    }

    fn answered(&mut self, now: Millis, is_success: bool) {
        self.is_in_flight = false;
        self.next_at = now + self.probe.period_s.max(1).saturating_mul(1_000);
        self.consecutive =
            if self.was_success == is_success { self.consecutive.saturating_add(1) } else { 1 };
        self.was_success = is_success;
        let threshold = if is_success { self.probe.successes } else { self.probe.failures };
        if self.consecutive >= threshold {
            self.is_success = is_success;
        }
    }
}

impl Probes {
    pub(crate) fn new(started_at: Millis, view: &ContainerView) -> Self {
        let of = |probe: &Option<Probe>, is_success| {
            probe.as_ref().map(|probe| ProbeState::new(probe, started_at, is_success))
        };
        // A container that was not probed yet has not started, is not ready, and is live.
        Self {
            startup: of(&view.startup, false),
            readiness: of(&view.readiness, false),
            liveness: of(&view.liveness, true),
        }
    }

    /// Another process asked before this one.
    pub(crate) fn take_over(&mut self, now: Millis, before: InitialContainerStatus) {
        if let Some(startup) = &mut self.startup {
            startup.is_success = before.is_started;
        }
        if let Some(readiness) = self.readiness.as_mut().filter(|_| before.is_ready) {
            (readiness.is_success, readiness.was_success) = (true, true);
        }
        for state in [&mut self.readiness, &mut self.liveness].into_iter().flatten() {
            state.next_at = state.next_at.max(now);
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.startup.as_ref().is_none_or(|startup| startup.is_success)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.readiness.as_ref().is_none_or(|readiness| readiness.is_success)
    }

    fn get(&mut self, kind: ProbeKind) -> Option<&mut ProbeState> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
        }
    }

    /// The probe that is due now, with its timeout in milliseconds, and the time of the next.
    pub(crate) fn due(&mut self, now: Millis) -> (Option<(ProbeKind, Millis)>, Option<Millis>) {
        let kinds: &[ProbeKind] = match self.is_started() {
            false => &[ProbeKind::Startup],
            true => &[ProbeKind::Readiness, ProbeKind::Liveness],
        };
        let mut wake: Option<Millis> = None;
        for kind in kinds {
            // There is no such probe, or its answer is waited for.
            let Some(state) = self.get(*kind).filter(|state| !state.is_in_flight) else { continue };
            if state.next_at <= now {
                state.is_in_flight = true;
                return (Some((*kind, state.probe.timeout_s.max(1) * 1_000)), wake);
            }
            let at = state.next_at;
            wake = Some(wake.map_or(at, |wake| wake.min(at)));
        }
        (None, wake)
    }

    pub(crate) fn answered(&mut self, now: Millis, kind: ProbeKind, is_success: bool) -> Verdict {
        let Some(state) = invariant!(self.get(kind), "a probe that is answered was asked") else {
            return Verdict::Nothing;
        };
        state.answered(now, is_success);
        let has_failed = !is_success && state.consecutive >= state.probe.failures;
        match kind {
            ProbeKind::Readiness => Verdict::Nothing,
            ProbeKind::Startup | ProbeKind::Liveness if has_failed => Verdict::Stop(state.probe.grace_s),
            ProbeKind::Startup | ProbeKind::Liveness => Verdict::Nothing,
        }
    }
}
