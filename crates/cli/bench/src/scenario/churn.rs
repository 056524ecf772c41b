//! Pods of many kinds that come and go on one node for a long time, devices that are tainted under them, and what is left of it all at the end.
//!
//! The kind of a pod follows from its number alone, so that two runs do the same.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::node::find_node;
use crate::{
    bench::Bench,
    clock, machine,
    objects::{self, NAMESPACES, RULES, claims_path, meta, pods_path, templates_path},
    output::progress,
    pods::{Pods, name},
    report::{Figure, Phase, Report},
};

/// Between two steps; in each, one pod is made and one is removed.
const STEP: Duration = Duration::from_millis(250);
/// Steps between two rules for the device of some pod.
const STEPS_PER_RULE: usize = 20;
/// Steps that a rule stays.
const RULE_STEPS: usize = 12;
/// Pods that wait for a device, or are unlucky, are removed after as many steps at most.
const STEPS_MAX: usize = 80;
/// How long all may take to go in the end.
const END: Duration = Duration::from_secs(180);
/// Directories are counted down to this depth, and up to this many entries.
const DEPTH_MAX: usize = 12;
const ENTRIES_MAX: usize = 1_000_000;
const TEMPLATE: &str = "one";

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let node = find_node(bench).await?;
    objects::make_namespace(&mut bench.caller, &bench.run, &bench.namespace).await?;
    prepare(bench).await?;
    let before = Traces::take(&bench.args.observe);
    let memory = |bench: &Bench<'_>| -> Vec<f64> {
        bench.args.pid.iter().map(|process| machine::memory_mb(*process, "VmRSS:")).collect()
    };
    let pods = Pods::watch(&bench.target, &bench.namespace).await?;
    let mut churn =
        Churn { node, leaves: BTreeMap::new(), rules: BTreeMap::new(), made: 0, removed: 0, tainted: 0 };
    let start = clock::now();
    let time = Duration::from_secs(bench.args.seconds);
    // Caches and pools are full after a tenth of the time.
    let (mut step, mut memory_early) = (0, None);
    while start.elapsed() < time {
        churn.step(bench, &pods, step).await?;
        step += 1;
        if memory_early.is_none() && start.elapsed() > time / 10 {
            memory_early = Some(memory(bench));
        }
        progress(
            "seconds of churn",
            usize::try_from(start.elapsed().as_secs())?,
            usize::try_from(time.as_secs())?,
        );
        tokio::time::sleep(STEP).await;
    }
    let memory_late = memory(bench);
    let made = churn.made;
    churn.end(bench).await?;
    let left = wait_for_the_end(bench).await?;
    report.phases.push(phase(&pods, "created to running", start));
    let count = |value: usize| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
    let mut figure = |name: String, value: f64, unit: &str| {
        report.figures.push(Figure { name, value, unit: unit.to_owned() });
    };
    figure("pods made".into(), count(made), "");
    figure("devices tainted under pods".into(), count(churn.tainted), "");
    figure("pods left".into(), count(left.0), "");
    figure("claims left".into(), count(left.1), "");
    for (what, more) in Traces::take(&bench.args.observe).since(&before) {
        figure(what, more, "more than before");
    }
    let early = memory_early.unwrap_or_default();
    for ((process, early), late) in bench.args.pid.iter().zip(early).zip(memory_late) {
        figure(format!("process {process}, memory after a tenth of the time"), early, "MB");
        figure(format!("process {process}, memory at the end"), late, "MB");
    }
    Ok(())
}

async fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    let settings = json!({"metadata": meta(&bench.run, "settings"), "data": {"word": "quarantine"}});
    bench.caller.create(&format!("{NAMESPACES}/{}/configmaps", bench.namespace), &settings).await?;
    if let Some(class) = &bench.args.device_class {
        let template = json!({
            "metadata": meta(&bench.run, TEMPLATE),
            "spec": {"spec": {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": class}}]}}},
        });
        bench.caller.create(&templates_path(&bench.namespace), &template).await?;
    }
    Ok(())
}

fn phase(pods: &Pods, what: &str, start: Instant) -> Phase {
    pods.phase(what, start, |seen| seen.running)
}

/// The pods of the moment.
struct Churn {
    node: String,
    /// Pods by the step in which they are removed.
    leaves: BTreeMap<usize, Vec<usize>>,
    /// Rules likewise.
    rules: BTreeMap<usize, Vec<String>>,
    made: usize,
    removed: usize,
    tainted: usize,
}

impl Churn {
    async fn step(&mut self, bench: &mut Bench<'_>, pods: &Pods, step: usize) -> Result<()> {
        let number = self.made;
        let alive = self.made - self.removed;
        if alive < bench.args.pods {
            let pod = pod(bench, &self.node, number);
            pods.sent(number, clock::now());
            bench.caller.create(&pods_path(&bench.namespace), &pod).await?;
            self.made += 1;
            let stays = 4 + number * 31 % (STEPS_MAX - 4);
            self.leaves.entry(step + stays).or_default().push(number);
        }
        for number in self.leaves.remove(&step).into_iter().flatten() {
            self.remove(bench, number).await?;
        }
        for rule in self.rules.remove(&step).into_iter().flatten() {
            let request = bench.target.delete(&format!("{RULES}/{rule}"), "{}");
            bench.caller.ask(&request).await?;
        }
        if bench.args.device_class.is_some() && step % STEPS_PER_RULE == STEPS_PER_RULE - 1 {
            self.taint(bench, step).await?;
        }
        Ok(())
    }

    async fn remove(&mut self, bench: &mut Bench<'_>, number: usize) -> Result<()> {
        // One of seven is removed by force.
        let options = if number % 7 == 3 { r#"{"gracePeriodSeconds":0}"# } else { "{}" };
        let path = format!("{}/{}", pods_path(&bench.namespace), name(number));
        // It may have been evicted meanwhile.
        bench.caller.ask(&bench.target.delete(&path, options)).await?;
        self.removed += 1;
        Ok(())
    }

    /// Taints the device of some claim.
    async fn taint(&mut self, bench: &mut Bench<'_>, step: usize) -> Result<()> {
        let claims = bench.caller.get(&claims_path(&bench.namespace)).await?.unwrap_or_default();
        let results = claims["items"].as_array().into_iter().flatten();
        let results: Vec<&Value> = results
            .map(|claim| &claim["status"]["allocation"]["devices"]["results"][0])
            .filter(|result| result["device"].is_string())
            .collect();
        if results.is_empty() {
            return Ok(());
        }
        let device = results[step % results.len()];
        let rule = format!("{}-{step}", bench.run);
        let object = json!({
            "metadata": meta(&bench.run, &rule),
            "spec": {
                "deviceSelector": {"driver": device["driver"], "pool": device["pool"], "device": device["device"]},
                "taint": {"key": "lazaret.dev/bench", "effect": "NoExecute"},
            },
        });
        bench.caller.create(RULES, &object).await?;
        self.tainted += 1;
        self.rules.entry(step + RULE_STEPS).or_default().push(rule);
        Ok(())
    }

    async fn end(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        for number in std::mem::take(&mut self.leaves).into_values().flatten() {
            self.remove(bench, number).await?;
        }
        for rule in std::mem::take(&mut self.rules).into_values().flatten() {
            let request = bench.target.delete(&format!("{RULES}/{rule}"), "{}");
            bench.caller.ask(&request).await?;
        }
        Ok(())
    }
}

/// Waits until no pod and no claim is left, or the time is over; how many are left.
async fn wait_for_the_end(bench: &mut Bench<'_>) -> Result<(usize, usize)> {
    let start = clock::now();
    let (pods, claims) = (pods_path(&bench.namespace), claims_path(&bench.namespace));
    loop {
        let mut left = [0, 0];
        for (left, path) in left.iter_mut().zip([&pods, &claims]) {
            let list = bench.caller.get(path).await?.context("list what is left")?;
            *left = list["items"].as_array().map_or(0, Vec::len);
        }
        if left == [0, 0] || start.elapsed() > END {
            return Ok((left[0], left[1]));
        }
        tokio::time::sleep(STEP).await;
    }
}

/// A pod as its number says.
fn pod(bench: &Bench<'_>, node: &str, number: usize) -> Value {
    let stays = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
    let container = |script: &str| {
        json!({
            "name": "work",
            "image": bench.args.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
        })
    };
    let mut spec = json!({
        "terminationGracePeriodSeconds": 2,
        "nodeName": node,
        "containers": [container(stays)],
    });
    let work = &mut spec["containers"][0];
    match number % 9 {
        0 => *work = container("echo done"),
        1 => *work = container("echo failed >&2; exit 3"),
        // It does not listen when it is asked to end.
        2 => *work = container("trap '' TERM; while :; do sleep 1; done"),
        3 => {
            work["resources"] = json!({"limits": {"memory": "24Mi"}});
            work["command"][2] = "a=0123456789abcdef; while :; do a=$a$a; done".into();
        }
        4 => {
            work["volumeMounts"] = json!([{"name": "settings", "mountPath": "/settings"}, {"name": "room", "mountPath": "/room"}]);
            work["command"][2] = format!("cat /settings/word > /room/word; {stays}").into();
            spec["volumes"] = json!([{"name": "settings", "configMap": {"name": "settings"}}, {"name": "room", "emptyDir": {}}]);
            spec["initContainers"] = json!([{
                "name": "first", "image": bench.args.image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", "true"],
            }]);
        }
        5 => {
            work["livenessProbe"] =
                json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2})
        }
        _ => {
            if bench.args.device_class.is_some() {
                work["resources"] = json!({"claims": [{"name": "device"}]});
                spec["resourceClaims"] = json!([{"name": "device", "resourceClaimTemplateName": TEMPLATE}]);
                // The scheduler chooses the device, and with it the node.
                spec["nodeName"] = Value::Null;
            }
        }
    }
    if number.is_multiple_of(9) {
        spec["restartPolicy"] = "Never".into();
    }
    json!({"metadata": meta(&bench.run, &name(number)), "spec": spec})
}

/// The number of files and mounts below directories.
#[derive(Debug, Default)]
struct Traces(BTreeMap<String, usize>);

impl Traces {
    fn take(paths: &[std::path::PathBuf]) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut counts = BTreeMap::new();
        for path in paths {
            let below = mounts
                .lines()
                .filter_map(|line| line.split(' ').nth(4))
                .filter(|at| Path::new(at).starts_with(path));
            counts.insert(format!("mounts below {}", path.display()), below.count());
            let mut entries = 0;
            count_entries(path, 0, &mut entries);
            counts.insert(format!("files below {}", path.display()), entries);
        }
        counts.insert("processes".to_owned(), processes());
        Self(counts)
    }

    fn since(&self, before: &Self) -> Vec<(String, f64)> {
        let signed = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let one = |(what, now): (&String, &usize)| {
            (what.clone(), signed(*now) - signed(before.0.get(what).copied().unwrap_or(0)))
        };
        self.0.iter().map(one).collect()
    }
}

fn processes() -> usize {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())).count()
}

fn count_entries(path: &Path, depth: usize, entries: &mut usize) {
    if depth > DEPTH_MAX {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        *entries += 1;
        if *entries > ENTRIES_MAX {
            return;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            count_entries(&entry.path(), depth + 1, entries);
        }
    }
}
