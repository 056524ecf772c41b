//! What was measured, and how it is told.

use serde::Serialize;

use crate::output::Table;

/// All that one run found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) nodes: usize,
    pub(super) devices: usize,
    pub(super) pods: usize,
    pub(super) load_before: String,
    pub(super) load_after: String,
    pub(super) phases: Vec<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<Usage>,
}

/// What the measured process used, when it is ours.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_mb: u64,
    pub(super) resident_at_rest_mb: u64,
}

/// One thing that was measured, over many pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) count: usize,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
    pub(super) first_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Phase {
    /// From how long each took and how long all took, in seconds.
    pub(super) fn new(name: &'static str, mut each: Vec<f64>, seconds: f64) -> Self {
        each.sort_by(f64::total_cmp);
        let at =
            |permille: usize| each.get((each.len() * permille / 1_000).min(each.len().saturating_sub(1)));
        let ms = |permille| at(permille).copied().unwrap_or(0.0) * 1_000.0;
        #[allow(clippy::cast_precision_loss, reason = "counts of pods")]
        let per_second = if seconds > 0.0 { each.len() as f64 / seconds } else { 0.0 };
        Self {
            name,
            count: each.len(),
            seconds,
            per_second,
            first_ms: ms(0),
            p50_ms: ms(500),
            p90_ms: ms(900),
            p99_ms: ms(990),
            max_ms: ms(1_000),
        }
    }
}

impl Report {
    pub(super) fn table(&self) -> String {
        let mut table =
            Table::new(["PHASE", "COUNT", "SECONDS", "PER SECOND", "FIRST", "P50", "P90", "P99", "MAX"]);
        let ms = |value: f64| format!("{value:.1}ms");
        for phase in &self.phases {
            table.row([
                phase.name.to_owned(),
                phase.count.to_string(),
                format!("{:.2}", phase.seconds),
                format!("{:.0}", phase.per_second),
                ms(phase.first_ms),
                ms(phase.p50_ms),
                ms(phase.p90_ms),
                ms(phase.p99_ms),
                ms(phase.max_ms),
            ]);
        }
        let mut text = table.render();
        if let Some(usage) = &self.server {
            text.push_str(&format!(
                "\nserver: {:.1} s of CPU, {} MB at rest, {} MB at the end\n",
                usage.cpu_seconds, usage.resident_at_rest_mb, usage.resident_mb
            ));
        }
        text.push_str(&format!(
            "load of the machine: {} before, {} after\n",
            self.load_before, self.load_after
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred() {
        let phase = Phase::new("x", (1..=100).rev().map(f64::from).collect(), 50.0);
        assert_eq!((phase.count, phase.per_second), (100, 2.0));
        assert_eq!((phase.first_ms, phase.p50_ms, phase.p99_ms, phase.max_ms), (1e3, 51e3, 100e3, 100e3));
        assert_eq!(Phase::new("none", vec![], 0.0).max_ms, 0.0);
    }
}
