//! A status that says that all is over is judged by what the server holds, not by what its controller had been told.

use lazaret_eviction::SetRuleStatus;
use lazaret_model::{ConditionStatus, DeviceTaintRule, Effect};

use crate::{
    api::Kind,
    check::decide::rule_of,
    coverage::Mark,
    reference,
    view::{Listed, Seen, SeenPod, View},
    world::World,
};

impl World {
    /// No pod is left that the rule makes leave, of those that existed when the rule got the spec that the status is about. Pods made since may not
    /// have been seen yet.
    pub(crate) fn check_end(&mut self, number: usize, status: &SetRuleStatus) {
        let condition = &status.status.condition;
        // Of a rule that is held, or about which was not decided yet, nothing is said to be over.
        let is_over = condition.status == ConditionStatus::False && condition.reason != "Held";
        if !is_over {
            return;
        }
        let Some((rule, since)) = self.spec_of(status) else { return };
        let mut view = View::default();
        for kind in Kind::ALL {
            let _all = view.list(&self.api, kind, Listed::Everything);
        }
        let seen = view.of(&self.api);
        let left = seen.pods().find(|pod| {
            let hit = |cause: &reference::Cause<'_>| rule_of(cause.source) == Some(&status.uid);
            reference::causes(seen, *pod).iter().any(hit) && self.is_older(seen, *pod, &rule, since)
        });
        let left = left.map(|pod| pod.key.to_string());
        self.coverage.hit(Mark::EndChecked);
        if let Some(pod) = left {
            let detail = format!(
                "controller {number} says {} of {}, and {pod} has been there since before write {since}",
                condition.reason, status.rule
            );
            self.violate("says that all is over when it is", detail);
        }
    }

    /// The rule that a status is about, and the write that gave it the spec that the status speaks of. `None`: it is about another by now, or
    /// one that evicts nobody.
    fn spec_of(&self, status: &SetRuleStatus) -> Option<(DeviceTaintRule, u64)> {
        let generation = status.status.condition.observed_generation;
        let same = |rule: &DeviceTaintRule| rule.uid == status.uid && rule.generation == generation;
        let now = self.api.rules.get(&status.rule)?.object;
        let since = self.api.rules.log().iter().find(|logged| logged.object.as_deref().is_some_and(same))?;
        (same(now) && now.taint.effect == Effect::NoExecute)
            .then(|| (DeviceTaintRule::clone(now), since.version))
    }

    /// Whether all that makes a pod go for a rule had been written by then: the pod, its claims, and what the rule selects devices by.
    fn is_older(&self, seen: Seen<'_>, pod: SeenPod<'_>, rule: &DeviceTaintRule, since: u64) -> bool {
        let written = |version: u64| version <= since;
        let of_pod = self.api.pods.written(pod.place).is_some_and(|stored| written(stored.version));
        let of_claims = reference::claims(seen, pod).all(|claim| written(claim.version));
        if !of_pod || !of_claims {
            return false;
        }
        if rule.selector.as_ref().is_none_or(lazaret_model::DeviceSelector::by_names_only) {
            return true;
        }
        let classes = self.api.classes.log().last().is_none_or(|last| written(last.version));
        let patches = self.api.patches.log().last().is_none_or(|last| written(last.version));
        classes
            && patches
            && reference::claims(seen, pod).flat_map(|claim| seen.results(claim)).all(|(result, _)| {
                let pool = result.device.pool_id();
                let of_pool = self.api.slices.log().iter().rev().filter_map(|logged| {
                    let slice = logged.object.as_ref()?;
                    (slice.pool_id() == pool).then_some(logged.version)
                });
                of_pool.max().is_none_or(written)
            })
    }
}
