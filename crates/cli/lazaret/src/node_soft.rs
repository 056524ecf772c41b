//! Grace periods of soft eviction thresholds: `memory.available=1m30s,nodefs.available=5m`.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use anyhow::{Context, Result, bail};
use lazaret_agent::{Signal, SoftThreshold, Thresholds};

use crate::node_run::parse_duration;

/// How long each signal has to be short before pods go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GracePeriods(BTreeMap<Signal, Duration>);

impl FromStr for GracePeriods {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut periods = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, period) =
                part.split_once('=').ok_or_else(|| format!("{part:?}: write it as SIGNAL=DURATION"))?;
            let signal = Signal::ALL.into_iter().find(|signal| signal.name() == name.trim());
            let signal = signal.ok_or_else(|| format!("{part:?}: {name:?} is not watched by this node"))?;
            let period = parse_duration(period.trim()).map_err(|error| format!("{part:?}: {error}"))?;
            if periods.insert(signal, period).is_some() {
                return Err(format!("{part:?}: {} has a grace period already: give it once", signal.name()));
            }
        }
        Ok(Self(periods))
    }
}

impl GracePeriods {
    /// Soft thresholds, each with its period. As kubelet has it, none goes without the other.
    pub(crate) fn of(&self, thresholds: &Thresholds) -> Result<BTreeMap<Signal, SoftThreshold>> {
        let stray = self.0.keys().find(|signal| !thresholds.0.contains_key(signal));
        if let Some(signal) = stray {
            bail!("--eviction-soft-grace-period: {} has no threshold in --eviction-soft", signal.name());
        }
        let soft = thresholds.0.iter().map(|(signal, threshold)| {
            let period = self.0.get(signal).with_context(|| {
                format!("grace period must be specified for the soft eviction threshold {}", signal.name())
            })?;
            let grace_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
            Ok((*signal, SoftThreshold { threshold: *threshold, grace_ms }))
        });
        soft.collect()
    }
}

#[cfg(test)]
mod tests {
    use lazaret_agent::parse_eviction_hard;

    use super::*;

    #[test]
    fn each_soft_threshold_has_a_grace_period() {
        let soft = parse_eviction_hard("memory.available<1Gi,nodefs.available<15%").unwrap();
        let periods: GracePeriods = "memory.available=1m30s, nodefs.available=5m".parse().unwrap();
        let both = periods.of(&soft).unwrap();
        let graces: Vec<u64> = both.values().map(|soft| soft.grace_ms).collect();
        assert_eq!(graces, [90_000, 300_000]);
        let one: GracePeriods = "memory.available=1m".parse().unwrap();
        let missing = one.of(&soft).unwrap_err().to_string();
        assert_eq!(
            missing,
            "grace period must be specified for the soft eviction threshold nodefs.available"
        );
        let other: GracePeriods = "pid.available=1m".parse().unwrap();
        assert!(other.of(&soft).unwrap_err().to_string().contains("pid.available has no threshold"));
    }

    #[test]
    fn what_is_no_grace_period_is_named() {
        for (text, word) in [
            ("memory.available", "SIGNAL=DURATION"),
            ("memory.free=1m", "is not watched"),
            ("memory.available=soon", "memory.available=soon"),
            ("memory.available=-5s", "1h30m"),
            ("memory.available=1m,memory.available=2m", "once"),
        ] {
            let error = text.parse::<GracePeriods>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
