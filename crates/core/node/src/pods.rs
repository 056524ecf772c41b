//! The steps for each pod.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_machine::Backoff;

use crate::{
    Action, Call, ClaimName, ClaimView, ContainerClaim, Life, Millis, NodeError, Operation, Outcome, PodRef,
    PodView, ResourceStatus, SeenPod, mapping,
    node::{Node, Pending},
};

/// Pods of a node. Kubernetes recommends 110.
const PODS_MAX: usize = 1_024;
/// Pods that are prepared or unprepared at a time.
const BUSY_MAX: usize = 32;
/// After a failure. Kubelet tries a pod again after about 90 s; a plugin that registers wakes every pod.
const RETRY: Backoff = Backoff::new(1_000, 60_000);
/// The same warning about a pod is not given again within this time.
const WARN_AGAIN_MS: Millis = 60_000;

/// How far a pod is with its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Something is to be done then.
    Due(Millis),
    Reading,
    Preparing,
    Prepared,
    Unpreparing,
    Removing,
    /// It holds nothing.
    Free,
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) seen: SeenPod,
    pub(crate) is_gone: bool,
    pub(crate) stage: Stage,
    failures: u32,
    warned: Option<(String, Millis)>,
    /// The last it was told of another pod that waits for its device.
    told: Option<(String, Millis)>,
    /// A status is being written, or was not: then it is tried again at that time.
    pub(crate) status: Writing,
    /// The last status that was written, and when.
    pub(crate) written: Option<(BTreeMap<String, Vec<ResourceStatus>>, Millis)>,
}

/// How far a write is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writing {
    #[default]
    Idle,
    InFlight,
    NotBefore(Millis),
}

impl Writing {
    pub(crate) fn may_begin(self, now: Millis) -> bool {
        match self {
            Self::Idle => true,
            Self::InFlight => false,
            Self::NotBefore(at) => at <= now,
        }
    }
}

impl Pod {
    fn new(now: Millis, seen: SeenPod) -> Self {
        let (warned, told, status, written) = (None, None, Writing::Idle, None);
        Self { seen, is_gone: false, stage: Stage::Due(now), failures: 0, warned, told, status, written }
    }

    /// A pod of which only the UID is known: it is in the checkpoint and nowhere else.
    fn orphan(now: Millis, uid: &str) -> Self {
        let view = crate::PodView {
            uid: uid.to_string(),
            namespace: String::new(),
            name: String::new(),
            claims: Vec::new(),
        };
        let (containers, shown) = (Vec::new(), BTreeMap::new());
        Self { is_gone: true, ..Self::new(now, SeenPod { view, life: Life::Deleted, containers, shown }) }
    }

    pub(crate) fn reference(&self) -> PodRef {
        let view = &self.seen.view;
        PodRef { namespace: view.namespace.clone(), name: view.name.clone(), uid: view.uid.clone() }
    }

    /// Whether its status is to say how its devices are.
    pub(crate) fn can_be_shown(&self) -> bool {
        !self.is_gone && self.stage == Stage::Prepared && self.status != Writing::InFlight
    }

    /// Whether something is to be begun.
    fn is_due(&self, now: Millis) -> bool {
        match self.stage {
            Stage::Due(at) => at <= now,
            Stage::Prepared | Stage::Free => self.ends(),
            Stage::Reading | Stage::Preparing | Stage::Unpreparing | Stage::Removing => false,
        }
    }

    fn ends(&self) -> bool {
        self.is_gone || self.seen.life != Life::Wanted
    }

    fn is_busy(&self) -> bool {
        match self.stage {
            Stage::Reading | Stage::Preparing | Stage::Unpreparing | Stage::Removing => true,
            Stage::Due(_) | Stage::Prepared | Stage::Free => false,
        }
    }
}

impl Node {
    pub(crate) fn pods_listed(&mut self, now: Millis, pods: Vec<SeenPod>) {
        let listed: BTreeSet<String> = pods.iter().map(|pod| pod.view.uid.clone()).collect();
        let gone: Vec<String> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
        gone.iter().for_each(|uid| self.pod_gone(now, uid));
        pods.into_iter().for_each(|pod| self.pod_seen(now, pod));
        self.is_listed = true;
        self.find_orphans(now);
    }

    pub(crate) fn pod_seen(&mut self, now: Millis, seen: SeenPod) {
        let uid = seen.view.uid.clone();
        self.to_show.insert(uid.clone());
        if let Some(pod) = self.pods.get_mut(&uid) {
            let is_news = pod.seen.life != seen.life || pod.seen.view != seen.view;
            pod.seen = seen;
            pod.is_gone = false;
            if is_news && matches!(pod.stage, Stage::Due(_)) {
                pod.stage = Stage::Due(now);
            }
        } else if self.pods.len() < PODS_MAX || self.manager.holds(&uid) {
            self.pods.insert(uid, Pod::new(now, seen));
        } else {
            let message = format!("more than {PODS_MAX} pods: pod {} is not looked at", seen.view.name);
            self.act(Action::Warn { pod: None, reason: "TooManyPods", message });
        }
    }

    pub(crate) fn pod_gone(&mut self, now: Millis, uid: &str) {
        // It was never seen, or is gone already.
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.is_gone = true;
        if let Stage::Due(_) = pod.stage {
            pod.stage = Stage::Due(now);
        }
    }

    /// Pods that hold claims although there is no such pod.
    pub(crate) fn find_orphans(&mut self, now: Millis) {
        if !self.is_listed {
            return;
        }
        let known: BTreeSet<String> = self.pods.keys().cloned().collect();
        for uid in self.manager.inactive(&known) {
            let orphan = Pod::orphan(now, &uid);
            self.pods.insert(uid, orphan);
        }
    }

    /// Everybody who waits is looked at now: a plugin is there that was not.
    pub(crate) fn wake_pods(&mut self, now: Millis) {
        for pod in self.pods.values_mut() {
            if let Stage::Due(_) = pod.stage {
                pod.stage = Stage::Due(now);
            }
        }
    }

    /// No more pods are begun: each that ends makes room.
    pub(crate) fn is_full(&self) -> bool {
        self.busy() >= BUSY_MAX
    }

    fn busy(&self) -> usize {
        self.pods.values().filter(|pod| pod.is_busy()).count()
    }

    /// Begins what is due.
    pub(crate) fn advance_pods(&mut self, now: Millis) {
        let mut busy = self.busy();
        let due = self.pods.iter().filter(|(_, pod)| pod.is_due(now));
        let uids: Vec<String> = due.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            if busy >= BUSY_MAX {
                break;
            }
            let was_busy = self.pods.get(&uid).is_some_and(Pod::is_busy);
            self.advance(now, &uid);
            busy += usize::from(!was_busy && self.pods.get(&uid).is_some_and(Pod::is_busy));
        }
    }

    fn advance(&mut self, now: Millis, uid: &str) {
        let Some(pod) = invariant!(self.pods.get(uid), "a pod that is due is known") else { return };
        match (pod.is_due(now), pod.ends()) {
            (true, true) => self.end(now, uid),
            (true, false) => self.read_claims(now, uid),
            (false, _) => {}
        }
    }

    fn read_claims(&mut self, now: Millis, uid: &str) {
        let Some(pod) = invariant!(self.pods.get_mut(uid), "a pod that is advanced is known") else { return };
        pod.stage = Stage::Reading;
        let claims = pod.seen.view.claims.iter();
        let names: BTreeSet<ClaimName> =
            claims.filter_map(|claim| Some((claim.kind, claim.name.clone()?))).collect();
        if names.is_empty() {
            return self.claims_read(now, uid, &BTreeMap::new());
        }
        let namespace = pod.seen.view.namespace.clone();
        let names = names.into_iter().collect();
        self.ask(Pending::Claims(uid.to_string()), Action::ReadClaims { namespace, names });
    }

    pub(crate) fn claims_read(&mut self, now: Millis, uid: &str, found: &BTreeMap<ClaimName, ClaimView>) {
        let Some(pod) = invariant!(self.pods.get_mut(uid), "a pod is kept while its claims are read") else {
            return;
        };
        if pod.is_gone || pod.seen.life != Life::Wanted {
            // It ended while its claims were read.
            pod.stage = Stage::Due(now);
            return;
        }
        let view = pod.seen.view.clone();
        match self.manager.prepare(&view, found) {
            Ok(operation) => {
                self.began(operation, uid, Call::Prepare);
                self.set_stage(uid, Stage::Preparing);
            }
            Err(error) => {
                self.failed(now, uid, Call::Prepare, &error.to_string());
                self.tell_holders(now, &view, &error);
            }
        }
    }

    /// Tells the pods that have a device which the claim of this pod was given as well.
    fn tell_holders(&mut self, now: Millis, pod: &PodView, error: &NodeError) {
        let NodeError::InUse { device, claim, wanted, pods } = error else { return };
        let PodView { namespace, name, .. } = pod;
        let message = format!(
            "device {device} is prepared for ResourceClaim {claim} of this pod, and was also allocated to ResourceClaim {namespace}/{wanted} of pod {namespace}/{name}, which waits until it is unprepared"
        );
        for uid in pods {
            let Some(holder) = self.pods.get_mut(uid).filter(|holder| !holder.seen.view.name.is_empty())
            else {
                continue;
            };
            let is_old =
                |(text, at): &(String, Millis)| *text == message && now < at.saturating_add(WARN_AGAIN_MS);
            if holder.told.as_ref().is_some_and(is_old) {
                continue;
            }
            holder.told = Some((message.clone(), now));
            let (pod, message) = (Some(holder.reference()), message.clone());
            self.act(Action::Warn { pod, reason: "DeviceAllocatedTwice", message });
        }
    }

    fn end(&mut self, now: Millis, uid: &str) {
        let Some(pod) = invariant!(self.pods.get(uid), "a pod that is advanced is known") else { return };
        if self.manager.holds(uid) || self.manager.is_stale() {
            self.act(Action::WithdrawDevices { pod_uid: uid.to_string() });
            match self.manager.unprepare(uid) {
                Ok(operation) => {
                    self.began(operation, uid, Call::Unprepare);
                    self.set_stage(uid, Stage::Unpreparing);
                }
                Err(error) => self.failed(now, uid, Call::Unprepare, &error.to_string()),
            }
        } else if pod.is_gone {
            self.pods.remove(uid);
            self.act(Action::Freed { pod_uid: uid.to_string() });
        } else if pod.seen.life == Life::Deleted {
            let reference = pod.reference();
            self.set_stage(uid, Stage::Removing);
            self.ask(Pending::Delete(uid.to_string()), Action::DeletePod(reference));
        } else if pod.stage != Stage::Free {
            self.set_stage(uid, Stage::Free);
            self.act(Action::Freed { pod_uid: uid.to_string() });
        }
    }

    fn began(&mut self, operation: Operation, uid: &str, call: Call) {
        self.operations.insert(operation, (uid.to_string(), call));
        self.act(Action::Began { call, pod_uid: uid.to_string() });
    }

    pub(crate) fn operation_ended(
        &mut self,
        now: Millis,
        uid: &str,
        call: Call,
        result: Result<(), NodeError>,
    ) {
        self.act(Action::Ended { call, pod_uid: uid.to_string(), is_error: result.is_err() });
        match result {
            Err(error) => self.failed(now, uid, call, &error.to_string()),
            Ok(()) => {
                let stage = match call {
                    Call::Prepare => Stage::Prepared,
                    Call::Unprepare => Stage::Due(now),
                };
                if let Some(pod) = self.pods.get_mut(uid) {
                    (pod.stage, pod.failures, pod.warned) = (stage, 0, None);
                }
                if call == Call::Prepare {
                    let mut sharing = self.manager.sharing(uid);
                    self.to_show.append(&mut sharing);
                    self.offer(uid);
                }
            }
        }
    }

    pub(crate) fn removed(&mut self, now: Millis, uid: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(why) => {
                let why = format!("delete the pod: {why}");
                self.failed(now, uid, Call::Unprepare, &why);
            }
            // The watch says when it is gone. If it does not, something else kept it, and it is tried again.
            Outcome::Done | Outcome::Claims(_) | Outcome::Plugin(_) | Outcome::Answered(_) => {
                self.set_stage(uid, Stage::Due(now + RETRY.longest_ms.unsigned_abs()));
            }
        }
    }

    fn offer(&mut self, uid: &str) {
        // It has no claims.
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.seen.view.claims.is_empty()) else { return };
        let namespace = &pod.seen.view.namespace;
        let drivers = |used: &ContainerClaim| self.manager.drivers(used.kind, namespace, &used.claim);
        let names = |container: &crate::ContainerUse| {
            let uses = container.claims.iter().map(|(_, used)| used);
            (container.name.clone(), mapping::cdi_ids_of(&drivers, uses))
        };
        let containers = pod.seen.containers.iter().map(names).collect();
        let pod = pod.reference();
        self.act(Action::OfferDevices { pod, containers });
    }

    pub(crate) fn failed(&mut self, now: Millis, uid: &str, call: Call, why: &str) {
        let Some(pod) = invariant!(self.pods.get_mut(uid), "a pod is kept until its work ends") else {
            return;
        };
        pod.failures += 1;
        pod.stage = Stage::Due(now + RETRY.millis_after(pod.failures));
        let (reason, message) = match call {
            Call::Prepare => {
                ("FailedPrepareDynamicResources", format!("Failed to prepare dynamic resources: {why}"))
            }
            Call::Unprepare => {
                ("FailedUnprepareDynamicResources", format!("Failed to unprepare dynamic resources: {why}"))
            }
        };
        let is_old =
            |(text, at): &(String, Millis)| *text == message && now < at.saturating_add(WARN_AGAIN_MS);
        if !pod.warned.as_ref().is_some_and(is_old) {
            pod.warned = Some((message.clone(), now));
            let pod = Some(pod.reference()).filter(|pod| !pod.name.is_empty());
            self.act(Action::Warn { pod, reason, message });
        }
    }

    fn set_stage(&mut self, uid: &str, stage: Stage) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.stage = stage;
        }
    }
}
