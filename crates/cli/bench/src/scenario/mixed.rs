//! A day in short: pods come and go, every second a rule evicts the pods of one node, and a client reads all the while.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::schedule;
use crate::{
    bench::Bench,
    clock,
    load::{self, LoadEnd, Shape},
    objects::{RULES, meta, pods_path},
    pods::{Pods, name},
    report::{Phase, Report},
    target::{Caller, Target},
};

/// Pods a second unless `--rate` is given.
const RATE: u32 = 50;
/// How long a pod runs until it is no longer wanted.
const LIFE: Duration = Duration::from_secs(2);
/// How long a rule stays, and how often there is one.
const RULE: Duration = Duration::from_secs(1);
const READS_PER_SECOND: u32 = 100;
const LOOK: Duration = Duration::from_millis(50);

/// State that the parts share.
#[derive(Debug, Default)]
struct Shared {
    /// The node that a rule taints now: its pods are not deleted otherwise.
    tainted: RefCell<String>,
    over: std::cell::Cell<bool>,
}

type Latencies = Vec<(Duration, Instant)>;

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let args = bench.args;
    let rate = if args.rate > 0 { args.rate } else { RATE };
    schedule::prepare(bench).await?;
    let pods = Pods::watch(&bench.target, &bench.namespace).await?;
    let shared = Rc::new(Shared::default());
    let time = Duration::from_secs(args.seconds);
    let make = Shape { clients: args.clients, until: LoadEnd::Passed(time), rate };
    let read = Shape { clients: 4, until: LoadEnd::Passed(time), rate: READS_PER_SECOND };
    let (target, path) = (bench.target.clone(), format!("{}?limit=50", pods_path(&bench.namespace)));
    let start = clock::now();
    let making = async {
        let made = load::run(&bench.target, make, schedule::request(bench), schedule::sent(&pods)).await;
        shared.over.set(true);
        made
    };
    let reading = load::run(&bench.target, read, move |_| target.get(&path), |_, _| {});
    let removing = remove(&bench.target, &bench.namespace, &pods, &shared);
    let tainting = taint(bench, &pods, &shared);
    let (made, read, removed, left) = tokio::try_join!(making, reading, removing, tainting)?;
    ensure!(pods.counts().running > 0, "no pod ever ran");
    report.pods = made.measured.len();
    report.phases.push(made.phase("create answered"));
    report.phases.push(pods.phase("created to bound", start, |seen| seen.bound));
    report.phases.push(pods.phase("created to running", start, |seen| seen.running));
    report.phases.push(Phase::new("rule made to pod deleted", start, &left));
    report.phases.push(Phase::new("delete answered", start, &removed));
    report.phases.push(read.phase("list of 50 pods"));
    Ok(())
}

/// Deletes pods that have run long enough.
async fn remove(target: &Target, namespace: &str, pods: &Pods, shared: &Shared) -> Result<Latencies> {
    let mut connection = target.connect().await?;
    let (mut asked_for, mut measured) = (BTreeSet::new(), Vec::new());
    while !shared.over.get() {
        let now = clock::now();
        for (number, seen) in pods.each().iter().enumerate() {
            let old = seen.running.is_some_and(|since| now.saturating_duration_since(since) >= LIFE);
            if !old
                || seen.leaving.is_some()
                || seen.node == *shared.tainted.borrow()
                || !asked_for.insert(number)
            {
                continue;
            }
            let asked = clock::now();
            let path = format!("{}/{}", pods_path(namespace), name(number));
            let answer = connection.ask(&target.delete(&path, "{}")).await?;
            if !matches!(answer.code, 200..300 | 404) {
                bail!("delete a pod: {}", answer.refusal());
            }
            measured.push((asked.elapsed(), clock::now()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(measured)
}

/// Every second a rule for the next node, and the one before it is removed.
async fn taint(bench: &Bench<'_>, pods: &Pods, shared: &Shared) -> Result<Latencies> {
    let mut caller = Caller::new(&bench.target).await?;
    let mut measured = Vec::new();
    for number in 0.. {
        tokio::time::sleep(RULE).await;
        if shared.over.get() {
            break;
        }
        let node = bench.fleet.node(number % bench.args.nodes + 1);
        shared.tainted.replace(node.clone());
        let rule = format!("{}-{number}", bench.run);
        let object = json!({
            "metadata": meta(&bench.run, &rule),
            "spec": {
                "deviceSelector": {"driver": bench.fleet.driver, "pool": node},
                "taint": {"key": "lazaret.dev/bench", "effect": "NoExecute"},
            },
        });
        let here =
            |seen: &crate::pods::Seen| seen.node == node && seen.running.is_some() && seen.leaving.is_none();
        let there: Vec<usize> =
            pods.each().iter().enumerate().filter(|(_, seen)| here(seen)).map(|(pod, _)| pod).collect();
        let made = clock::now();
        caller.create(RULES, &object).await?;
        tokio::time::sleep(RULE).await;
        let each = pods.each();
        let left = there.iter().filter_map(|pod| each[*pod].leaving);
        measured.extend(left.map(|at| (at.saturating_duration_since(made), at)));
        let request = bench.target.delete(&format!("{RULES}/{rule}"), "{}");
        let answer = caller.ask(&request).await?;
        ensure!(answer.code == 200, "remove a rule: {}", answer.refusal());
        shared.tainted.replace(String::new());
    }
    Ok(measured)
}
