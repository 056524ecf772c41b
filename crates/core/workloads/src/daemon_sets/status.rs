//! The status of a daemon set.

use super::Daemons;
use crate::{
    pods,
    prelude::*,
    writes::{self, unless_zero},
};

#[derive(Default)]
struct Counts {
    desired: i32,
    current: i32,
    misplaced: i32,
    ready: i32,
    available: i32,
    updated: i32,
}

pub(super) fn report(daemons: &Daemons<'_>, plan: &mut Plan) {
    let set = daemons.set;
    let counts = count(daemons);
    let unavailable = counts.desired - counts.available;
    let old = set.status.clone().unwrap_or_default();
    let number = |value: Option<i32>| value.unwrap_or(0);
    let same = old.desired_number_scheduled == counts.desired
        && old.current_number_scheduled == counts.current
        && old.number_misscheduled == counts.misplaced
        && old.number_ready == counts.ready
        && number(old.number_available) == counts.available
        && number(old.number_unavailable) == unavailable
        && number(old.updated_number_scheduled) == counts.updated
        && old.observed_generation == set.metadata.generation;
    if same {
        return;
    }
    let status = json!({
        "observedGeneration": set.metadata.generation,
        "desiredNumberScheduled": counts.desired,
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misplaced,
        "numberReady": counts.ready,
        "numberAvailable": unless_zero(counts.available),
        "numberUnavailable": unless_zero(unavailable),
        "updatedNumberScheduled": unless_zero(counts.updated),
    });
    plan.write(writes::status(&resource::DAEMON_SETS, &set.metadata, status));
}

fn count(daemons: &Daemons<'_>) -> Counts {
    let mut counts = Counts::default();
    for (name, node) in &daemons.nodes {
        let first = daemons.pods.get(*name).and_then(|pods| pods.first());
        if !daemons.admission.ask(node).runs {
            counts.misplaced += i32::from(first.is_some());
            continue;
        }
        counts.desired += 1;
        // It has no pod yet.
        let Some(pod) = first else { continue };
        counts.current += 1;
        counts.ready += i32::from(pods::is_ready(pod));
        counts.available += i32::from(daemons.is_available(pod));
        counts.updated += i32::from(daemons.is_updated(pod));
    }
    counts
}
