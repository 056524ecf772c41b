//! The signals reported for each GPU, until something clears them. Pure: time and reports come from outside.

use std::collections::{BTreeMap, VecDeque};

use lazaret_driver::Condition;
use lazaret_nvml::{EventKind, Fabric, Readings, RecoveryAction};
use serde::{Deserialize, Serialize};

use crate::xid::{Severity, xid};

/// How long a condition that nothing confirms lasts.
const QUIET_MS: i64 = 600_000;
/// How long the kernel's word on an XID waits for NVML's, or the other way round.
const BLAME_MS: i64 = 5_000;
/// XIDs of the kernel log that NVML has not reported yet.
const BLAMED_MAX: usize = 64;
/// GPUs and partitions that are followed. More are in no machine.
const FOLLOWED_MAX: usize = 2_048;

/// A condition of a GPU, since when, how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// The last report: the XID's number, the count of errors.
    pub detail: String,
    /// In words.
    pub message: String,
    /// How often.
    pub count: u64,
    /// In milliseconds since 1970.
    pub first_ms: i64,
    /// In milliseconds since 1970.
    pub last_ms: i64,
    /// The process that caused it, if the kernel said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// A process, as the kernel log names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// The conditions of all GPUs, by UUID, and of partitions, by the UUID of the GPU, a slash and the name of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signals {
    /// The machine's boot: with another one, what a restart clears is gone.
    boot: String,
    gpus: BTreeMap<String, BTreeMap<String, Signal>>,
    /// Counters of NVLink when they were read last: a change is a signal, the count is not.
    #[serde(skip)]
    nvlink: BTreeMap<String, u64>,
    #[serde(skip)]
    blamed: VecDeque<(i64, String, u64, Process)>,
}

/// Cleared by a reset or a restart, and by nothing that is read.
const UNTIL_RESET: &[&str] = &["xid-fatal", "xid-degraded", "unavailable"];
/// Cleared when nothing came for a while.
const UNTIL_QUIET: &[&str] = &["xid-application", "nvlink"];

impl Signals {
    /// The signals of an earlier process, on the machine's present boot.
    #[must_use]
    pub fn resumed(mut self, boot: &str) -> Self {
        let restarted = self.boot != boot;
        boot.clone_into(&mut self.boot);
        for signals in self.gpus.values_mut() {
            // Readings are read again; a restart of the machine clears all the rest.
            signals.retain(|name, _| !restarted && (is(UNTIL_RESET, name) || is(UNTIL_QUIET, name)));
        }
        self.gpus.retain(|_, signals| !signals.is_empty());
        self
    }

    /// NVML reported an event, in a partition if it says so. An XID that is not contained in a partition is an event of the GPU.
    pub fn event(&mut self, now_ms: i64, uuid: &str, partition: Option<&str>, kind: EventKind) {
        match kind {
            EventKind::Xid(number) => {
                let partition = partition.filter(|_| xid(number).is_contained());
                let place = partition.map_or_else(|| uuid.to_owned(), |device| place(uuid, device));
                self.xid(now_ms, uuid, &place, number);
            }
            EventKind::Unavailable => self.raise(now_ms, uuid, "unavailable", "", "the GPU is unavailable"),
            EventKind::FatalPoison => {
                self.raise(now_ms, uuid, "xid-fatal", "poison", "poisoned data was used: a reset is needed");
            }
            EventKind::SingleBitEccStorm => {
                self.raise(now_ms, uuid, "xid-degraded", "ecc-storm", "many memory errors were corrected");
            }
            // The values behind these events are read at once.
            EventKind::DoubleBitEcc
            | EventKind::MemoryRetirement
            | EventKind::MemoryRetirementFailure
            | EventKind::NonFatalPoison
            | EventKind::RecoveryAction
            | EventKind::Other(_) => {}
        }
    }

    fn xid(&mut self, now_ms: i64, uuid: &str, place: &str, number: u64) {
        let known = xid(number);
        let name = match known.severity {
            Severity::Application => "xid-application",
            Severity::Degraded => "xid-degraded",
            Severity::Fatal => "xid-fatal",
        };
        let message = format!("XID {number}: {}", known.name);
        self.raise(now_ms, place, name, &number.to_string(), &message);
        let blamed = self.blamed.iter().position(|(at, of, xid, _)| {
            of == uuid && *xid == number && now_ms.saturating_sub(*at) <= BLAME_MS
        });
        if let Some((_, _, _, process)) = blamed.and_then(|at| self.blamed.remove(at)) {
            self.set_process(place, name, process);
        }
    }

    /// The kernel log named the process of an XID.
    pub fn attribute_to_process(&mut self, now_ms: i64, uuid: &str, number: u64, process: Process) {
        let detail = number.to_string();
        let of_gpu = self.gpus.iter().filter(|(place, _)| is_of(place, uuid));
        let signals = of_gpu.flat_map(|(place, signals)| signals.iter().map(move |found| (place, found)));
        // The log does not name the partition: the newest is meant.
        let newest = signals
            .filter(|(_, (_, signal))| {
                signal.detail == detail && now_ms.saturating_sub(signal.last_ms) <= BLAME_MS
            })
            .max_by_key(|(_, (_, signal))| signal.last_ms)
            .map(|(place, (name, _))| (place.clone(), name.clone()));
        if let Some((place, name)) = newest {
            self.set_process(&place, &name, process);
            return;
        }
        if self.blamed.len() >= BLAMED_MAX {
            self.blamed.pop_front();
        }
        self.blamed.push_back((now_ms, uuid.to_owned(), number, process));
    }

    fn set_process(&mut self, place: &str, name: &str, process: Process) {
        if let Some(signal) = self.gpus.get_mut(place).and_then(|signals| signals.get_mut(name)) {
            signal.process = Some(process);
        }
    }

    /// A GPU answered.
    pub fn readings(&mut self, now_ms: i64, uuid: &str, readings: &Readings) {
        self.clear(uuid, "lost");
        self.clear(uuid, "unmonitored");
        let rows = readings.rows.unwrap_or_default();
        let slowdown = readings.slowdown.unwrap_or_default();
        let ecc = readings.ecc_uncorrected.unwrap_or(0);
        let recovery = readings.recovery.unwrap_or(RecoveryAction::None);
        let fabric = readings.fabric.unwrap_or(Fabric::Ready);
        let count = ecc.to_string();
        for (name, holds, detail, message) in [
            ("ecc", ecc > 0, count.as_str(), "memory errors that could not be corrected"),
            ("row-remap-pending", rows.pending, "", "rows of memory are replaced at the next reset"),
            ("row-remap-failure", rows.failed, "", "rows of memory could not be replaced"),
            (
                "page-retirement",
                readings.retirement_pending == Some(true),
                "",
                "pages of memory are retired later",
            ),
            (
                "recovery",
                recovery != RecoveryAction::None,
                recovery.name(),
                "the driver recommends a recovery",
            ),
            ("fabric", fabric != Fabric::Ready, fabric_name(fabric), "the NVLink fabric is not ready"),
            ("thermal", slowdown.thermal, "", "clocks are held down: too hot"),
            ("power-brake", slowdown.power_brake, "", "clocks are held down: power brake"),
        ] {
            if holds { self.hold(now_ms, uuid, name, detail, message) } else { self.clear(uuid, name) }
        }
        if let Some(recoveries) = readings.nvlink_recoveries {
            let before = self.nvlink.insert(uuid.to_owned(), recoveries);
            if before.is_some_and(|before| recoveries > before) {
                self.raise(
                    now_ms,
                    uuid,
                    "nvlink",
                    &recoveries.to_string(),
                    "an NVLink connection was lost and made again",
                );
            }
        }
        self.forget_quiet(now_ms, uuid);
    }

    /// A GPU did not answer.
    pub fn lost(&mut self, now_ms: i64, uuid: &str, why: &str) {
        self.hold(now_ms, uuid, "lost", "", why);
        self.forget_quiet(now_ms, uuid);
    }

    /// NVML did not answer at all.
    pub fn unmonitored(&mut self, now_ms: i64, uuid: &str, why: &str) {
        self.hold(now_ms, uuid, "unmonitored", "", why);
    }

    /// A GPU was reset.
    pub fn reset(&mut self, uuid: &str) {
        for signals in self.all_of(uuid) {
            signals.retain(|name, _| !is(UNTIL_RESET, name) && !is(UNTIL_QUIET, name));
        }
    }

    /// A person says that a condition, or every one that nothing else clears, is over. Gives how many went.
    pub fn acknowledge(&mut self, uuid: &str, condition: Option<&str>) -> usize {
        let mut gone = 0;
        for signals in self.all_of(uuid) {
            let before = signals.len();
            signals.retain(|name, _| {
                let meant = condition.is_none_or(|condition| condition == name);
                !(meant && (is(UNTIL_RESET, name) || is(UNTIL_QUIET, name)))
            });
            gone += before - signals.len();
        }
        gone
    }

    /// The conditions of a device of a GPU, for the kit: its own, and those of the GPU.
    #[must_use]
    pub fn conditions(&self, uuid: &str, device: &str) -> Vec<Condition> {
        let mut all = self.gpus.get(uuid).cloned().unwrap_or_default();
        all.extend(self.gpus.get(&place(uuid, device)).cloned().unwrap_or_default());
        all.into_iter().map(|(name, signal)| Condition { name, detail: signal.detail }).collect()
    }

    /// The signals of a GPU and of its partitions: the partition's device, the condition, and what is known.
    pub fn of<'a>(&'a self, uuid: &'a str) -> impl Iterator<Item = (Option<&'a str>, &'a str, &'a Signal)> {
        let of_gpu = self.gpus.iter().filter(move |(place, _)| is_of(place, uuid));
        of_gpu.flat_map(|(place, signals)| {
            let device = place.split_once('/').map(|(_, device)| device);
            signals.iter().map(move |(name, signal)| (device, name.as_str(), signal))
        })
    }

    /// The signals that are new or different since `before`: place, condition and signal.
    pub fn news<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = (&'a str, &'a str, &'a Signal)> {
        let all = self.gpus.iter().flat_map(|(place, signals)| {
            signals.iter().map(move |(name, signal)| (place.as_str(), name.as_str(), signal))
        });
        all.filter(|(place, name, signal)| {
            let old = before.gpus.get(*place).and_then(|signals| signals.get(*name));
            old.is_none_or(|old| old.detail != signal.detail)
        })
    }

    /// Whether the conditions are those of before, with the same details and processes: they may have come again.
    #[must_use]
    pub fn is_same_report(&self, before: &Self) -> bool {
        let all = |signals: &Self| -> Vec<(String, String, String, Option<Process>)> {
            let places = signals.gpus.iter();
            let each = places.flat_map(|(place, found)| found.iter().map(move |found| (place, found)));
            each.map(|(place, (name, signal))| {
                (place.clone(), name.clone(), signal.detail.clone(), signal.process.clone())
            })
            .collect()
        };
        self.boot == before.boot && all(self) == all(before)
    }

    fn all_of<'a>(&'a mut self, uuid: &'a str) -> impl Iterator<Item = &'a mut BTreeMap<String, Signal>> {
        self.gpus.iter_mut().filter(move |(place, _)| is_of(place, uuid)).map(|(_, signals)| signals)
    }

    /// Something happened once more.
    fn raise(&mut self, now_ms: i64, uuid: &str, name: &str, detail: &str, message: &str) {
        self.note(now_ms, uuid, name, detail, message, true);
    }

    /// Something is still so.
    fn hold(&mut self, now_ms: i64, uuid: &str, name: &str, detail: &str, message: &str) {
        self.note(now_ms, uuid, name, detail, message, false);
    }

    fn note(&mut self, now_ms: i64, uuid: &str, name: &str, detail: &str, message: &str, again: bool) {
        if self.gpus.len() >= FOLLOWED_MAX && !self.gpus.contains_key(uuid) {
            return;
        }
        let signals = self.gpus.entry(uuid.to_owned()).or_default();
        let signal = signals.entry(name.to_owned()).or_insert_with(|| Signal {
            detail: String::new(),
            message: String::new(),
            count: 0,
            first_ms: now_ms,
            last_ms: now_ms,
            process: None,
        });
        if again {
            signal.process = None;
        }
        if again || signal.count == 0 || signal.detail != detail {
            signal.count = signal.count.saturating_add(1);
            signal.last_ms = now_ms;
        }
        detail.clone_into(&mut signal.detail);
        message.clone_into(&mut signal.message);
    }

    fn clear(&mut self, uuid: &str, name: &str) {
        if let Some(signals) = self.gpus.get_mut(uuid) {
            signals.remove(name);
        }
    }

    fn forget_quiet(&mut self, now_ms: i64, uuid: &str) {
        for signals in self.all_of(uuid) {
            signals.retain(|name, signal| {
                // A clock that was set back must not make a condition last for ever.
                let age = now_ms.saturating_sub(signal.last_ms);
                !is(UNTIL_QUIET, name) || (0..QUIET_MS).contains(&age)
            });
        }
        self.gpus.retain(|place, signals| !place.contains('/') || !signals.is_empty());
    }
}

/// Where the signals of a partition are.
fn place(uuid: &str, device: &str) -> String {
    format!("{uuid}/{device}")
}

/// Whether a place is a GPU or a partition of it.
fn is_of(place: &str, uuid: &str) -> bool {
    place.strip_prefix(uuid).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is(names: &[&str], name: &str) -> bool {
    names.contains(&name)
}

fn fabric_name(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::NotStarted => "not-started",
        Fabric::InProgress => "in-progress",
        Fabric::Ready => "ready",
        Fabric::Failed(_) => "failed",
    }
}

#[cfg(test)]
mod tests;
