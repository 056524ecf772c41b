//! A lazaret of this build: how long it takes to be ready, and what it weighs.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    args::Args,
    clock,
    embedded::{Embedded, Parts, temporary},
    load::{self, LoadEnd, Shape},
    machine::memory_mb,
    objects::pods_path,
    report::{Phase, Report},
    target::Target,
};
use lazaret_print::note;

const STARTS: usize = 5;
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let folder = args.folder.as_deref();
    let (start, mut times) = (clock::now(), Vec::new());
    for _ in 0..STARTS {
        let place = temporary(folder)?;
        let (took, server) = start_once(place.path()).await?;
        times.push((took, clock::now()));
        server.kill().await;
    }
    report.phases.push(Phase::new("process start to ready", start, &times));
    let place = temporary(folder)?;
    let (_, server) = start_once(place.path()).await?;
    tokio::time::sleep(SETTLE).await;
    report.figure("memory at rest", memory_mb(server.process(), "VmRSS:"), "MB");
    let target = Target::find(Some(&server.kubeconfig())).await?;
    report.server = format!("{} (this build)", env!("CARGO_PKG_VERSION"));
    if args.objects > 0 {
        note(&format!("making {} pods", args.objects));
        let shape = Shape { clients: args.clients, until: LoadEnd::Sent(args.objects), rate: 0 };
        let (to, path) = (target.clone(), pods_path("default"));
        let pod = move |number| {
            to.post(&path, &format!(r#"{{"metadata":{{"name":"p-{number}","labels":{{"app":"bench"}}}},"spec":{{"containers":[{{"name":"main","image":"registry.example/app:1","resources":{{"requests":{{"cpu":"100m"}}}}}}]}}}}"#))
        };
        let made = load::run(&target, shape, pod, |_, _| {}).await?;
        report.phases.push(made.phase("create a pod"));
        let with = format!("with {} pods", args.objects);
        report.figure(&format!("memory {with}, just written"), memory_mb(server.process(), "VmRSS:"), "MB");
        server.kill().await;
        let (took, server) = start_once(place.path()).await?;
        report.figure(
            &format!("process start to ready {with}, after a kill"),
            took.as_secs_f64() * 1e3,
            "ms",
        );
        report.figure(
            &format!("memory {with}, after the start"),
            memory_mb(server.process(), "VmRSS:"),
            "MB",
        );
        server.kill().await;
    }
    Ok(())
}

/// From the start of the process to the first answer that it is ready.
async fn start_once(folder: &Path) -> Result<(Duration, Embedded)> {
    let started = clock::now();
    let server = Embedded::start_in(&Parts::Api, folder).await?;
    let target = Target::find(Some(&server.kubeconfig())).await?;
    let answer = target.connect().await?.ask(&target.get("/readyz")).await?;
    ensure!(answer.code == 200, "it is up and not ready: {}", answer.refusal());
    Ok((started.elapsed(), server))
}
