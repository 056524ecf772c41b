//! Pods that really run on one node: from bound to running, many at once, at rest, from a rule to the end of a process, and until they are gone.
//!
//! Pods name their node themselves, so that no scheduler is measured, and have the host's network, so that no network plugin is. Where the node is this machine, processes of its pods are looked up by a word in
//! their command line.

use std::{
    fs,
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    clock, machine,
    objects::{self, NODES, RULES, claims_path, meta, pods_path, templates_path},
    output::progress,
    pods::{Pods, Seen, name},
    report::{Figure, Phase, Report},
};

/// Pods that are started one after another, each when the one before runs.
const ONE_BY_ONE: usize = 20;
/// Devices that are drained one after another.
const DRAINS: usize = 20;
/// Between two looks at a process that is to end.
const LOOK: Duration = Duration::from_millis(1);
/// Looks for a process that is to begin.
const BEGIN_POLLS_MAX: usize = 500;
/// A process that has not ended by then is not going to.
const END_MAX: Duration = Duration::from_secs(60);
/// The name of the template of claims.
const TEMPLATE: &str = "one";

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let node = find_node(bench).await?;
    objects::make_namespace(&mut bench.caller, &bench.run, &bench.namespace).await?;
    let pods = Pods::watch(&bench.target, &bench.namespace).await?;

    let start = clock::now();
    for number in 0..ONE_BY_ONE {
        make(bench, &pods, &node, number).await?;
        pods.wait("pods running, one by one", number + 1, |counts| counts.running).await?;
    }
    report
        .phases
        .push(phase(&pods, "bound to running, one by one", start, 0..ONE_BY_ONE, |seen| seen.running));
    remove_all(bench, &pods, report, "deleted to gone, one by one", 0..ONE_BY_ONE).await?;

    let many = ONE_BY_ONE..ONE_BY_ONE + bench.args.pods;
    let start = clock::now();
    for number in many.clone() {
        make(bench, &pods, &node, number).await?;
    }
    pods.wait("pods running", many.end, |counts| counts.running).await?;
    report
        .phases
        .push(phase(&pods, "bound to running, all at once", start, many.clone(), |seen| seen.running));
    rest(bench, report).await;
    remove_all(bench, &pods, report, "deleted to gone, all at once", many.clone()).await?;
    if bench.args.device_class.is_some() {
        drain(bench, &pods, report, many.end).await?;
    }
    Ok(())
}

/// The node that was asked for, or the only one that is ready.
pub(super) async fn find_node(bench: &mut Bench<'_>) -> Result<String> {
    if let Some(node) = &bench.args.node {
        return Ok(node.clone());
    }
    let list = bench.caller.get(NODES).await?.context("list nodes")?;
    let is_ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.clone().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let ready: Vec<&str> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|node| is_ready(node))
        .filter_map(|node| node["metadata"]["name"].as_str())
        .collect();
    match ready.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => bail!("no node is ready"),
        several => bail!("{} nodes are ready: name one with --node", several.len()),
    }
}

/// A word that only the processes of this pod have in their command line.
fn mark(run: &str, number: usize) -> String {
    format!("{run}-{}-end", name(number))
}

/// A pod that ends at once when it is asked to.
fn pod(bench: &Bench<'_>, number: usize) -> Value {
    let script = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
    json!({
        "metadata": meta(&bench.run, &name(number)),
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "containers": [{
                "name": "work",
                "image": bench.args.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script, mark(&bench.run, number)],
            }],
        },
    })
}

async fn make(bench: &mut Bench<'_>, pods: &Pods, node: &str, number: usize) -> Result<()> {
    let mut pod = pod(bench, number);
    pod["spec"]["nodeName"] = node.into();
    pods.sent(number, clock::now());
    bench.caller.create(&pods_path(&bench.namespace), &pod).await.map(drop)
}

fn phase(
    pods: &Pods,
    what: &str,
    start: Instant,
    of: Range<usize>,
    at: impl Fn(&Seen) -> Option<Instant>,
) -> Phase {
    let each = pods.each();
    let measured: Vec<_> = each[of]
        .iter()
        .filter_map(|seen| {
            let (sent, end) = (seen.sent?, at(seen)?);
            Some((end.saturating_duration_since(sent), end))
        })
        .collect();
    Phase::new(what, start, &measured)
}

async fn remove_all(
    bench: &mut Bench<'_>,
    pods: &Pods,
    report: &mut Report,
    what: &str,
    of: Range<usize>,
) -> Result<()> {
    let (start, path) = (clock::now(), pods_path(&bench.namespace));
    let mut asked = Vec::new();
    for number in of.clone() {
        asked.push(clock::now());
        let request = bench.target.delete(&format!("{path}/{}", name(number)), "{}");
        let answer = bench.caller.ask(&request).await?;
        ensure!(matches!(answer.code, 200..300), "delete {}: {}", name(number), answer.refusal());
    }
    pods.wait("pods gone", of.end, |counts| counts.gone).await?;
    let each = pods.each();
    let gone = each[of].iter().zip(asked);
    let measured: Vec<_> = gone
        .filter_map(|(seen, asked)| seen.gone.map(|gone| (gone.saturating_duration_since(asked), gone)))
        .collect();
    report.phases.push(Phase::new(what, start, &measured));
    Ok(())
}

/// The usage of the named processes while all pods run and nothing happens.
async fn rest(bench: &Bench<'_>, report: &mut Report) {
    let time = Duration::from_secs(bench.args.seconds);
    let before: Vec<f64> = bench.args.pid.iter().map(|process| machine::cpu_seconds(*process)).collect();
    if before.is_empty() {
        return;
    }
    tokio::time::sleep(time).await;
    for (process, before) in bench.args.pid.iter().zip(before) {
        let share = (machine::cpu_seconds(*process) - before) / time.as_secs_f64() * 100.0;
        let memory = machine::memory_mb(*process, "VmRSS:");
        let figure = |what: &str, value, unit: &str| Figure {
            name: format!("process {process} at rest, {what}"),
            value,
            unit: unit.to_owned(),
        };
        report.figures.push(figure("processor", share, "% of a core"));
        report.figures.push(figure("resident memory", memory, "MB"));
    }
}

/// Pods with a device each; then, one after another, a rule for the device, and the end of the process that used it.
async fn drain(bench: &mut Bench<'_>, pods: &Pods, report: &mut Report, first: usize) -> Result<()> {
    let template = json!({
        "metadata": meta(&bench.run, TEMPLATE),
        "spec": {"spec": {"devices": {"requests": [
            {"name": "device", "exactly": {"deviceClassName": bench.args.device_class}},
        ]}}},
    });
    bench.caller.create(&templates_path(&bench.namespace), &template).await?;
    let (start, mut measured) = (clock::now(), Vec::new());
    for number in first..first + DRAINS {
        let mut pod = pod(bench, number);
        pod["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "device"}]});
        pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimTemplateName": TEMPLATE}]);
        pods.sent(number, clock::now());
        bench.caller.create(&pods_path(&bench.namespace), &pod).await?;
        pods.wait("pods with a device", number + 1, |counts| counts.running).await?;
        let process = wait_for_process(&mark(&bench.run, number)).await?;
        let selector = device_of(bench, number).await?;
        let rule_name = format!("{}-{}", bench.run, name(number));
        let rule = json!({
            "metadata": meta(&bench.run, &rule_name),
            "spec": {"deviceSelector": selector, "taint": {"key": "lazaret.dev/bench", "effect": "NoExecute"}},
        });
        let asked = clock::now();
        bench.caller.create(RULES, &rule).await?;
        while fs::metadata(format!("/proc/{process}")).is_ok() {
            ensure!(asked.elapsed() < END_MAX, "process {process} did not end within {END_MAX:?}");
            tokio::time::sleep(LOOK).await;
        }
        measured.push((asked.elapsed(), clock::now()));
        pods.wait("pods with a device gone", number + 1, |counts| counts.gone).await?;
        let request = bench.target.delete(&format!("{RULES}/{rule_name}"), "{}");
        bench.caller.ask(&request).await?;
        progress("devices drained", measured.len(), DRAINS);
    }
    report.phases.push(Phase::new("rule written to process gone", start, &measured));
    Ok(())
}

/// The device of a pod, as a rule selects it.
async fn device_of(bench: &mut Bench<'_>, number: usize) -> Result<Value> {
    let path = format!("{}/{}", pods_path(&bench.namespace), name(number));
    let pod = bench.caller.get(&path).await?.context("the pod is gone")?;
    let claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str();
    let path = format!("{}/{}", claims_path(&bench.namespace), claim.context("the pod has no claim")?);
    let claim = bench.caller.get(&path).await?.context("the claim is gone")?;
    let device = &claim["status"]["allocation"]["devices"]["results"][0];
    ensure!(device["device"].is_string(), "the claim of {} has no device", name(number));
    Ok(json!({"driver": device["driver"], "pool": device["pool"], "device": device["device"]}))
}

/// The process with this word, which may take a moment to become the program that was asked for.
async fn wait_for_process(word: &str) -> Result<u32> {
    for _ in 0..BEGIN_POLLS_MAX {
        if let Some(process) = find_process(word) {
            return Ok(process);
        }
        tokio::time::sleep(LOOK * 10).await;
    }
    bail!("the pod runs, but no process of it is on this machine: drains are measured where the node is")
}

/// The first process that has this word in its command line; what it forks has it too until it becomes something else.
fn find_process(word: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_word = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        // A runtime's own processes may quote the whole command; the pod's begins with it.
        words.next().is_some_and(|program| program.ends_with(b"sh"))
            && words.any(|found| found == word.as_bytes())
    };
    numbers.filter(has_word).min()
}
