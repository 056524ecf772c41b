//! A runtime that is played: programs run as plain processes, ports are those of this machine.

use std::{
    fmt,
    pin::Pin,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use lazaret_containers::{
    Answer, Attached, Connection, ContainerSpec, ContainerState, Exec, Key, Phase, Resize, Running, Runtime,
    RuntimeError, SandboxSpec, SandboxState, Usage,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, duplex},
    net::TcpStream,
    process::Command,
    sync::{mpsc, oneshot, watch},
};

/// A program that writes for ever, as much as is taken.
pub(crate) const ENDLESS: &str = "endless";
/// A program that says how its terminal is resized, and ends when its input does.
pub(crate) const TERMINAL: &str = "terminal";

#[derive(Default)]
pub(crate) struct Played {
    /// Bytes that were taken from endless programs.
    pub(crate) produced: Arc<AtomicUsize>,
    /// Programs that run now.
    pub(crate) running: Arc<AtomicUsize>,
    /// The containers' ends of the streams of attached clients.
    pub(crate) attached: Mutex<Vec<tokio::io::DuplexStream>>,
}

impl fmt::Debug for Played {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Played")
    }
}

fn no<T>(what: &str) -> Result<T, RuntimeError> {
    Err(RuntimeError::Unsupported { runtime: "played".into(), what: what.into() })
}

struct Endless(Arc<AtomicUsize>);

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let length = buffer.remaining();
        buffer.put_slice(&vec![b'x'; length]);
        self.0.fetch_add(length, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

/// One of the programs that run.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(running: &Arc<AtomicUsize>) -> Self {
        running.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(running))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Played {
    fn terminal(&self, counted: Counted) -> Running {
        let (mut screen, stdout) = duplex(1_024);
        let (stdin, mut keys) = duplex(1_024);
        let (resize, mut sizes) = mpsc::channel::<Resize>(4);
        let (exited, exit) = oneshot::channel();
        tokio::spawn(async move {
            let _counted = counted;
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut key = [0; 64];
            loop {
                tokio::select! {
                    Some(Resize { width, height }) = sizes.recv() => {
                        let _ = screen.write_all(format!("{width}x{height}\n").as_bytes()).await;
                    }
                    read = keys.read(&mut key) => match read {
                        Ok(0) | Err(_) => break,
                        Ok(read) => {
                            let _ = screen.write_all(&key[..read]).await;
                        }
                    },
                }
            }
            drop(screen);
            let _ = exited.send(Ok(0));
        });
        let streams = Attached {
            stdin: Some(Box::new(stdin) as Box<dyn AsyncWrite + Send + Unpin>),
            stdout: Some(Box::new(stdout)),
            stderr: None,
            resize: Some(resize),
        };
        Running { streams, exit }
    }

    fn process(&self, exec: &Exec, counted: Counted) -> Result<Running, RuntimeError> {
        let mut child = Command::new(&exec.command[0])
            .args(&exec.command[1..])
            .stdin(if exec.stdin { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| RuntimeError::CannotRun(format!("{}: {error}", exec.command[0])))?;
        let streams = Attached {
            stdin: child.stdin.take().map(|stdin| Box::new(stdin) as Box<dyn AsyncWrite + Send + Unpin>),
            stdout: child.stdout.take().map(|out| Box::new(out) as Box<dyn AsyncRead + Send + Unpin>),
            stderr: child.stderr.take().map(|err| Box::new(err) as Box<dyn AsyncRead + Send + Unpin>),
            resize: None,
        };
        let (mut exited, exit) = oneshot::channel();
        tokio::spawn(async move {
            let _counted = counted;
            let code = tokio::select! {
                status = child.wait() => status.ok().and_then(|status| status.code()).unwrap_or(137),
                () = exited.closed() => return,
            };
            let _ = exited.send(Ok(code));
        });
        Ok(Running { streams, exit })
    }
}

impl Runtime for Played {
    fn name(&self) -> &str {
        "played"
    }

    fn not_applied(&self, _: &SandboxSpec, _: &ContainerSpec) -> Vec<String> {
        Vec::new()
    }

    fn run_sandbox(&self, _: SandboxSpec) -> Answer<'_, SandboxState> {
        Box::pin(async { no("sandboxes") })
    }

    fn stop_sandbox<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn remove_sandbox<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn create<'a>(&'a self, _: &'a str, _: ContainerSpec) -> Answer<'a, String> {
        Box::pin(async { no("containers") })
    }

    fn start<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn stop<'a>(&'a self, _: &'a str, _: Duration) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn list(&self) -> Answer<'_, Vec<SandboxState>> {
        let spec = SandboxSpec {
            pod_uid: "uid-1".into(),
            namespace: "default".into(),
            name: "web".into(),
            ..SandboxSpec::default()
        };
        let container = ContainerState {
            id: "c1".into(),
            key: Key { pod_uid: "uid-1".into(), name: "app".into(), attempt: 0 },
            image: String::new(),
            image_id: String::new(),
            labels: Default::default(),
            phase: Phase::Running { started_at: SystemTime::UNIX_EPOCH, pid: 1 },
            log: Default::default(),
        };
        let sandbox = SandboxState {
            id: "s1".into(),
            spec,
            is_ready: true,
            created_at: SystemTime::UNIX_EPOCH,
            ips: Vec::new(),
            containers: vec![container],
        };
        Box::pin(async { Ok(vec![sandbox]) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    fn exec<'a>(&'a self, _: &'a str, exec: Exec) -> Answer<'a, Running> {
        Box::pin(async move {
            let counted = Counted::new(&self.running);
            match exec.command[0].as_str() {
                ENDLESS => {
                    let (mut exited, exit) = oneshot::channel();
                    tokio::spawn(async move {
                        let _counted = counted;
                        exited.closed().await;
                    });
                    let stdout: Box<dyn AsyncRead + Send + Unpin> =
                        Box::new(Endless(Arc::clone(&self.produced)));
                    let streams = Attached { stdin: None, stdout: Some(stdout), stderr: None, resize: None };
                    Ok(Running { streams, exit })
                }
                TERMINAL => Ok(self.terminal(counted)),
                _ => self.process(&exec, counted),
            }
        })
    }

    fn attach<'a>(&'a self, _: &'a str) -> Answer<'a, Attached> {
        Box::pin(async move {
            let (near, far) = duplex(1_024);
            let (reading, writing) = tokio::io::split(near);
            self.attached.lock().unwrap().push(far);
            Ok(Attached {
                stdin: Some(Box::new(writing)),
                stdout: Some(Box::new(reading)),
                stderr: None,
                resize: None,
            })
        })
    }

    fn reopen_log<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn connect<'a>(&'a self, _: &'a str, port: u16) -> Answer<'a, Box<dyn Connection>> {
        Box::pin(async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await;
            let stream = stream.map_err(|error| RuntimeError::Failed(error.to_string()))?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }

    fn usage<'a>(&'a self, _: &'a str) -> Answer<'a, Usage> {
        let usage =
            Usage { cpu_nanoseconds: 2_500_000_000, memory_working_set: 1_000, memory: 2_000, pids: 3 };
        Box::pin(async move { Ok(usage) })
    }
}
