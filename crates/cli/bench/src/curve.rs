//! The same measurement over sizes.

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::{
    args::{Args, Axis},
    measure::{self, Measured},
    report::Report,
    svg::{self, Series},
};
use lazaret_print::{Table, note};

/// Measurements, by size.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Curve {
    /// The dimension that grows.
    of: &'static str,
    points: Vec<Point>,
}

/// One measurement.
#[derive(Debug, Serialize)]
struct Point {
    size: usize,
    #[serde(flatten)]
    report: Report,
}

pub(crate) async fn measure(args: &Args, axis: Axis) -> Result<Curve> {
    let default: &[usize] = match axis {
        Axis::Nodes => &[100, 500, 1_000, 2_000, 5_000],
        Axis::Pods => &[1_000, 2_000, 5_000, 10_000, 20_000],
        Axis::Rules => &[1, 10, 100, 1_000],
    };
    let sizes = if args.points.is_empty() { default } else { &args.points };
    ensure!(sizes.is_sorted(), "--points must grow");
    let mut points = Vec::new();
    for &size in sizes {
        note(&format!("{} {size}", axis.word()));
        let mut args = args.clone();
        match axis {
            Axis::Nodes => args.nodes = size,
            Axis::Pods => {
                args.pods = size;
                // Room for all of them, and some to choose from.
                args.nodes =
                    args.nodes.max((size * args.claims_per_pod).div_ceil(args.devices.max(1)) * 5 / 4);
            }
            Axis::Rules => args.rules = size,
        }
        let Measured { report, stage, outcome } = Box::pin(measure::measure(&args)).await?;
        stage.clear().await;
        if let Err(error) = outcome {
            ensure!(!points.is_empty(), "{} {size}: {error:#}", axis.word());
            // The sizes before it are worth telling.
            note(&format!("the curve ends here, {} {size} failed: {error:#}", axis.word()));
            break;
        }
        points.push(Point { size, report });
    }
    Ok(Curve { of: axis.word(), points })
}

impl Curve {
    pub(crate) fn table(&self) -> String {
        let header = [self.of, "PHASE", "COUNT", "PER SECOND", "P50", "P99", "CPU", "MEMORY", "LOAD"];
        let header = header.map(str::to_uppercase);
        let mut table = Table::new(&header.each_ref().map(String::as_str));
        for Point { size, report } in &self.points {
            let cpu: f64 = report.processes.iter().map(|usage| usage.cpu_seconds).sum();
            let memory: f64 = report.processes.iter().map(|usage| usage.resident_mb_peak).sum();
            for phase in &report.phases {
                table.row(vec![
                    size.to_string(),
                    phase.name.clone(),
                    phase.count.to_string(),
                    format!("{:.0}", phase.per_second),
                    format!("{:.1}ms", phase.p50_ms),
                    format!("{:.1}ms", phase.p99_ms),
                    format!("{cpu:.1}s"),
                    format!("{memory:.0}MB"),
                    report.load_before.clone(),
                ]);
            }
        }
        table.to_string()
    }

    /// A picture: what happens a second, and how long it takes, over the size.
    pub(crate) fn svg(&self) -> String {
        let phases: Vec<&str> = self
            .points
            .first()
            .map(|point| point.report.phases.iter().map(|phase| phase.name.as_str()).collect())
            .unwrap_or_default();
        let series = |of: fn(&crate::report::Phase) -> f64| -> Vec<Series> {
            phases
                .iter()
                .map(|name| Series {
                    name: (*name).to_owned(),
                    points: self
                        .points
                        .iter()
                        .filter_map(|point| {
                            let phase = point.report.phases.iter().find(|phase| phase.name == *name)?;
                            #[allow(clippy::cast_precision_loss, reason = "a size")]
                            Some((point.size as f64, of(phase)))
                        })
                        .collect(),
                })
                .collect()
        };
        let (what, server) = self
            .points
            .first()
            .map_or(("", ""), |point| (point.report.what.as_str(), point.report.server.as_str()));
        svg::draw(
            &format!("{what} over {} ({server})", self.of),
            self.of,
            &[("a second", series(|phase| phase.per_second)), ("p99, ms", series(|phase| phase.p99_ms))],
        )
    }
}
