//! What is to go wrong.

use std::{collections::BTreeMap, str::FromStr};

use thiserror::Error;

/// A call of kubelet or of the kit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Claims are made usable.
    Prepare,
    /// That is undone.
    Unprepare,
    /// GPUs are looked at.
    Health,
}

/// What a call does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What it should.
    #[default]
    Work,
    /// Nothing, until it is told to work.
    Hang,
    /// It fails for this reason.
    Fail(String),
}

/// One line on the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `fail GPU CONDITION [DETAIL]`
    Fail(String, String, String),
    /// `flap GPU CONDITION`: at every second look.
    Flap(String, String),
    /// `recover GPU`: from everything.
    Recover(String),
    /// `vanish GPU`: it is not published any more.
    Vanish(String),
    /// `return GPU [NAME]`: it is, under this name.
    Return(String, Option<String>),
    /// `hang CALL`
    Hang(Call),
    /// `error CALL TEXT`
    Error(Call, String),
    /// `work CALL`
    Work(Call),
    /// `crash`: the process ends at once and cleans nothing up.
    Crash,
    /// `list`: the faults there are.
    List,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// There is no such command.
    #[error(
        "not understood: {0:?}; commands: fail GPU CONDITION [DETAIL], flap GPU CONDITION, recover GPU, vanish GPU, \
         return GPU [NAME], hang|work prepare|unprepare|health, error prepare|unprepare|health TEXT, crash, list"
    )]
    Unknown(String),
    /// There is no such GPU.
    #[error("there is no GPU {0:?}")]
    NoGpu(String),
    /// Two GPUs would have one name.
    #[error("there is a GPU {0:?}")]
    NameTaken(String),
}

impl FromStr for Call {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "prepare" => Ok(Self::Prepare),
            "unprepare" => Ok(Self::Unprepare),
            "health" => Ok(Self::Health),
            _ => Err(()),
        }
    }
}

impl FromStr for Command {
    type Err = CommandError;

    fn from_str(line: &str) -> Result<Self, CommandError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let unknown = || CommandError::Unknown(line.chars().take(100).collect());
        let call = |word: &str| word.parse::<Call>().map_err(|()| unknown());
        Ok(match *words.as_slice() {
            ["fail", gpu, condition] => Self::Fail(gpu.into(), condition.into(), String::new()),
            ["fail", gpu, condition, ref detail @ ..] => {
                Self::Fail(gpu.into(), condition.into(), detail.join(" "))
            }
            ["flap", gpu, condition] => Self::Flap(gpu.into(), condition.into()),
            ["recover", gpu] => Self::Recover(gpu.into()),
            ["vanish", gpu] => Self::Vanish(gpu.into()),
            ["return", gpu] => Self::Return(gpu.into(), None),
            ["return", gpu, name] => Self::Return(gpu.into(), Some(name.into())),
            ["hang", word] => Self::Hang(call(word)?),
            ["work", word] => Self::Work(call(word)?),
            ["error", word, ref text @ ..] if !text.is_empty() => Self::Error(call(word)?, text.join(" ")),
            ["crash"] => Self::Crash,
            ["list"] => Self::List,
            _ => return Err(unknown()),
        })
    }
}

/// The faults there are. GPUs are called by the name they had at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    conditions: BTreeMap<String, BTreeMap<String, (String, bool)>>,
    /// Where a GPU is: nowhere, or under another name.
    places: BTreeMap<String, Option<String>>,
    modes: BTreeMap<Call, Mode>,
}

impl Faults {
    /// Carries a command out. `gpus` are the names at the start. Whether other devices are published than before.
    ///
    /// # Errors
    /// When there is no such GPU. Nothing changes then.
    pub fn apply(&mut self, gpus: &[String], command: Command) -> Result<bool, CommandError> {
        if let Command::Fail(gpu, ..)
        | Command::Flap(gpu, _)
        | Command::Recover(gpu)
        | Command::Vanish(gpu)
        | Command::Return(gpu, _) = &command
            && !gpus.contains(gpu)
        {
            return Err(CommandError::NoGpu(gpu.clone()));
        }
        match command {
            Command::Fail(gpu, condition, detail) => {
                self.conditions.entry(gpu).or_default().insert(condition, (detail, false));
            }
            Command::Flap(gpu, condition) => {
                self.conditions.entry(gpu).or_default().insert(condition, (String::new(), true));
            }
            Command::Recover(gpu) => drop(self.conditions.remove(&gpu)),
            Command::Vanish(gpu) => {
                self.places.insert(gpu, None);
                return Ok(true);
            }
            Command::Return(gpu, name) => {
                let name = name.filter(|name| *name != gpu);
                let taken = name.as_ref().filter(|name| {
                    gpus.iter().any(|other| *other != gpu && self.name_of(other).as_ref() == Some(*name))
                });
                if let Some(name) = taken {
                    return Err(CommandError::NameTaken(name.clone()));
                }
                match name {
                    Some(name) => drop(self.places.insert(gpu, Some(name))),
                    None => drop(self.places.remove(&gpu)),
                }
                return Ok(true);
            }
            Command::Hang(call) => drop(self.modes.insert(call, Mode::Hang)),
            Command::Error(call, why) => drop(self.modes.insert(call, Mode::Fail(why))),
            Command::Work(call) => drop(self.modes.remove(&call)),
            Command::Crash | Command::List => {}
        }
        Ok(false)
    }

    /// Under which name a GPU is published; none if it vanished.
    #[must_use]
    pub fn name_of(&self, gpu: &str) -> Option<String> {
        match self.places.get(gpu) {
            None => Some(gpu.to_owned()),
            Some(place) => place.clone(),
        }
    }

    /// What a GPU has at this look.
    #[must_use]
    pub fn conditions(&self, gpu: &str, look: u64) -> Vec<(String, String)> {
        let all = self.conditions.get(gpu).into_iter().flatten();
        let now = all.filter(|(_, (_, flaps))| !flaps || look.is_multiple_of(2));
        now.map(|(condition, (detail, _))| (condition.clone(), detail.clone())).collect()
    }

    /// What a call does.
    #[must_use]
    pub fn mode(&self, call: Call) -> Mode {
        self.modes.get(&call).cloned().unwrap_or_default()
    }

    /// For people, one a line.
    #[must_use]
    pub fn list(&self) -> String {
        let mut lines = Vec::new();
        for (gpu, conditions) in &self.conditions {
            for (condition, (detail, flaps)) in conditions {
                let verb = if *flaps { "flap" } else { "fail" };
                lines.push(format!("{verb} {gpu} {condition} {detail}").trim_end().to_owned());
            }
        }
        for (gpu, place) in &self.places {
            lines.push(
                place.as_ref().map_or_else(|| format!("vanish {gpu}"), |name| format!("return {gpu} {name}")),
            );
        }
        for (call, mode) in &self.modes {
            let name = format!("{call:?}").to_lowercase();
            lines.push(match mode {
                Mode::Work => format!("work {name}"),
                Mode::Hang => format!("hang {name}"),
                Mode::Fail(why) => format!("error {name} {why}"),
            });
        }
        lines.join("\n")
    }
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
            "explode gpu-0",
            "return",
            "crash now",
        ] {
            assert!(matches!(line.parse::<Command>(), Err(CommandError::Unknown(_))), "{line}");
        }
        let apply = |faults: &mut Faults, line: &str| faults.apply(&names(), line.parse().unwrap());
        assert_eq!(apply(&mut faults, "fail gpu-7 xid"), Err(CommandError::NoGpu("gpu-7".into())));
        assert_eq!(apply(&mut faults, "return gpu-0 gpu-1"), Err(CommandError::NameTaken("gpu-1".into())));
        assert_eq!(faults, Faults::default());
    }
}
