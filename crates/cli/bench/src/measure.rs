//! One measurement: a server, the work, and the end of it, which comes after Ctrl-C as well.

use anyhow::{Context, Result, bail, ensure};

use crate::{
    args::{Args, Benchmark},
    bench::Bench,
    clock,
    embedded::{Embedded, Parts},
    fleet::Fleet,
    machine::{self, Observed},
    objects,
    report::Report,
    scenario,
    target::{Caller, Target},
    workload,
};
use lazaret_print::note;

/// The result of a measurement, and the server or objects that are still there.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) report: Report,
    pub(crate) stage: Stage,
    pub(crate) outcome: Result<()>,
}

/// The server or objects that are still there after a measurement.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nothing.
    Empty,
    /// A server that was started for it.
    Embedded(Embedded),
    /// Objects of this run in a cluster that is not ours.
    Cluster(Target, String),
}

impl Stage {
    /// Takes it away.
    pub(crate) async fn clear(self) {
        match self {
            Self::Empty => {}
            Self::Embedded(embedded) => embedded.kill().await,
            Self::Cluster(target, run) => end(&target, &run).await,
        }
    }
}

/// Makes one measurement. The caller clears the stage afterwards.
///
/// # Errors
/// When it could not begin. A failure in the middle is the outcome.
pub(crate) async fn measure(args: &Args) -> Result<Measured> {
    let workload = args.workload.as_deref().map(workload::find).transpose()?;
    let what = workload.as_ref().map_or_else(|| args.what.word().to_owned(), |workload| workload.name());
    let mut report = Report { what, load_before: machine::load(), ..Report::default() };
    if args.what == Benchmark::Start && workload.is_none() {
        ensure!(args.kubeconfig.is_none(), "start measures a lazaret of this build: leave out --kubeconfig");
        let outcome = interruptible(scenario::start::measure(args, &mut report)).await;
        report.load_after = machine::load();
        report.incomplete = outcome.as_ref().err().map(|error| format!("{error:#}"));
        return Ok(Measured { report, stage: Stage::Empty, outcome });
    }
    ensure!(
        !matches!(args.what, Benchmark::Node | Benchmark::Churn) || args.kubeconfig.is_some(),
        "this measures a node that runs: name its cluster with --kubeconfig"
    );
    let mut embedded = match (&args.kubeconfig, &workload) {
        (Some(_), _) => None,
        (None, Some(workload)) => {
            let (gates, versions) = (workload.gates().to_owned(), workload.versions().to_owned());
            let parts = Parts::All { nodes: 0, devices: 0, gates, versions };
            Some(Embedded::start(&parts, args.folder.as_deref()).await?)
        }
        (None, None) => Some(Embedded::start(&parts(args), args.folder.as_deref()).await?),
    };
    let kubeconfig = embedded.as_ref().map(Embedded::kubeconfig).or_else(|| args.kubeconfig.clone());
    let target = Target::find(kubeconfig.as_deref()).await?;
    let run = format!("bench-{}-{}", std::process::id(), clock::unix_seconds() % 1_000_000);
    let processes: Vec<u32> = embedded.iter().map(Embedded::process).chain(args.pid.clone()).collect();
    let outcome = interruptible(async {
        let mut bench = Bench {
            args,
            caller: Caller::new(&target).await?,
            namespace: run.clone(),
            run: run.clone(),
            fleet: Fleet::of_embedded(args.nodes),
            kubeconfig: kubeconfig.clone(),
            target: target.clone(),
        };
        let version = bench.caller.get("/version").await?.unwrap_or_default();
        report.server = version["gitVersion"].as_str().unwrap_or("unknown").to_owned();
        if workload.is_none() && args.what.needs_fleet() {
            if let (None, Some(kubeconfig)) = (&embedded, &kubeconfig) {
                bench.fleet = Fleet::simulate(kubeconfig, &run, args.nodes, args.devices).await?;
            }
            bench.fleet.wait(&target).await?;
        }
        let (observed, itself) = (Observed::begin(&processes), machine::cpu_seconds(std::process::id()));
        match &workload {
            Some(workload) => workload::play(&mut bench, workload, &mut report).await?,
            None => {
                (report.nodes, report.devices) = (args.nodes, args.devices);
                (report.pods, report.rules) = (args.pods, args.rules);
                Box::pin(scenario::play(&mut bench, &mut report)).await?;
            }
        }
        report.processes = observed.end();
        report.client_cpu_seconds = machine::cpu_seconds(std::process::id()) - itself;
        Ok(())
    })
    .await;
    // A server that ended is the cause of any failure.
    let outcome = match embedded.as_mut().and_then(Embedded::ended) {
        Some(how) => outcome.with_context(|| format!("the lazaret under measurement ended ({how})")),
        None => outcome,
    };
    report.load_after = machine::load();
    report.incomplete = outcome.as_ref().err().map(|error| format!("{error:#}"));
    let stage = embedded.map_or_else(|| Stage::Cluster(target, run), Stage::Embedded);
    Ok(Measured { report, stage, outcome })
}

/// Takes away what the run made; a second Ctrl-C ends even that.
async fn end(target: &Target, run: &str) {
    note("taking away what was made");
    match interruptible(objects::clean_up(target, Some(run))).await {
        Ok(()) => note("all of it is gone"),
        Err(error) => note(&format!(
            "not everything was taken away ({error:#}); it has the label {}={run}: lazaret bench --clean --kubeconfig FILE",
            objects::LABEL
        )),
    }
}

fn parts(args: &Args) -> Parts {
    if args.what.needs_fleet() {
        Parts::All { nodes: args.nodes, devices: args.devices, gates: String::new(), versions: String::new() }
    } else {
        Parts::Api
    }
}

/// Work that Ctrl-C ends with an error.
async fn interruptible(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::select! {
        // Asked first, so that it is listened for from the beginning.
        biased;
        signal = tokio::signal::ctrl_c() => {
            signal.context("wait for Ctrl-C")?;
            bail!("stopped")
        }
        done = Box::pin(work) => done,
    }
}
