//! The machine: prepares and unprepares the claims of pods.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};

use lazaret_invariant::invariant;

use crate::{
    Answer, ClaimAnswer, ClaimId, ClaimKind, ClaimName, ClaimView, Effect, NodeError, Operation, Plugins,
    PodView,
    answers::{checked, checked_cdi_ids},
    checkpoint::{self, CheckpointError, ClaimState, DeviceState, DriverState, HeldDevice},
    claims::{Entry, Key, Phase, check},
    work::{Callee, Step, Work, not_registered},
};

/// Claims on one node. A node has some hundred pods with a few claims each; all of them are in one file.
const CLAIMS_MAX: usize = 4_096;
/// The call that a driver may not need, as a claim's allocation names it.
const SKIP_UNPREPARE: &str = "NodeUnprepareResources";

/// The claims that are prepared on a node.
#[derive(Debug, Default)]
pub struct Manager {
    /// The plugins there are.
    pub plugins: Plugins,
    /// UIDs of claims that are being taken back from pods that were removed. They are not prepared anew.
    pub awaited: BTreeSet<String>,
    claims: BTreeMap<Key, Entry>,
    /// A checkpoint could not be written: the file is older than the state here.
    is_stale: bool,
    /// A checkpoint is to be written that no operation waits for.
    is_unwritten: bool,
    /// Ids of such checkpoints in flight.
    unawaited: BTreeSet<u64>,
    operations: BTreeMap<Operation, Work>,
    waits: BTreeMap<u64, Operation>,
    effects: VecDeque<(u64, Effect)>,
    next_id: u64,
}

impl Manager {
    /// A manager that takes over from another, or from a kubelet.
    ///
    /// # Errors
    /// When the checkpoint cannot be trusted.
    pub fn restore(text: &[u8]) -> Result<Self, CheckpointError> {
        let claims = checkpoint::read(text)?.into_iter().map(Entry::restored).collect();
        Ok(Self { claims, ..Self::default() })
    }

    /// Begins to prepare the claims of a pod, before its sandbox is made.
    ///
    /// # Errors
    /// When they cannot be. Nothing was changed.
    pub fn prepare(
        &mut self,
        pod: &PodView,
        found: &BTreeMap<ClaimName, ClaimView>,
    ) -> Result<Operation, NodeError> {
        let views = pod.claims.iter().map(|claim| check(pod, claim, found)).collect::<Result<Vec<_>, _>>()?;
        if self.operations.values().any(|work| work.pod == pod.uid) {
            return Err(NodeError::Busy(pod.name.clone()));
        }
        for view in &views {
            for driver in view.drivers.iter().flatten() {
                let plugin = self.plugins.of(view.id.kind, driver);
                plugin.ok_or_else(|| not_registered(view.id.kind, driver))?;
            }
        }
        for view in &views {
            // Nothing is prepared for it yet.
            let Some(entry) = self.claims.get(&key(view)) else { continue };
            if entry.uid != view.id.uid {
                let (old, new) = (entry.uid.clone(), view.id.uid.clone());
                return Err(NodeError::Replaced { claim: view.id.name.clone(), old, new });
            }
            if entry.phase == Phase::Unpreparing {
                return Err(NodeError::Unpreparing(view.id.name.clone()));
            }
            if entry.phase == Phase::Prepared && entry.has_moved(&view.devices) {
                return Err(NodeError::Moved(view.id.name.clone()));
            }
        }
        self.check_devices(&views)?;
        if views.is_empty() {
            return Ok(self.nothing_to_do());
        }
        let mut calls: BTreeMap<Callee, Vec<Key>> = BTreeMap::new();
        for view in &views {
            let drivers = view.drivers.clone().unwrap_or_default();
            let entry = self.claims.entry(key(view)).or_insert_with(|| Entry {
                uid: view.id.uid.clone(),
                pods: BTreeSet::new(),
                drivers: drivers.iter().map(|driver| (driver.clone(), DriverState::default())).collect(),
                held: Vec::new(),
                attributes: BTreeMap::new(),
                phase: Phase::Noted,
                text: None,
            });
            entry.text = None;
            entry.pods.insert(pod.uid.clone());
            entry.hold(&view.devices);
            entry.attributes.clone_from(&view.attributes);
            if entry.phase == Phase::Noted {
                for driver in drivers {
                    let batch = calls.entry(Callee::of(&key(view), &driver)).or_default();
                    if !batch.contains(&key(view)) {
                        batch.push(key(view));
                    }
                }
            }
        }
        let claims = views.into_iter().map(key).collect();
        Ok(self.begin(Work { pod: pod.uid.clone(), calls, calling: None, claims, step: Step::NotePrepare }))
    }

    /// Begins to unprepare what a pod used, after its last container has stopped. Claims that other pods use stay.
    ///
    /// # Errors
    /// When the pod is busy.
    pub fn unprepare(&mut self, pod_uid: &str) -> Result<Operation, NodeError> {
        if self.operations.values().any(|work| work.pod == pod_uid) {
            return Err(NodeError::Busy(pod_uid.into()));
        }
        let used = self.claims.iter_mut().filter(|(_, entry)| entry.pods.contains(pod_uid));
        let (mut calls, mut claims) = (BTreeMap::<Callee, Vec<Key>>::new(), Vec::new());
        let mut changed = false;
        for (key, entry) in used {
            if entry.pods.len() > 1 {
                entry.text = None;
                entry.pods.remove(pod_uid);
                changed = true;
                continue;
            }
            // The last pod stays in the entry until it is done: then it can be found and retried.
            entry.phase = Phase::Unpreparing;
            claims.push(key.clone());
            let called = entry.drivers.iter().filter(|(_, state)| !state.skips(SKIP_UNPREPARE));
            for (driver, _) in called {
                calls.entry(Callee::of(key, driver)).or_default().push(key.clone());
            }
        }
        if claims.is_empty() && !changed && !self.is_stale {
            return Ok(self.nothing_to_do());
        }
        let step = if calls.is_empty() { Step::Forget } else { Step::CallUnprepare };
        if calls.is_empty() {
            claims.iter().for_each(|key| drop(self.claims.remove(key)));
        }
        Ok(self.begin(Work { pod: pod_uid.into(), calls, calling: None, claims, step }))
    }

    /// Pods that are gone although their claims are not: their claims are to be unprepared. Once a minute, and only when all
    /// pods of the node are known.
    #[must_use]
    pub fn inactive(&self, active: &BTreeSet<String>) -> BTreeSet<String> {
        let busy: BTreeSet<&String> = self.operations.values().map(|work| &work.pod).collect();
        let pods = self.claims.values().flat_map(|entry| &entry.pods);
        pods.filter(|pod| !active.contains(*pod) && !busy.contains(pod)).cloned().collect()
    }

    /// Whether a pod still holds claims here: then it has not ended, whatever its containers say.
    #[must_use]
    pub fn holds(&self, pod_uid: &str) -> bool {
        self.claims.values().any(|entry| entry.pods.contains(pod_uid))
    }

    /// Whether the last checkpoint could not be written. [`Manager::write_again`] writes another, and so does to unprepare a
    /// pod, whichever.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Writes the checkpoint after all those that a pod waits for.
    pub fn write_again(&mut self) {
        self.is_unwritten = true;
    }

    /// Whether this is the number of a checkpoint that no operation waits for.
    /// How many operations there are, and answers that are waited for.
    pub(crate) fn in_flight(&self) -> usize {
        self.operations.len() + self.waits.len() + self.unawaited.len() + self.effects.len()
    }

    pub(crate) fn is_unawaited(&self, id: u64) -> bool {
        self.unawaited.contains(&id)
    }

    /// The state of a claim at its drivers.
    pub(crate) fn drivers(
        &self,
        kind: ClaimKind,
        namespace: &str,
        name: &str,
    ) -> Option<&BTreeMap<String, DriverState>> {
        self.claims.get(&(kind, namespace.into(), name.into())).map(|entry| &entry.drivers)
    }

    /// Pods that use a claim that this pod uses, and the pod itself.
    pub(crate) fn sharing(&self, pod_uid: &str) -> BTreeSet<String> {
        let used = self.claims.values().filter(|entry| entry.pods.contains(pod_uid));
        used.flat_map(|entry| entry.pods.iter().cloned()).chain([pod_uid.into()]).collect()
    }

    /// Whether something is or may be prepared for a claim.
    #[must_use]
    pub fn has_claim(&self, claim_uid: &str) -> bool {
        self.claims.values().any(|entry| entry.uid == claim_uid)
    }

    /// The claims in the checkpoint.
    #[must_use]
    pub fn states(&self) -> Vec<ClaimState> {
        self.claims.iter().map(|(key, entry)| entry.state(key)).collect()
    }

    /// The next thing to do, and the number to acknowledge it by.
    pub fn poll(&mut self) -> Option<(u64, Effect)> {
        self.poll_awaited().or_else(|| {
            let (id, text) = self.poll_unawaited()?;
            Some((id, Effect::Checkpoint(text)))
        })
    }

    /// The next thing that an operation waits for.
    pub(crate) fn poll_awaited(&mut self) -> Option<(u64, Effect)> {
        self.effects.pop_front()
    }

    /// The checkpoint, if one is to be written that no operation waits for. It is made only now: a pod that is prepared does
    /// not wait for that either.
    pub(crate) fn poll_unawaited(&mut self) -> Option<(u64, Vec<u8>)> {
        if !self.is_unwritten {
            return None;
        }
        let Ok(text) = self.checkpoint() else {
            self.is_stale = true;
            return None;
        };
        self.next_id += 1;
        self.unawaited.insert(self.next_id);
        Some((self.next_id, text))
    }

    /// Takes in the answer to an effect.
    pub fn acknowledge(&mut self, id: u64, answer: Answer) {
        if self.unawaited.remove(&id) {
            self.is_stale = answer != Answer::Written;
            return;
        }
        // Acknowledged before.
        let Some(operation) = self.waits.remove(&id) else { return };
        let Some(mut work) =
            invariant!(self.operations.remove(&operation), "an operation that waits for an answer is kept")
        else {
            return;
        };
        match self.step(&mut work, answer) {
            Ok(true) => self.finish(operation, Ok(())),
            Ok(false) => match self.next(operation, &mut work) {
                Ok(()) => drop(self.operations.insert(operation, work)),
                Err(error) => self.finish(operation, Err(error)),
            },
            Err(error) => self.finish(operation, Err(error)),
        }
    }

    /// DEVIATION(node-second-line): no device for two claims, and nothing more for a claim that is being taken back.
    fn check_devices(&self, views: &[&ClaimView]) -> Result<(), NodeError> {
        for (number, view) in views.iter().enumerate() {
            // A claim with prepared devices was not reported as unprepared.
            if self.awaited.contains(&view.id.uid) && !self.has_claim(&view.id.uid) {
                return Err(NodeError::Awaited(view.id.name.clone()));
            }
            let own = views[..number].iter().filter(|other| other.id.uid != view.id.uid);
            if let Some((other, held)) =
                own.into_iter().find_map(|other| Some((other, conflict(other, view)?)))
            {
                let device = alloc::format!("{}/{}/{}", held.driver, held.pool, held.device);
                let claim = alloc::format!("{}/{}", other.id.namespace, other.id.name);
                let wanted = view.id.name.clone();
                return Err(NodeError::InUse { device, claim, wanted, pods: BTreeSet::new() });
            }
            let others = self.claims.iter().filter(|(_, entry)| entry.uid != view.id.uid);
            for ((_, namespace, name), entry) in others {
                if let Some(held) = entry.conflict(&view.devices) {
                    let device = alloc::format!("{}/{}/{}", held.driver, held.pool, held.device);
                    let (claim, wanted) = (alloc::format!("{namespace}/{name}"), view.id.name.clone());
                    return Err(NodeError::InUse { device, claim, wanted, pods: entry.pods.clone() });
                }
            }
        }
        if self.claims.len() + views.len() > CLAIMS_MAX { Err(NodeError::TooMany) } else { Ok(()) }
    }

    fn nothing_to_do(&mut self) -> Operation {
        self.next_id += 1;
        let operation = self.next_id;
        self.finish(operation, Ok(()));
        operation
    }

    fn begin(&mut self, mut work: Work) -> Operation {
        self.next_id += 1;
        let operation = self.next_id;
        match self.next(operation, &mut work) {
            Ok(()) => drop(self.operations.insert(operation, work)),
            Err(error) => self.finish(operation, Err(error)),
        }
        operation
    }

    /// Takes note of an answer. Whether all is done.
    fn step(&mut self, work: &mut Work, answer: Answer) -> Result<bool, NodeError> {
        match (work.step, &answer) {
            (Step::NotePrepare | Step::Forget, Answer::Written) => self.is_stale = false,
            (Step::NotePrepare | Step::Forget, Answer::Failed(_)) => self.is_stale = true,
            (Step::CallPrepare | Step::CallUnprepare | Step::FindClaim, _)
            | (_, Answer::Claims(_) | Answer::Classic(_) | Answer::NotFound(_) | Answer::Found(_)) => {}
        }
        match (work.step, answer) {
            (Step::NotePrepare, Answer::Written) => {
                work.step = Step::CallPrepare;
                // Everything was prepared before: no plugin is called.
                Ok(work.calls.is_empty())
            }
            (Step::CallPrepare, answer @ (Answer::Claims(_) | Answer::Classic(_))) => {
                let Some((callee, asked)) =
                    invariant!(work.calling.take(), "a plugin that answers was called")
                else {
                    return Ok(false);
                };
                self.answered(work.step, &callee, &asked, answer)?;
                if !work.calls.is_empty() {
                    return Ok(false);
                }
                self.set_phase(&work.claims, Phase::Prepared);
                // The pod does not wait for its devices to be on disk: an agent that starts after a crash finds the claim noted,
                // and the plugin answers the same again.
                self.is_unwritten = true;
                Ok(true)
            }
            (Step::CallUnprepare, answer @ (Answer::Claims(_) | Answer::Classic(_))) => {
                let Some((callee, asked)) =
                    invariant!(work.calling.take(), "a plugin that answers was called")
                else {
                    return Ok(false);
                };
                self.answered(work.step, &callee, &asked, answer)?;
                self.unprepared(work);
                Ok(false)
            }
            // The next attempt reads the claim first.
            (Step::CallPrepare, Answer::NotFound(why)) => Err(work.failed(why)),
            (Step::CallUnprepare, Answer::NotFound(_)) => {
                work.step = Step::FindClaim;
                Ok(false)
            }
            (Step::FindClaim, Answer::Found(found)) => {
                let is_there = work.called().and_then(|key| self.claims.get(key));
                if found.is_some() && is_there.is_some_and(|entry| Some(&entry.uid) == found.as_ref()) {
                    return Err(work.failed("it does not know the ResourceClaim, which exists".into()));
                }
                work.calling = None;
                self.unprepared(work);
                Ok(false)
            }
            (Step::Forget, Answer::Written) => Ok(true),
            (Step::CallPrepare | Step::CallUnprepare | Step::FindClaim, Answer::Failed(why)) => {
                Err(work.failed(why))
            }
            (Step::NotePrepare | Step::Forget, Answer::Failed(why)) => Err(NodeError::Checkpoint(why)),
            (Step::CallPrepare | Step::CallUnprepare, Answer::Written | Answer::Found(_))
            | (
                Step::NotePrepare | Step::Forget,
                Answer::Claims(_) | Answer::Classic(_) | Answer::NotFound(_) | Answer::Found(_),
            )
            | (
                Step::FindClaim,
                Answer::Written | Answer::Claims(_) | Answer::Classic(_) | Answer::NotFound(_),
            ) => Err(NodeError::Checkpoint("an answer to another question".into())),
        }
    }

    /// A plugin has unprepared claims. After the last of them they are forgotten.
    fn unprepared(&mut self, work: &mut Work) {
        if work.calls.is_empty() {
            work.step = Step::Forget;
            work.claims.iter().for_each(|key| drop(self.claims.remove(key)));
        } else {
            work.step = Step::CallUnprepare;
        }
    }

    fn answered(
        &mut self,
        step: Step,
        callee: &Callee,
        asked: &[Key],
        answer: Answer,
    ) -> Result<(), NodeError> {
        let driver = callee.driver.as_str();
        match (callee.kind, answer) {
            (ClaimKind::Structured, Answer::Claims(claims)) => {
                self.claims_answered(step, driver, asked, claims)
            }
            (ClaimKind::Classic, Answer::Classic(cdi_ids)) => {
                let entry = asked.first().and_then(|key| self.claims.get_mut(key));
                if let Some(entry) = entry.filter(|_| step == Step::CallPrepare) {
                    checked_cdi_ids(&cdi_ids)
                        .map_err(|why| NodeError::Call { driver: driver.into(), why })?;
                    entry.text = None;
                    let device = DeviceState { cdi_ids, ..DeviceState::default() };
                    entry.drivers.entry(driver.into()).or_default().devices = Vec::from([device]);
                }
                Ok(())
            }
            (ClaimKind::Structured | ClaimKind::Classic, _) => {
                Err(NodeError::Call { driver: driver.into(), why: "an answer to another call".into() })
            }
        }
    }

    fn claims_answered(
        &mut self,
        step: Step,
        driver: &str,
        asked: &[Key],
        mut claims: BTreeMap<String, ClaimAnswer>,
    ) -> Result<(), NodeError> {
        let mut skipped = 0;
        for key in asked {
            let Some(entry) =
                invariant!(self.claims.get_mut(key), "a claim that a plugin was called for is kept")
            else {
                continue;
            };
            match claims.remove(&entry.uid) {
                None => skipped += 1,
                Some(Err(why)) => return Err(NodeError::Call { driver: driver.into(), why }),
                // Replaces the devices of an earlier attempt, which must not be doubled.
                Some(Ok(devices)) if step == Step::CallPrepare => {
                    checked(&devices).map_err(|why| NodeError::Call { driver: driver.into(), why })?;
                    entry.text = None;
                    entry.drivers.entry(driver.into()).or_default().devices = devices;
                }
                Some(Ok(_)) => {}
            }
        }
        if skipped > 0 {
            return Err(NodeError::Skipped { driver: driver.into(), count: skipped });
        }
        match claims.into_keys().next() {
            Some(uid) => Err(NodeError::UnknownClaim { driver: driver.into(), uid }),
            None => Ok(()),
        }
    }

    /// Emits the next effect of an operation.
    fn next(&mut self, operation: Operation, work: &mut Work) -> Result<(), NodeError> {
        let effect = match work.step {
            Step::NotePrepare | Step::Forget => Effect::Checkpoint(self.checkpoint()?),
            Step::CallPrepare | Step::CallUnprepare => {
                let Some((callee, keys)) = work.calls.pop_first() else {
                    return Err(NodeError::Checkpoint("nobody is left to call".into()));
                };
                let plugin = self.plugins.of(callee.kind, &callee.driver);
                let plugin = plugin.ok_or_else(|| not_registered(callee.kind, &callee.driver))?;
                let (driver, endpoint) = (callee.driver.clone(), plugin.endpoint.clone());
                let mut claims = self.ids(&keys);
                let effect = match (callee.kind, work.step == Step::CallPrepare) {
                    (ClaimKind::Structured, true) => Effect::Prepare { driver, endpoint, claims },
                    (ClaimKind::Structured, false) => Effect::Unprepare { driver, endpoint, claims },
                    (ClaimKind::Classic, _) => {
                        let entry = keys.first().and_then(|key| self.claims.get(key));
                        let (Some(claim), Some(entry)) = (claims.pop(), entry) else {
                            return Err(NodeError::Checkpoint("there is no claim to call for".into()));
                        };
                        let call = entry.classic_call(&driver, work.step);
                        Effect::CallClassic { driver, endpoint, claim, call }
                    }
                };
                work.calling = Some((callee, keys));
                effect
            }
            Step::FindClaim => {
                let Some(claim) = work.called().and_then(|key| self.ids(core::slice::from_ref(key)).pop())
                else {
                    return Err(NodeError::Checkpoint("there is no claim to look for".into()));
                };
                Effect::FindClaim(claim)
            }
        };
        let id = self.emit(effect);
        self.waits.insert(id, operation);
        Ok(())
    }

    /// The order of claims is that of the map: the same claims give the same file.
    fn checkpoint(&mut self) -> Result<Vec<u8>, NodeError> {
        self.is_unwritten = false;
        let written = self.claims.iter_mut().try_for_each(|(key, entry)| entry.write(key));
        let texts = self.claims.iter().filter_map(|(key, entry)| Some((key.0, entry.text.as_ref()?)));
        let file = written.and_then(|()| checkpoint::assemble(texts));
        file.map_err(|error| NodeError::Checkpoint(alloc::format!("{error}")))
    }

    fn emit(&mut self, effect: Effect) -> u64 {
        self.next_id += 1;
        self.effects.push_back((self.next_id, effect));
        self.next_id
    }

    fn finish(&mut self, operation: Operation, result: Result<(), NodeError>) {
        self.emit(Effect::Done(operation, result));
    }

    fn set_phase(&mut self, keys: &[Key], phase: Phase) {
        for key in keys {
            if let Some(entry) = self.claims.get_mut(key) {
                entry.phase = phase;
            }
        }
    }

    fn ids(&self, keys: &[Key]) -> Vec<ClaimId> {
        let id = |key: &Key| {
            let uid = self.claims.get(key)?.uid.clone();
            let (kind, namespace, name) = key.clone();
            Some(ClaimId { kind, namespace, name, uid })
        };
        keys.iter().filter_map(id).collect()
    }
}

fn key(view: &ClaimView) -> Key {
    (view.id.kind, view.id.namespace.clone(), view.id.name.clone())
}

/// A device that two claims of one pod were given.
fn conflict<'a>(one: &ClaimView, other: &'a ClaimView) -> Option<&'a HeldDevice> {
    let mut devices = other.devices.iter();
    devices.find(|device| one.devices.iter().any(|held| held.as_use().excludes(&device.as_use())))
}
