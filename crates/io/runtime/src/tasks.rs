//! Tasks with an owner: they end when it is dropped, and start again when they panic.

use std::time::Duration;

use lazaret_leader::RestartBackoff;
use tokio::task::{AbortHandle, JoinSet};
use tracing::error;

use crate::{Metrics, panics::caught};

/// Tasks that live as long as this does.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<()>,
}

impl Tasks {
    /// Starts a task that does not start again, or starts its parts again itself as [`run`](crate::run) does. A panic of the task is logged
    /// and counted, and the process is not ready from then on.
    pub fn spawn(&mut self, name: &str, metrics: &Metrics, task: impl Future<Output = ()> + Send + 'static) {
        let (name, metrics) = (name.to_owned(), metrics.clone());
        self.set.spawn(async move {
            if let Err(panic) = caught(task).await {
                error!(task = name, panic, "a task panicked and does not start again");
                metrics.task_panicked(&name);
            }
        });
    }

    /// Starts a task that is made anew, after a pause, whenever it panics. It can be ended before all of them.
    pub fn supervise<T: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        metrics: Metrics,
        mut make: impl FnMut() -> T + Send + 'static,
    ) -> AbortHandle {
        // Those that were ended.
        while self.set.try_join_next().is_some() {}
        self.set.spawn(async move {
            let mut restarts = Restarts::new(name, metrics);
            while let Err(panic) = caught(async { make().await }).await {
                restarts.pause(&panic).await;
            }
        })
    }

    /// Waits until all have ended by themselves.
    pub async fn join(mut self) {
        while self.set.join_next().await.is_some() {}
    }
}

/// The state of one supervised task that outlives its panics.
#[derive(Debug)]
pub(crate) struct Restarts {
    name: String,
    metrics: Metrics,
    pauses: RestartBackoff,
    started: tokio::time::Instant,
}

impl Restarts {
    pub(crate) fn new(name: String, metrics: Metrics) -> Self {
        metrics.health().started(&name);
        Self { name, metrics, pauses: RestartBackoff::default(), started: tokio::time::Instant::now() }
    }

    /// Notes a panic, and waits until the task may start again.
    pub(crate) async fn pause(&mut self, panic: &str) {
        let ran_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let pause_ms = self.pauses.after(ran_ms).unsigned_abs();
        error!(task = self.name, panic, pause_ms, "a task panicked; it starts again with a fresh view");
        self.metrics.task_panicked(&self.name);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        self.started = tokio::time::Instant::now();
        self.metrics.health().started_again(&self.name);
    }
}

/// A task that has ended is no longer part of the health report.
impl Drop for Restarts {
    fn drop(&mut self) {
        self.metrics.health().ended(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_and_does_not_start_again_stays_down() {
        let metrics = Metrics::default();
        let mut tasks = Tasks::default();
        tasks.spawn("it", &metrics, async {
            tokio::task::yield_now().await;
            panic!("once")
        });
        tasks.spawn("other", &metrics, async {});
        tasks.join().await;
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(metrics.health().checks(), [("it".to_owned(), false)]);
        assert!(metrics.text().contains(r#"lazaret_task_panics_total{task="it"} 1"#), "{}", metrics.text());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_made_anew_and_counted() {
        let (metrics, lives) = (Metrics::default(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&lives);
        let mut tasks = Tasks::default();
        let begin = tokio::time::Instant::now();
        tasks.supervise("it".into(), metrics.clone(), move || {
            let life = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert!(life >= 3, "life {life}") }
        });
        tasks.join().await;
        assert_eq!(lives.load(Ordering::Relaxed), 4);
        assert_eq!(begin.elapsed(), Duration::from_millis(700), "each pause is twice the one before");
        assert!(metrics.text().contains(r#"lazaret_task_panics_total{task="it"} 3"#), "{}", metrics.text());
    }
}
