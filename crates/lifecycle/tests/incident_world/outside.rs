//! Events outside the controllers: pods, jobs, signals, administrators and people.

use lazaret_lifecycle::{
    Child, ChildKind, ChildTarget, Incident, Mode, PersonAct, Report, Signal, Source, Stage,
};
use lazaret_model::Text;

use super::{
    DEVICES,
    objects::{Event, KEYS, Mutant, id},
    world::{World, signal},
};

impl World {
    /// Pods leave a device that is drained; others come to one that nobody keeps them from.
    pub(super) fn pods(&mut self) {
        for device in DEVICES.map(id) {
            let of = |child: &&Child| match &child.target {
                ChildTarget::Rule { device: of, effect, .. } => *of == device && **effect != *"None",
                ChildTarget::Drain { device: of, .. } => *of == device,
                ChildTarget::Job { .. } | ChildTarget::Claim => false,
            };
            let is_tainted = self.api.tainted.contains(&device);
            let drained =
                self.api.children.values().any(|child| of(&child) && child.target.kind() == ChildKind::Drain);
            let kept_off = is_tainted || self.api.children.values().any(|child| of(&child));
            let is_used = self.used[&device];
            let becomes = if drained { false } else { is_used || !kept_off };
            if becomes != is_used {
                self.used.insert(device.clone(), becomes);
                self.api.log.push(Event::Used(device, becomes));
            }
        }
    }

    /// Jobs end.
    pub(super) fn jobs(&mut self, is_calm: bool) {
        let running = |child: &&Child| matches!(child.target, ChildTarget::Job { result: None });
        let running: Vec<Child> = self.api.children.values().filter(running).cloned().collect();
        for job in running {
            if is_calm || self.dice.one_in(3) {
                let failed = !is_calm && self.dice.one_in(3);
                if self.mutant == Mutant::LosesJobs {
                    self.api.children.remove(&(ChildKind::Job, job.name.clone()));
                    self.api.log.push(Event::ChildGone(ChildKind::Job, job.name));
                    continue;
                }
                let result = if failed { Err("it failed".to_owned()) } else { Ok(()) };
                self.api.set_child(Child { target: ChildTarget::Job { result: Some(result) }, ..job });
            }
        }
    }

    pub(super) fn signals(&mut self) {
        let device = id(DEVICES[self.dice.roll(3) as usize]);
        let key: Text = KEYS[self.dice.roll(4) as usize].into();
        let now = self.at();
        match self.dice.roll(4) {
            0 if self.raised.insert((device.clone(), key.clone())) => {
                self.api.log.push(Event::Signal(signal(&device, &key, now, Source::Taint)));
            }
            1 | 2 if self.raised.remove(&(device.clone(), key.clone())) => {
                self.api.log.push(Event::Lowered(device, key));
            }
            3 if self.dice.one_in(4) => {
                let uid = self.api.version();
                let name: Text = format!("report-{uid}").into();
                let signal = Signal { lasts: false, ..signal(&device, &key, now, Source::Person) };
                let report = Report { name: name.clone(), uid, signal };
                self.api.reports.insert(name, report.clone());
                self.api.log.push(Event::Report(report));
            }
            _ => {}
        }
    }

    /// Administrators pause, trip and reset the guard, taint devices of their own accord, and change the mode of the policy.
    pub(super) fn administrators(&mut self) {
        self.note(format!("before a change: {:?} {:?} {:?}", self.api.guard, self.api.tainted, self.mode()));
        match self.dice.roll(6) {
            0 => self.api.guard.is_paused = !self.api.guard.is_paused,
            1 | 2 => self.api.guard.is_tripped = !self.api.guard.is_tripped,
            3 | 4 => {
                let device = id(DEVICES[self.dice.roll(3) as usize]);
                let is_new = self.api.tainted.insert(device.clone());
                if !is_new {
                    self.api.tainted.remove(&device);
                }
                self.api.log.push(Event::Tainted(device, is_new));
                return;
            }
            _ => {
                let mode = if self.mode() == Mode::Enforce { Mode::Observe } else { Mode::Enforce };
                self.api.mode = Some(mode);
                self.api.log.push(Event::Mode(mode));
                return;
            }
        }
        self.api.log.push(Event::Guard(self.api.guard));
    }

    pub(super) fn people(&mut self) {
        let names: Vec<Text> = self.api.incidents.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = &names[self.dice.roll(names.len() as u64) as usize];
        let act = Some(PersonAct { at: self.at(), who: "jo".into(), why: Text::default() });
        let choice = self.dice.roll(8);
        if choice == 7 {
            let name = name.clone();
            self.delete_incident(&name);
            return;
        }
        let version = self.api.version();
        let Some(mut stored) = self.api.incidents.get(name).cloned() else { return };
        match choice {
            0 => stored.acts.acknowledged = act,
            1 | 2 => stored.acts.repaired = act,
            3 => stored.acts.abandoned = act,
            _ => return,
        }
        if let Some(entry) = self.stages.get_mut(name) {
            entry.1 = true;
        }
        stored.version = version;
        self.api.set_incident(stored);
    }

    /// The act of a mutant: an abandoned incident is stored as cleared.
    pub(super) fn clear_abandoned(&mut self) {
        let mut stored = self.api.incidents.values();
        let Some(stored) = stored.find(|one| one.incident.stage == Stage::Abandoned).cloned() else { return };
        let cleared = Incident { stage: Stage::Cleared, ..stored.incident };
        self.record(&stored.uid, &stored.version, &cleared);
    }
}
