//! The API over HTTPS, HTTP/1.1 and HTTP/2.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

use crate::{
    Authenticator, Server, Tls,
    connection::{self, GRACE},
    front::Front,
    front_limits::FrontLimits,
    log_pace::LogPace,
};

/// After a connection could not be taken, the next is tried after this long, and later and later up to the other.
const ACCEPT_RETRY_MIN: Duration = Duration::from_millis(10);
const ACCEPT_RETRY_MAX: Duration = Duration::from_secs(1);

/// How to serve.
#[derive(Debug)]
pub struct HttpOptions {
    /// Certificates; `None` serves plain HTTP, for tests on loopback.
    pub tls: Option<Tls>,
    /// Authenticates requests.
    pub authenticator: Authenticator,
}

/// Serves until `stop` says so, then lets running requests end for a moment. Raises this process's limit of open files as far as it may.
///
/// # Errors
/// None so far: a connection that fails ends alone.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    options: HttpOptions,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let front = Arc::new(Front::new(server, options.authenticator, FrontLimits::of_this_process()));
    // Each connection has one end; nothing is ever sent.
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    let (log, mut pause) = (LogPace::default(), ACCEPT_RETRY_MIN);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // A connection that was given up before it was taken is no reason to stop, nor is a lack of files.
            Err(error) => {
                if let Some(since_last) = log.due(0) {
                    tracing::warn!(%error, since_last, "a connection cannot be accepted");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_RETRY_MAX);
                continue;
            }
        };
        pause = ACCEPT_RETRY_MIN;
        // Answers are small and watched for: never wait to fill a packet.
        let _ = stream.set_nodelay(true);
        let (front, tls, open, stop) = (front.clone(), options.tls.clone(), open.clone(), stop.clone());
        spawn(async move {
            connection::serve(front, tls, stream, peer.ip(), stop).await;
            drop(open);
        });
    }
    drop((listener, open));
    front.server.end_watches();
    // Whatever is left after a while is cut.
    let _ = tokio::time::timeout(GRACE, all_closed.recv()).await;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a task for each connection, which ends with it")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
