//! The sandboxes of the runtime, as input of the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use lazaret_containers::{ContainerState, Exit as RuntimeExit, Phase, SandboxState};
use lazaret_pods::{Exit, FoundContainer, FoundPhase, FoundSandbox, Millis, PodRef};

use super::shared::Shared;

/// Translates the runtime's states for the machine, and keeps them for requests about containers.
pub(super) fn found(shared: &Shared, states: Vec<SandboxState>) -> Vec<FoundSandbox> {
    let found = states.iter().map(|state| sandbox(shared, state)).collect();
    let mut table = shared.table();
    table.note(states);
    found
}

fn sandbox(shared: &Shared, state: &SandboxState) -> FoundSandbox {
    let spec = &state.spec;
    let pod =
        PodRef { namespace: spec.namespace.clone(), name: spec.name.clone(), uid: spec.pod_uid.clone() };
    let containers = state.containers.iter().map(|state| container(shared, state)).collect();
    FoundSandbox { id: state.id.clone(), pod, is_ready: state.is_ready, ips: shared.ips(state), containers }
}

fn container(shared: &Shared, state: &ContainerState) -> FoundContainer {
    let phase = match &state.phase {
        Phase::Created => FoundPhase::Created,
        Phase::Running { started_at, .. } => FoundPhase::Running { started_at: instant(shared, *started_at) },
        Phase::Exited(ended) => FoundPhase::Exited(exit(shared, state, ended)),
    };
    FoundContainer {
        id: state.id.clone(),
        name: state.key.name.clone(),
        attempt: state.key.attempt,
        image_id: state.image_id.clone(),
        phase,
    }
}

fn exit(shared: &Shared, state: &ContainerState, ended: &RuntimeExit) -> Exit {
    let reason = match (ended.started_at, ended.is_out_of_memory, ended.code) {
        (None, ..) => "ContainerCannotRun",
        (Some(_), true, _) => "OOMKilled",
        (Some(_), false, 0) => "Completed",
        (Some(_), false, _) => "Error",
    };
    let known = shared.table().words(&state.key);
    let message = ended.message.clone().or_else(|| {
        known.unwrap_or_else(|| {
            let pod = shared.table().pod(&state.key.pod_uid)?;
            let key = &state.key;
            let words = shared.provision.read_termination_message(
                &pod,
                &key.name,
                key.attempt,
                ended.code != 0,
                &state.log,
            );
            shared.table().keep_words(key, words.clone());
            words
        })
    });
    Exit {
        started_at: ended.started_at.map(|at| instant(shared, at)),
        finished_at: instant(shared, ended.finished_at),
        code: ended.code,
        signal: ended.signal,
        reason,
        message,
    }
}

/// Runtimes note what the wall clock shows.
fn instant(shared: &Shared, time: SystemTime) -> Millis {
    shared.clock.instant_of(millis(time))
}

pub(super) fn millis(time: SystemTime) -> Millis {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
