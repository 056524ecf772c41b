//! How much policies may take out of service: what guards permit, and what is held until they do.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, DeviceSelector, Text, Timestamp, Unit, within};

use crate::{
    Lifecycle,
    identity::Presence,
    incident::{Held, HeldReason, Incident, Stage},
    machine::open_mut,
    policy::Mode,
    stages::{ITSELF, Wish, waits_for},
};

/// How much of what a guard selects may be out of service, as it was last counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The guard.
    pub guard: Text,
    /// Which devices.
    pub selects: Selected,
    /// The noun for the units that its breaker counts, in messages.
    pub counts: &'static str,
    /// Within which time something counts as out of service although it is back; 0: it does not.
    pub window_seconds: i64,
    /// How much may be out of service; `None`: the guard has no breaker.
    pub permitted: Option<u64>,
    /// How much there is.
    pub total: u64,
    /// The units out of service, whether incidents or others took them out.
    pub out: BTreeSet<Unit>,
    /// Further units that count, of which an earlier controller has not said the names: they are back in service.
    pub unnamed: u64,
    /// Nothing may begin, and why.
    pub stops: Option<(HeldReason, Text)>,
}

/// Which devices a guard selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// All of them.
    All,
    /// By names alone.
    Names(DeviceSelector),
    /// These.
    Devices(BTreeSet<DeviceId>),
    /// These, each of which counts as its node or its fault domain.
    Units(BTreeMap<DeviceId, Unit>),
}

impl Limit {
    fn selects(&self, device: &DeviceId) -> bool {
        match &self.selects {
            Selected::All => true,
            Selected::Names(selector) => selector.names_match(device),
            Selected::Devices(devices) => devices.contains(device),
            Selected::Units(units) => units.contains_key(device),
        }
    }

    fn unit(&self, device: &DeviceId) -> Unit {
        match &self.selects {
            Selected::Units(units) => {
                units.get(device).cloned().unwrap_or_else(|| Unit::Device(device.clone()))
            }
            Selected::All | Selected::Names(_) | Selected::Devices(_) => Unit::Device(device.clone()),
        }
    }
}

/// How a device asks to be taken out of service.
#[derive(Clone, Copy, Debug)]
struct Asks {
    /// It is out of service by an incident already, or a taint of one may still be there.
    is_out: bool,
    /// By an open incident.
    is_decided: bool,
    /// It was permitted to the same incident.
    goes_on: bool,
    /// It is gone with its node, and so are this many others that are out of service: they come back with it.
    gone: u64,
}

/// A limit, and what incidents take of it.
#[derive(Debug)]
struct Guarded {
    limit: Limit,
    /// With how many devices of incidents each has.
    own: BTreeMap<Unit, usize>,
    /// Of these, devices of incidents that are open. A taint that an ended incident left behind is about to go.
    decided: BTreeMap<Unit, usize>,
}

impl Guarded {
    /// A device of an incident goes out of service or comes back, or whether an open incident decided it has changed.
    fn note(&mut self, device: &DeviceId, before: Out, now: Out) {
        if !self.limit.selects(device) {
            return;
        }
        let unit = self.limit.unit(device);
        count(&mut self.own, &unit, before.is_some(), now.is_some());
        count(&mut self.decided, &unit, before.is_decided, now.is_decided);
    }

    /// How much is out of service, whoever took it out.
    fn out(&self) -> u64 {
        let more = self.own.keys().filter(|unit| !self.limit.out.contains(unit)).count();
        (self.limit.out.len() + more) as u64 + self.limit.unnamed
    }

    /// Why a device may not be taken out of service, if it may not. One that somebody else took out is no more out by it, but policies alone never take more
    /// than is permitted. `asks` says whether it is out by an incident already, and whether that is to go on.
    fn refusal(&self, device: &DeviceId, asks: Asks) -> Option<(HeldReason, Text)> {
        let Limit { guard, selects: _, counts, window_seconds, permitted, total, out, unnamed: _, stops } =
            &self.limit;
        let unit = self.limit.unit(device);
        let devices = self.own.get(&unit).copied().unwrap_or_default();
        if asks.goes_on && asks.is_out {
            return None;
        }
        if let Some(stop) = stops {
            return Some(stop.clone());
        }
        let permitted = (*permitted)?;
        // A taint of an earlier incident that is about to go is no reason to permit another.
        let decided = self.decided.get(&unit).copied().unwrap_or_default();
        let is_shared = decided > usize::from(asks.is_decided);
        let own = (self.own.len() - usize::from(devices > 0)) as u64 + asks.gone;
        let others = self.out() - u64::from(devices > 0 && !out.contains(&unit)) + asks.gone;
        let has_room = own < permitted && (out.contains(&unit) || others < permitted);
        if is_shared || has_room {
            return None;
        }
        let message = format!(
            "DisruptionGuard {guard}: {} of {total} {counts} out of service{}, {permitted} permitted",
            self.out() + asks.gone,
            within(*window_seconds)
        );
        Some((HeldReason::Breaker, message.into()))
    }
}

/// One more device of a unit, or one less.
fn count(devices: &mut BTreeMap<Unit, usize>, unit: &Unit, before: bool, now: bool) {
    let known = devices.get(unit).copied().unwrap_or_default();
    let many = (known + usize::from(now)).saturating_sub(usize::from(before));
    if many == 0 {
        devices.remove(unit);
    } else if many != known {
        devices.insert(unit.clone(), many);
    }
}

/// All limits, and the devices that incidents keep out of service.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    guarded: Vec<Guarded>,
    out: BTreeMap<DeviceId, Out>,
    /// Devices of open incidents that are gone with their nodes: what does not exist does not count.
    gone: BTreeSet<DeviceId>,
}

/// Why a device is out of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Out {
    /// An open incident decided it.
    is_decided: bool,
    /// Taints of incidents that were written and may still exist.
    taints: u32,
}

impl Out {
    fn is_some(self) -> bool {
        self != Self::default()
    }
}

impl Limits {
    fn set(&mut self, limits: Vec<Limit>) {
        let guarded = |limit| Guarded { limit, own: BTreeMap::new(), decided: BTreeMap::new() };
        self.guarded = limits.into_iter().map(guarded).collect();
        self.take_all();
    }

    fn take_all(&mut self) {
        let counted = || self.out.iter().filter(|(device, _)| !self.gone.contains(*device));
        for guarded in &mut self.guarded {
            guarded.own.clear();
            guarded.decided.clear();
            counted().for_each(|(device, out)| guarded.note(device, Out::default(), *out));
        }
    }

    fn is_out(&self, device: &DeviceId) -> bool {
        self.out.contains_key(device)
    }

    fn change(&mut self, device: &DeviceId, change: impl FnOnce(&mut Out)) {
        let before = self.counted(device);
        let mut now = self.out.get(device).copied().unwrap_or_default();
        change(&mut now);
        if now.is_some() {
            self.out.insert(device.clone(), now);
        } else {
            self.out.remove(device);
        }
        self.recount(device, before);
    }

    /// A device as it counts for guards.
    fn counted(&self, device: &DeviceId) -> Out {
        let out = self.out.get(device).filter(|_| !self.gone.contains(device));
        out.copied().unwrap_or_default()
    }

    fn recount(&mut self, device: &DeviceId, before: Out) {
        let now = self.counted(device);
        if before != now {
            self.guarded.iter_mut().for_each(|guarded| guarded.note(device, before, now));
        }
    }

    /// The device of an open incident is gone with its node, or is not.
    pub(crate) fn note_gone(&mut self, device: &DeviceId, is_gone: bool) {
        let before = self.counted(device);
        if is_gone {
            self.gone.insert(device.clone());
        } else {
            self.gone.remove(device);
        }
        self.recount(device, before);
    }

    /// An incident takes its device out of service, or does not any more.
    pub(crate) fn note(&mut self, device: &DeviceId, is_out: bool) {
        self.change(device, |out| out.is_decided = is_out);
    }

    /// A taint for an incident is there or on its way; or it is gone.
    pub(crate) fn note_taint(&mut self, device: &DeviceId, is_there: bool) {
        self.change(device, |out| {
            out.taints = if is_there { out.taints.saturating_add(1) } else { out.taints.saturating_sub(1) };
        });
    }

    /// No incident is known any more; what is tainted still is.
    pub(crate) fn begin(&mut self) {
        self.gone.clear();
        self.out.retain(|_, out| {
            out.is_decided = false;
            out.is_some()
        });
        self.take_all();
    }

    /// How many others are out of service that are gone with their nodes, as this device is.
    fn gone_beside(&self, device: &DeviceId, limit: &Limit) -> u64 {
        if !self.gone.contains(device) {
            return 0;
        }
        let others = self.gone.iter().filter(|other| *other != device && self.is_out(other));
        others.filter(|other| limit.selects(other)).count() as u64
    }

    /// Whether a guard is there, and does not select this device.
    fn is_overlooked(&self, device: &DeviceId, guard: &Text) -> bool {
        let mut of_guard = self.guarded.iter().filter(|guarded| guarded.limit.guard == *guard).peekable();
        of_guard.peek().is_some() && !of_guard.any(|guarded| guarded.limit.selects(device))
    }

    /// The guard that keeps a device from being taken out of service by a policy, and why.
    /// `goes_on`: it was permitted to the same incident before.
    pub(crate) fn refusal(&self, device: &DeviceId, goes_on: bool) -> Option<(Text, HeldReason, Text)> {
        let is_decided = self.out.get(device).is_some_and(|out| out.is_decided);
        let asks = Asks { is_out: self.is_out(device), is_decided, goes_on, gone: 0 };
        let selecting = self.guarded.iter().filter(|guarded| guarded.limit.selects(device));
        selecting.into_iter().find_map(|guarded| {
            let gone = self.gone_beside(device, &guarded.limit);
            let (reason, message) = guarded.refusal(device, Asks { gone, ..asks })?;
            Some((guarded.limit.guard.clone(), reason, message))
        })
    }
}

/// The devices that guards kept in service, each with its guard.
fn held_devices(lifecycle: &Lifecycle) -> Vec<(DeviceId, Text)> {
    let held = lifecycle.incidents.values().filter_map(|one| Some((one, one.held.as_ref()?)));
    held.map(|(incident, held)| (incident.device.clone(), held.guard.clone())).collect()
}

/// Whether a device is known to be published by no driver.
fn is_missed(lifecycle: &Lifecycle, device: &DeviceId) -> bool {
    lifecycle.devices.get(device).is_some_and(|known| {
        known.is_vanished || matches!(known.presence, Some(Presence::Unpublished | Presence::Gone))
    })
}

impl Lifecycle {
    /// These are all limits from now on. A device that its guard does not select any more may just have gone: that comes after this.
    pub(crate) fn set_limits(&mut self, now: Timestamp, limits: Vec<Limit>) {
        self.limits.set(limits);
        for (device, guard) in held_devices(self) {
            if self.limits.is_overlooked(&device, &guard) {
                self.wakes.insert(device, Timestamp::EPOCH);
            } else {
                self.look(now, &device);
            }
        }
    }

    /// Looks at devices that guards kept in service.
    pub(crate) fn look_at_held(&mut self, now: Timestamp) {
        for (device, _) in held_devices(self) {
            self.look(now, &device);
        }
    }

    /// Whether the device of an incident is out of service by it may have changed.
    pub(crate) fn note_service(&mut self, number: u64) {
        if let Some(incident) = self.incidents.get(&number) {
            self.limits.note(&incident.device, is_out(incident));
        }
    }

    /// Goes on with what was held, where guards permit it now.
    pub(crate) fn release_held(&mut self, now: Timestamp, device: &DeviceId) {
        let Some(number) = self.devices.get(device).and_then(|known| known.incident) else { return };
        let Some(incident) = invariant!(self.incidents.get(&number), "an incident of a device is there")
        else {
            return;
        };
        let Some(held) = incident.held.clone() else { return };
        if self.policies.get(&held.policy).is_none_or(|policy| policy.mode == Mode::Observe) {
            return;
        }
        match self.limits.refusal(device, false) {
            Some((guard, reason, message)) if held.guard != guard || held.reason != reason => {
                self.hold(now, number, Held { guard, reason, message, ..*held });
            }
            Some(_) => {}
            // A guard that selects by what is published says nothing of the device until it is back.
            None if is_missed(self, device) && self.limits.is_overlooked(device, &held.guard) => {}
            None => go_on(self, now, number, &held),
        }
    }

    /// A guard does not permit what a policy wants: the incident waits.
    pub(crate) fn hold(&mut self, now: Timestamp, number: u64, held: Held) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let same = |before: &Held| {
            (before.stage, &before.policy, &before.rule, &before.guard, before.reason)
                == (held.stage, &held.policy, &held.rule, &held.guard, held.reason)
        };
        if incident.held.as_deref().is_some_and(same) {
            return;
        }
        let cause = format!("{} is held: {}", held.stage.name(), held.message);
        incident.waits_for = held.message.clone();
        incident.held = Some(Box::new(held));
        incident.note(now, cause, &ITSELF.into());
        self.show(number);
    }

    /// A policy acts on an incident from now on, where guards permit that its device is out of service.
    pub(crate) fn enforce(&mut self, now: Timestamp, number: u64) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        match self.limits.refusal(&incident.device, incident.is_enforced) {
            None => {
                if !incident.is_enforced {
                    incident.restart_repair(now);
                }
                incident.is_enforced = true;
                incident.held = None;
                incident.cost.out_since.get_or_insert(now);
                if let Some(policy) = self.policies.get(&incident.policy) {
                    incident.waits_for = waits_for(policy, incident);
                }
                self.note_service(number);
            }
            Some((guard, reason, message)) => {
                incident.is_enforced = false;
                incident.cost.out_of_service_ms = incident.cost.out_of_service_ms_until(now);
                incident.cost.out_since = None;
                let (stage, policy, rule) = (incident.stage, incident.policy.clone(), incident.rule.clone());
                let taint = incident.taint.clone();
                self.note_service(number);
                self.hold(now, number, Held { stage, policy, rule, taint, guard, reason, message });
            }
        }
    }
}

/// Guards permit what was held.
fn go_on(lifecycle: &mut Lifecycle, now: Timestamp, number: u64, held: &Held) {
    let Some(incident) = invariant!(open_mut(&mut lifecycle.incidents, number), "an open incident is there")
    else {
        return;
    };
    incident.held = None;
    let cause: Text = format!("DisruptionGuard {} permits it", held.guard).into();
    if incident.stage < held.stage {
        let Held { policy, rule, taint, stage, .. } = held.clone();
        let cause = lifecycle.govern(number, Wish { policy, rule, taint, stage, cause });
        lifecycle.enter(now, number, stage, cause, &ITSELF.into());
        return lifecycle.judge_return(now, number);
    }
    // Its policy has come to act on it while guards did not permit that.
    incident.restart_repair(now);
    incident.is_enforced = true;
    if incident.stage.is_out_of_service() {
        incident.cost.out_since.get_or_insert(now);
    }
    incident.note(now, cause, &ITSELF.into());
    if let Some(policy) = lifecycle.policies.get(&incident.policy) {
        incident.waits_for = waits_for(policy, incident);
    }
    lifecycle.note_service(number);
    lifecycle.show(number);
}

/// Whether the device of an incident is out of service because a policy acted.
pub(crate) fn is_out(incident: &Incident) -> bool {
    incident.is_enforced && incident.stage.is_out_of_service()
}

/// Whether an incident in this stage is one that guards are asked about: later ones have been out of service for long.
pub(crate) fn is_guarded(stage: Stage) -> bool {
    matches!(stage, Stage::Quarantined | Stage::Draining)
}
