//! The workloads of Kubernetes' scheduler_perf, over an API: figures that can be held against those that Kubernetes publishes.

mod catalog;
mod play;
mod shape;

use anyhow::{Result, bail};

use lazaret_print::Table;

pub(crate) use catalog::Workload;
pub(crate) use play::play;

/// The workload of this name.
pub(crate) fn find(name: &str) -> Result<Workload> {
    let all = catalog::all();
    if let Some(found) = all.iter().find(|workload| workload.name() == name) {
        return Ok(*found);
    }
    let near: Vec<String> =
        all.iter().map(Workload::name).filter(|known| known.contains(name)).take(5).collect();
    if near.is_empty() {
        bail!("{name:?} is no workload: --workload list lists them");
    }
    bail!("{name:?} is no workload; is one of these meant?\n  {}", near.join("\n  "))
}

/// All workloads, for people.
pub(crate) fn list() -> String {
    let mut table = Table::new(&["WORKLOAD", "NODES", "BEFORE", "PODS", "KUBERNETES ASKS FOR"]);
    for workload in catalog::all() {
        let before = match (workload.initial, workload.test.begins_with_pods()) {
            (0, _) => "nothing".to_owned(),
            (count, true) => format!("{count} pods"),
            (count, false) => format!("{count} claims"),
        };
        let pods = if workload.steady { "replaced for 10 s".to_owned() } else { workload.pods.to_string() };
        table.row(vec![
            workload.name(),
            (workload.nodes + workload.plain_nodes).to_string(),
            before,
            pods,
            workload.least.map_or_else(String::new, |least| format!("{least}/s")),
        ]);
    }
    table.to_string()
}
