//! Threads on which controllers and the scheduler decide: apart from those that answer the API, so that it answers whatever is computed.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// How many threads decide at once. A core that is busy keeps one of them for a turn: the others carry on, and renew leases.
const THREADS: usize = 4;
/// How long the parts may take to end before the process ends without them.
pub(crate) const END_WITHIN: Duration = Duration::from_millis(1_500);

/// Threads of their own. Dropping them ends the process's interest in what they still do.
#[derive(Debug)]
pub(crate) struct Deciding {
    runtime: Option<Runtime>,
}

impl Deciding {
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("deciding")
            .enable_all()
            .build()
            .context("start the threads that decide")?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs this on these threads, with all that it starts.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let runtime = self.runtime.as_ref().context("the threads that decide have ended")?;
        runtime.spawn(work).await.context("decide")
    }
}

/// Threads that are busy are not waited for.
impl Drop for Deciding {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Where all shared one thread, nobody could release what the core waits for.
    #[test]
    fn whoever_answers_is_not_kept_by_a_core_that_is_busy() {
        let api = Builder::new_current_thread().enable_all().build().unwrap();
        let deciding = Deciding::start().unwrap();
        let (release, latch) = mpsc::channel::<()>();
        api.block_on(async {
            let busy = deciding.run(async move { latch.recv().is_ok() });
            let answering = async {
                tokio::task::yield_now().await;
                release.send(())
            };
            let (decided, answered) = tokio::join!(busy, answering);
            assert!(decided.unwrap() && answered.is_ok());
        });
    }

    #[test]
    fn the_end_does_not_wait_for_a_core_that_is_busy() {
        let api = Builder::new_current_thread().enable_all().build().unwrap();
        let deciding = Deciding::start().unwrap();
        let (release, latch) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        api.block_on(async {
            let busy = deciding.run(async move {
                let told = begun.send(());
                told.is_ok() && latch.recv().is_ok()
            });
            let ended = tokio::time::timeout(Duration::ZERO, busy).await;
            assert!(ended.is_err());
        });
        begins.recv().unwrap();
        drop(deciding);
        drop(release);
    }
}
