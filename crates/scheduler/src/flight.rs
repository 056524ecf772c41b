//! Pods that are being bound: from the decision until the watch shows them on their node.

use alloc::{collections::BTreeSet, format, string::ToString, sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Timestamp};

use crate::{
    Pod,
    desk::NEWS_MS_MAX,
    effect::{Bind, EffectId, EffectKind, Event, EventKind, Outcome, Reply},
    machine::{Alarm, Scheduler},
    outbox::Purpose,
    ready::Readiness,
    why::{Verdict, Why},
};

/// A binding that failed is tried again, but only so often: then the pod is decided on anew.
const BIND_TRIES_MAX: u32 = 5;

/// A pod that is being bound.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Its claims.
    pub(crate) claims: Vec<ObjectKey>,
    /// Those of them that are not known to be reserved for it.
    pub(crate) reserving: BTreeSet<ObjectKey>,
    pub(crate) phase: Phase,
    pub(crate) tries: u32,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its claims are being written.
    Reserving,
    /// Its devices are being made ready.
    Preparing { until: Timestamp },
    /// The binding was given out.
    Binding,
    /// The binding will be given out again.
    Pausing { until: Timestamp },
    /// It is bound, and not seen to be.
    Bound,
}

impl Scheduler {
    /// A claim is reserved for a pod.
    pub(crate) fn claim_ready(&mut self, ix: u32, key: &ObjectKey) {
        if let Some(flight) = self.flights.get_mut(&ix) {
            flight.reserving.remove(key);
            self.proceed(ix);
        }
    }

    /// Takes the next step with a pod, if it can be taken.
    pub(crate) fn proceed(&mut self, ix: u32) {
        let Some(flight) = self.flights.get_mut(&ix) else { return };
        match flight.phase {
            Phase::Reserving if !flight.reserving.is_empty() => {}
            Phase::Pausing { until } if self.now < until => {}
            Phase::Reserving | Phase::Preparing { .. } => self.bind_when_ready(ix),
            Phase::Pausing { .. } => self.bind(ix),
            Phase::Binding | Phase::Bound => {}
        }
    }

    fn bind_when_ready(&mut self, ix: u32) {
        let Some(flight) = self.flights.get(&ix) else { return };
        match self.readiness_of(&flight.claims) {
            Readiness::Ready => self.bind(ix),
            Readiness::Failed(why) => self.roll_back(ix, &why),
            Readiness::Waiting { until } => {
                let told = matches!(flight.phase, Phase::Preparing { .. });
                self.set_alarm(until, Alarm::Pod(ix));
                if let Some(flight) = self.flights.get_mut(&ix) {
                    flight.phase = Phase::Preparing { until };
                }
                if let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()).filter(|_| !told) {
                    let message = "Waiting for the devices of its claims to be made ready";
                    self.tell(&pod, EventKind::BindingConditionsPending, message);
                }
            }
        }
    }

    fn bind(&mut self, ix: u32) {
        let Some(entry) = self.pods.get(ix) else { return };
        let Some(node) = entry.on.and_then(|on| self.nodes.get(on)) else { return };
        let (pod, uid) = (entry.pod.key.clone(), entry.pod.uid.clone());
        let effect = Bind { pod, uid, node: node.name.clone() };
        self.outbox.push(EffectKind::Bind(effect), Purpose::Pod(ix));
        if let Some(flight) = self.flights.get_mut(&ix) {
            flight.phase = Phase::Binding;
        }
    }

    /// What became of an effect.
    pub(crate) fn acknowledged(&mut self, effect: EffectId, reply: Reply) {
        match self.outbox.acknowledge(effect) {
            Some(Purpose::Claim(key)) => {
                let current = self.desk.get(&key).and_then(|entry| entry.write.as_ref());
                if current.is_some_and(|write| write.effect == effect) {
                    self.claim_written(&key, &reply);
                }
            }
            Some(Purpose::Pod(ix)) => self.pod_written(ix, &reply),
            Some(Purpose::Condition(_) | Purpose::Aside) | None => {}
        }
    }

    fn pod_written(&mut self, ix: u32, reply: &Reply) {
        let Some(flight) = self.flights.get_mut(&ix) else { return };
        match reply.outcome {
            Outcome::Done => {
                flight.phase = Phase::Bound;
                self.announce(ix);
            }
            // The pod is bound or deleted: the watch will tell.
            Outcome::Gone => {}
            Outcome::Conflict if flight.tries > 0 => {}
            Outcome::Conflict | Outcome::RetryLater | Outcome::Unknown => {
                flight.tries += 1;
                if flight.tries > BIND_TRIES_MAX {
                    return self.roll_back(ix, "the pod could not be bound");
                }
                let until = self.now.plus_millis(NEWS_MS_MAX);
                flight.phase = Phase::Pausing { until };
                self.set_alarm(until, Alarm::Pod(ix));
            }
        }
    }

    fn announce(&mut self, ix: u32) {
        let Some(entry) = self.pods.get_mut(ix) else { return };
        entry.why = None;
        let Some(node) = entry.on.and_then(|on| self.nodes.get(on)) else { return };
        let message = format!("Successfully assigned {} to {}", entry.pod.key, node.name);
        let pod = entry.pod.clone();
        self.tell(&pod, EventKind::Scheduled, &message);
    }

    pub(crate) fn tell(&mut self, pod: &Pod, kind: EventKind, message: &str) {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        let event = Event { pod: key, uid, kind, message: message.into() };
        self.outbox.push(EffectKind::Event(event), Purpose::Aside);
    }

    /// The decision on a pod could not be carried out: everything is taken back, and it is tried again later.
    pub(crate) fn roll_back(&mut self, ix: u32, message: &str) {
        if !self.flights.contains_key(&ix) {
            return;
        }
        self.abandon(ix);
        self.displace(ix);
        self.queue.back_off(self.now, ix);
        let why = Why::of(Verdict::Failed(message.to_string()));
        self.report(ix, Arc::new(why), None);
    }

    /// A pod is not bound after all: its claims are not for it.
    pub(crate) fn abandon(&mut self, ix: u32) {
        let Some(flight) = self.flights.remove(&ix) else { return };
        let Some(pod) = self.pods.get(ix).map(|entry| entry.pod.clone()) else { return };
        for key in flight.claims {
            self.unwant_claim(ix, &pod, &key);
        }
    }

    // === Leading ===

    pub(crate) fn start_leading(&mut self) {
        if !self.leads {
            self.leads = true;
            self.queue.restart(self.now);
        }
    }

    /// Forgets what was given out: it may or may not be done, the watch will tell. What is known to be done stays.
    pub(crate) fn stop_leading(&mut self) {
        if !self.leads {
            return;
        }
        self.leads = false;
        self.outbox.clear();
        self.alarms.clear();
        let unfinished: Vec<u32> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.phase != Phase::Bound)
            .map(|(ix, _)| *ix)
            .collect();
        for ix in unfinished {
            self.flights.remove(&ix);
            self.displace(ix);
            self.queue.back_off(self.now, ix);
        }
        for key in self.desk.keys() {
            let Some(entry) = self.desk.get_mut(&key) else { continue };
            (entry.write, entry.held_up, entry.deallocate) = (None, None, false);
            entry.wanted.clear();
            entry.unwanted.clear();
            if !entry.written {
                let uid = entry.uid.clone();
                self.overlay.remove(&uid);
                self.desk.close(&key);
            }
        }
    }
}
