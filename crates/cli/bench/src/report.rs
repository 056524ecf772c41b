//! The results of a run, and how they are shown.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use lazaret_print::Table;

use crate::machine::Usage;

/// Seconds that are listed one by one; later ones are left out.
const SECONDS_LISTED_MAX: usize = 3_600;
/// Characters of a row that draws throughput over time.
const SPARKS_MAX: usize = 60;
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The results of one run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Report {
    /// The subject: `evict`, or the name of a workload.
    pub(crate) what: String,
    /// The server, as it calls itself.
    pub(crate) server: String,
    pub(crate) nodes: usize,
    pub(crate) devices: usize,
    pub(crate) pods: usize,
    pub(crate) rules: usize,
    /// Load of the machine: one, five and fifteen minutes.
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    pub(crate) phases: Vec<Phase>,
    /// Why there is no more than this, where something failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) incomplete: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) figures: Vec<Figure>,
    /// The processes of the server, where they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) processes: Vec<Usage>,
    /// Processor time of the load itself, which shares the machine.
    pub(crate) client_cpu_seconds: f64,
    /// The least that Kubernetes' own benchmark asks of this workload, in pods a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kubernetes_threshold: Option<f64>,
}

/// One thing that was measured many times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) count: usize,
    /// From the beginning to the last.
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) first_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// How many in each second.
    pub(crate) over_time: Vec<u32>,
}

/// One thing that was measured once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Phase {
    /// From how long each took and when it was over.
    pub(crate) fn new(name: &str, start: Instant, measured: &[(Duration, Instant)]) -> Self {
        let mut each: Vec<f64> = measured.iter().map(|(took, _)| took.as_secs_f64() * 1e3).collect();
        each.sort_by(f64::total_cmp);
        let at = |permille: usize| {
            let at = (each.len() * permille).div_ceil(1_000).saturating_sub(1);
            each.get(at).copied().unwrap_or(0.0)
        };
        let ends = measured.iter().map(|(_, end)| end.saturating_duration_since(start));
        let seconds = ends.clone().max().unwrap_or_default().as_secs_f64();
        let mut over_time = Vec::new();
        for end in ends {
            let second = usize::try_from(end.as_secs()).unwrap_or(usize::MAX);
            if second < SECONDS_LISTED_MAX {
                if over_time.len() <= second {
                    over_time.resize(second + 1, 0);
                }
                over_time[second] += 1;
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        let per_second = if seconds > 0.0 { each.len() as f64 / seconds } else { 0.0 };
        Self {
            name: name.to_owned(),
            count: each.len(),
            seconds,
            per_second,
            first_ms: each.first().copied().unwrap_or(0.0),
            p50_ms: at(500),
            p90_ms: at(900),
            p99_ms: at(990),
            max_ms: at(1_000),
            over_time,
        }
    }

    /// Throughput over time as a row of blocks, each as high as its share of the highest.
    pub(crate) fn sparks(&self) -> String {
        let group = self.over_time.len().div_ceil(SPARKS_MAX).max(1);
        let sums: Vec<u32> = self.over_time.chunks(group).map(|chunk| chunk.iter().sum()).collect();
        let most = sums.iter().copied().max().unwrap_or(0).max(1);
        sums.iter().map(|sum| SPARKS[usize::try_from(sum * 7 / most).unwrap_or(7)]).collect()
    }
}

impl Report {
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str) {
        self.figures.push(Figure { name: name.to_owned(), value, unit: unit.to_owned() });
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{} on {}\n\n", self.what, self.server);
        if !self.phases.is_empty() {
            let header = ["PHASE", "COUNT", "SECONDS", "PER SECOND", "P50", "P90", "P99", "MAX", "OVER TIME"];
            let mut table = Table::new(&header);
            let ms = |value: f64| format!("{value:.1}ms");
            for phase in &self.phases {
                table.row(vec![
                    phase.name.clone(),
                    phase.count.to_string(),
                    format!("{:.2}", phase.seconds),
                    format!("{:.0}", phase.per_second),
                    ms(phase.p50_ms),
                    ms(phase.p90_ms),
                    ms(phase.p99_ms),
                    ms(phase.max_ms),
                    phase.sparks(),
                ]);
            }
            text.push_str(&table.to_string());
        }
        if !self.figures.is_empty() {
            if !self.phases.is_empty() {
                text.push('\n');
            }
            let mut table = Table::new(&["FIGURE", "VALUE"]);
            for figure in &self.figures {
                table.row(vec![figure.name.clone(), format!("{:.1} {}", figure.value, figure.unit)]);
            }
            text.push_str(&table.to_string());
        }
        text.push('\n');
        if let Some(why) = &self.incomplete {
            text.push_str(&format!("INCOMPLETE: {why}\n"));
        }
        if let Some(least) = self.kubernetes_threshold {
            text.push_str(&format!("Kubernetes' own benchmark asks for {least} pods a second\n"));
        }
        for usage in &self.processes {
            text.push_str(&format!(
                "{}: {:.1} s of CPU; {:.0} MB before, {:.0} MB after, {:.0} MB at most\n",
                usage.name,
                usage.cpu_seconds,
                usage.resident_mb_before,
                usage.resident_mb_after,
                usage.resident_mb_peak
            ));
        }
        text.push_str(&format!("the load itself: {:.1} s of CPU\n", self.client_cpu_seconds));
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
    fn percentiles_and_seconds_of_a_hundred() {
        let start = crate::clock::now();
        let measured: Vec<(Duration, Instant)> = (1..=100)
            .rev()
            .map(|n| (Duration::from_millis(n), start + Duration::from_millis(n * 20)))
            .collect();
        let phase = Phase::new("x", start, &measured);
        assert_eq!((phase.count, phase.seconds, phase.per_second), (100, 2.0, 50.0));
        assert_eq!((phase.first_ms, phase.p50_ms, phase.p99_ms, phase.max_ms), (1.0, 50.0, 99.0, 100.0));
        assert_eq!((phase.over_time.as_slice(), phase.sparks().as_str()), (&[49, 50, 1][..], "▇█▁"));
        assert_eq!(Phase::new("none", start, &[]).max_ms, 0.0);
    }
}
