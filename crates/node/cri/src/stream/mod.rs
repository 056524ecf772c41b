//! Streams to programs. The runtime answers `Exec` and `Attach` with an address; there, an HTTP request becomes a SPDY session with a
//! stream for each of input, output, errors, sizes of the terminal, and how it ended.

mod session;
mod status;
mod upgrade;

use std::time::Duration;

use lazaret_containers::{Attached, Exec, Running, RuntimeError};
use tokio::sync::oneshot;

use self::session::{Session, Streams};
use crate::{Cri, convert, proto, runtime::QUERY_LIMIT};

/// How long the runtime may take to make a session of a request.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);

impl Cri {
    /// Runs a program whose streams are there while it runs.
    pub(crate) async fn stream_program(&self, id: &str, exec: Exec) -> Result<Running, RuntimeError> {
        let Exec { command, tty, stdin, limit: _ } = exec;
        let request = proto::ExecRequest {
            container_id: id.to_owned(),
            cmd: command,
            tty,
            stdin,
            stdout: true,
            stderr: !tty,
        };
        let answer: proto::UrlResponse = self.connection.call(proto::EXEC, request, QUERY_LIMIT).await?;
        let (sender, exit) = oneshot::channel();
        let streams = self.begin(&answer.url, Streams { stdin, tty }, Some(sender)).await?;
        Ok(Running { streams, exit })
    }

    /// Connects to the streams of the first program of a container.
    pub(crate) async fn attach_to(&self, id: &str) -> Result<Attached, RuntimeError> {
        let (status, _) = self.container(id).await?;
        let kept =
            convert::kept(&status)?.ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))?;
        let (stdin, tty) = (kept.stdin, kept.tty);
        let request =
            proto::AttachRequest { container_id: id.to_owned(), stdin, tty, stdout: true, stderr: !tty };
        let answer: proto::UrlResponse = self.connection.call(proto::ATTACH, request, QUERY_LIMIT).await?;
        self.begin(&answer.url, Streams { stdin, tty }, None).await
    }

    async fn begin(
        &self,
        url: &str,
        streams: Streams,
        exit: Option<oneshot::Sender<Result<i32, RuntimeError>>>,
    ) -> Result<Attached, RuntimeError> {
        let connection = tokio::time::timeout(BEGIN_LIMIT, upgrade::connect(url)).await;
        let connection = connection.unwrap_or_else(|_| Err("no answer".to_owned()));
        let connection = connection.map_err(|error| {
            RuntimeError::Failed(format!("connect to the stream at the runtime: {error}"))
        })?;
        let (attached, session) = Session::new(streams, exit);
        // It ends when the program has, when the connection does, or when its caller is gone.
        self.spawn(session.run(connection));
        Ok(attached)
    }
}
