//! Guards: a replacement because of a device begins only if every guard permits it. One because of a node's taint asks no guard: guards are
//! about devices, and a policy has a breaker of its own for nodes.

use alloc::format;

use lazaret_fleet::{Fleet, Guards};
use lazaret_model::{ObjectKey, Text, Timestamp};

use crate::{
    finding::{Cause, Finding, Origin},
    flight::Watch,
    machine::Replacement,
};

/// How often guards are asked again about pods that they keep.
const ASKED_EVERY_MS: i64 = 1_000;

/// The taint that a pod may be replaced for now.
pub(crate) enum Permit<'a> {
    /// This taint.
    For(&'a Finding),
    /// None: guards keep it, for this reason.
    Kept(Text),
    /// None.
    None,
}

impl Replacement {
    /// The first taint of a pod for which it may be replaced now. `guards` were looked at.
    pub(crate) fn permit<'a>(
        &self,
        now: Timestamp,
        fleet: &Fleet,
        (pod, watch): (&ObjectKey, &'a Watch),
        guards: &mut Guards,
    ) -> Permit<'a> {
        let mut kept = None;
        for finding in watch.findings.iter().filter(|finding| finding.after <= now) {
            let stopped = match finding.cause.origin {
                Origin::Node => None,
                Origin::Device if guards.is_empty() => None,
                Origin::Device => refusal(now, fleet, pod, &finding.cause, guards),
            };
            match stopped {
                None => return Permit::For(finding),
                Some(why) => kept = kept.or(Some(why)),
            }
        }
        kept.map_or(Permit::None, Permit::Kept)
    }

    /// Takes note of a pod that guards keep, or do not keep any more, and why.
    pub(crate) fn note_guarded(&mut self, now: Timestamp, pod: &ObjectKey, why: Option<Text>) {
        let before = match &why {
            Some(why) => self.guarded.insert(pod.clone(), why.clone()),
            None => self.guarded.remove(pod),
        };
        if before != why {
            self.touch_selecting(pod);
        }
        if why.is_some() {
            self.guards_asked_again = now.plus_millis(ASKED_EVERY_MS);
        }
    }
}

/// Why guards permit no replacement because of the taint of a device of a pod.
fn refusal(
    now: Timestamp,
    fleet: &Fleet,
    pod: &ObjectKey,
    cause: &Cause,
    guards: &mut Guards,
) -> Option<Text> {
    let claims = fleet.pod_ix(pod).into_iter().flat_map(|at| fleet.claims_of_pod(at));
    let mut devices = claims.flat_map(|claim| fleet.held(claim));
    let Some(held) = devices.find(|held| format!("{}", held.device) == *cause.place) else {
        // The pod is evaluated again when its claims change.
        return Some(format!("no claim of the pod has device {} any more", cause.place).into());
    };
    guards.refusal(now, fleet, held.device, held.taints().filter(|found| cause.is_taint(found.taint)))
}
