//! Tasks with an owner: they end when it is dropped.

use std::future::Future;

use tokio::task::JoinSet;

/// Tasks that live as long as this does.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    set: JoinSet<()>,
}

impl Tasks {
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        // Tasks that have ended are dropped, so that a long life leaves nothing behind.
        while self.set.try_join_next().is_some() {}
        self.set.spawn(task);
    }

    /// Waits until all have ended by themselves.
    pub(crate) async fn join(&mut self) {
        while self.set.join_next().await.is_some() {}
    }
}
