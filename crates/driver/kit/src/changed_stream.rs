//! A connection whose outgoing bytes a test may change.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
};

use crate::grpc::ChangeBytes;

/// Bytes that are changed at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// A connection; what it sends passes through `change_bytes` first.
pub(crate) struct ChangedStream {
    pub(crate) stream: UnixStream,
    pub(crate) change_bytes: Option<ChangeBytes>,
}

impl AsyncRead for ChangedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for ChangedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(change_bytes) = &self.change_bytes else {
            return Pin::new(&mut self.stream).poll_write(context, bytes);
        };
        let mut changed = bytes[..bytes.len().min(CHUNK_BYTES)].to_vec();
        change_bytes(&mut changed);
        Pin::new(&mut self.stream).poll_write(context, &changed)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.change_bytes.is_none() {
            return Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        }
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        self.poll_write(context, first)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
