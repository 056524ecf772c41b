//! One connection: HTTP/1.1 over TLS, kept open, one request after the other, as little work as possible.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Heads are short; this is where a peer has certainly gone wrong.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Characters of a refusal that are shown.
const REFUSAL_BYTES_MAX: usize = 400;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    /// The bytes read; the first `used` of them are consumed.
    buffer: Vec<u8>,
    used: usize,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// Bytes of the body.
    pub(crate) length: usize,
    /// The body, where it was asked for or is a refusal.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The server's error, for an error message.
    pub(crate) fn refusal(&self) -> String {
        let text = serde_json::from_slice::<serde_json::Value>(&self.body)
            .ok()
            .and_then(|status| status["message"].as_str().map(str::to_owned))
            .unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned());
        format!("{} {}", self.code, text.chars().take(REFUSAL_BYTES_MAX).collect::<String>())
    }
}

/// How the end of a response's body is found.
enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(
        address: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<ClientConfig>,
    ) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("connect")?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(tls).connect(name, stream).await.context("shake hands")?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10), used: 0 })
    }

    /// Sends a request and passes over the body of the answer, unless it is a refusal.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Answer> {
        self.answer(request, false).await
    }

    /// Sends a request and keeps the body of the answer.
    pub(crate) async fn fetch(&mut self, request: &[u8]) -> Result<Answer> {
        self.answer(request, true).await
    }

    async fn answer(&mut self, request: &[u8], keep: bool) -> Result<Answer> {
        self.stream.write_all(request).await.context("send")?;
        let (code, length) = self.head().await?;
        let mut body = (keep || code >= 300).then(Vec::new);
        let length = match length {
            Length::Known(length) => {
                self.pass(length, body.as_mut()).await?;
                length
            }
            Length::Chunked => {
                let mut total = 0;
                loop {
                    let chunk = self.chunk_head().await?;
                    self.pass(chunk, body.as_mut()).await?;
                    self.pass(2, None).await?;
                    total += chunk;
                    if chunk == 0 {
                        break total;
                    }
                }
            }
        };
        Ok(Answer { code, length, body: body.unwrap_or_default() })
    }

    /// Sends bytes, whatever they are.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("send")
    }

    /// Waits until the server closes the connection, whatever it says before.
    pub(crate) async fn wait_for_end(&mut self) -> Result<()> {
        let mut ignored = vec![0; 4 << 10];
        while self.stream.read(&mut ignored).await.context("receive")? > 0 {}
        Ok(())
    }

    /// Sends a request whose answer has no end.
    pub(crate) async fn begin_stream(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await.context("send")?;
        let (code, length) = self.head().await?;
        ensure!(code == 200 && matches!(length, Length::Chunked), "no stream: {code}");
        Ok(())
    }

    /// Adds the next chunk of such an answer to `text`; `false` at its end.
    pub(crate) async fn next_chunk(&mut self, text: &mut Vec<u8>) -> Result<bool> {
        let length = self.chunk_head().await?;
        self.pass(length, Some(text)).await?;
        self.pass(2, None).await?;
        Ok(length > 0)
    }

    async fn head(&mut self) -> Result<(u16, Length)> {
        let end = loop {
            if let Some(at) = find(&self.buffer[self.used..], b"\r\n\r\n") {
                break self.used + at;
            }
            ensure!(self.buffer.len() - self.used < HEAD_BYTES_MAX, "a head without an end");
            self.read().await?;
        };
        let head = std::str::from_utf8(&self.buffer[self.used..end]).context("read a head")?;
        let code = head.get(9..12).and_then(|code| code.parse().ok()).context("read the code")?;
        let length = head.lines().skip(1).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                value.trim().parse().ok().map(Length::Known)
            } else {
                name.eq_ignore_ascii_case("transfer-encoding").then_some(Length::Chunked)
            }
        });
        self.used = end + 4;
        Ok((code, length.unwrap_or(Length::Known(0))))
    }

    async fn chunk_head(&mut self) -> Result<usize> {
        loop {
            if let Some(at) = find(&self.buffer[self.used..], b"\r\n") {
                let text = std::str::from_utf8(&self.buffer[self.used..self.used + at])?;
                let length = usize::from_str_radix(text.trim(), 16).context("read a chunk's length")?;
                self.used += at + 2;
                return Ok(length);
            }
            self.read().await?;
        }
    }

    /// Passes over bytes, and keeps them in `body` if there is one.
    async fn pass(&mut self, mut bytes: usize, mut body: Option<&mut Vec<u8>>) -> Result<()> {
        loop {
            let there = (self.buffer.len() - self.used).min(bytes);
            if let Some(body) = &mut body {
                body.extend_from_slice(&self.buffer[self.used..self.used + there]);
            }
            self.used += there;
            bytes -= there;
            if bytes == 0 {
                return Ok(());
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<()> {
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
        if self.stream.read_buf(&mut self.buffer).await.context("receive")? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
