//! Starting shims, and asking them.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
};

use super::Shared;
use crate::{
    RuntimeError,
    layout::ContainerDir,
    protocol::{Decoder, Kind, Reply, Request},
};

/// How long an OCI runtime may take to make or start a container, hooks included.
pub(super) const LAUNCH_TIME_MAX: Duration = Duration::from_secs(120);
/// How long a shim may take to answer anything else.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

impl Shared {
    /// One of our own processes, with a connection to it as its input.
    pub(super) fn shim_command(&self, word: &str) -> Result<(Command, UnixStream), RuntimeError> {
        let failed = |error: std::io::Error| RuntimeError::Failed(format!("connect to a shim: {error}"));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let ours = UnixStream::from_std(ours).map_err(failed)?;
        let mut command = self.plain_command(word)?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        Ok((command, ours))
    }

    /// One of our own processes. It gets no environment: an agent's may hold credentials.
    pub(super) fn plain_command(&self, word: &str) -> Result<Command, RuntimeError> {
        let (program, words) = self
            .options
            .shim
            .split_first()
            .ok_or_else(|| RuntimeError::Failed("no program is given for shims".to_owned()))?;
        let mut command = Command::new(program);
        command.args(words).arg(word).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        Ok(command)
    }
}

/// Asks the shim of a container.
pub(super) async fn ask(directory: &ContainerDir, request: &Request) -> Result<Reply, RuntimeError> {
    let limit = match request {
        Request::Start => LAUNCH_TIME_MAX,
        Request::Signal(_) | Request::Attach | Request::ReopenLog => ANSWER_TIME_MAX,
    };
    let mut socket = connect(&directory.0).await?;
    let answer = async {
        socket.write_all(&request.frame()).await.map_err(|error| gone(&error))?;
        read_reply(&mut socket, &mut Decoder::default()).await
    };
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
}

/// Asks for something that is done or not.
pub(super) async fn send_request(directory: &ContainerDir, request: &Request) -> Result<(), RuntimeError> {
    match ask(directory, request).await? {
        Reply::Failed { message, cannot_run: true } => Err(RuntimeError::CannotRun(message)),
        Reply::Failed { message, cannot_run: false } => Err(RuntimeError::Failed(message)),
        Reply::Done | Reply::Attached { .. } | Reply::Exited(_) => Ok(()),
    }
}

pub(super) fn late() -> RuntimeError {
    RuntimeError::Failed("the container's shim did not answer in time".to_owned())
}

fn gone(error: &std::io::Error) -> RuntimeError {
    RuntimeError::Failed(format!("the container's shim does not answer: {error}"))
}

/// Connects to the socket in a directory, by a path that is short whatever the directory's is.
pub(super) async fn connect(directory: &Path) -> Result<UnixStream, RuntimeError> {
    let open = std::fs::File::open(directory).map_err(|error| gone(&error))?;
    let path = format!("/proc/self/fd/{}/socket", open.as_raw_fd());
    UnixStream::connect(path).await.map_err(|error| gone(&error))
}

/// The next reply. Nothing else is sent before one.
pub(super) async fn read_reply(
    socket: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
) -> Result<Reply, RuntimeError> {
    let strange = || RuntimeError::Failed("the container's shim answered something unknown".to_owned());
    let mut buffer = vec![0; 4096];
    loop {
        match decoder.next() {
            Ok(Some((Kind::Reply, payload))) => {
                return serde_json::from_slice(payload).map_err(|_| strange());
            }
            Ok(Some(_)) | Err(_) => return Err(strange()),
            Ok(None) => {}
        }
        match socket.read(&mut buffer).await {
            Ok(0) => return Err(RuntimeError::Failed("the container's shim ended".to_owned())),
            Ok(count) => decoder.push(&buffer[..count]),
            Err(error) => return Err(gone(&error)),
        }
    }
}
