//! What is measured, in order.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::{
    Args, clock,
    connection::Connection,
    load::{self, Outcome, Until, percentile},
    machine,
    program::Program,
    report::{Goal, figure},
    requests,
};

const MEGABYTE: f64 = 1e6;
const STARTS: usize = 5;
const LISTS: usize = 5;
/// Writes that all watchers must see.
const WATCHED_WRITES: usize = 20;

pub(crate) async fn all(args: &Args, binary: &Path) -> Result<()> {
    starts(args, binary).await?;
    let folder = folder(args)?;
    let program = Program::start(binary, folder.path())?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    memory("memory at rest", &program, Goal::AtMost(40.0));
    loads(args, &program).await?;
    watchers(args, &program).await?;
    lists(&program).await?;
    drop(program);
    if args.objects > 0 {
        large(args, binary).await?;
    }
    Ok(())
}

fn folder(args: &Args) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("lazaret-bench-");
    match &args.folder {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    }
    .context("make a folder for the data")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn memory(name: &str, program: &Program, goal: Goal) {
    figure(name, machine::resident_bytes(program.id()) as f64 / MEGABYTE, "MB", goal, "");
}

/// From the start of the process to the first answer that it is ready.
async fn start_once(binary: &Path, folder: &Path) -> Result<(Duration, Program)> {
    let started = clock::now();
    let program = Program::start(binary, folder)?;
    let mut connection = Connection::open(program.address, program.tls.clone()).await?;
    let (code, _) = connection.ask(&requests::ready()).await?;
    ensure!(code == 200, "it is up and not ready: {code}");
    Ok((started.elapsed(), program))
}

async fn starts(args: &Args, binary: &Path) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let folder = folder(args)?;
        times.push(start_once(binary, folder.path()).await?.0);
    }
    times.sort_unstable();
    let remark =
        format!("median of {STARTS} first starts, slowest {:.0} ms", millis(percentile(&times, 100)));
    figure("process start to ready", millis(percentile(&times, 50)), "ms", Goal::AtMost(150.0), &remark);
    Ok(())
}

async fn loads(args: &Args, program: &Program) -> Result<()> {
    let time = Until::Passed(Duration::from_secs(args.seconds));
    let create_map = |number| requests::create_map(&format!("load-{number}"));
    measured(
        "durable creates of a small object",
        program,
        args.clients,
        time,
        Goal::AtLeast(10_000.0),
        201,
        create_map,
    )
    .await?;
    let create_pod = |number| requests::create_pod(&format!("load-{number}"));
    measured("durable creates of a pod", program, args.clients, time, Goal::None, 201, create_pod).await?;
    let get = |number| requests::get_pod(&format!("load-{}", number % 1_000));
    measured("reads of a pod", program, args.clients, time, Goal::AtLeast(25_000.0), 200, get).await?;
    Ok(())
}

async fn measured(
    name: &str,
    program: &Program,
    clients: usize,
    until: Until,
    goal: Goal,
    code: u16,
    request: impl Fn(usize) -> Vec<u8> + 'static,
) -> Result<Outcome> {
    let server = program.id().to_string();
    let before = (machine::cpu_seconds(&server), machine::cpu_seconds("self"));
    let outcome = load::run(program, clients, until, code, request).await?;
    let after = (machine::cpu_seconds(&server), machine::cpu_seconds("self"));
    let each = |seconds: f64| seconds / outcome.requests.max(1) as f64 * 1e6;
    let remark = format!(
        "{clients} clients, p50 {:.1} ms, p99 {:.1} ms, CPU {:.0} µs each in the server, {:.0} µs in the clients",
        millis(outcome.p50),
        millis(outcome.p99),
        each(after.0 - before.0),
        each(after.1 - before.1),
    );
    figure(name, outcome.per_second(), "/s", goal, &remark);
    Ok(outcome)
}

/// How long until every watcher has seen a write.
async fn watchers(args: &Args, program: &Program) -> Result<()> {
    let (seen, mut sightings) = mpsc::unbounded_channel();
    let local = tokio::task::LocalSet::new();
    let mut writer = Connection::open(program.address, program.tls.clone()).await?;
    for _ in 0..args.watchers {
        let mut connection = Connection::open(program.address, program.tls.clone()).await?;
        connection.begin_stream(&requests::watch_maps()).await?;
        let seen = seen.clone();
        local.spawn_local(async move {
            // Ends with the server.
            while let Ok(true) = connection.next_chunk_has(b"\"ADDED\"").await {
                let _ = seen.send(clock::now());
            }
        });
    }
    let mut times = Vec::new();
    let work = async {
        for number in 0..WATCHED_WRITES {
            let request = requests::create_seen_map(&format!("seen-{number}"));
            let written = clock::now();
            let (code, _) = writer.ask(&request).await?;
            ensure!(code == 201, "the write was answered {code}");
            for _ in 0..args.watchers {
                let at = sightings.recv().await.context("all watchers are gone")?;
                times.push(at.saturating_duration_since(written));
            }
        }
        Ok(())
    };
    local.run_until(work).await?;
    times.sort_unstable();
    let remark = format!(
        "{} watchers, {WATCHED_WRITES} writes, p50 {:.1} ms",
        args.watchers,
        millis(percentile(&times, 50))
    );
    figure(
        "a write seen by all watchers, p99",
        millis(percentile(&times, 99)),
        "ms",
        Goal::AtMost(20.0),
        &remark,
    );
    Ok(())
}

async fn lists(program: &Program) -> Result<()> {
    let mut connection = Connection::open(program.address, program.tls.clone()).await?;
    let (_, before) = connection.ask(&requests::list_pods()).await?;
    let missing = Until::Sent(10_000);
    load::run(program, 64, missing, 201, |number| requests::create_pod(&format!("list-{number}"))).await?;
    let (_, after) = connection.ask(&requests::list_pods()).await?;
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..LISTS {
        let asked = clock::now();
        let (code, length) = connection.ask(&requests::list_pods()).await?;
        ensure!(code == 200, "the list was answered {code}");
        bytes = length;
        times.push(asked.elapsed());
    }
    times.sort_unstable();
    // The list holds the pods of earlier loads too: what ten thousand of them cost is their share of the bytes.
    let share = (after - before) as f64 / bytes.max(1) as f64;
    let remark =
        format!("median of {LISTS}; whole list {:.0} MB, scaled by {share:.2}", bytes as f64 / MEGABYTE);
    let ten_thousand = millis(percentile(&times, 50)) * share;
    figure("a list of 10,000 pods", ten_thousand, "ms", Goal::AtMost(150.0), &remark);
    Ok(())
}

/// Many objects: what they weigh, and how long a start with them takes.
async fn large(args: &Args, binary: &Path) -> Result<()> {
    let folder = folder(args)?;
    let program = Program::start(binary, folder.path())?;
    let create = |number| requests::create_pod(&format!("p-{number}"));
    let outcome = load::run(&program, args.clients, Until::Sent(args.objects), 201, create).await?;
    let name = format!("creates up to {} pods", args.objects);
    figure(&name, outcome.per_second(), "/s", Goal::None, "");
    memory(&format!("memory with {} pods, just written", args.objects), &program, Goal::AtMost(1_500.0));
    drop(program);
    let (took, program) = start_once(binary, folder.path()).await?;
    figure(
        &format!("start with {} pods", args.objects),
        millis(took),
        "ms",
        Goal::AtMost(3_000.0),
        "after a kill",
    );
    memory(&format!("memory with {} pods, after the start", args.objects), &program, Goal::AtMost(1_500.0));
    Ok(())
}
