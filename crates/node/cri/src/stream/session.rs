//! One session: frames on one side, the streams of a program on the other.

use std::{collections::BTreeMap, future::pending};

use lazaret_containers::{Attached, Resize, RuntimeError};
use lazaret_spdy::{Broken, Frame, Reader};
use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split,
    },
    sync::{mpsc, oneshot},
};

use super::status::exit_code;

/// Bytes of a stream that wait for their reader. With more, the runtime waits.
const STREAM_BYTES_MAX: usize = 64 << 10;
/// Bytes read from the runtime, and from an input, at once.
const READ_BYTES: usize = 16 << 10;
/// Bytes of a runtime's status of a program's end.
const STATUS_BYTES_MAX: usize = 64 << 10;
/// Sizes of a terminal that wait. Only the last one counts.
const RESIZES_MAX: usize = 8;
/// Answers to pings that wait.
const ANSWERS_MAX: usize = 8;

/// Which streams a program has besides its output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    pub(super) stdin: bool,
    /// With a terminal, errors are part of the output.
    pub(super) tty: bool,
}

/// A session that is about to begin.
#[derive(Debug)]
pub(super) struct Session {
    /// The kinds of streams, each with its number.
    kinds: BTreeMap<&'static str, u32>,
    stdin: Option<DuplexStream>,
    outputs: BTreeMap<u32, DuplexStream>,
    resizes: Option<mpsc::Receiver<Resize>>,
    exit: Option<oneshot::Sender<Result<i32, RuntimeError>>>,
}

impl Session {
    /// A session, and the streams that it will carry.
    pub(super) fn new(
        streams: Streams,
        exit: Option<oneshot::Sender<Result<i32, RuntimeError>>>,
    ) -> (Attached, Self) {
        let Streams { stdin, tty } = streams;
        let wanted = [("error", true), ("stdin", stdin), ("stdout", true), ("stderr", !tty), ("resize", tty)];
        let kinds = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(kind, _)| kind);
        // A client's streams have odd numbers.
        let kinds: BTreeMap<&'static str, u32> = kinds.zip((1..).step_by(2)).collect();
        let mut outputs = BTreeMap::new();
        let mut output = |kind: &str| {
            let (ours, theirs) = duplex(STREAM_BYTES_MAX);
            outputs.insert(*kinds.get(kind)?, ours);
            Some(Box::new(theirs) as Box<dyn AsyncRead + Send + Unpin>)
        };
        let (stdout, stderr) = (output("stdout"), output("stderr"));
        let (input, source) = duplex(STREAM_BYTES_MAX);
        let (resize, resizes) = mpsc::channel(RESIZES_MAX);
        let attached = Attached {
            stdin: stdin.then(|| Box::new(input) as Box<dyn AsyncWrite + Send + Unpin>),
            stdout,
            stderr,
            resize: tty.then_some(resize),
        };
        let (stdin, resizes) = (stdin.then_some(source), tty.then_some(resizes));
        (attached, Self { kinds, stdin, outputs, resizes, exit })
    }

    /// Runs until the program has ended, the connection has, or the caller is gone.
    pub(super) async fn run(self, connection: impl AsyncRead + AsyncWrite + Send) {
        let Self { kinds, stdin, outputs, resizes, exit } = self;
        let (reading, writing) = split(connection);
        let (pongs, answers) = mpsc::channel(ANSWERS_MAX);
        let mut exit = exit;
        let abandoned = async {
            match &mut exit {
                Some(exit) => exit.closed().await,
                None => pending().await,
            }
        };
        let error = kinds["error"];
        let said = tokio::select! {
            said = receive(reading, outputs, error, pongs) => said,
            () = send(writing, &kinds, stdin, resizes, answers) => return,
            () = abandoned => return,
        };
        if let Some(exit) = exit {
            // The receiver may be gone.
            let _ = exit.send(exit_code(&said));
        }
    }
}

/// Takes what arrives, and answers what was said of the program's end. Outputs end when this does.
async fn receive<C: AsyncRead>(
    mut reading: ReadHalf<C>,
    mut outputs: BTreeMap<u32, DuplexStream>,
    error: u32,
    pongs: mpsc::Sender<u32>,
) -> Vec<u8> {
    let (mut frames, mut said, mut block) = (Reader::new(), Vec::new(), vec![0; READ_BYTES]);
    loop {
        loop {
            match frames.next_frame() {
                Ok(Some(Frame::Data { id, bytes, is_last })) if id == error => {
                    let room = STATUS_BYTES_MAX - said.len();
                    said.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if is_last {
                        return said;
                    }
                }
                Ok(Some(Frame::Data { id, bytes, is_last })) => {
                    let Some(output) = outputs.get_mut(&id) else { continue };
                    // A reader that has left its output may still wait for the end.
                    if output.write_all(&bytes).await.is_err() || is_last {
                        outputs.remove(&id);
                    }
                }
                Ok(Some(Frame::Reset { id })) if id == error => return said,
                Ok(Some(Frame::Reset { id })) => drop(outputs.remove(&id)),
                Ok(Some(Frame::Ping { id })) => {
                    // One that is not answered is asked again.
                    let _ = pongs.try_send(id);
                }
                Ok(Some(Frame::GoAway)) | Err(Broken) => return said,
                // A runtime opens no streams.
                Ok(Some(Frame::Stream { .. } | Frame::Other)) => {}
                Ok(None) => break,
            }
        }
        match reading.read(&mut block).await {
            Ok(0) | Err(_) => return said,
            Ok(count) => frames.arrive(&block[..count]),
        }
    }
}

/// Opens the streams and sends what goes into them, for as long as there is a connection.
async fn send<C: AsyncWrite>(
    mut writing: WriteHalf<C>,
    kinds: &BTreeMap<&'static str, u32>,
    mut stdin: Option<DuplexStream>,
    mut resizes: Option<mpsc::Receiver<Resize>>,
    mut answers: mpsc::Receiver<u32>,
) {
    let mut by_number: Vec<(u32, &str)> = kinds.iter().map(|(kind, id)| (*id, *kind)).collect();
    by_number.sort_unstable();
    let opened = by_number.iter().enumerate();
    let mut frame: Vec<u8> = opened
        .flat_map(|(at, (id, kind))| lazaret_spdy::open(*id, &[("streamtype", kind)], at == 0))
        .collect();
    let number = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
    let mut block = vec![0; READ_BYTES];
    loop {
        let written = async {
            writing.write_all(&frame).await?;
            writing.flush().await
        };
        if written.await.is_err() {
            // Data that the other side sent before is still to be read.
            return pending().await;
        }
        frame = tokio::select! {
            count = input(&mut stdin, &mut block) => {
                if count == 0 {
                    stdin = None;
                }
                lazaret_spdy::data(number("stdin"), &block[..count], count == 0)
            }
            Resize { width, height } = size(&mut resizes) => {
                let text = format!("{{\"Width\":{width},\"Height\":{height}}}\n");
                lazaret_spdy::data(number("resize"), text.as_bytes(), false)
            }
            Some(id) = answers.recv() => lazaret_spdy::ping(id),
        };
    }
}

/// Zero at the end; without an input, or after its end, never anything.
async fn input(stdin: &mut Option<DuplexStream>, block: &mut [u8]) -> usize {
    match stdin {
        Some(stdin) => stdin.read(block).await.unwrap_or(0),
        None => pending().await,
    }
}

/// The next size; without a terminal, or when all senders are gone, never one.
async fn size(resizes: &mut Option<mpsc::Receiver<Resize>>) -> Resize {
    if let Some(resizes) = resizes
        && let Some(size) = resizes.recv().await
    {
        return size;
    }
    pending().await
}
