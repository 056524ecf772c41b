//! A run: a server, the work, and the end of it, which comes after Ctrl-C as well.

use anyhow::{Context, Result, bail, ensure};

use crate::{
    args::{Args, Format, What},
    clock, compare, curve,
    embedded::{Embedded, Parts},
    fleet::Fleet,
    machine::{self, Observed},
    objects,
    output::{note, print},
    report::Report,
    scenario,
    target::{Caller, Target},
    workload,
};

/// Does what the command line says.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let [before, after] = args.compare.as_slice() {
        return print(&compare::compare(before, after)?);
    }
    if args.workload.as_deref() == Some("list") {
        return print(&workload::list());
    }
    ensure!(
        args.output != Format::Svg || args.curve.is_some(),
        "-o svg draws a curve: add --curve nodes, pods or rules"
    );
    // The simulated nodes of a foreign cluster have a thread of their own; the load has this one.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("start")?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, work(args))
}

async fn work(args: &Args) -> Result<()> {
    if args.clean {
        let target = Target::find(args.kubeconfig.as_deref()).await?;
        return objects::clean_up(&target, None).await;
    }
    if let Some(axis) = args.curve {
        let curve = curve::measure(args, axis).await?;
        return print(&match args.output {
            Format::Table => curve.table(),
            Format::Json => format!("{}\n", serde_json::to_string_pretty(&curve)?),
            Format::Svg => curve.svg(),
        });
    }
    let report = measure(args).await?;
    match args.output {
        Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(&report)?)),
        Format::Table | Format::Svg => print(&report.table()),
    }
}

/// One measurement, with everything it made taken away again.
pub(crate) async fn measure(args: &Args) -> Result<Report> {
    let workload = args.workload.as_deref().map(workload::find).transpose()?;
    let what = workload.as_ref().map_or_else(|| args.what.word().to_owned(), |workload| workload.name());
    let mut report = Report { what, load_before: machine::load(), ..Report::default() };
    if args.what == What::Start && workload.is_none() {
        ensure!(args.kubeconfig.is_none(), "start measures a lazaret of this build: leave out --kubeconfig");
        interruptible(scenario::start::measure(args, &mut report)).await?;
        report.load_after = machine::load();
        return Ok(report);
    }
    let embedded = match (&args.kubeconfig, &workload) {
        (Some(_), _) => None,
        (None, Some(workload)) => {
            let parts = Parts::All { nodes: 0, devices: 0, gates: workload.embedded_gates().to_owned() };
            Some(Embedded::start(&parts, args.folder.as_deref()).await?)
        }
        (None, None) => Some(Embedded::start(&parts(args), args.folder.as_deref()).await?),
    };
    let kubeconfig = embedded.as_ref().map(Embedded::kubeconfig).or_else(|| args.kubeconfig.clone());
    let target = Target::find(kubeconfig.as_deref()).await?;
    let run = format!("bench-{}-{}", std::process::id(), clock::unix_seconds() % 1_000_000);
    let processes: Vec<u32> = embedded.iter().map(Embedded::process).chain(args.pid.clone()).collect();
    let played = interruptible(async {
        let mut bench = Bench {
            args,
            caller: Caller::new(&target).await?,
            namespace: run.clone(),
            run: run.clone(),
            fleet: Fleet::of_embedded(args.nodes),
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
    report.load_after = machine::load();
    match embedded {
        Some(embedded) => embedded.kill().await,
        None => end(&target, &run).await,
    }
    played.map(|()| report)
}

/// Takes away what the run made; a second Ctrl-C ends even that.
async fn end(target: &Target, run: &str) {
    note("taking away what was made");
    if let Err(error) = interruptible(objects::clean_up(target, Some(run))).await {
        note(&format!(
            "not everything was taken away ({error:#}); it has the label {}={run}: lazaret bench --clean --kubeconfig FILE",
            objects::LABEL
        ));
    }
}

fn parts(args: &Args) -> Parts {
    if args.what.needs_fleet() {
        Parts::All { nodes: args.nodes, devices: args.devices, gates: String::new() }
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

/// What every measurement has at hand.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) args: &'a Args,
    pub(crate) target: Target,
    pub(crate) caller: Caller,
    /// The value of the label.
    pub(crate) run: String,
    pub(crate) namespace: String,
    pub(crate) fleet: Fleet,
}
