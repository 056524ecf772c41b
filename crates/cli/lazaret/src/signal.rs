//! Signals by which a user, or a supervisor, asks the process to stop.

use anyhow::{Context, Result};

/// Waits for Ctrl-C, or for SIGTERM: what a kubelet or an init system sends first.
pub(crate) async fn to_stop() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut term = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed.context("wait for Ctrl-C"),
            _ = term.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.context("wait for Ctrl-C")
}
