//! The machine.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    effect::{Effect, Input},
    govern::concerns,
    identity::{Presence, of_signal},
    incident::{Incident, NAMESPACES_MAX, POLICY_GONE, Stage, incident_name},
    limits::Limits,
    policy::{Mode, Policy},
    record::{Hardware, Record},
    rule_index::IndexedPolicy,
    signal::{Signal, Source},
    small_map::SmallMap,
    stages::ITSELF,
    tallies::Tallies,
    texts::Texts,
    wakes::Wakes,
    watcher::{Fired, Watcher},
};

/// From a signal to a healthy device.
#[derive(Debug, Default)]
pub struct Lifecycle {
    pub(crate) policies: BTreeMap<Text, IndexedPolicy>,
    pub(crate) devices: BTreeMap<DeviceId, Known>,
    /// Open incidents, by number. Pending writes share them until they change.
    pub(crate) incidents: BTreeMap<u64, Arc<Incident>>,
    pub(crate) limits: Limits,
    pub(crate) tallies: Tallies,
    pub(crate) texts: Texts,
    /// Past incidents of devices.
    pub(crate) past: BTreeMap<DeviceId, Past>,
    /// Past returns into service, by hardware.
    pub(crate) records: BTreeMap<Hardware, Record>,
    /// Devices by the identities that they or their incidents have.
    pub(crate) by_hardware: BTreeSet<(Text, DeviceId)>,
    /// Names of incidents whose devices have other names now.
    pub(crate) taken_names: BTreeSet<Text>,
    /// Devices are gone that counted for guards: what is held may go on.
    pub(crate) is_freed: bool,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) wakes: Wakes,
    pub(crate) next_number: u64,
    /// How often the device of an open incident became another.
    pub(crate) moves: u64,
    /// Signals are counted, and nothing follows from them.
    pub(crate) is_paused: bool,
}

/// Room for effects that is kept when all were taken.
const EFFECTS_KEPT: usize = 64;

/// The past incidents of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// Since when it is well: of too many the oldest is forgotten.
    pub(crate) cleared: Option<Timestamp>,
    /// The serial number of the last one.
    pub(crate) serial: u32,
    /// Counts of signals from before then are from before a repair.
    pub(crate) void_until: Option<Timestamp>,
}

/// The state of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) hardware: Option<Text>,
    pub(crate) watchers: SmallMap<Text, Watcher>,
    /// A policy selects it.
    pub(crate) is_selected: bool,
    /// Its slices do not list it any more.
    pub(crate) is_vanished: bool,
    /// While it has an open incident: whether it exists. `None`: not known yet.
    pub(crate) presence: Option<Presence>,
    /// When calm is counted from at the earliest: when an incident was found that does not say more.
    pub(crate) calm_from: Option<Timestamp>,
    /// `None`: not heard yet.
    pub(crate) is_used: Option<bool>,
    /// The namespaces of the pods that use it, as far as an incident can name them.
    pub(crate) users: Box<[Text]>,
    /// Why it stays in use, in words for people, where some pod does not leave.
    pub(crate) stays: Option<Box<Text>>,
    /// The next repair or validation of its incident is kept from beginning.
    pub(crate) is_kept: bool,
    pub(crate) incident: Option<u64>,
    /// When the first and the last signal came that a rule means, while nothing has come of them.
    pub(crate) signals: Option<(Timestamp, Timestamp)>,
}

/// The policy of an incident is gone. Nothing was done to the device, so nothing is left to decide.
pub(crate) fn end_untouched(lifecycle: &mut Lifecycle, now: Timestamp, number: u64, cause: &str) {
    lifecycle.enter(now, number, Stage::Cleared, cause.into(), &ITSELF.into());
}

impl Lifecycle {
    /// Takes in news.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Policy(policy) => self.see_policy(now, *policy),
            Input::PolicyGone(name) => self.lose_policy(now, &name),
            Input::Device { id, hardware, policies } => self.see_device(now, id, hardware, policies),
            Input::DeviceGone(id) => self.lose_device(now, &id),
            Input::Left(device) => self.see_left(&device),
            Input::Presence { device, presence } => self.see_presence(now, &device, presence),
            Input::Raised(signal) => self.raise(now, &signal),
            Input::Lowered { device, key, source } => {
                self.lower(now, &device, &key, source);
            }
            Input::InUse { device, is_used, namespaces, stays } => {
                self.used(now, &device, is_used, (namespaces, stays));
            }
            Input::Idle { incident } => self.idle(now, incident),
            Input::Evicted { incident, pods } => self.evicted(incident, pods),
            Input::Repaired { incident, repair, result } => self.repaired(now, incident, repair, result),
            Input::Validated { incident, result } => self.validated(now, incident, result),
            Input::Person { incident, act, who, why, at } => {
                self.person(now, (incident, act, at), &who, &why)
            }
            Input::Found(incident) => {
                self.adopt(now, *incident, true);
            }
            Input::Forgotten { incident } => self.forget(now, incident),
            Input::Limits(limits) => self.set_limits(now, limits),
            Input::Counted { policy, tallies } => self.restore_tallies(now, &policy, tallies),
            Input::Begin => self.begin(),
            Input::Pause => self.is_paused = true,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) {
        if core::mem::take(&mut self.is_freed) {
            self.look_at_held(now);
        }
        while let Some(device) = self.wakes.take_due(now) {
            self.look(now, &device);
        }
    }

    /// Something to do.
    pub fn poll(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        if self.effects.is_empty() {
            // A storm of signals leaves room for thousands.
            self.effects.shrink_to(EFFECTS_KEPT);
        }
        effect
    }

    /// When [`Lifecycle::tick`] is to be called, if nothing is heard before.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.wakes.first()
    }

    /// An open incident.
    #[must_use]
    pub fn incident(&self, number: u64) -> Option<&Arc<Incident>> {
        self.incidents.get(&number)
    }

    /// The open incident of a device.
    #[must_use]
    pub fn incident_of(&self, device: &DeviceId) -> Option<&Incident> {
        self.incidents.get(&self.devices.get(device)?.incident?).map(|incident| &**incident)
    }

    /// Whether a device is used, as far as the machine knows.
    pub(crate) fn is_used(&self, device: &DeviceId) -> Option<bool> {
        self.devices.get(device)?.is_used
    }

    /// Why a device stays in use, in words for people; empty where all of its pods leave.
    pub(crate) fn stays(&self, device: &DeviceId) -> Text {
        let stays = self.devices.get(device).and_then(|known| known.stays.as_deref());
        stays.cloned().unwrap_or_default()
    }

    /// Whether a policy selects a device, as far as the machine was told.
    #[must_use]
    pub fn is_selected(&self, device: &DeviceId) -> bool {
        self.devices.get(device).is_some_and(|known| known.is_selected)
    }

    /// Whether a device has an open incident whose rule means this signal.
    #[must_use]
    pub fn is_about(&self, signal: &Signal) -> bool {
        let incident = self.incident_of(&signal.device);
        let rule = incident.and_then(|incident| {
            let rules = &self.policies.get(&incident.policy)?.rules;
            rules.iter().find(|rule| rule.name == incident.rule)
        });
        rule.is_some_and(|rule| rule.when.matches(&signal.datum()) == Ok(true))
    }

    /// A policy.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name).map(|policy| &**policy)
    }

    /// How many incidents were opened or found so far.
    #[must_use]
    pub fn numbers_given(&self) -> u64 {
        self.next_number
    }

    /// How often an open incident got another device, or another name of it.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// The open incidents that were opened or found after the one of this number.
    pub fn incidents_after(&self, number: u64) -> impl Iterator<Item = &Incident> {
        let later = (core::ops::Bound::Excluded(number), core::ops::Bound::Unbounded);
        self.incidents.range(later).map(|(_, incident)| &**incident)
    }

    /// The open incidents.
    pub fn incidents(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.values().map(|incident| &**incident)
    }

    fn see_device(&mut self, now: Timestamp, id: DeviceId, hardware: Option<Text>, policies: Vec<Text>) {
        let known = self.devices.entry(id.clone()).or_default();
        // Signals tell of the same devices again and again, and there may be thousands of incidents.
        let is_news = !known.is_selected || known.is_vanished || known.hardware != hardware;
        (known.is_selected, known.is_vanished) = (true, false);
        if known.incident.is_none() {
            known.presence = None;
        }
        known.watchers.retain(|name, _| policies.contains(name));
        let before = known.hardware.clone().filter(|before| hardware.as_ref() != Some(before));
        self.note_hardware(&id, hardware);
        for name in policies {
            self.watch(now, &name, &id);
        }
        if let Some(before) = before {
            self.follow(now, &id.driver, &before);
        }
        if is_news {
            self.follow_device(now, &id);
        }
        self.look(now, &id);
    }

    /// A policy selects a device: its signals are counted from now on, and what was counted before is known.
    pub(crate) fn watch(&mut self, now: Timestamp, policy: &Text, device: &DeviceId) {
        let known = self.devices.entry(device.clone()).or_default();
        if known.watchers.get(policy).is_none() {
            known.watchers.insert(policy.clone(), Watcher::default());
            self.restore_watcher(now, policy, device);
        }
    }

    fn lose_device(&mut self, now: Timestamp, id: &DeviceId) {
        let Some(known) = self.devices.get_mut(id) else { return };
        known.is_selected = false;
        // Another device with its identity may be the only one now.
        let hardware = known.hardware.clone();
        self.drop_if_unknown(id);
        if let Some(hardware) = hardware {
            self.follow(now, &id.driver, &hardware);
        }
    }

    fn raise(&mut self, now: Timestamp, signal: &Signal) {
        self.note_vanished(now, of_signal(signal), true);
        let Some(known) = self.devices.get_mut(&signal.device) else { return };
        // Most signals are about something that no rule means: what an expression sees is made when one is asked.
        let mut datum = None;
        for (name, watcher) in known.watchers.iter_mut() {
            // The policy was deleted, or is yet to come.
            let Some(policy) = self.policies.get(name) else { continue };
            let raised = watcher.raise(policy, signal, &mut datum, (now, &mut self.texts));
            if raised.is_meant {
                // After a calm it is another trouble.
                let is_over =
                    |(_, last): &(Timestamp, Timestamp)| now.millis_since(*last) > policy.clear_after_ms;
                let first = known.signals.filter(|both| !is_over(both)).map_or(signal.at, |(first, _)| first);
                known.signals = Some((first, now));
            }
            if raised.is_counted {
                self.tallies.count(name, &signal.device);
            }
            for (rule, error) in raised.errors {
                self.effects.push_back(Effect::Broken { policy: name.clone(), rule, error });
            }
        }
        self.look(now, &signal.device);
    }

    fn lower(&mut self, now: Timestamp, device: &DeviceId, key: &Text, source: Source) {
        self.note_vanished(now, (device, key, source), false);
        if let Some(known) = self.devices.get_mut(device) {
            for (policy, watcher) in known.watchers.iter_mut() {
                if watcher.lower(key, source) {
                    self.tallies.changed(policy, device);
                }
            }
        }
        self.look(now, device);
    }

    fn lose_policy(&mut self, now: Timestamp, name: &Text) {
        self.tallies.drop_policy(name);
        self.drop_demands(name);
        let numbers = numbers_of(self, name);
        let observed = self.policies.get(name).is_some_and(|policy| policy.mode == Mode::Observe);
        // A device that a person gave up is for a person to decide.
        let is_its = |number: &&u64| {
            let incident = self.incidents.get(*number);
            incident.is_some_and(|one| one.policy == *name && one.stage != Stage::Abandoned)
        };
        let ends: Vec<u64> = numbers.iter().filter(is_its).filter(|_| observed).copied().collect();
        for number in ends {
            end_untouched(self, now, number, "its policy, which observed, is gone");
        }
        self.policies.remove(name);
        for number in numbers {
            let Some(incident) = open_mut(&mut self.incidents, number) else { continue };
            if incident.policy == *name {
                incident.lose_policy();
                self.record(number);
                self.pass_on(now, number, "its policy is gone");
            } else {
                self.drop_held(number);
            }
            if let Some(device) = self.incidents.get(&number).map(|incident| incident.device.clone()) {
                // Another policy may demand as much.
                self.look(now, &device);
            }
        }
    }

    /// The policy that wanted what a guard holds does not want it any more.
    pub(crate) fn drop_held(&mut self, number: u64) {
        if self.hold_for_next(number) {
            return;
        }
        if let Some(incident) = open_mut(&mut self.incidents, number) {
            incident.held = None;
        }
        self.explain(number, None);
        self.record(number);
    }

    fn see_policy(&mut self, now: Timestamp, policy: Policy) {
        let (name, mode) = (policy.name.clone(), policy.mode);
        for known in self.devices.values_mut() {
            if let Some(watcher) = known.watchers.get_mut(&name) {
                watcher.reset(now);
            }
        }
        self.tallies.forget_policy(&name);
        let before = self.policies.insert(name.clone(), IndexedPolicy::new(policy));
        let is_new_mode = before.as_ref().is_none_or(|before| before.mode != mode);
        let lacked_step = |step| {
            before.as_ref().is_some_and(|before| before.steps.len() <= step || before.blocked.is_some())
        };
        let blocked = self.policies.get(&name).map(|policy| policy.blocked.clone());
        let is_new_block = before.as_ref().map(|before| before.blocked.clone()) != blocked;
        if mode == Mode::Observe {
            self.drop_demands(&name);
        }
        for number in numbers_of(self, &name) {
            let Some(incident) =
                invariant!(self.incidents.get(&number).cloned(), "an incident that was found is there")
            else {
                continue;
            };
            if incident.policy != name {
                if mode == Mode::Observe {
                    self.drop_held(number);
                }
                continue;
            }
            if mode == Mode::Observe && self.pass_on(now, number, "its policy observes from now on") {
                self.look(now, &incident.device);
                continue;
            }
            let was_gone = incident.waits_for == POLICY_GONE;
            if was_gone {
                // Nothing is known of its signals from the time without a policy.
                let known = self.devices.get_mut(&incident.device);
                known.into_iter().for_each(|known| known.calm_from = Some(now));
            }
            // Its repair, and the time that it has, follow from the steps.
            let is_repairing = incident.stage == Stage::Repairing;
            if is_new_mode || was_gone || is_repairing || is_new_block {
                if (was_gone || lacked_step(incident.step))
                    && let Some(incident) = open_mut(&mut self.incidents, number)
                {
                    incident.restart_repair(now);
                }
                self.sync_mode(now, number);
                let is_enforced = self.incidents.get(&number).is_some_and(|now| now.is_enforced);
                if was_gone || is_enforced != incident.is_enforced {
                    self.note_mode(now, number, mode);
                } else if self.incidents.get(&number) != Some(&incident) {
                    self.record(number);
                }
                self.look(now, &incident.device);
            }
        }
    }

    fn note_mode(&mut self, now: Timestamp, number: u64, mode: Mode) {
        // It is over.
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let mode = if mode == Mode::Enforce { "Enforce" } else { "Observe" };
        let actor = alloc::format!("policy {}", incident.policy).into();
        incident.note(now, alloc::format!("mode is {mode} now"), &actor);
        self.show(number);
    }

    fn used(
        &mut self,
        now: Timestamp,
        device: &DeviceId,
        is_used: bool,
        (namespaces, stays): (Vec<Text>, Text),
    ) {
        let Some(known) = self.devices.get_mut(device) else { return };
        known.is_used = Some(is_used);
        known.stays = (!stays.is_empty()).then(|| Box::new(stays));
        let users = namespaces.into_iter().take(NAMESPACES_MAX);
        known.users = users.map(|user| self.texts.share(user)).collect();
        let incident = known.incident.and_then(|number| self.incidents.get_mut(&number));
        if let Some(incident) = incident
            && incident.stage == Stage::Draining
            && incident.cost.lacks(&known.users)
        {
            Arc::make_mut(incident).cost.note(&known.users);
            let number = incident.number;
            self.record(number);
        }
        self.look(now, device);
    }

    fn evicted(&mut self, number: u64, pods: u64) {
        let Some(incident) = self.incidents.get_mut(&number) else { return };
        if incident.cost.pods_evicted < pods {
            Arc::make_mut(incident).cost.pods_evicted = pods;
            self.record(number);
        }
    }

    pub(crate) fn new_serial(&mut self, device: &DeviceId) -> u32 {
        let past = self.past.entry(device.clone()).or_default();
        past.serial = past.serial.saturating_add(1);
        while self.taken_names.contains(&incident_name(device, past.serial)) {
            past.serial = past.serial.saturating_add(1);
        }
        past.serial
    }

    pub(crate) fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Looks at a device: which rules hold, and what follows for its incident.
    pub(crate) fn look(&mut self, now: Timestamp, device: &DeviceId) {
        if self.is_paused {
            return;
        }
        let verdicts = self.verdicts(now, device);
        let is_ill = self.carry_out(now, device, &verdicts);
        self.release_held(now, device);
        let again = self.advance(now, device, is_ill);
        let calm = self.note_calm(now, device, is_ill);
        self.drop_if_unknown(device);
        match [verdicts.wake, again, calm].into_iter().flatten().min() {
            Some(at) => self.wakes.insert(device.clone(), at),
            None => self.wakes.remove(device),
        }
    }

    /// Writes an incident, and what its stage means for the device.
    pub(crate) fn show(&mut self, number: u64) {
        self.record(number);
        self.act_again(number);
    }

    /// Writes an incident.
    pub(crate) fn record(&mut self, number: u64) {
        if let Some(incident) = self.incidents.get(&number) {
            self.effects.push_back(Effect::Record(Arc::clone(incident)));
        }
    }
}

/// The open incidents that a policy has a part in.
fn numbers_of(lifecycle: &Lifecycle, policy: &Text) -> Vec<u64> {
    let theirs = lifecycle.incidents.values().filter(|incident| concerns(policy, incident));
    theirs.map(|incident| incident.number).collect()
}

/// Whether there is a policy of this name, and it acts.
pub(crate) fn enforces(lifecycle: &Lifecycle, policy: &Text) -> bool {
    lifecycle.policies.get(policy).is_some_and(|policy| policy.mode == Mode::Enforce)
}

/// An open incident, to be changed; what was written of it stays as it was.
pub(crate) fn open_mut(incidents: &mut BTreeMap<u64, Arc<Incident>>, number: u64) -> Option<&mut Incident> {
    incidents.get_mut(&number).map(Arc::make_mut)
}

/// A rule and its message, as a timeline has it.
pub(crate) fn cause_of(policy: &Policy, fired: &Fired) -> Text {
    let rule = policy.rules.get(fired.rule).map_or("", |rule| &*rule.name);
    let mut text = alloc::format!("rule {rule}");
    if !fired.message.is_empty() {
        text.push_str(": ");
        text.push_str(&fired.message);
    }
    text.into()
}
