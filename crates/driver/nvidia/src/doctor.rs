//! A report for people: the GPUs found, the devices that would be published, the abilities that are missing and why.

use std::{fmt::Write as _, path::Path};

use lazaret_driver::read_file;
use lazaret_nvml::{Nvml, Readings};

use crate::{
    Host, Partitions,
    checkpoint::Checkpoint,
    driver::{Options, find},
    inventory::{Gpu, Versions},
    signals::Signals,
};

/// A report in text, and whether the driver could run.
#[must_use]
pub fn doctor(library: Option<&Path>, host_root: &Path, kubelet_root: &Path) -> (String, bool) {
    let mut text = String::new();
    let works = report(&mut text, library, host_root, kubelet_root);
    if let Err(why) = &works {
        let _ = writeln!(text, "FAILED   {why}");
    }
    (text, works.is_ok())
}

fn report(
    text: &mut String,
    library: Option<&Path>,
    host_root: &Path,
    kubelet_root: &Path,
) -> Result<(), String> {
    let host = Host::at(host_root);
    let nvml = Nvml::load(library).map_err(|error| error.to_string())?;
    let error_text = |error: lazaret_nvml::Error| error.to_string();
    let versions = Versions {
        driver: nvml.driver_version().map_err(error_text)?,
        cuda: nvml.cuda_version().map_err(error_text)?,
    };
    line(text, "ok", &format!("NVML {}", nvml.path().display()));
    let (major, minor) = versions.cuda;
    line(text, "ok", &format!("driver {}, CUDA {major}.{minor}", versions.driver));
    let libraries = host.libraries(&versions.driver);
    let folders = libraries.first().and_then(|library| library.path.parent());
    match folders {
        Some(folder) => line(text, "ok", &format!("{} libraries in {}", libraries.len(), folder.display())),
        None => line(text, "warning", "no library of the driver was found: containers would have none"),
    }
    line(text, "ok", &format!("{} programs for containers", host.programs().len()));
    match host.nvidia_smi() {
        Some(path) => line(text, "ok", &format!("nvidia-smi {}", path.display())),
        None => line(
            text,
            "warning",
            "nvidia-smi was not found: GPUs cannot be reset, and the intervals of time slices not be set",
        ),
    }
    for node in ["/dev/nvidiactl", "/dev/nvidia-uvm"] {
        if host.common_nodes().iter().all(|found| found.path != node) {
            line(
                text,
                "warning",
                &format!("{node} does not exist: run `nvidia-modprobe -u` or load nvidia-uvm"),
            );
        }
    }
    if std::fs::File::open(host_root.join("dev/kmsg")).is_err() {
        line(text, "warning", "/dev/kmsg cannot be read: XIDs are reported without their processes");
    }
    let data = Options::data(kubelet_root);
    let signals: Signals = read_file(&data.join("health.json")).map_err(|error| error.to_string())?;
    let held: Checkpoint = read_file(&data.join("checkpoint.json")).map_err(|error| error.to_string())?;
    let (gpus, failures) = find(&nvml, &host, Partitions::Dynamic).map_err(error_text)?;
    for why in failures {
        line(text, "warning", &format!("a GPU does not answer, and is not published: {why}"));
    }
    if gpus.is_empty() {
        return Err("NVML lists no GPU that answers".into());
    }
    let cards: Vec<_> = nvml.cards().map_err(error_text)?.into_iter().flatten().collect();
    for gpu in &gpus {
        let card = cards.iter().find(|card| card.uuid().is_ok_and(|uuid| uuid == gpu.facts.uuid));
        let readings = card.map(|card| card.readings().map_err(|error| error.to_string()));
        describe(text, &host, gpu, readings, &signals, held.holder(&gpu.facts.uuid));
    }
    Ok(())
}

fn describe(
    text: &mut String,
    host: &Host,
    gpu: &Gpu,
    readings: Option<Result<Readings, String>>,
    signals: &Signals,
    holder: Option<&str>,
) {
    let facts = &gpu.facts;
    let (major, minor) = facts.compute_capability;
    let _ = writeln!(text, "\n{}  {}  {}", gpu.name(), facts.product, facts.uuid);
    let mut field = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    field("architecture", format!("{}, compute capability {major}.{minor}", facts.architecture));
    field("memory", format!("{} MiB", facts.memory_bytes >> 20));
    field("bus", format!("{}, root {}", facts.pci_address, gpu.pcie_root.as_deref().unwrap_or("unknown")));
    field(
        "node",
        match host.card_node(facts.minor) {
            Some(node) => node.path,
            None => format!("/dev/nvidia{} does not exist", facts.minor),
        },
    );
    field(
        "partitions",
        match facts.is_partitioned {
            None => "not supported".into(),
            Some(on) => format!(
                "{}; {} profiles, {} devices with --partitions dynamic",
                if on { "on" } else { "off" },
                gpu.profiles.len(),
                gpu.devices().len(),
            ),
        },
    );
    field("held by", holder.map_or_else(|| "no claim".into(), |claim| format!("claim {claim}")));
    match readings {
        Some(Ok(readings)) => {
            let count =
                |count: Option<u64>| count.map_or_else(|| "not reported".into(), |count| count.to_string());
            field(
                "ECC",
                format!(
                    "{} uncorrected, {} corrected",
                    count(readings.ecc_uncorrected),
                    count(readings.ecc_corrected)
                ),
            );
            field("rows", readings.rows.map_or_else(|| "not reported".into(), |rows| format!("{rows:?}")));
            field("recovery", readings.recovery.map_or("not reported", |action| action.name()).into());
        }
        Some(Err(why)) => field("health", why),
        None => field("health", "does not answer".into()),
    }
    for (partition, name, signal) in signals.of(&facts.uuid) {
        let process =
            signal.process.as_ref().map(|process| format!(", process {} ({})", process.name, process.pid));
        field(
            "condition",
            format!(
                "{name}: {}{} ×{}{}",
                partition.map(|device| format!("{device}: ")).unwrap_or_default(),
                signal.message,
                signal.count,
                process.unwrap_or_default()
            ),
        );
    }
}

fn line(text: &mut String, state: &str, what: &str) {
    let _ = writeln!(text, "{state:<9}{what}");
}
