//! Tasks with an owner: they end when it is dropped.

use tokio::task::JoinSet;

/// Tasks that live as long as this does.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<()>,
}

impl Tasks {
    /// Starts a task.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(task);
    }

    /// Waits until all have ended by themselves.
    pub async fn join(mut self) {
        while self.set.join_next().await.is_some() {}
    }
}
