//! Compares two runs.

use std::path::Path;

use anyhow::{Context, Result};

use crate::report::{Phase, Report};
use lazaret_print::Table;

/// Ratios of all that both runs measured, the second to the first.
pub(crate) fn compare(before: &Path, after: &Path) -> Result<String> {
    Ok(table(&read(before)?, &read(after)?))
}

fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("read {}: it must be what `lazaret bench -o json` wrote", path.display()))
}

fn table(before: &Report, after: &Report) -> String {
    let mut table = Table::new(&["", "BEFORE", "AFTER", "RATIO"]);
    table.row(vec!["server".into(), before.server.clone(), after.server.clone()]);
    for old in &before.phases {
        let Some(new) = after.phases.iter().find(|phase| phase.name == old.name) else { continue };
        let mut row = |what: &str, of: fn(&Phase) -> f64, unit: &str| {
            table.row(line(&format!("{}: {what}", old.name), of(old), of(new), unit));
        };
        row("a second", |phase| phase.per_second, "/s");
        row("p50", |phase| phase.p50_ms, "ms");
        row("p99", |phase| phase.p99_ms, "ms");
    }
    for old in &before.figures {
        if let Some(new) = after.figures.iter().find(|figure| figure.name == old.name) {
            table.row(line(&old.name, old.value, new.value, &old.unit));
        }
    }
    let cpu = |report: &Report| report.processes.iter().map(|usage| usage.cpu_seconds).sum::<f64>();
    let memory = |report: &Report| report.processes.iter().map(|usage| usage.resident_mb_peak).sum::<f64>();
    if !before.processes.is_empty() && !after.processes.is_empty() {
        table.row(line("CPU of the server", cpu(before), cpu(after), "s"));
        table.row(line("memory of the server at most", memory(before), memory(after), "MB"));
    }
    let mut text = table.to_string();
    if (before.nodes, before.devices, before.pods) != (after.nodes, after.devices, after.pods)
        || before.what != after.what
    {
        text.push_str("\nthe runs did not measure the same: compare with care\n");
    }
    text
}

fn line(name: &str, before: f64, after: f64, unit: &str) -> Vec<String> {
    let ratio = if before > 0.0 { format!("{:.2}×", after / before) } else { String::new() };
    vec![name.to_owned(), format!("{before:.1} {unit}"), format!("{after:.1} {unit}"), ratio]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Usage;

    #[test]
    fn ratios_of_what_both_have() {
        let report = |per_second: f64, pods: usize| Report {
            what: "evict".into(),
            server: "v1".into(),
            pods,
            phases: vec![
                Phase { name: "bound".into(), per_second, p50_ms: 4.0, p99_ms: 8.0, ..Phase::default() },
                Phase { name: format!("only {pods}"), ..Phase::default() },
            ],
            processes: vec![Usage {
                cpu_seconds: per_second / 10.0,
                resident_mb_peak: 50.0,
                ..Usage::default()
            }],
            ..Report::default()
        };
        expect_test::expect![[r#"
                                           BEFORE     AFTER      RATIO
            server                         v1         v1
            bound: a second                100.0 /s   250.0 /s   2.50×
            bound: p50                     4.0 ms     4.0 ms     1.00×
            bound: p99                     8.0 ms     8.0 ms     1.00×
            CPU of the server              10.0 s     25.0 s     2.50×
            memory of the server at most   50.0 MB    50.0 MB    1.00×

            the runs did not measure the same: compare with care
        "#]]
        .assert_eq(&table(&report(100.0, 1), &report(250.0, 2)));
    }
}
