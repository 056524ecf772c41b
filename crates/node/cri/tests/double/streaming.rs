//! The streaming server of the double: HTTP that becomes SPDY, and programs that are played.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_spdy::{Frame, Reader};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

/// A server for the sessions of one double.
pub(crate) struct Streaming {
    pub(crate) address: String,
    /// A session has ended.
    pub(crate) ended: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Streaming {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listener = TcpListener::from_std(listener).unwrap();
        let (mut tasks, ended) = (JoinSet::new(), Arc::new(Notify::new()));
        let told = Arc::clone(&ended);
        tasks.spawn(async move {
            let mut sessions = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let told = Arc::clone(&told);
                sessions.spawn(async move {
                    let _ = session(stream).await;
                    told.notify_one();
                });
            }
        });
        Self { address, ended, _tasks: tasks }
    }
}

struct Session {
    stream: TcpStream,
    frames: Reader,
    /// Numbers of streams by their kind.
    streams: BTreeMap<String, u32>,
}

/// `POST /PROGRAM?STREAMS`: what is played, and how many streams the client opens.
async fn session(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.strip_prefix("POST /").unwrap().split(' ').next().unwrap();
    let (program, count) = path.split_once('?').unwrap();
    assert!(head.contains("upgrade: SPDY/3.1\r\n"), "{head}");
    if program == "refused" {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 8\r\n\r\nno token").await;
    }
    let accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                    X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
    stream.write_all(accepted.as_bytes()).await?;
    let mut session = Session { stream, frames: Reader::new(), streams: BTreeMap::new() };
    while session.streams.len() < count.parse().unwrap() {
        let Frame::Stream { id, headers, .. } = session.next().await? else { panic!("no stream") };
        let reply = lazaret_spdy::reply(id, session.streams.is_empty());
        session.stream.write_all(&reply).await?;
        assert_eq!(headers[0].0, "streamtype");
        session.streams.insert(headers[0].1.clone(), id);
    }
    session.stream.write_all(&lazaret_spdy::ping(2)).await?;
    match program {
        "cat" => session.cat().await?,
        "fail" => {
            session.write("stdout", b"some", true).await?;
            session.write("stderr", b"bad", true).await?;
            let status = br#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
            return session.write("error", status, true).await;
        }
        "size" => {
            let size = session.bytes_of("resize").await?;
            session.write("stdout", &size, true).await?;
        }
        "absent" => {
            let status = br#"{"status":"Failure","message":"exec: no such file","reason":"InternalError"}"#;
            return session.write("error", status, true).await;
        }
        // The stream ends without a status.
        "lost" => return Ok(()),
        "forever" => loop {
            session.next().await?;
        },
        other => panic!("{other}"),
    }
    session.write("error", br#"{"metadata":{},"status":"Success"}"#, true).await
}

impl Session {
    /// The next frame that is no answer to a ping.
    async fn next(&mut self) -> std::io::Result<Frame> {
        loop {
            match self.frames.next_frame().unwrap() {
                Some(Frame::Ping { id: 2 }) => {}
                Some(frame) => return Ok(frame),
                None => {
                    let mut block = [0; 100];
                    let count = self.stream.read(&mut block).await?;
                    if count == 0 {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                    self.frames.arrive(&block[..count]);
                }
            }
        }
    }

    async fn bytes_of(&mut self, kind: &str) -> std::io::Result<Vec<u8>> {
        let Frame::Data { id, bytes, .. } = self.next().await? else { panic!("no bytes") };
        assert_eq!(id, self.streams[kind]);
        Ok(bytes.to_vec())
    }

    async fn write(&mut self, kind: &str, bytes: &[u8], is_last: bool) -> std::io::Result<()> {
        self.stream.write_all(&lazaret_spdy::data(self.streams[kind], bytes, is_last)).await
    }

    /// Writes what it reads, until the input ends.
    async fn cat(&mut self) -> std::io::Result<()> {
        loop {
            let Frame::Data { id, bytes, is_last } = self.next().await? else { panic!("no input") };
            assert_eq!(id, self.streams["stdin"]);
            self.write("stdout", &bytes, is_last).await?;
            if is_last {
                return Ok(());
            }
        }
    }
}
