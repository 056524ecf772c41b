//! Exec and attach: a program on one side, a websocket on the other.

use std::{future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use lazaret_containers::{Attached, Exec, Runtime, RuntimeError};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    Idle,
    channels::{Protocol, STDERR, STDOUT, StreamOptions},
    input::Input,
    output::{self, Outgoing},
    status,
};
use crate::websocket::{self, CloseCode};

/// After a program has ended, what it left behind may hold its outputs open. Nothing new for this long ends them.
const DRAIN_IDLE: Duration = Duration::from_secs(2);
/// How long a client may take to close the websocket after it was told to.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// A program that a runtime cannot start in this time is not started.
const START_WAIT: Duration = Duration::from_secs(120);

/// The program of a stream.
#[derive(Debug)]
pub(super) enum Program {
    Exec(Vec<String>),
    Attach,
}

/// A stream to a program, by a protocol.
#[derive(Debug)]
pub(super) struct Remote<P = Protocol> {
    pub(super) runtime: Arc<dyn Runtime>,
    /// The container.
    pub(super) id: String,
    pub(super) options: StreamOptions,
    pub(super) program: Program,
    pub(super) protocol: P,
}

impl Remote<()> {
    pub(super) fn over(self, protocol: Protocol) -> Remote {
        let Self { runtime, id, options, program, protocol: () } = self;
        Remote { runtime, id, options, program, protocol }
    }
}

type Exit = oneshot::Receiver<Result<i32, RuntimeError>>;

impl Remote {
    /// Runs until the program or the client ends.
    pub(super) async fn run(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin) {
        let (mut reading, mut writing) = split(stream);
        let idle = Idle::default();
        let started = timeout(START_WAIT, self.start()).await;
        let (streams, exit) = match started.unwrap_or_else(|_| Err(RuntimeError::Failed("timed out".into())))
        {
            Ok(started) => started,
            Err(error) => {
                let what = match self.program {
                    Program::Exec(_) => "error executing command in container",
                    Program::Attach => "error attaching to container",
                };
                let ended = Outgoing::End(status::failure(&format!("{what}: {error}")));
                let (out, queue) = mpsc::channel(1);
                let _ = out.send(ended).await;
                let _ = output::send(&mut writing, queue).await;
                close_gracefully(&mut reading, &mut writing).await;
                return;
            }
        };
        let (out, queue) = mpsc::channel(output::QUEUE_MAX);
        let Attached { stdin, stdout, stderr, resize } = streams;
        let stdin = stdin.filter(|_| self.options.stdin);
        // Tells the client that the program runs, before it says anything.
        let first = if self.options.stdout { STDOUT } else { STDERR };
        if self.options.stdout || self.options.stderr {
            let _ = out.send(Outgoing::Data { channel: first, bytes: Bytes::new() }).await;
        }
        let input = Input { protocol: self.protocol, stdin, resize, out: out.clone(), idle: &idle };
        let program = async {
            let stdout = stdout.filter(|_| self.options.stdout);
            let stderr = stderr.filter(|_| self.options.stderr);
            let copies = async {
                tokio::join!(
                    output::copy(stdout, STDOUT, out.clone(), &idle),
                    output::copy(stderr, STDERR, out.clone(), &idle),
                );
            };
            let ended = ended(copies, exit, &idle, &out).await;
            let _ = out.send(Outgoing::End(ended)).await;
            pending::<()>().await;
        };
        let told = tokio::select! {
            code = input.carry(&mut reading) => {
                close(&mut writing, code).await;
                false
            }
            sent = output::send(&mut writing, queue) => sent.is_ok(),
            () = program => false,
            () = idle.too_long() => {
                close(&mut writing, CloseCode::Normal).await;
                false
            }
        };
        if told {
            close_gracefully(&mut reading, &mut writing).await;
        }
    }

    async fn start(&self) -> Result<(Attached, Option<Exit>), RuntimeError> {
        match &self.program {
            Program::Exec(command) => {
                let StreamOptions { tty, stdin, .. } = self.options;
                let exec = Exec { command: command.clone(), tty, stdin, limit: None };
                let running = self.runtime.exec(&self.id, exec).await?;
                Ok((running.streams, Some(running.exit)))
            }
            Program::Attach => Ok((self.runtime.attach(&self.id).await?, None)),
        }
    }
}

/// How a program ended, when all that it wrote was taken.
async fn ended(
    copies: impl Future<Output = ()>,
    exit: Option<Exit>,
    idle: &Idle,
    out: &mpsc::Sender<Outgoing>,
) -> Value {
    tokio::pin!(copies);
    let Some(mut exit) = exit else {
        copies.await;
        return status::success();
    };
    let exit = tokio::select! {
        () = &mut copies => exit.await,
        exit = &mut exit => {
            loop {
                let before = idle.count();
                match timeout(DRAIN_IDLE, &mut copies).await {
                    // Something came, or the client has not taken what came.
                    Err(_) if idle.count() != before || out.capacity() < output::QUEUE_MAX => {}
                    Ok(()) | Err(_) => break,
                }
            }
            exit
        }
    };
    let exit = exit.unwrap_or_else(|_| Err(RuntimeError::Failed("the runtime lost the program".to_owned())));
    status::of_exit(&exit)
}

/// Tells the client why the websocket ends, if it listens.
async fn close(writing: &mut (impl AsyncWrite + Unpin), code: CloseCode) {
    let _ = timeout(CLOSE_WAIT, async {
        writing.write_all(&websocket::close(code)).await?;
        writing.shutdown().await
    })
    .await;
}

/// Waits a little for the client to close as well: what is still on its way is not to be cut off.
async fn close_gracefully(reading: &mut (impl AsyncRead + Unpin), writing: &mut (impl AsyncWrite + Unpin)) {
    let _ = timeout(CLOSE_WAIT, async {
        let _ = writing.shutdown().await;
        let mut rest = [0; 1_024];
        while matches!(reading.read(&mut rest).await, Ok(1..)) {}
    })
    .await;
}
