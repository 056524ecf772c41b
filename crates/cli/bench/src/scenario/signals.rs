//! Many devices and a steady stream of signals: what the controller of health policies, alone in its process and on one core, needs for them.

use std::{
    process::Stdio,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{
    failing_nodes::FirstSeen,
    signal_latency::{accept_policy, tainted_node},
};
use crate::{
    bench::Bench,
    clock,
    load::{self, LoadEnd, Shape},
    machine,
    objects::{LABEL, RULES, SLICES, meta},
    pods,
    report::{Phase, Report},
};
use lazaret_print::note;

const DRIVER: &str = "bench.example.com";
/// Signals a second, unless --rate says otherwise.
const RATE: u32 = 1_000;
/// One signal in as many is trouble: its device is quarantined. All others are looked at and mean nothing.
const TROUBLE_EVERY: usize = 100;
/// The value of a signal that means trouble.
const TROUBLE: usize = 1_000_000;
const STALLED: Duration = Duration::from_secs(60);

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let args = bench.args;
    ensure!(args.kubeconfig.is_none(), "signals measures a lazaret of this build: leave out --kubeconfig");
    ensure!(args.nodes > 0 && args.devices > 0, "signals needs --nodes and --devices");
    publish(bench).await?;
    let kubeconfig = bench.kubeconfig.as_ref().context("find the kubeconfig")?;
    let controller = Controller::start(kubeconfig)?;
    accept_policy(bench, &policy(bench)).await?;
    let tainted = Rc::new(FirstSeen::default());
    let rules = format!("{RULES}?watch=true");
    let target = bench.target.clone();
    let (before, start) = (machine::cpu_seconds(controller.process), clock::now());
    let measured = tokio::select! {
        failed = pods::watch(&target, &rules, None, |line| tainted.read_event(line, tainted_node)) => return failed.map(drop),
        done = send(bench, &tainted) => done?,
    };
    let (cpu, seconds) = (machine::cpu_seconds(controller.process) - before, start.elapsed().as_secs_f64());
    report.phases.push(measured.signals);
    report.phases.push(Phase::new("signal sent to taint in a rule", start, &measured.taints));
    report.figure("devices", as_figure(args.nodes * args.devices), "");
    report.figure("controller: share of one core", cpu / seconds * 100.0, "%");
    report.figure("controller: CPU of each signal", cpu / as_figure(measured.count) * 1e6, "µs");
    report.figure("controller: memory", machine::memory_mb(controller.process, "VmRSS:"), "MB");
    drop(controller);
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a count")]
fn as_figure(count: usize) -> f64 {
    count as f64
}

/// The result of the signals.
struct Sent {
    signals: Phase,
    count: usize,
    taints: Vec<(Duration, Instant)>,
}

/// `lazaret run health`, on one core where `taskset` is installed.
struct Controller {
    _child: Child,
    process: u32,
}

impl Controller {
    fn start(kubeconfig: &std::path::Path) -> Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let command = |mut command: Command| {
            command.args(["run", "health", "--kubeconfig"]).arg(kubeconfig);
            command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()
        };
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", "0"]).arg(&program);
        let child = match command(pinned) {
            Ok(child) => child,
            Err(_) => {
                note("taskset is not installed: the controller runs on all cores");
                command(Command::new(&program)).context("start lazaret run health")?
            }
        };
        let process = child.id().context("lazaret run health has ended")?;
        Ok(Self { _child: child, process })
    }
}

fn node(number: usize) -> String {
    format!("bench-{number}")
}

/// The devices of a node; one of them says something.
fn devices(bench: &Bench<'_>, number: usize, reading: Option<(usize, usize)>) -> Value {
    let device = |at: usize| {
        let rows = reading.filter(|(device, _)| *device == at).map_or(0, |(_, rows)| rows);
        json!({"name": format!("gpu-{at}"), "attributes": {
            "uuid": {"string": format!("uuid-{number}-{at}")}, "model": {"string": "bench"}, "rows": {"int": rows},
        }})
    };
    (0..bench.args.devices).map(device).collect()
}

async fn publish(bench: &Bench<'_>) -> Result<()> {
    let args = bench.args;
    note("publishing devices");
    let slices: Vec<String> = (0..args.nodes)
        .map(|number| {
            json!({
                "metadata": meta(&bench.run, &node(number)),
                "spec": {
                    "driver": DRIVER, "nodeName": node(number), "devices": devices(bench, number, None),
                    "pool": {"name": node(number), "generation": 1, "resourceSliceCount": 1},
                },
            })
            .to_string()
        })
        .collect();
    let shape = Shape { clients: args.clients, until: LoadEnd::Sent(args.nodes), rate: 0 };
    let target = bench.target.clone();
    load::run(&bench.target, shape, move |number| target.post(SLICES, &slices[number]), |_, _| {}).await?;
    Ok(())
}

fn policy(bench: &Bench<'_>) -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy",
        "metadata": {"name": "bench", "labels": {LABEL: bench.run}},
        "spec": {
            "deviceSelector": {"driver": DRIVER},
            "rules": [
                {
                    "name": "rows", "stage": "Quarantined",
                    "when": format!("signal.key == '{DRIVER}/rows' && int(signal.value) >= {TROUBLE}"),
                },
                {"name": "off-the-bus", "stage": "Drained", "when": "signal.source == 'Alert' && signal.key == 'xid'"},
            ],
            "mode": "Enforce",
        },
    })
}

/// Signals at a pace, each in another slice; then waits for the taint of the last one that is trouble.
async fn send(bench: &Bench<'_>, tainted: &FirstSeen) -> Result<Sent> {
    let args = bench.args;
    let rate = if args.rate == 0 { RATE } else { args.rate };
    let count = usize::try_from(u64::from(rate) * args.seconds).context("fewer seconds")?;
    note("sending signals");
    let patches: Vec<(usize, String)> = (0..count)
        .map(|number| {
            let rows = if number % TROUBLE_EVERY == 0 { TROUBLE } else { 0 } + number + 1;
            // Another node each time; where there are more signals than nodes, another device.
            let (at, device) = (number % args.nodes, number / args.nodes % args.devices);
            (at, json!({"spec": {"devices": devices(bench, at, Some((device, rows)))}}).to_string())
        })
        .collect();
    let asked = Rc::new(std::cell::RefCell::new(Vec::new()));
    let (target, noted) = (bench.target.clone(), Rc::clone(&asked));
    let nodes = args.nodes;
    let shape = Shape { clients: args.clients, until: LoadEnd::Sent(count), rate };
    let outcome = load::run(
        &bench.target,
        shape,
        move |number| {
            let (at, patch) = &patches[number];
            target.patch(&format!("{SLICES}/{}", node(*at)), patch)
        },
        move |number, at| {
            if number % TROUBLE_EVERY == 0 && number < nodes {
                noted.borrow_mut().push((number, at));
            }
        },
    )
    .await?;
    let mut taints = Vec::new();
    for (number, from) in asked.take() {
        let node = node(number);
        let waited = tokio::time::timeout(STALLED, tainted.wait(&node, "has its device tainted"));
        let Ok(to) = waited.await else { bail!("the controller does not follow") };
        let to = to?;
        taints.push((to.saturating_duration_since(from), to));
    }
    Ok(Sent { signals: outcome.phase("signals sent"), count, taints })
}
