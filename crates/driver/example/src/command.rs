//! Commands that make the driver misbehave.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A call of kubelet, of the scheduler by way of a claim, or of the kit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Claims are made usable.
    Prepare,
    /// That is undone.
    Unprepare,
    /// Devices are looked at.
    Health,
    /// Devices are made ready for a claim before its pod is bound.
    Bind,
}

/// A fault in the published slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceFault {
    /// Nothing is written any more.
    Silent,
    /// A slice of an older generation is left behind, with a device that is not there.
    Stale,
    /// The newest generation lacks a slice.
    Incomplete,
}

/// A fault in the bytes that the service socket sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Every byte is another one.
    Garbage,
    /// Each frame says that it is larger than any may be.
    Giant,
}

/// One line on the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `fail DEVICE CONDITION [DETAIL]`
    Fail(String, String, String),
    /// `flap DEVICE CONDITION`: at every second look.
    Flap(String, String),
    /// `recover DEVICE`: from everything.
    Recover(String),
    /// `vanish DEVICE`: it is not published any more.
    Vanish(String),
    /// `return DEVICE [NAME]`: it is, under this name.
    Return(String, Option<String>),
    /// `hang CALL`
    Hang(Call),
    /// `error CALL TEXT`
    Error(Call, String),
    /// `work CALL`
    Work(Call),
    /// `hang publish`, `publish stale`, `publish incomplete`, `work publish`
    Publish(Option<SliceFault>),
    /// `frames garbage`, `frames giant`, `work frames`
    Frames(Option<Frames>),
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
        "not understood: {0:?}; commands: fail DEVICE CONDITION [DETAIL], flap DEVICE CONDITION, recover DEVICE, \
         vanish DEVICE, return DEVICE [NAME], hang|work prepare|unprepare|health|bind|publish, \
         error prepare|unprepare|health|bind TEXT, publish stale|incomplete, frames garbage|giant, work frames, crash, list"
    )]
    Unknown(String),
    /// There is no such device.
    #[error("there is no device {0:?}")]
    NoDevice(String),
    /// Two devices would have one name.
    #[error("there is a device {0:?}")]
    NameTaken(String),
    /// The name cannot be that of a device.
    #[error("{0:?} cannot be the name of a device")]
    Name(String),
    /// The API server did not take it.
    #[error("{0}")]
    Api(String),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "prepare",
            Self::Unprepare => "unprepare",
            Self::Health => "health",
            Self::Bind => "bind",
        })
    }
}

impl FromStr for Call {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "prepare" => Ok(Self::Prepare),
            "unprepare" => Ok(Self::Unprepare),
            "health" => Ok(Self::Health),
            "bind" => Ok(Self::Bind),
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
            ["fail", device, condition] => Self::Fail(device.into(), condition.into(), String::new()),
            ["fail", device, condition, ref detail @ ..] => {
                Self::Fail(device.into(), condition.into(), detail.join(" "))
            }
            ["flap", device, condition] => Self::Flap(device.into(), condition.into()),
            ["recover", device] => Self::Recover(device.into()),
            ["vanish", device] => Self::Vanish(device.into()),
            ["return", device] => Self::Return(device.into(), None),
            ["return", device, name] => Self::Return(device.into(), Some(name.into())),
            ["hang", "publish"] => Self::Publish(Some(SliceFault::Silent)),
            ["publish", "stale"] => Self::Publish(Some(SliceFault::Stale)),
            ["publish", "incomplete"] => Self::Publish(Some(SliceFault::Incomplete)),
            ["work", "publish"] => Self::Publish(None),
            ["frames", "garbage"] => Self::Frames(Some(Frames::Garbage)),
            ["frames", "giant"] => Self::Frames(Some(Frames::Giant)),
            ["work", "frames"] => Self::Frames(None),
            ["hang", word] => Self::Hang(call(word)?),
            ["work", word] => Self::Work(call(word)?),
            ["error", word, ref text @ ..] if !text.is_empty() => Self::Error(call(word)?, text.join(" ")),
            ["crash"] => Self::Crash,
            ["list"] => Self::List,
            _ => return Err(unknown()),
        })
    }
}

/// As it is written on the control socket.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(device, condition, detail) if detail.is_empty() => {
                write!(f, "fail {device} {condition}")
            }
            Self::Fail(device, condition, detail) => write!(f, "fail {device} {condition} {detail}"),
            Self::Flap(device, condition) => write!(f, "flap {device} {condition}"),
            Self::Recover(device) => write!(f, "recover {device}"),
            Self::Vanish(device) => write!(f, "vanish {device}"),
            Self::Return(device, None) => write!(f, "return {device}"),
            Self::Return(device, Some(name)) => write!(f, "return {device} {name}"),
            Self::Hang(call) => write!(f, "hang {call}"),
            Self::Error(call, text) => write!(f, "error {call} {text}"),
            Self::Work(call) => write!(f, "work {call}"),
            Self::Publish(Some(SliceFault::Silent)) => f.write_str("hang publish"),
            Self::Publish(Some(SliceFault::Stale)) => f.write_str("publish stale"),
            Self::Publish(Some(SliceFault::Incomplete)) => f.write_str("publish incomplete"),
            Self::Publish(None) => f.write_str("work publish"),
            Self::Frames(Some(Frames::Garbage)) => f.write_str("frames garbage"),
            Self::Frames(Some(Frames::Giant)) => f.write_str("frames giant"),
            Self::Frames(None) => f.write_str("work frames"),
            Self::Crash => f.write_str("crash"),
            Self::List => f.write_str("list"),
        }
    }
}
