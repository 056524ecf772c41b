//! One write, seen by many watchers: how long until each has it.

use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    bench::Bench,
    clock,
    objects::{self, LABEL, NAMESPACES},
    output::progress,
    report::{Phase, Report},
};

/// Writes that all watchers must see.
const WRITES: usize = 50;

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let watchers = bench.args.watchers;
    objects::make_namespace(&mut bench.caller, &bench.run, &bench.namespace).await?;
    let path = format!("{NAMESPACES}/{}/configmaps", bench.namespace);
    let request = Rc::new(bench.target.get(&format!("{path}?watch=true&labelSelector={LABEL}")));
    let (seen, mut sightings) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for number in 1..=watchers {
        let mut connection = bench.target.connect().await?;
        connection.begin_stream(&request).await?;
        let seen = seen.clone();
        tasks.spawn_local(async move {
            let mut text = Vec::new();
            // Ends with the server.
            while let Ok(true) = connection.next_chunk(&mut text).await {
                let lines = text.iter().filter(|byte| **byte == b'\n').count();
                text.clear();
                for _ in 0..lines {
                    let _ = seen.send(clock::now());
                }
            }
        });
        progress("watchers", number, watchers);
    }
    let mut writer = bench.target.connect().await?;
    let start = clock::now();
    let (mut each, mut all, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..WRITES {
        let body = format!(
            r#"{{"metadata":{{"name":"seen-{number}","labels":{{"{LABEL}":"{}"}}}},"data":{{"key":"value"}}}}"#,
            bench.run
        );
        let request = bench.target.post(&path, &body);
        let written = clock::now();
        let answer = writer.ask(&request).await?;
        ensure!(answer.code == 201, "write: {}", answer.refusal());
        writes.push((written.elapsed(), clock::now()));
        for _ in 0..watchers {
            let at = sightings.recv().await.context("all watchers are gone")?;
            each.push((at.saturating_duration_since(written), at));
        }
        all.push((written.elapsed(), clock::now()));
    }
    report.phases.push(Phase::new("write answered", start, &writes));
    report.phases.push(Phase::new(&format!("write to each of {watchers} watchers"), start, &each));
    report.phases.push(Phase::new("write to the last of them", start, &all));
    Ok(())
}
