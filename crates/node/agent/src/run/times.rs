//! Times between the machine's timeline and the wall clock, which may be set while pods run.

use lazaret_pods::{ContainerStatus, InitialStatus, State, Status};

use crate::clock::Clock;

/// A status with the times that the wall clock showed.
pub(super) fn on_wall(clock: &Clock, mut status: Status) -> Status {
    status.started_at = clock.wall_of(status.started_at);
    for condition in &mut status.conditions {
        condition.changed_at = clock.wall_of(condition.changed_at);
    }
    let Status { init, main, ephemeral, .. } = &mut status;
    for ContainerStatus { state, last, .. } in init.iter_mut().chain(main).chain(ephemeral) {
        [Some(state), last.as_mut()].into_iter().flatten().for_each(|state| state_on_wall(clock, state));
    }
    status
}

fn state_on_wall(clock: &Clock, state: &mut State) {
    match state {
        State::Waiting { .. } => {}
        State::Running { started_at } => *started_at = clock.wall_of(*started_at),
        State::Terminated { exit, .. } => {
            exit.started_at = exit.started_at.map(|at| clock.wall_of(at));
            exit.finished_at = clock.wall_of(exit.finished_at);
        }
    }
}

/// The status that the API has, with the instants of the timeline.
pub(super) fn on_timeline(clock: &Clock, mut status: InitialStatus) -> InitialStatus {
    status.started_at = status.started_at.map(|at| clock.instant_of(at));
    for (_, _, since) in &mut status.conditions {
        *since = clock.instant_of(*since);
    }
    status
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use lazaret_pods::{Condition, ConditionKind, Phase};

    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    /// The clock is set forward by an hour while a pod runs: what was noted before stays, and what happens then has the new time.
    #[tokio::test(start_paused = true)]
    async fn a_status_has_the_times_of_the_clock_as_it_was_then() {
        let clock = Clock::start();
        let begin = clock.instant_of(clock.wall_of(clock.unix()));
        tokio::time::advance(Duration::from_secs(10)).await;
        clock.set_to(begin + 10_000 + HOUR_MS);
        let condition = |changed_at| Condition {
            kind: ConditionKind::Ready,
            is_true: true,
            reason: None,
            message: None,
            changed_at,
        };
        let status = Status {
            phase: Phase::Running,
            reason: None,
            message: None,
            started_at: begin,
            ips: Vec::new(),
            conditions: vec![condition(begin + 1_000), condition(begin + 10_000)],
            init: Vec::new(),
            main: Vec::new(),
            ephemeral: Vec::new(),
        };
        let written = on_wall(&clock, status);
        let since: Vec<u64> = written.conditions.iter().map(|one| one.changed_at - begin).collect();
        assert_eq!((written.started_at, since), (begin, vec![1_000, 10_000 + HOUR_MS]));
        let read = InitialStatus {
            phase: Phase::Running,
            started_at: Some(begin),
            conditions: vec![(ConditionKind::Ready, true, begin + 10_000 + HOUR_MS)],
            containers: BTreeMap::new(),
        };
        let read = on_timeline(&clock, read);
        assert_eq!((read.started_at, read.conditions[0].2), (Some(begin), begin + 10_000));
    }
}
