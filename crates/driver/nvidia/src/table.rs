//! Which condition is which taint.

use lazaret_driver::{HealthRule, HealthTable, TableError, TaintEffect};

use crate::DRIVER;

/// A condition, the taint's key after the driver's name, the effect unless the administrator says otherwise, and what
/// clears it.
pub const CONDITIONS: &[(&str, &str, TaintEffect, &str)] = &[
    ("lost", "gpu-lost", TaintEffect::NoSchedule, "the GPU answers again"),
    ("xid-fatal", "xid", TaintEffect::NoSchedule, "a reset, a restart of the machine, a person"),
    ("xid-degraded", "xid", TaintEffect::NoSchedule, "a reset, a restart of the machine, a person"),
    ("xid-application", "xid", TaintEffect::None, "ten minutes without another"),
    ("unavailable", "unavailable", TaintEffect::NoSchedule, "a reset, a restart of the machine, a person"),
    ("ecc", "ecc", TaintEffect::NoSchedule, "the counter is 0 again, after a reset"),
    ("row-remap-pending", "row-remap-pending", TaintEffect::NoSchedule, "a reset replaces the rows"),
    ("row-remap-failure", "row-remap-failure", TaintEffect::NoSchedule, "a new card"),
    ("page-retirement", "page-retirement", TaintEffect::NoSchedule, "a restart of the driver"),
    ("recovery", "recovery", TaintEffect::NoSchedule, "the driver recommends nothing any more"),
    ("fabric", "fabric", TaintEffect::NoSchedule, "the fabric is ready"),
    ("thermal", "thermal", TaintEffect::None, "clocks are not held down any more"),
    ("power-brake", "power-brake", TaintEffect::None, "clocks are not held down any more"),
    ("nvlink", "nvlink", TaintEffect::None, "ten minutes without another"),
    ("unmonitored", "unmonitored", TaintEffect::None, "NVML answers again"),
];

/// How long a condition must last, for those that come and go by themselves.
const THERMAL_RAISE_MS: i64 = 5_000;
/// How long those must be over.
const CLEAR_MS: i64 = 30_000;
/// Signals are facts: they last as long as they are reported.
const RAISE_MS: i64 = 0;

/// The table, with `NoExecute` for these conditions.
///
/// # Errors
/// When a name is not that of a condition.
pub fn table(evict_on: &[String]) -> Result<HealthTable, UnknownCondition> {
    if let Some(unknown) = evict_on.iter().find(|name| CONDITIONS.iter().all(|(known, ..)| known != name)) {
        let known: Vec<&str> = CONDITIONS.iter().map(|(name, ..)| *name).collect();
        return Err(UnknownCondition::Name(unknown.clone(), known.join(", ")));
    }
    let mut table = HealthTable::new(DRIVER);
    for (name, key, effect, _) in CONDITIONS {
        let evicts = evict_on.iter().any(|wanted| wanted == name);
        let effect = if evicts { TaintEffect::NoExecute } else { effect.clone() };
        let comes_and_goes = matches!(*name, "thermal" | "power-brake");
        let raise_ms = if comes_and_goes { THERMAL_RAISE_MS } else { RAISE_MS };
        let clear_ms = if comes_and_goes { CLEAR_MS } else { 0 };
        let rule = HealthRule::new(format!("{DRIVER}/{key}"), effect).after(raise_ms, clear_ms);
        table = table.with(*name, rule)?;
    }
    Ok(table)
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum UnknownCondition {
    /// The administrator wrote a name that there is not.
    #[error("{0:?} is no condition of a GPU; there are {1}")]
    Name(String, String),
    /// The kit refused a rule.
    #[error(transparent)]
    Table(#[from] TableError),
}
