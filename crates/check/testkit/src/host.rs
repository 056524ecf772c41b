//! The thread that a cluster's tasks run on, so that tests need no runtime of their own and those that have one are not in its way.

use std::{future::Future, io, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// A runtime on a thread of its own. Dropping it ends its tasks and waits for the thread.
#[derive(Debug)]
pub(crate) struct Host {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("testkit".into()).spawn(move || {
            // The sender's drop ends the thread as well as a word from it.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future to its end from a thread that may wait, whether or not that thread belongs to a runtime.
    pub(crate) fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        if Handle::try_current().is_err() {
            return self.handle.block_on(future);
        }
        // A thread inside a runtime must not run another; one without has no such trouble.
        thread::scope(|scope| {
            let waiting = scope.spawn(|| self.handle.block_on(future));
            waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
    }
}
