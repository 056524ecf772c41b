//! Many clients at once.

use std::{cell::Cell, rc::Rc, time::Duration};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::{clock, connection::Connection, program::Program};

/// What came of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: usize,
    pub(crate) took: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Outcome {
    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Passed(Duration),
    Sent(usize),
}

/// `clients` connections, each asking again as soon as it has its answer. `request` makes the nth; every answer must have `code`.
pub(crate) async fn run(
    program: &Program,
    clients: usize,
    until: Until,
    code: u16,
    request: impl Fn(usize) -> Vec<u8> + 'static,
) -> Result<Outcome> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(program.address, program.tls.clone()).await?);
    }
    let (request, next) = (Rc::new(request), Rc::new(Cell::new(0_usize)));
    let local = tokio::task::LocalSet::new();
    let started = clock::now();
    let mut all = local
        .run_until(async move {
            let mut tasks = JoinSet::new();
            for mut connection in connections {
                let (request, next) = (Rc::clone(&request), Rc::clone(&next));
                tasks.spawn_local(async move {
                    let mut latencies = Vec::new();
                    loop {
                        let number = next.get();
                        let over = match until {
                            Until::Passed(time) => started.elapsed() >= time,
                            Until::Sent(most) => number >= most,
                        };
                        if over {
                            return Ok::<_, anyhow::Error>(latencies);
                        }
                        next.set(number + 1);
                        let bytes = request(number);
                        let asked = clock::now();
                        let (answered, _) = connection.ask(&bytes).await?;
                        ensure!(answered == code, "request {number} was answered {answered}, not {code}");
                        latencies.push(asked.elapsed());
                    }
                });
            }
            let mut all = Vec::new();
            while let Some(done) = tasks.join_next().await {
                all.extend(done??);
            }
            Ok::<_, anyhow::Error>(all)
        })
        .await?;
    let took = started.elapsed();
    all.sort_unstable();
    Ok(Outcome { requests: all.len(), took, p50: percentile(&all, 50), p99: percentile(&all, 99) })
}

/// Of sorted times, the one that so many percent do not exceed.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}
