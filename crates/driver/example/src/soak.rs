//! Faults by chance, always the same for the same seed.

use std::{str::FromStr, time::Duration};

use crate::{
    command::{Call, Command, Frames, SliceFault},
    faults::Faults,
};

/// Faults at a time. With more of them nothing is left to go wrong.
const FAULTS_MAX: usize = 6;
/// Conditions that devices get.
const CONDITIONS: [&str; 4] = ["xid", "ecc", "lost", "hot"];
const CALLS: [Call; 4] = [Call::Prepare, Call::Unprepare, Call::Health, Call::Bind];

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A device has a condition.
    Fail,
    /// It has it at every second look.
    Flap,
    /// A device is not published any more.
    Vanish,
    /// A device comes back under another name.
    Rename,
    /// A call does not return.
    Hang,
    /// A call fails.
    Error,
    /// Slices are not written, or wrong ones are.
    Publish,
    /// The service socket sends what is no HTTP/2.
    Frames,
    /// The process ends and cleans nothing up.
    Crash,
}

impl FaultKind {
    /// All that a driver survives.
    pub const SURVIVABLE: [Self; 8] = [
        Self::Fail,
        Self::Flap,
        Self::Vanish,
        Self::Rename,
        Self::Hang,
        Self::Error,
        Self::Publish,
        Self::Frames,
    ];
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "fail" => Self::Fail,
            "flap" => Self::Flap,
            "vanish" => Self::Vanish,
            "rename" => Self::Rename,
            "hang" => Self::Hang,
            "error" => Self::Error,
            "publish" => Self::Publish,
            "frames" => Self::Frames,
            "crash" => Self::Crash,
            _ => {
                return Err(format!(
                    "{text:?} is none of fail, flap, vanish, rename, hang, error, publish, frames, crash"
                ));
            }
        })
    }
}

/// How faults come by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoakOptions {
    /// Which sequence of faults.
    pub seed: u64,
    /// Between two of them.
    pub interval: Duration,
    /// Of which kinds.
    pub kinds: Vec<FaultKind>,
}

/// A sequence of faults and recoveries.
#[derive(Clone, Debug)]
pub struct Soak {
    state: u64,
    kinds: Vec<FaultKind>,
}

impl Soak {
    /// From the beginning.
    #[must_use]
    pub fn new(options: &SoakOptions) -> Self {
        Self { state: options.seed, kinds: options.kinds.clone() }
    }

    /// The next command, given the current faults: a new fault, or the end of one. None when there is nothing to choose from.
    pub fn next(&mut self, devices: &[String], faults: &Faults) -> Option<Command> {
        let current = faults.commands();
        let is_enough = current.len() >= FAULTS_MAX || (!current.is_empty() && self.below(2) == 0);
        if is_enough && let Some(fault) = self.choose(&current).cloned() {
            return Some(end_of(fault));
        }
        let kind = *self.choose(&self.kinds.clone())?;
        self.begin(kind, devices)
    }

    fn begin(&mut self, kind: FaultKind, devices: &[String]) -> Option<Command> {
        Some(match kind {
            FaultKind::Fail => {
                let detail = self.below(100).to_string();
                Command::Fail(self.choose(devices)?.clone(), self.condition(), detail)
            }
            FaultKind::Flap => Command::Flap(self.choose(devices)?.clone(), self.condition()),
            FaultKind::Vanish => Command::Vanish(self.choose(devices)?.clone()),
            FaultKind::Rename => {
                let device = self.choose(devices)?.clone();
                let name = format!("{device}-new-{}", self.below(1_000));
                Command::Return(device, Some(name))
            }
            FaultKind::Hang => Command::Hang(*self.choose(&CALLS)?),
            FaultKind::Error => Command::Error(*self.choose(&CALLS)?, "by chance".into()),
            FaultKind::Publish => Command::Publish(Some(*self.choose(&[
                SliceFault::Silent,
                SliceFault::Stale,
                SliceFault::Incomplete,
            ])?)),
            FaultKind::Frames => Command::Frames(Some(*self.choose(&[Frames::Garbage, Frames::Giant])?)),
            FaultKind::Crash => Command::Crash,
        })
    }

    fn condition(&mut self) -> String {
        self.choose(&CONDITIONS).copied().unwrap_or_default().to_owned()
    }

    fn choose<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(list.len()).ok().filter(|count| *count > 0)?;
        list.get(usize::try_from(self.below(count)).ok()?)
    }

    /// A number below this one: splitmix64.
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

fn end_of(fault: Command) -> Command {
    match fault {
        Command::Fail(device, ..) | Command::Flap(device, _) => Command::Recover(device),
        Command::Vanish(device) | Command::Return(device, _) => Command::Return(device, None),
        Command::Hang(call) | Command::Error(call, _) => Command::Work(call),
        Command::Publish(_) => Command::Publish(None),
        Command::Frames(_) => Command::Frames(None),
        other @ (Command::Recover(_) | Command::Work(_) | Command::Crash | Command::List) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, kinds: &[FaultKind], steps: usize) -> (Vec<String>, Faults) {
        let devices: Vec<String> = (0..4).map(|number| format!("gpu-{number}")).collect();
        let options = SoakOptions { seed, interval: Duration::ZERO, kinds: kinds.to_vec() };
        let (mut soak, mut faults, mut log) = (Soak::new(&options), Faults::default(), Vec::new());
        for _ in 0..steps {
            let command = soak.next(&devices, &faults).unwrap();
            log.push(command.to_string());
            assert_eq!(command.to_string().parse(), Ok(command.clone()), "a person can do the same");
            faults.apply(&devices, command).unwrap();
            assert!(faults.commands().len() <= FAULTS_MAX + 1);
        }
        (log, faults)
    }

    #[test]
    fn a_seed_is_a_whole_run_and_reaches_every_kind_of_fault() {
        let (first, _) = run(7, &FaultKind::SURVIVABLE, 400);
        assert_eq!(run(7, &FaultKind::SURVIVABLE, 400).0, first);
        assert_ne!(run(8, &FaultKind::SURVIVABLE, 400).0, first);
        for word in [
            "fail ",
            "flap ",
            "vanish ",
            "return ",
            "hang prepare",
            "error ",
            "hang publish",
            "publish stale",
            "publish incomplete",
            "frames garbage",
            "frames giant",
            "recover ",
            "work ",
        ] {
            assert!(first.iter().any(|line| line.starts_with(word)), "{word}");
        }
        assert!(!first.contains(&"crash".to_owned()));
    }

    #[test]
    fn only_the_kinds_that_were_asked_for() {
        let (log, _) = run(1, &[FaultKind::Flap], 100);
        assert!(log.iter().all(|line| line.starts_with("flap ") || line.starts_with("recover ")), "{log:?}");
        let options = SoakOptions { seed: 1, interval: Duration::ZERO, kinds: vec![] };
        assert_eq!(Soak::new(&options).next(&[], &Faults::default()), None);
    }
}
