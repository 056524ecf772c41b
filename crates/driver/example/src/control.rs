//! The control socket: one command a line, one answer for each.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

use crate::CommandError;

/// Of one connection: enough for a long list of commands.
const CONNECTION_BYTES_MAX: u64 = 1 << 20;
/// Connections at once. A person has one.
const CONNECTIONS_MAX: usize = 16;
/// A connection that says nothing for this long is closed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A longer answer is cut by the client.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no control socket.
#[derive(Debug, Error)]
#[error("control socket {path}: {source}")]
pub struct ControlError {
    path: PathBuf,
    source: io::Error,
}

pub(crate) fn listen(path: &Path) -> Result<UnixListener, ControlError> {
    let failed = |source| ControlError { path: path.to_owned(), source };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // A user who may write here can take devices away from pods.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

pub(crate) async fn serve<F, A>(listener: UnixListener, answer: F)
where
    F: Fn(String) -> A + Send + Sync + 'static,
    A: Future<Output = Result<String, CommandError>> + Send + 'static,
{
    let answer = Arc::new(answer);
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(serve_connection(stream, Arc::clone(&answer)))),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection<F, A>(stream: UnixStream, answer: Arc<F>)
where
    F: Fn(String) -> A,
    A: Future<Output = Result<String, CommandError>>,
{
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read.take(CONNECTION_BYTES_MAX)).lines();
    while let Ok(Ok(Some(line))) = tokio::time::timeout(SILENCE_MAX, lines.next_line()).await {
        let text = answer(line).await.unwrap_or_else(|error| format!("error: {error}"));
        if write.write_all(format!("{text}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Sends commands to a driver and gives its answers.
///
/// # Errors
/// When no driver listens there.
pub async fn tell(socket: &Path, commands: &[String]) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket).await?;
    for command in commands {
        stream.write_all(format!("{}\n", command.replace('\n', " ")).as_bytes()).await?;
    }
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    Ok(answer)
}
