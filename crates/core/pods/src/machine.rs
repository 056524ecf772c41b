//! The machine: takes the time and what happened, and says what to do.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use lazaret_invariant::invariant;

use crate::{
    Action, Amounts, FoundSandbox, Input, Millis, Outcome, PodView, PressureOptions, ProbeKind, Resources,
    Status,
    admission::{self, Used},
    backoff::RETRY,
    pod::{Claims, EndReason, Pod},
    pressure::Pressure,
};

/// The runtime's containers are listed this often even without an event, in case one was lost.
const LIST_EVERY_MS: Millis = 60_000;

/// The capacity of a node, and its eviction settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The sum that its pods may request.
    pub capacity: Amounts,
    /// The number of its pods.
    pub pods_max: u64,
    /// Thresholds, and how pods are evicted when one is crossed.
    pub pressure: PressureOptions,
}

/// The pods of a node.
#[derive(Debug)]
pub struct Pods {
    options: Options,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) out: Out,
    pub(crate) pressure: Pressure,
    /// All pods of the API have been seen.
    is_listed: bool,
    /// All that the runtime has was held against them: nothing is started before.
    is_found: bool,
    listing: Listing,
    list_at: Millis,
}

/// How far the list of what the runtime has is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Idle,
    InFlight(u64),
}

/// The subject of an action in flight. Containers are named by their place in the pod, and by the runtime's id.
#[derive(Clone, Debug)]
pub(crate) enum ActionTarget {
    Pull(usize),
    Volumes,
    Sandbox,
    Start(usize),
    PostStart(usize, String),
    PreStop(usize, String),
    Stop(usize, String),
    Probe(usize, String, ProbeKind),
    RemoveContainer,
    Resize(usize, String, Resources),
    StopSandbox,
    RemoveSandbox,
    RemoveVolumes,
    Status(Box<Status>),
    Delete,
}

/// The actions and deadlines that a pass over pods yields.
#[derive(Debug, Default)]
pub(crate) struct Out {
    actions: VecDeque<(u64, Action)>,
    pending: BTreeMap<u64, (String, ActionTarget)>,
    next_id: u64,
    wake: Option<Millis>,
    pub(crate) wants_list: bool,
}

impl Out {
    pub(crate) fn act(&mut self, action: Action) {
        self.next_id += 1;
        self.actions.push_back((self.next_id, action));
    }

    pub(crate) fn ask(&mut self, uid: &str, about: ActionTarget, action: Action) {
        self.act(action);
        self.pending.insert(self.next_id, (uid.to_string(), about));
    }

    /// The pod is to be looked at again then.
    pub(crate) fn later(&mut self, at: Millis) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// The number of the last action: whatever is asked from now on has a greater one.
    pub(crate) fn last_id(&self) -> u64 {
        self.next_id
    }
}

impl Pods {
    /// A node that starts. It does nothing until it has heard of all pods.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            pressure: Pressure::new(options.pressure.clone()),
            options,
            pods: BTreeMap::new(),
            out: Out::default(),
            is_listed: false,
            is_found: false,
            listing: Listing::Idle,
            list_at: Millis::MAX,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Millis, input: Input) {
        match input {
            Input::Pods(views) => self.listed(now, views),
            Input::Pod(view) => {
                let uid = view.pod.uid.clone();
                self.seen(now, view);
                self.advance(now, &uid);
            }
            Input::PodGone(uid) => {
                self.gone(&uid);
                self.advance(now, &uid);
            }
            Input::Changed => self.out.wants_list = true,
            Input::ClaimsPrepared(uid) => {
                if let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.claims == Claims::Waiting) {
                    pod.claims = Claims::Prepared;
                }
                self.advance(now, &uid);
            }
            Input::ClaimsReleased(uid) => {
                if let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.claims == Claims::Releasing) {
                    pod.claims = Claims::Released;
                }
                self.advance(now, &uid);
            }
            Input::Rewrite(uid) => {
                if let Some(pod) = self.pods.get_mut(&uid) {
                    pod.must_rewrite = true;
                }
                self.advance(now, &uid);
            }
            Input::Shutdown => self.shut_down(now),
            Input::Outcome(id, outcome) => self.outcome(now, id, outcome),
        }
        self.observe(now);
        self.list(now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis) {
        let is_due = |pod: &Pod| pod.wake.is_some_and(|at| at <= now);
        let due = self.pods.iter().filter(|(_, pod)| is_due(pod)).map(|(uid, _)| uid.clone());
        let due: Vec<String> = due.collect();
        due.iter().for_each(|uid| self.advance(now, uid));
        if self.list_at <= now {
            self.out.wants_list = true;
        }
        self.observe(now);
        self.list(now);
    }

    /// When to call [`Pods::tick`].
    #[must_use]
    pub fn wake(&self) -> Option<Millis> {
        let list = (self.is_listed && self.listing == Listing::Idle).then_some(self.list_at);
        self.pods.values().filter_map(|pod| pod.wake).chain(list).chain(self.pressure.wake()).min()
    }

    /// The next thing to do, and the number to answer it by.
    pub fn poll(&mut self) -> Option<(u64, Action)> {
        self.out.actions.pop_front()
    }

    /// How many pods there are here, those that are going included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// How many actions are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.out.pending.len()
    }

    /// Whether all pods and everything that the runtime has is known. Before, [`Pods::contains`] may miss a pod.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_found
    }

    /// Whether something of a pod is here, by UID.
    #[must_use]
    pub fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// How many containers run or may soon.
    #[must_use]
    pub fn running(&self) -> usize {
        let containers = self.pods.values().flat_map(|pod| &pod.containers);
        containers.filter(|container| container.is_alive()).count()
    }

    /// Whether pods have nothing left to stop: after [`Input::Shutdown`], when the process may end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.pods.values().all(|pod| {
            pod.is_stopped
                && (pod.is_frozen
                    || pod.is_gone
                    || pod.shown.as_ref().is_some_and(|shown| shown.phase.is_terminal()))
        })
    }

    fn listed(&mut self, now: Millis, views: Vec<PodView>) {
        let listed: BTreeSet<String> = views.iter().map(|view| view.pod.uid.clone()).collect();
        let gone: Vec<String> = self.pods.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
        gone.iter().for_each(|uid| self.gone(uid));
        views.into_iter().for_each(|view| self.seen(now, view));
        self.is_listed = true;
        // Pods that the API does not know any more may have containers.
        self.out.wants_list = true;
        self.advance_all(now);
    }

    fn seen(&mut self, now: Millis, view: PodView) {
        match self.pods.get_mut(&view.pod.uid) {
            Some(pod) => pod.update(now, view),
            None => drop(self.pods.insert(view.pod.uid.clone(), Pod::new(now, view))),
        }
    }

    fn gone(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.is_gone = true;
        }
    }

    fn shut_down(&mut self, now: Millis) {
        let why = EndReason::Failed {
            reason: "Terminated".into(),
            message: "Pod was terminated in response to imminent node shutdown.".into(),
        };
        self.pods.values_mut().for_each(|pod| pod.end_by_grace(now, why.clone()));
        self.advance_all(now);
    }

    fn advance_all(&mut self, now: Millis) {
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        uids.iter().for_each(|uid| self.advance(now, uid));
    }

    pub(crate) fn advance(&mut self, now: Millis, uid: &str) {
        if !self.is_found {
            return;
        }
        self.admit(now, uid);
        self.judge_resize(uid);
        // It was never seen, or is over.
        let Some(pod) = self.pods.get_mut(uid) else { return };
        self.out.wake = None;
        pod.advance(now, &mut self.out);
        pod.wake = self.out.wake.take();
        if pod.is_over() {
            self.pods.remove(uid);
        }
    }

    /// Whether there is room for what the containers of a pod are to have from now on.
    fn judge_resize(&mut self, uid: &str) {
        // It was never seen, or is over.
        let Some(pod) = self.pods.get(uid) else { return };
        if !pod.wants_resize() && pod.resize_deferred.is_none() {
            return;
        }
        let mut used = Used::default();
        let others = self.pods.iter().filter(|(other, pod)| *other != uid && pod.counts());
        others.for_each(|(_, pod)| used.add(pod.view.requests));
        let lack = admission::lack(&self.options, used, pod.view.requests).filter(|_| pod.wants_resize());
        let Some(pod) = invariant!(self.pods.get_mut(uid), "a pod that is judged is known") else { return };
        let message = lack.map(|(_, message)| message);
        if let Some(message) = message.clone().filter(|_| pod.resize_deferred.is_none()) {
            pod.event(&mut self.out, None, true, "ResizeDeferred", message);
        }
        pod.resize_deferred = message;
    }

    /// Decides once whether the node takes a pod. One that it has run before it takes.
    fn admit(&mut self, now: Millis, uid: &str) {
        // It was never seen, or was admitted before.
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.is_admitted) else { return };
        let has_run = pod.view.before.phase != crate::Phase::Pending;
        let mut used = Used::default();
        let others = self.pods.values().filter(|pod| pod.counts());
        others.for_each(|pod| used.add(pod.view.requests));
        let refusal = self.pressure.refusal(&pod.view);
        let refusal = refusal.or_else(|| admission::refusal(&self.options, used, &pod.view));
        let refusal = refusal.filter(|_| !has_run);
        let Some(pod) = invariant!(self.pods.get_mut(uid), "a pod that is admitted is known") else { return };
        pod.is_admitted = true;
        if let Some((reason, message)) = refusal.filter(|_| pod.ending.is_none()) {
            pod.event(&mut self.out, None, true, "Rejected", message.clone());
            pod.end_by_grace(now, EndReason::Refused { reason, message });
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "an answer to another question is none")]
    fn outcome(&mut self, now: Millis, id: u64, outcome: Outcome) {
        if self.listing == Listing::InFlight(id) {
            self.listing = Listing::Idle;
            match outcome {
                Outcome::Found(found) => self.found(now, id, &found),
                Outcome::Done
                | Outcome::Failed { .. }
                | Outcome::Image { .. }
                | Outcome::Sandbox { .. }
                | Outcome::Started { .. }
                | Outcome::CannotRun { .. }
                | Outcome::Probed { .. }
                | Outcome::Observed(_)
                | Outcome::Measured(_) => self.list_at = now + RETRY.millis_after(1),
            }
            return;
        }
        if self.pressure_outcome(now, id, &outcome) {
            return;
        }
        // Answered before.
        let Some((uid, about)) = self.out.pending.remove(&id) else { return };
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.outcome(now, about, outcome, &mut self.out);
        }
        self.advance(now, &uid);
    }

    fn found(&mut self, now: Millis, list: u64, found: &[FoundSandbox]) {
        self.list_at = now + LIST_EVERY_MS;
        let by_pod: BTreeMap<&str, &FoundSandbox> =
            found.iter().map(|sandbox| (sandbox.pod.uid.as_str(), sandbox)).collect();
        for (uid, sandbox) in &by_pod {
            if !self.pods.contains_key(*uid) {
                self.pods.insert((*uid).to_string(), Pod::orphan(now, sandbox));
            }
        }
        for (uid, pod) in &mut self.pods {
            pod.found(now, list, by_pod.get(uid.as_str()).copied(), &mut self.out);
        }
        if !self.is_found {
            self.is_found = true;
            self.out.act(Action::KeepOnly { pods: self.pods.keys().cloned().collect() });
        }
        self.advance_all(now);
    }

    fn list(&mut self, now: Millis) {
        if !self.out.wants_list || !self.is_listed || self.listing != Listing::Idle {
            return;
        }
        self.out.wants_list = false;
        self.list_at = now + LIST_EVERY_MS;
        self.out.act(Action::List);
        self.listing = Listing::InFlight(self.out.next_id);
    }
}
