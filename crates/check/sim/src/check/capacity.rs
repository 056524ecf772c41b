//! Room before eviction: where a rule wants that, a pod goes only after an answer that there is room for its replacement, and no device is
//! promised twice.

use std::collections::BTreeSet;

use lazaret_eviction::{CapacityQuestion, Evict, Promised};
use lazaret_model::{CapacityMode, DeviceId, EvictionMode, Timestamp, Uid, tolerates};

use crate::{
    actors::claims::request_of,
    coverage::Mark,
    palette,
    reference::{self, Cause},
    world::World,
};

/// How long an answer counts, and the time that it takes to go by it.
const ANSWER_MS_MAX: u64 = 10_000;
/// Promises that are this young are compared.
const COMPARED_MS: u64 = 3_000;

/// Room that was promised to a pod.
#[derive(Clone, Debug)]
pub(super) struct PromisedRoom {
    at: u64,
    devices: Vec<DeviceId>,
    owner: Option<Uid>,
    /// Pods of the same owner that had a node then.
    placed: BTreeSet<Uid>,
}

impl World {
    /// A pod that waits for room goes only if there was some.
    pub(super) fn check_capacity(&mut self, number: usize, evict: &Evict) {
        let now = self.controllers[number].clock(self.now);
        let seen = self.seen(number);
        let Some(pod) = seen.pod(&evict.pod).filter(|pod| pod.uid == evict.uid) else { return };
        let causes = reference::causes(seen, pod);
        let granted = |cause: &Cause<'_>| {
            let say = pod.eviction_preference.unwrap_or_default();
            cause.taint.eviction.as_ref().map_or(0, |spec| i64::from(spec.granted_seconds(say)))
        };
        let mut due = causes.iter().filter(|cause| cause.deadline <= now).peekable();
        let waits = due.peek().is_some() && due.all(|cause| waits_for_room(cause, granted(cause), now));
        if !waits {
            return;
        }
        let key = (number, self.controllers[number].life, evict.uid.clone());
        let answered = self.checker.rooms.get(&key);
        if answered.is_none_or(|at| self.now > at + ANSWER_MS_MAX) {
            let detail = format!("{} goes; there was room at {answered:?}", evict.pod);
            return self.violate("nobody goes without room", detail);
        }
        self.coverage.hit(Mark::RoomFound);
    }

    /// For a pod that is asked about again only the new answer counts: the devices promised before are free.
    pub(crate) fn forget_promises(&mut self, number: usize, question: &CapacityQuestion) {
        let life = self.controllers[number].life;
        for pod in &question.pods {
            self.checker.promised.remove(&(number, life, pod.uid.clone()));
        }
    }

    /// Room was found: elsewhere, on devices that the replacement could keep, and not where it was promised to another.
    pub(crate) fn check_promises(
        &mut self,
        number: usize,
        question: &CapacityQuestion,
        promised: &[Promised],
    ) {
        let life = self.controllers[number].life;
        let seen = self.seen(number);
        let mut complaint = None;
        let mut fresh = Vec::new();
        for one in promised {
            let Some(pod) = seen.pod(&one.pod) else { continue };
            let owner = pod.owner.as_ref().map(|owner| owner.uid.clone());
            let devices: Vec<DeviceId> =
                one.devices.iter().filter(|id| id.driver != palette::FABRIC_DRIVER).cloned().collect();
            let left = question.pods.iter().find(|asked| asked.uid == one.uid);
            for id in &devices {
                if left.is_some_and(|asked| asked.devices.contains(id)) {
                    complaint = Some(format!("{} is to leave {id} and is promised it", one.pod));
                }
                let tolerations = reference::claims(seen, pod)
                    .filter_map(|claim| request_of(claim.claim))
                    .flat_map(|request| &request.tolerations);
                let tolerations: Vec<_> = tolerations.collect();
                let named = seen.device(id);
                let tainted = reference::taints(seen, named).iter().any(|found| {
                    found.taint.effect.blocks_allocation()
                        && !tolerations.iter().any(|toleration| tolerates(toleration, found.taint))
                });
                if tainted {
                    complaint = Some(format!("{} is promised {id}, which is tainted", one.pod));
                }
            }
            let placed = self.placed_of(number, owner.as_ref());
            fresh.push((one.uid.clone(), PromisedRoom { at: self.now, devices, owner, placed }));
        }
        for (uid, room) in &fresh {
            let range = (number, life, Uid::default())..(number, life + 1, Uid::default());
            for ((_, _, other), known) in self.checker.promised.range(range) {
                let counts = other != uid
                    && self.now <= known.at + COMPARED_MS
                    && seen.pods().any(|pod| pod.uid == *other)
                    && self.placed_of(number, known.owner.as_ref()) == known.placed;
                if counts && let Some(id) = room.devices.iter().find(|id| known.devices.contains(id)) {
                    complaint = Some(format!("{id} is promised for {uid} and for {other}"));
                }
            }
        }
        let fresh = fresh.into_iter().map(|(uid, room)| ((number, life, uid), room));
        self.checker.promised.extend(fresh);
        if let Some(detail) = complaint {
            self.violate("room is promised once, and elsewhere", detail);
        }
    }

    /// Pods of an owner that have a node, as a controller sees it.
    fn placed_of(&self, number: usize, owner: Option<&Uid>) -> BTreeSet<Uid> {
        let Some(owner) = owner else { return BTreeSet::new() };
        let theirs = |pod: &lazaret_model::Pod| {
            pod.node.is_some() && pod.owner.as_ref().is_some_and(|known| known.uid == *owner)
        };
        self.seen(number).pods().filter(|pod| theirs(pod)).map(|pod| pod.uid.clone()).collect()
    }

    /// A controller hears whether there is room for these pods.
    pub(crate) fn note_room(&mut self, number: usize, question: &CapacityQuestion, has_room: bool) {
        let life = self.controllers[number].life;
        for asked in &question.pods {
            let key = (number, life, asked.uid.clone());
            if has_room {
                self.checker.rooms.insert(key, self.now);
            } else {
                self.checker.rooms.remove(&key);
            }
        }
    }
}

/// Whether a cause that is due keeps a pod until there is room.
fn waits_for_room(cause: &Cause<'_>, granted: i64, now: Timestamp) -> bool {
    let Some(spec) = cause.taint.eviction.as_ref() else { return false };
    let ends = |seconds: i64| cause.deadline.max(cause.deadline.plus_secs(seconds - granted));
    let timeout = spec.capacity_timeout_seconds.map(ends);
    let overdue = spec.deadline_seconds.filter(|_| spec.mode == EvictionMode::EvictThenDelete).map(ends);
    spec.capacity == CapacityMode::Wait && ![timeout, overdue].into_iter().flatten().any(|end| end <= now)
}
