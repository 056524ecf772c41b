//! Pods on their way out, and pods that are gone.

use alloc::sync::Arc;

use lazaret_fleet::PodIx;
use lazaret_invariant::invariant;
use lazaret_model::{Pod, Timestamp};

use crate::{
    Eviction,
    blame::Blame,
    marks::marks_of,
    pods::{Phase, Settled},
};

impl Eviction {
    /// The pod is gone.
    pub(crate) fn forget(&mut self, now: Timestamp, at: PodIx) {
        self.forget_named(at);
        self.unplan(now, at);
        self.lines.came_back(at);
        self.unblock(at);
        let Some(slot) = self.pods.remove(at) else { return };
        if let Some(blame) = slot.uncertain {
            if let Phase::InFlight(id) = slot.phase {
                self.flights.keep_before(id, *blame);
            } else {
                self.may_have_missed(now, &slot.pod.uid, &blame);
            }
        }
        for rule in slot.settled.iter().flat_map(Settled::rules) {
            self.rules.forget_mark(rule, at);
        }
    }

    /// The pod is on its way out: it is neither evicted nor counted as pending.
    pub(crate) fn see_terminating(&mut self, now: Timestamp, at: PodIx, pod: &Arc<Pod>) {
        if self.pods.get(at).is_none() && marks_of(pod).next().is_none() {
            return;
        }
        self.pods.entry(at, pod);
        self.unplan(now, at);
        self.settle(at);
        self.mind_finalizer(now, at);
    }

    /// Finds out whose eviction a terminating pod is. Waits while one of ours is in flight: its outcome will tell.
    pub(crate) fn settle(&mut self, at: PodIx) {
        let leading = self.leader_since.is_some();
        let Some(slot) = invariant!(self.pods.get_mut(at), "a pod that is planned has a slot") else {
            return;
        };
        if slot.settled.is_some()
            || slot.pod.deleting_since.is_none()
            || matches!(slot.phase, Phase::InFlight(_))
        {
            return;
        }
        slot.phase = Phase::Waiting;
        let (pod, uncertain) = (slot.pod.clone(), slot.uncertain.take());
        self.lines.came_back(at);
        let mut marks = marks_of(&pod).peekable();
        if marks.peek().is_none() {
            return self.drop_if_blank(at);
        }
        if let Some(blame) = uncertain {
            self.count(&pod.uid, &Blame::of_marks(&pod, blame.decided));
            self.rules.touch_all(&blame.rules);
        }
        let own = self.counted.contains(&pod.uid);
        let mut settled = Settled::default();
        marks
            .filter_map(|mark| self.rules.see_mark(mark, at, own, leading))
            .for_each(|rule| settled.add(rule));
        self.pods.settle(at, settled);
    }

    pub(crate) fn drop_if_blank(&mut self, at: PodIx) {
        if self.pods.get(at).is_some_and(|slot| slot.is_blank()) {
            self.pods.remove(at);
        }
    }
}
