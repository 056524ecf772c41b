//! The owners of pods: none has more pods than it wants, a Job counts each completion once, and at rest each has exactly its pods and nothing is
//! left to do.

use std::{collections::BTreeSet, ops::RangeInclusive};

use lazaret_machine::{Machine as _, Turn};
use lazaret_model::{Pod, PodPhase, Uid};
use lazaret_workloads::{Key, Workloads, Write, resource};
use serde_json::Value;

use crate::{
    actors::{
        owners::JOB_INDEX,
        part::Part,
        workloads::{Keeper, Workload},
    },
    api::wall,
    world::{CLIENTS, World},
};

/// Questions that a controller asks before it has nothing left to do, at most.
const QUESTIONS_MAX: usize = 10_000;
/// An object is looked at again after this time at the earliest.
const LOOK_MS: i64 = 25;

/// Whether a pod counts as a replica.
fn is_active(pod: &Pod) -> bool {
    !pod.phase.is_finished() && pod.deleting_since.is_none()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

impl World {
    fn pods_of<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = &'a Pod> {
        let pods = self.api.pods.iter().map(|stored| &**stored.object);
        pods.filter(|pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == workload.name))
    }

    /// A controller made a pod. Its owner has no more than it was ever to have, but for pods that the controller was not told it had made.
    pub(crate) fn check_made(&mut self, number: usize) {
        let workload = &self.workloads.all[number];
        let active = self.pods_of(workload).filter(|pod| is_active(pod)).count();
        let most = (workload.history.most + workload.history.unheard) as usize;
        if active > most {
            let detail = format!("{} has {active} pods, {:?}", workload.name, workload.history);
            self.violate("no owner has more pods than it wants", detail);
        }
    }

    /// The status of a Job is written: it counts no pod that did not succeed, none twice, and forgets none.
    pub(crate) fn check_counted(&mut self, key: &Key, before: &Value, after: &Value) {
        let succeeded = number(&after["status"]["succeeded"]);
        let failed = after["status"]["uncountedTerminatedPods"]["failed"].as_array();
        let failed = failed.into_iter().flatten().filter_map(Value::as_str);
        self.checker.noted_failed.extend(failed.map(Uid::from));
        let truth = self.workload_of(key).map_or(0, |workload| *self.succeeded(workload).end());
        if succeeded > truth {
            let detail = format!("{key} counts {succeeded}, and {truth} have succeeded");
            self.violate("a Job counts each completion once", detail);
        }
        let counted = number(&before["status"]["succeeded"]);
        if succeeded < counted {
            let detail = format!("{key} counted {counted}, and {succeeded} now");
            self.violate("a Job forgets no completion", detail);
        }
    }

    fn workload_of(&self, key: &Key) -> Option<&Workload> {
        self.workloads.all.get(self.workloads.owned_by(&key.name)?)
    }

    /// How many pods of a Job succeeded before it let go of them; of one that numbers its pods, numbers. One that was noted to have failed, for it was
    /// being deleted, may succeed after that.
    fn succeeded(&self, workload: &Workload) -> RangeInclusive<u64> {
        let (mut seen, mut certain) = (BTreeSet::new(), BTreeSet::new());
        for (place, logged) in self.api.pods.log().iter().enumerate() {
            let Some(pod) = logged.object.as_deref().filter(|pod| pod.phase == PodPhase::Succeeded) else {
                continue;
            };
            let is_of_job = pod.owner.as_ref().is_some_and(|owner| owner.uid == workload.name);
            if is_of_job && self.api.was_held_at(&pod.uid, place) {
                let metadata = self.api.pod_metadata_at(&pod.uid, place);
                let index = metadata.and_then(|known| known.annotations[JOB_INDEX].as_str());
                let one = index.filter(|_| workload.is_indexed()).unwrap_or(&pod.uid);
                seen.insert(one);
                if !self.checker.noted_failed.contains(&pod.uid) {
                    certain.insert(one);
                }
            }
        }
        certain.len() as u64..=seen.len() as u64
    }

    /// Each owner has exactly its pods and says so, no pod is left whose owner is gone, and a controller that starts now agrees.
    pub(crate) fn check_owners_at_rest(&mut self) {
        let mut complaints = Vec::new();
        for number in 0..CLIENTS {
            if self.watches.is_behind(number, &self.api) {
                complaints.push(("watches catch up", format!("client {number} has not heard of all owners")));
            }
        }
        for workload in &self.workloads.all {
            let Some(resource) = workload.resource() else { continue };
            let Some(owner) = self.api.objects.get(resource, &workload.key()) else {
                if let Some(pod) = self.pods_of(workload).next() {
                    let detail = format!("{} of {}, which is gone", pod.key, workload.name);
                    complaints.push(("no pod outlives its owner", detail));
                }
                continue;
            };
            let active = self.pods_of(workload).filter(|pod| is_active(pod)).count() as u64;
            let ready = self.pods_of(workload).filter(|pod| is_active(pod) && pod.phase == PodPhase::Running);
            let ready = ready.count() as u64;
            let status = &owner["status"];
            let (wanted, said) = match workload.keeper {
                Keeper::Job => (self.wanted_by_job(workload, owner), number(&status["active"])),
                Keeper::ReplicaSet | Keeper::StatefulSet | Keeper::Nobody => {
                    (number(&owner["spec"]["replicas"]), number(&status["replicas"]))
                }
            };
            if active != wanted {
                let detail = format!("{} has {active} pods and wants {wanted}", workload.name);
                complaints.push(("an owner at rest has exactly its pods", detail));
            }
            let (said_ready, succeeded) = match workload.keeper {
                Keeper::Job => (number(&status["ready"]), self.succeeded(workload)),
                Keeper::ReplicaSet | Keeper::StatefulSet | Keeper::Nobody => {
                    (number(&status["readyReplicas"]), 0..=0)
                }
            };
            let is_counted = succeeded.contains(&number(&status["succeeded"]));
            if (said, said_ready) != (active, ready) || !is_counted {
                let detail = format!("{} has {active} pods, {ready} ready; {status}", workload.name);
                complaints.push(("the status of an owner is right", detail));
            }
        }
        for (invariant, detail) in complaints {
            self.violate(invariant, detail);
        }
        self.check_budgets_at_rest();
        self.check_fresh_workloads();
    }

    /// The status of each budget says how many of the pods that it covers are healthy, and how many may be evicted.
    fn check_budgets_at_rest(&mut self) {
        let mut complaints = Vec::new();
        for budget in self.api.objects.all(&resource::BUDGETS) {
            let namespace = budget["metadata"]["namespace"].as_str().unwrap_or_default();
            let pods = self.api.pods.iter().map(|stored| &**stored.object);
            let covered = |pod: &&Pod| pod.key.namespace == namespace && self.is_budgeted(pod);
            let (mut owners, mut all, mut healthy) = (BTreeSet::new(), 0, 0);
            for pod in pods.filter(covered) {
                all += 1;
                healthy += u64::from(is_active(pod) && pod.phase == PodPhase::Running);
                owners.extend(pod.owner.as_ref().and_then(|owner| self.workloads.owned_by(&owner.uid)));
            }
            let owners = owners.into_iter().map(|number| &self.workloads.all[number]);
            let wanted = owners.filter_map(|one| Some(self.replicas(one.resource()?, &one.key())));
            let by_owner = !budget["spec"]["maxUnavailable"].is_null();
            let expected = if by_owner { wanted.map(u64::from).sum::<u64>() } else { all };
            // All of them may be evicted at rest.
            let allowed = if expected == 0 { 0 } else { healthy };
            let status = &budget["status"];
            let said = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
                .map(|field| number(&status[field]));
            let is_current = status["observedGeneration"] == budget["metadata"]["generation"];
            if said != [expected, 0, healthy, allowed] || !is_current {
                complaints.push(format!("{namespace}: {expected} expected, {healthy} healthy; {status}"));
            }
        }
        for detail in complaints {
            self.violate("the status of a budget is right", detail);
        }
    }

    /// Pods that a Job at rest runs: none if it has ended.
    fn wanted_by_job(&self, workload: &Workload, job: &Value) -> u64 {
        let conditions = job["status"]["conditions"].as_array();
        let is_end = |one: &Value| matches!(one["type"].as_str(), Some("Complete" | "Failed"));
        if conditions.is_some_and(|all| all.iter().any(is_end)) {
            return 0;
        }
        let succeeded = self.succeeded(workload);
        let succeeded = number(&job["status"]["succeeded"]).clamp(*succeeded.start(), *succeeded.end());
        let left = number(&job["spec"]["completions"]).saturating_sub(succeeded);
        left.min(number(&job["spec"]["parallelism"]))
    }

    /// Controllers that start now read, and write nothing.
    fn check_fresh_workloads(&mut self) {
        let mut now = wall(self.now);
        let mut core = Workloads::begin();
        self.tell_all_workloads(&mut core, now);
        core.handle(now, &(), Turn::BecameLeader);
        for _ in 0..QUESTIONS_MAX {
            now = now.plus_millis(LOOK_MS);
            core.handle(now, &(), Turn::Tick);
            let Some(effect) = core.poll_effect() else { return };
            match &effect.kind {
                Write::Event(_) => {}
                read @ (Write::Confirm { .. } | Write::ReadScale { .. }) => {
                    let reply = Workloads::perform(self, read, false);
                    let object = Workloads::take_object(self);
                    Part::acknowledge(&mut core, now, effect.id, reply, object);
                }
                write @ (Write::Create { .. }
                | Write::Patch { .. }
                | Write::Replace { .. }
                | Write::Finalize { .. }
                | Write::Delete { .. }
                | Write::Evict { .. }) => {
                    return self.violate("fresh workload controllers agree", format!("{write:?}"));
                }
            }
        }
    }
}
