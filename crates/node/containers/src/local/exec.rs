//! Programs that are executed in containers.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    sync::{mpsc, oneshot},
};

use super::{Shared, blocking, failed, shim::read_reply};
use crate::{
    Attached, Exec, Phase, Resize, Running, RuntimeError, layout,
    protocol::{Decoder, Kind, Reply, frame},
    record::ExecSpec,
};

/// Bytes of input that wait for a program.
pub(super) const INPUT_BYTES_MAX: usize = 32 << 10;
/// Sizes of a terminal that wait. Only the last one counts.
pub(super) const RESIZES_MAX: usize = 8;

/// So that two programs of one container have files of their own.
static COUNT: AtomicU64 = AtomicU64::new(0);

impl Shared {
    pub(super) async fn exec(self: &Arc<Self>, id: &str, exec: Exec) -> Result<Running, RuntimeError> {
        let directory = self.container(id)?;
        let Phase::Running { pid, .. } = self.phase_of(&directory, id).await? else {
            return Err(RuntimeError::NotPossible(format!("container {id} does not run")));
        };
        let Exec { command, tty, stdin, limit } = exec;
        if command.is_empty() {
            return Err(RuntimeError::CannotRun("there is no command".to_owned()));
        }
        let pod = layout::parse_container_id(id).map(|key| key.pod_uid).unwrap_or_default();
        let permit = match limit {
            Some(_) => self.permits.program(&pod).await?,
            None => self.permits.session(&pod)?,
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.0.join(format!("exec-{}-{number}.json", std::process::id()));
        let engine = self.engine.clone();
        let spec = ExecSpec { id: id.to_owned(), directory: directory.0, command, tty, stdin, engine, pid };
        let file = path.clone();
        blocking(move || layout::write(&file, &spec).map_err(failed(&file))).await?;
        let (mut shim, connection) = self.shim_command("exec")?;
        shim.arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = shim.spawn();
        drop(shim);
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                return Err(RuntimeError::Failed(format!("execute in container {id}: {error}")));
            }
        };
        let (input, ours) = tokio::io::duplex(INPUT_BYTES_MAX);
        let (resize, sizes) = mpsc::channel(RESIZES_MAX);
        let (sender, exit) = oneshot::channel();
        let (reader, writer) = connection.into_split();
        let streams = Attached {
            stdin: stdin.then(|| Box::new(input) as Box<dyn AsyncWrite + Send + Unpin>),
            stdout: child.stdout.take().map(|stream| Box::new(stream) as _),
            stderr: child.stderr.take().filter(|_| !tty).map(|stream| Box::new(stream) as _),
            resize: tty.then_some(resize),
        };
        self.spawn(async move {
            let _held = (child, permit);
            let followed = follow(reader, writer, stdin.then_some(ours), sizes, sender);
            // Its end comes with the connection's, after the limit as well.
            let _ = tokio::time::timeout(limit.unwrap_or(Duration::MAX), followed).await;
        });
        Ok(Running { streams, exit })
    }
}

/// Until the program has ended, or its caller is gone: then the connection closes, and that kills it.
async fn follow(
    mut reader: tokio::net::unix::OwnedReadHalf,
    mut writer: tokio::net::unix::OwnedWriteHalf,
    input: Option<DuplexStream>,
    sizes: mpsc::Receiver<Resize>,
    mut exit: oneshot::Sender<Result<i32, RuntimeError>>,
) {
    let mut decoder = Decoder::default();
    let result = tokio::select! {
        reply = read_reply(&mut reader, &mut decoder) => reply.and_then(|reply| match reply {
            Reply::Exited(code) => Ok(code),
            Reply::Failed { message, cannot_run: true } => Err(RuntimeError::CannotRun(message)),
            Reply::Failed { message, cannot_run: false } => Err(RuntimeError::Failed(message)),
            Reply::Done | Reply::Attached { .. } => Err(RuntimeError::Failed("the shim answered something else".to_owned())),
        }),
        () = exit.closed() => return,
        () = feed(&mut writer, input, sizes) => return,
    };
    let _ = exit.send(result);
}

/// Sends input and sizes for as long as there is a connection. Never ends of itself: a program without input runs on.
pub(super) async fn feed(
    writer: &mut (impl AsyncWrite + Unpin),
    mut input: Option<DuplexStream>,
    mut sizes: mpsc::Receiver<Resize>,
) {
    let mut buffer = vec![0; INPUT_BYTES_MAX];
    loop {
        let bytes = tokio::select! {
            count = read(&mut input, &mut buffer) => match count {
                0 => {
                    input = None;
                    frame(Kind::StdinEnd, &[])
                }
                count => frame(Kind::Stdin, &buffer[..count]),
            },
            Some(Resize { width, height }) = sizes.recv() => {
                let ([a, b], [c, d]) = (width.to_be_bytes(), height.to_be_bytes());
                frame(Kind::Resize, &[a, b, c, d])
            }
        };
        if writer.write_all(&bytes).await.is_err() {
            // The other side has ended, and what it said of that is still to be read.
            return std::future::pending().await;
        }
    }
}

/// Zero at the end; without an input, or after its end, never anything.
async fn read(input: &mut Option<DuplexStream>, buffer: &mut [u8]) -> usize {
    match input {
        Some(input) => input.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}
