//! The current faults.

use std::collections::BTreeMap;

use lazaret_driver::validate_device_name;

use crate::command::{Call, Command, CommandError, Frames, SliceFault};

/// The behaviour of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It works.
    #[default]
    Work,
    /// It hangs, until a command changes the mode.
    Hang,
    /// It fails for this reason.
    Fail(String),
}

/// An administrator's order for a device: the effect of its taint, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// `NoExecute`, `NoSchedule` or `None`.
    pub effect: String,
    /// The value of the taint, may be empty.
    pub reason: String,
}

/// The faults there are. Devices are called by the name they had at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    conditions: BTreeMap<String, BTreeMap<String, (String, bool)>>,
    /// Where a device is: nowhere, or under another name.
    places: BTreeMap<String, Option<String>>,
    modes: BTreeMap<Call, Mode>,
    wrong: Option<SliceFault>,
    frames: Option<Frames>,
    /// By the name under which a device is published.
    orders: BTreeMap<String, Order>,
}

/// The consequence of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEffect {
    /// Nothing more.
    None,
    /// Other devices are published than before.
    Devices,
    /// They are published in another way.
    Publishing(Option<SliceFault>),
}

impl Faults {
    /// Carries a command out. `devices` are the names at the start. Says what is left to be done.
    ///
    /// # Errors
    /// When there is no such device. Nothing changes then.
    pub fn apply(&mut self, devices: &[String], command: Command) -> Result<CommandEffect, CommandError> {
        if let Command::Fail(device, ..)
        | Command::Flap(device, _)
        | Command::Recover(device)
        | Command::Vanish(device)
        | Command::Return(device, _) = &command
            && !devices.contains(device)
        {
            return Err(CommandError::NoDevice(device.clone()));
        }
        match command {
            Command::Fail(device, condition, detail) => {
                self.conditions.entry(device).or_default().insert(condition, (detail, false));
            }
            Command::Flap(device, condition) => {
                self.conditions.entry(device).or_default().insert(condition, (String::new(), true));
            }
            Command::Recover(device) => drop(self.conditions.remove(&device)),
            Command::Vanish(device) => {
                self.places.insert(device, None);
                return Ok(CommandEffect::Devices);
            }
            Command::Return(device, name) => {
                self.place(devices, device, name)?;
                return Ok(CommandEffect::Devices);
            }
            Command::Hang(call) => drop(self.modes.insert(call, Mode::Hang)),
            Command::Error(call, why) => drop(self.modes.insert(call, Mode::Fail(why))),
            Command::Work(call) => drop(self.modes.remove(&call)),
            Command::Publish(wrong) => {
                self.wrong = wrong;
                return Ok(CommandEffect::Publishing(wrong));
            }
            Command::Frames(frames) => self.frames = frames,
            Command::Crash | Command::List => {}
        }
        Ok(CommandEffect::None)
    }

    fn place(
        &mut self,
        devices: &[String],
        device: String,
        name: Option<String>,
    ) -> Result<(), CommandError> {
        let name = name.filter(|name| *name != device);
        let wanted = name.as_ref().unwrap_or(&device);
        validate_device_name(wanted).map_err(|_| CommandError::Name(wanted.clone()))?;
        if devices.iter().any(|other| *other != device && self.name_of(other).as_ref() == Some(wanted)) {
            return Err(CommandError::NameTaken(wanted.clone()));
        }
        match name {
            Some(name) => drop(self.places.insert(device, Some(name))),
            None => drop(self.places.remove(&device)),
        }
        Ok(())
    }

    /// Replaces all orders of administrators.
    pub fn order(&mut self, orders: BTreeMap<String, Order>) {
        self.orders = orders;
    }

    /// Under which name a device is published; none if it vanished.
    #[must_use]
    pub fn name_of(&self, device: &str) -> Option<String> {
        match self.places.get(device) {
            None => Some(device.to_owned()),
            Some(place) => place.clone(),
        }
    }

    /// The conditions of a device at this look, with details.
    #[must_use]
    pub fn conditions(&self, device: &str, look: u64) -> Vec<(String, String)> {
        let all = self.conditions.get(device).into_iter().flatten();
        let now = all.filter(|(_, (_, flaps))| !flaps || look.is_multiple_of(2));
        let mut found: Vec<(String, String)> =
            now.map(|(condition, (detail, _))| (condition.clone(), detail.clone())).collect();
        let order = self.name_of(device).and_then(|name| self.orders.get(&name));
        found.extend(order.map(|order| (ordered(&order.effect), order.reason.clone())));
        found
    }

    /// The behaviour of a call.
    #[must_use]
    pub fn mode(&self, call: Call) -> Mode {
        self.modes.get(&call).cloned().unwrap_or_default()
    }

    /// The fault in the published slices.
    #[must_use]
    pub fn wrong(&self) -> Option<SliceFault> {
        self.wrong
    }

    /// The fault in the bytes that are sent.
    #[must_use]
    pub fn frames(&self) -> Option<Frames> {
        self.frames
    }

    /// The commands that would bring these faults about.
    #[must_use]
    pub fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for (device, conditions) in &self.conditions {
            for (condition, (detail, flaps)) in conditions {
                let (device, condition) = (device.clone(), condition.clone());
                commands.push(match flaps {
                    true => Command::Flap(device, condition),
                    false => Command::Fail(device, condition, detail.clone()),
                });
            }
        }
        for (device, place) in &self.places {
            let device = device.clone();
            commands.push(match place {
                None => Command::Vanish(device),
                Some(name) => Command::Return(device, Some(name.clone())),
            });
        }
        for (call, mode) in &self.modes {
            commands.push(match mode {
                Mode::Work => Command::Work(*call),
                Mode::Hang => Command::Hang(*call),
                Mode::Fail(why) => Command::Error(*call, why.clone()),
            });
        }
        commands.extend(self.wrong.map(|wrong| Command::Publish(Some(wrong))));
        commands.extend(self.frames.map(|frames| Command::Frames(Some(frames))));
        commands
    }

    /// For people, one a line.
    #[must_use]
    pub fn list(&self) -> String {
        let mut lines: Vec<String> = self.commands().iter().map(ToString::to_string).collect();
        let order = |(device, order): (&String, &Order)| {
            format!("ordered {device} {} {}", order.effect, order.reason).trim_end().to_owned()
        };
        lines.extend(self.orders.iter().map(order));
        lines.join("\n")
    }
}

/// The condition of a device that was ordered to fail with this effect.
pub(crate) fn ordered(effect: &str) -> String {
    format!("ordered-{effect}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["gpu-0".into(), "gpu-1".into()]
    }

    #[test]
    fn what_is_listed_is_what_was_commanded() {
        let mut faults = Faults::default();
        let lines = [
            "fail gpu-0 xid 79 of nobody",
            "flap gpu-1 hot",
            "vanish gpu-0",
            "return gpu-1 gpu-9",
            "hang prepare",
            "error unprepare no way",
            "error bind not today",
            "publish incomplete",
            "frames giant",
        ];
        for line in lines {
            faults.apply(&names(), line.parse().unwrap()).unwrap();
        }
        assert_eq!(faults.list().lines().collect::<Vec<_>>(), lines);
        assert_eq!((faults.name_of("gpu-0"), faults.name_of("gpu-1")), (None, Some("gpu-9".into())));
        assert_eq!((faults.conditions("gpu-1", 0).len(), faults.conditions("gpu-1", 1).len()), (1, 0));
        for line in [
            "recover gpu-0",
            "recover gpu-1",
            "return gpu-0",
            "return gpu-1",
            "work prepare",
            "work unprepare",
            "work bind",
            "work publish",
            "work frames",
        ] {
            faults.apply(&names(), line.parse().unwrap()).unwrap();
        }
        assert_eq!(faults, Faults::default());
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let mut faults = Faults::default();
        for line in [
            "",
            "fail",
            "fail gpu-0",
            "hang everything",
            "error prepare",
            "error publish x",
            "publish",
            "frames",
            "explode gpu-0",
            "return",
            "crash now",
        ] {
            assert!(matches!(line.parse::<Command>(), Err(CommandError::Unknown(_))), "{line}");
        }
        let apply = |faults: &mut Faults, line: &str| faults.apply(&names(), line.parse().unwrap());
        assert_eq!(apply(&mut faults, "fail gpu-7 xid"), Err(CommandError::NoDevice("gpu-7".into())));
        assert_eq!(apply(&mut faults, "return gpu-0 gpu-1"), Err(CommandError::NameTaken("gpu-1".into())));
        assert_eq!(apply(&mut faults, "return gpu-0 GPU_0"), Err(CommandError::Name("GPU_0".into())));
        assert_eq!(faults, Faults::default());
        // A name that another device has taken meanwhile is not given back.
        apply(&mut faults, "vanish gpu-0").unwrap();
        apply(&mut faults, "return gpu-1 gpu-0").unwrap();
        assert_eq!(apply(&mut faults, "return gpu-0"), Err(CommandError::NameTaken("gpu-0".into())));
    }

    #[test]
    fn orders_are_by_the_name_that_is_published() {
        let mut faults = Faults::default();
        faults.apply(&names(), "return gpu-1 gpu-9".parse().unwrap()).unwrap();
        let order = Order { effect: "NoExecute".into(), reason: "fan".into() };
        faults.order([("gpu-9".to_owned(), order)].into());
        assert_eq!(faults.conditions("gpu-1", 0), [("ordered-NoExecute".to_owned(), "fan".to_owned())]);
        assert_eq!(faults.list(), "return gpu-1 gpu-9\nordered gpu-9 NoExecute fan");
        faults.order(BTreeMap::new());
        assert!(faults.conditions("gpu-1", 0).is_empty());
    }
}
