//! Port-forward: SPDY frames in messages of a websocket. Each connection has two streams, one for its bytes and one for what went wrong.

mod forward;

use std::{collections::BTreeMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use lazaret_containers::Runtime;
use lazaret_spdy::{self as frames, Frame, Reader};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use self::forward::Forward;
use crate::{
    streams::Idle,
    websocket::{self, CloseCode, Message},
};

/// Connections of one session at a time.
const FORWARDS_MAX: usize = 256;
/// Streams whose second half has not come.
const HALVES_MAX: usize = 256;
/// Messages that wait to be sent: with more, the sender waits.
const QUEUE_MAX: usize = 16;
/// Pieces from the client that wait for a connection: with more, the session waits.
const PIECES_MAX: usize = 16;
const READ_BYTES: usize = 32 << 10;

/// A session that forwards ports of one pod.
#[derive(Debug)]
pub(crate) struct Session {
    runtime: Arc<dyn Runtime>,
    sandbox: String,
    pod: String,
}

/// The streams of a request of which one is missing.
#[derive(Default)]
struct PendingStreams {
    error: Option<u32>,
    data: Option<(u32, u16)>,
}

/// The state of a session.
struct State {
    halves: BTreeMap<String, PendingStreams>,
    /// Connections by the stream of their bytes.
    open: BTreeMap<u32, OpenForward>,
    forwards: JoinSet<u32>,
    out: mpsc::Sender<Vec<u8>>,
    has_replied: bool,
}

/// A connection that is open.
struct OpenForward {
    /// Where bytes of the client go; they end when it is dropped.
    sink: Option<mpsc::Sender<Bytes>>,
    error: u32,
    task: AbortHandle,
}

/// The session ends.
struct SessionEnd(CloseCode);

impl Session {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, sandbox: String, pod: String) -> Self {
        Self { runtime, sandbox, pod }
    }

    /// Runs until the client goes.
    pub(crate) async fn run(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin) {
        let (reading, mut writing) = split(stream);
        let (out, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE_MAX);
        let (pongs, mut pong_queue) = mpsc::channel::<Bytes>(1);
        let idle = Idle::default();
        let sending = async {
            loop {
                let frame = tokio::select! {
                    Some(frame) = queue.recv() => websocket::binary(&[&frame]),
                    Some(payload) = pong_queue.recv() => websocket::pong(&payload),
                    else => return,
                };
                idle.touch();
                let written = async {
                    writing.write_all(&frame).await?;
                    writing.flush().await
                };
                if written.await.is_err() {
                    return;
                }
            }
        };
        let state = State {
            halves: BTreeMap::new(),
            open: BTreeMap::new(),
            forwards: JoinSet::new(),
            out,
            has_replied: false,
        };
        let code = tokio::select! {
            SessionEnd(code) = self.receive(reading, state, pongs, &idle) => code,
            () = sending => return,
            () = idle.too_long() => CloseCode::Normal,
        };
        let _ = writing.write_all(&websocket::close(code)).await;
        let _ = writing.shutdown().await;
    }

    async fn receive(
        &self,
        mut reading: impl AsyncRead + Unpin,
        mut state: State,
        pongs: mpsc::Sender<Bytes>,
        idle: &Idle,
    ) -> SessionEnd {
        let (mut messages, mut arrived, mut frames) =
            (websocket::Reader::default(), BytesMut::new(), Reader::new());
        loop {
            loop {
                match messages.next(&mut arrived) {
                    Ok(Some(Message::Binary(bytes))) => frames.arrive(&bytes),
                    Ok(Some(Message::Ping(payload))) => {
                        let _ = pongs.try_send(payload);
                    }
                    Ok(Some(Message::Pong)) => {}
                    Ok(Some(Message::Close)) => return SessionEnd(CloseCode::Normal),
                    Ok(None) => break,
                    Err(code) => return SessionEnd(code),
                }
                idle.touch();
                loop {
                    match frames.next_frame() {
                        Ok(Some(frame)) => {
                            if let Err(over) = self.frame(&mut state, frame).await {
                                return over;
                            }
                        }
                        Ok(None) => break,
                        Err(frames::Broken) => return SessionEnd(CloseCode::ProtocolError),
                    }
                }
            }
            arrived.reserve(READ_BYTES);
            tokio::select! {
                read = reading.read_buf(&mut arrived) => {
                    if !matches!(read, Ok(1..)) {
                        return SessionEnd(CloseCode::Normal);
                    }
                }
                Some(ended) = state.forwards.join_next() => {
                    if let Ok(id) = ended {
                        state.open.remove(&id);
                    }
                }
            }
        }
    }

    async fn frame(&self, state: &mut State, frame: Frame) -> Result<(), SessionEnd> {
        match frame {
            Frame::Stream { id, headers, is_last: _ } => self.stream(state, id, &headers).await,
            Frame::Data { id, bytes, is_last } => {
                if let Some(open) = state.open.get_mut(&id) {
                    if let Some(sink) = open.sink.as_ref().filter(|_| !bytes.is_empty()) {
                        // A forward that takes no more has ended, or is about to.
                        let _ = sink.send(bytes).await;
                    }
                    if is_last {
                        open.sink = None;
                    }
                }
                Ok(())
            }
            Frame::Reset { id } => match state.open.remove(&id) {
                Some(open) if !open.task.is_finished() => {
                    open.task.abort();
                    state.send(frames::data(open.error, b"", true)).await
                }
                Some(_) | None => Ok(()),
            },
            Frame::Ping { id } => state.send(frames::ping(id)).await,
            Frame::GoAway => Err(SessionEnd(CloseCode::Normal)),
            Frame::Other => Ok(()),
        }
    }

    async fn stream(
        &self,
        state: &mut State,
        id: u32,
        headers: &[(String, String)],
    ) -> Result<(), SessionEnd> {
        let header =
            |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let request = header("requestid").unwrap_or_default().to_owned();
        let port = header("port").and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
        let full = state.halves.len() >= HALVES_MAX || state.forwards.len() >= FORWARDS_MAX;
        let (Some(port), false) = (port, full) else { return state.send(frames::refuse(id)).await };
        let half = state.halves.entry(request.clone()).or_default();
        match header("streamtype") {
            Some("error") if half.error.is_none() => half.error = Some(id),
            Some("data") if half.data.is_none() => half.data = Some((id, port)),
            _ => return state.send(frames::refuse(id)).await,
        }
        let both = half.error.zip(half.data);
        let is_first = !std::mem::replace(&mut state.has_replied, true);
        state.send(frames::reply(id, is_first)).await?;
        if let Some((error, (data, port))) = both {
            state.halves.remove(&request);
            let (sink, from_client) = mpsc::channel(PIECES_MAX);
            let forward = Forward {
                runtime: Arc::clone(&self.runtime),
                sandbox: self.sandbox.clone(),
                pod: self.pod.clone(),
                port,
                data,
                error,
                out: state.out.clone(),
            };
            let task = state.forwards.spawn(async move {
                forward.run(from_client).await;
                data
            });
            state.open.insert(data, OpenForward { sink: Some(sink), error, task });
        }
        Ok(())
    }
}

impl State {
    async fn send(&self, frame: Vec<u8>) -> Result<(), SessionEnd> {
        self.out.send(frame).await.map_err(|_| SessionEnd(CloseCode::Normal))
    }
}
