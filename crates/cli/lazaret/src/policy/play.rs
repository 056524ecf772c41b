//! A world in which pods leave, repairs end and validations pass as the command line says.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_api::HealthPolicy;
use lazaret_lifecycle::{Effect, Input, Lifecycle, Repair, Stage};
use lazaret_model::{DeviceId, Text, Timestamp};

use super::{Args, Line, file::Recorded};

/// Steps after the last signal: what goes on longer goes on for ever.
const STEPS_MAX: usize = 10_000;

/// Something that the world answers later.
#[derive(Debug)]
enum Answer {
    Drained(u64, DeviceId),
    Repaired(u64, Repair, Result<(), String>),
    Validated(u64, Result<(), String>),
}

struct World<'a> {
    args: &'a Args,
    machine: Lifecycle,
    /// By time and number, in order.
    answers: BTreeMap<(Timestamp, usize), Answer>,
    serial: usize,
    lines: Vec<Line>,
    reported: BTreeSet<(Text, usize)>,
    /// Entries of each incident's timeline that were printed.
    entries: BTreeMap<u64, u64>,
}

pub(super) fn play(policies: Vec<HealthPolicy>, mut signals: Vec<Recorded>, args: &Args) -> Vec<Line> {
    signals.sort_by_key(|recorded| recorded.signal.at);
    let start = signals.first().map_or(Timestamp::EPOCH, |recorded| recorded.signal.at);
    let mut world = World {
        args,
        machine: Lifecycle::default(),
        answers: BTreeMap::new(),
        serial: 0,
        lines: Vec::new(),
        reported: BTreeSet::new(),
        entries: BTreeMap::new(),
    };
    let devices: BTreeSet<DeviceId> = signals.iter().map(|recorded| recorded.signal.device.clone()).collect();
    for id in devices {
        let selecting = policies.iter().filter(|read| args.assume_selected || read.selector.names_match(&id));
        let names = selecting.map(|read| read.policy.name.clone()).collect();
        world.hear(start, Input::Device { id: id.clone(), hardware: None, policies: names });
        let (is_used, namespaces, stays) = (true, Vec::new(), "".into());
        world.hear(start, Input::InUse { device: id, is_used, namespaces, stays });
    }
    for read in policies {
        world.hear(start, Input::Policy(Box::new(read.policy)));
    }
    for recorded in signals {
        let now = recorded.signal.at;
        world.pass(now);
        let signal = recorded.signal;
        world.hear(
            now,
            if recorded.is_over {
                Input::Lowered { device: signal.device, key: signal.key, source: signal.source }
            } else {
                Input::Raised(signal)
            },
        );
    }
    world.pass(Timestamp::NEVER);
    world.lines
}

/// Whether some device was given up.
pub(super) fn is_abandoned(lines: &[Line]) -> bool {
    let mut last = BTreeMap::new();
    for line in lines {
        last.insert(line.incident, line.stage);
    }
    last.values().any(|stage| *stage == Stage::Abandoned.name())
}

impl World<'_> {
    /// Lets time pass until then, or until nothing is left to happen.
    fn pass(&mut self, until: Timestamp) {
        for _ in 0..STEPS_MAX {
            let answer = self.answers.keys().next().copied();
            let wake = self.machine.wake();
            let next = [answer.map(|(at, _)| at), wake].into_iter().flatten().min();
            let Some(now) = next.filter(|next| *next <= until) else { return };
            match answer.filter(|(at, _)| *at == now).and_then(|key| self.answers.remove(&key)) {
                Some(Answer::Drained(incident, device)) => {
                    let (is_used, namespaces, stays) = (false, Vec::new(), "".into());
                    self.hear(now, Input::InUse { device, is_used, namespaces, stays });
                    self.hear(now, Input::Idle { incident });
                }
                Some(Answer::Repaired(incident, repair, result)) => {
                    self.hear(now, Input::Repaired { incident, repair, result });
                }
                Some(Answer::Validated(incident, result)) => {
                    self.hear(now, Input::Validated { incident, result });
                }
                None => {
                    self.machine.tick(now);
                    self.take(now);
                }
            }
        }
    }

    fn hear(&mut self, now: Timestamp, input: Input) {
        self.machine.handle(now, input);
        self.take(now);
    }

    fn later(&mut self, now: Timestamp, millis: i64, answer: Answer) {
        self.serial += 1;
        self.answers.insert((now.plus_millis(millis), self.serial), answer);
    }

    /// An incident is written first, and then what is done for it.
    fn take(&mut self, now: Timestamp) {
        while let Some(effect) = self.machine.poll() {
            let text = self.perform(now, effect);
            if let (Some(text), Some(line)) = (text, self.lines.last_mut()) {
                line.does.push(text);
            }
        }
    }

    /// Carries out an effect, and returns a text about it.
    fn perform(&mut self, now: Timestamp, effect: Effect) -> Option<String> {
        let (drain_takes, repair_takes) = (self.args.drain_takes, self.args.repair_takes);
        let result = |is_failing: bool, flag: &str| {
            if is_failing { Err(format!("as {flag} says")) } else { Ok(()) }
        };
        match effect {
            Effect::Record(incident) => {
                // A write that only stores since when a device is calm is no entry.
                let entries = u64::from(incident.folded) + incident.timeline.len() as u64;
                if self.entries.insert(incident.number, entries) == Some(entries) {
                    return None;
                }
                let (at, cause) = incident
                    .timeline
                    .last()
                    .map_or((now, String::new()), |entry| (entry.at, entry.cause.to_string()));
                self.lines.push(Line {
                    at: lazaret_api::format_time(at),
                    device: incident.device.to_string(),
                    incident: incident.number,
                    policy: incident.policy.to_string(),
                    stage: incident.stage.name(),
                    cause,
                    does: Vec::new(),
                });
                None
            }
            Effect::Taint { effects: [], .. } => Some("untaint".to_owned()),
            Effect::Taint { effects, taint, .. } => Some(format!("taint {taint}:{}", effects.join("+"))),
            Effect::Drain { incident, device } => {
                self.later(now, drain_takes, Answer::Drained(incident, device));
                Some("drain".to_owned())
            }
            Effect::Repair { incident, repair, name } => {
                let result = result(self.args.fail_step.iter().any(|step| **step == *name), "--fail-step");
                self.later(now, repair_takes, Answer::Repaired(incident, repair, result));
                Some(format!("repair {name}"))
            }
            Effect::StopRepair { .. } => Some("stop the repair".to_owned()),
            Effect::Validate { incident, .. } => {
                let result = result(self.args.fail_validation, "--fail-validation");
                self.later(now, repair_takes, Answer::Validated(incident, result));
                Some("validate".to_owned())
            }
            Effect::Broken { policy, rule, error } => {
                if self.reported.insert((policy.clone(), rule)) {
                    crate::output::note(&format!("policy {policy}: spec.rules[{rule}].when: {error}"));
                }
                None
            }
        }
    }
}
