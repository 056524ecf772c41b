//! The node's own API, without the server between.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    played::TERMINAL,
    world::{PATIENCE, World},
};

/// A websocket of a client, as small as can be.
pub(crate) struct Socket<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// # Errors
    /// The head of the answer that is none.
    pub(crate) async fn open(mut stream: S, path: &str, protocol: &str) -> Result<Self, String> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.unwrap();
            head.push(byte.map_err(|error| error.to_string())?);
        }
        let head = String::from_utf8(head).unwrap();
        if head.starts_with("HTTP/1.1 101 ") { Ok(Self(stream)) } else { Err(head) }
    }

    pub(crate) async fn send(&mut self, channel: u8, bytes: &[u8]) {
        let length = u8::try_from(bytes.len() + 1).unwrap();
        assert!(length < 126);
        let mut frame = vec![0x82, 0x80 | length, 0, 0, 0, 0, channel];
        frame.extend_from_slice(bytes);
        self.0.write_all(&frame).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// The next message with its channel; `None` when the other side closes.
    pub(crate) async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let read = async {
            let (first, second) = (self.0.read_u8().await.ok()?, self.0.read_u8().await.ok()?);
            let length = match second {
                126 => usize::from(self.0.read_u16().await.ok()?),
                127 => usize::try_from(self.0.read_u64().await.ok()?).unwrap(),
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.ok()?;
            (first == 0x82).then(|| (payload[0], payload[1..].to_vec()))
        };
        tokio::time::timeout(PATIENCE, read).await.unwrap()
    }

    pub(crate) fn into_inner(self) -> S {
        self.0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_is_resized_and_its_input_ended() {
    let world = World::start().await;
    let server = world.cluster.certificate_for(lazaret_nodeapi::API_SERVER, "");
    for (protocol, closes) in [("v5.channel.k8s.io", true), ("v4.channel.k8s.io", false)] {
        let path = format!("/exec/default/web/app?command={TERMINAL}&input=1&output=1&tty=1");
        let mut socket = Socket::open(world.node(Some(&server)).await, &path, protocol)
            .await
            .unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(socket.next().await, Some((1, Vec::new())));
        socket.send(4, br#"{"Width":120,"Height":40}"#).await;
        assert_eq!(socket.next().await, Some((1, b"120x40\n".to_vec())));
        socket.send(4, b"nonsense").await;
        socket.send(9, b"no such channel").await;
        socket.send(0, b"key").await;
        assert_eq!(socket.next().await, Some((1, b"key".to_vec())));
        socket.send(255, &[0]).await;
        if closes {
            let (channel, status) = socket.next().await.unwrap();
            let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
            assert_eq!((channel, &status["status"]), (3, &"Success".into()));
            assert_eq!(socket.next().await, None);
        } else {
            socket.send(0, b"still open").await;
            assert_eq!(socket.next().await, Some((1, b"still open".to_vec())));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_become_a_stream_is_refused() {
    let world = World::start().await;
    let server = world.cluster.certificate_for(lazaret_nodeapi::API_SERVER, "");
    let exec = "/exec/default/web/app?command=true&output=1";
    for (path, protocol, expected) in [
        (exec, "v9.channel.k8s.io", "400"),
        (exec, "", "400"),
        ("/exec/default/web/app?command=true", "v5.channel.k8s.io", "400"),
        ("/exec/default/web/app?output=1", "v5.channel.k8s.io", "400"),
        ("/exec/default/none/app?command=true&output=1", "v5.channel.k8s.io", "404"),
        ("/exec/default/web/other-uid/app?command=true&output=1", "v5.channel.k8s.io", "404"),
        ("/portForward/default/web", "v4.channel.k8s.io", "400"),
    ] {
        let refused = Socket::open(world.node(Some(&server)).await, path, protocol).await.err();
        let head = refused.unwrap_or_default();
        assert!(head.starts_with(&format!("HTTP/1.1 {expected} ")), "{path} {protocol}: {head}");
    }
    for headers in
        ["", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "Upgrade: h2c\r\nConnection: Upgrade\r\n"]
    {
        assert_eq!(world.ask_node(Some(&server), exec, headers).await.0, 400, "{headers}");
    }
    let spdy = "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\n";
    let (code, text) = world.ask_node(Some(&server), exec, spdy).await;
    assert!(code == 426 && text.contains("kubectl 1.30"), "{code} {text}");
}
