//! Creates, reads and lists, by many clients at once.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{
    bench::Bench,
    clock,
    load::{self, LoadEnd, Outcome, Shape},
    machine,
    objects::{self, LABEL, NAMESPACES, pods_path},
    report::{Phase, Report},
    target::Caller,
};
use lazaret_print::note;

const LISTS: usize = 10;
/// Pods in a list.
const LISTED: usize = 10_000;

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let args = bench.args;
    objects::make_namespace(&mut bench.caller, &bench.run, &bench.namespace).await?;
    let time = LoadEnd::Passed(Duration::from_secs(args.seconds));
    let maps = format!("{NAMESPACES}/{}/configmaps", bench.namespace);
    let pods = pods_path(&bench.namespace);
    let post = |path: &str, before: String, after: &'static str| {
        let (target, path) = (bench.target.clone(), path.to_owned());
        move |number: usize| target.post(&path, &format!("{before}{number}{after}"))
    };
    let head =
        |name: &str| format!(r#"{{"metadata":{{"labels":{{"{LABEL}":"{}"}},"name":"{name}-"#, bench.run);
    measured(bench, report, "create a small object", time, post(&maps, head("map"), MAP)).await?;
    let made = measured(bench, report, "create a pod", time, post(&pods, head("load"), POD)).await?;
    let (target, path, made) = (bench.target.clone(), pods.clone(), made.max(1));
    measured(bench, report, "read a pod", time, move |number| {
        target.get(&format!("{path}/load-{}", number % made))
    })
    .await?;
    let missing = LISTED.saturating_sub(made);
    let shape = Shape { clients: args.clients, until: LoadEnd::Sent(missing), rate: 0 };
    load::run(&bench.target, shape, post(&pods, head("list"), POD), |_, _| {}).await?;
    lists(bench, report, &pods).await
}

const MAP: &str = r#""},"data":{"key":"value"}}"#;
/// A pod as a controller makes one.
const POD: &str = r#""},"spec":{"containers":[{"name":"main","image":"registry.example/app:1","resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}],"tolerations":[{"key":"example.com/x","operator":"Exists"}],"nodeName":"nowhere"}}"#;

/// Runs one load, and returns its number of requests. The report also gets the clients' own CPU time for each request.
async fn measured(
    bench: &Bench<'_>,
    report: &mut Report,
    name: &str,
    until: LoadEnd,
    request: impl Fn(usize) -> Vec<u8> + 'static,
) -> Result<usize> {
    note(name);
    let shape = Shape { clients: bench.args.clients, until, rate: bench.args.rate };
    let before = machine::cpu_seconds(std::process::id());
    let outcome: Outcome = load::run(&bench.target, shape, request, |_, _| {}).await?;
    let cpu = machine::cpu_seconds(std::process::id()) - before;
    let count = outcome.measured.len();
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    let each = cpu / count.max(1) as f64 * 1e6;
    report.phases.push(outcome.phase(name));
    report.figure(&format!("{name}: the clients' CPU for each"), each, "µs");
    Ok(count)
}

async fn lists(bench: &Bench<'_>, report: &mut Report, path: &str) -> Result<()> {
    let mut caller = Caller::new(&bench.target).await?;
    let request = bench.target.get(path);
    let start = clock::now();
    let (mut times, mut bytes) = (Vec::new(), 0);
    let mut connection = bench.target.connect().await?;
    for _ in 0..LISTS {
        let asked = clock::now();
        let answer = connection.ask(&request).await?;
        ensure!(answer.code == 200, "list pods: {}", answer.refusal());
        bytes = answer.length;
        times.push((asked.elapsed(), clock::now()));
    }
    let list = caller.ask(&request).await?;
    let count = serde_json::from_slice::<List>(&list.body)?.items.len();
    report.phases.push(Phase::new(&format!("list {count} pods"), start, &times));
    #[allow(clippy::cast_precision_loss, reason = "a count")]
    report.figure(&format!("size of a list of {count} pods"), bytes as f64 / 1e6, "MB");
    Ok(())
}

#[derive(serde::Deserialize)]
struct List {
    items: Vec<serde::de::IgnoredAny>,
}
