//! Long answers as gzip, for clients that take it.
//!
//! A body is compressed piece by piece as it is sent, so that neither the text nor the compressed bytes are ever held as a whole, and no
//! thread is busy with one answer for long.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::Write,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY},
};

use crate::{ApiError, Body, body::Chunks};

/// Shorter answers are sent as they are: as in Kubernetes.
const THRESHOLD_BYTES: usize = 128 << 10;
/// The fastest level, as in Kubernetes: objects of one kind resemble each other, and higher levels gain little.
const LEVEL: u32 = 1;
/// Compressed in one go: about half a millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// Compressed bytes that are sent in one piece at least, but for the last.
const SENT_BYTES_MIN: usize = 16 << 10;

/// Whether a client takes gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let names = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    names.flat_map(|value| value.split(',')).any(|entry| {
        let (name, quality) = entry.split_once(';').unwrap_or((entry, ""));
        let refused =
            quality.trim().strip_prefix("q=").is_some_and(|q| q.trim_matches(['0', '.']).is_empty());
        name.trim() == "gzip" && !refused
    })
}

/// Refuses a body that would have to be unpacked: what it unpacks to has no bound.
pub(crate) fn check_request(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(ApiError::unsupported_encoding()),
        _ => Ok(()),
    }
}

/// The same answer, compressed if it is long. Waits until it is known whether it is.
pub(crate) async fn compressed(response: Response<Body>) -> Response<Body> {
    if response.status() != StatusCode::OK || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = match body {
        Body::Full(Some(bytes)) if bytes.len() > THRESHOLD_BYTES => {
            Gzip::new([bytes].into(), None).into_body()
        }
        Body::Full(bytes) => return Response::from_parts(parts, Body::Full(bytes)),
        Body::Stream(mut chunks) => {
            let (mut begin, mut bytes, mut ended) = (VecDeque::new(), 0, false);
            while bytes <= THRESHOLD_BYTES && !ended {
                match poll_fn(|context| chunks.poll_chunk(context)).await {
                    Some(chunk) => {
                        bytes += chunk.len();
                        begin.push_back(chunk);
                    }
                    None => ended = true,
                }
            }
            if ended && bytes <= THRESHOLD_BYTES {
                let whole: Vec<u8> = begin.into_iter().flatten().collect();
                return Response::from_parts(parts, Body::full(whole));
            }
            Gzip::new(begin, (!ended).then_some(chunks)).into_body()
        }
    };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, body)
}

/// A body that is being compressed.
struct Gzip {
    /// Not compressed yet, before what `chunks` still has.
    begin: VecDeque<Bytes>,
    chunks: Option<Box<dyn Chunks>>,
    /// `None` when all is sent.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    fn new(begin: VecDeque<Bytes>, chunks: Option<Box<dyn Chunks>>) -> Self {
        let room = Vec::with_capacity(2 * SENT_BYTES_MIN);
        Self { begin, chunks, encoder: Some(GzEncoder::new(room, Compression::new(LEVEL))) }
    }

    fn into_body(self) -> Body {
        Body::Stream(Box::new(self))
    }

    /// The next piece to compress.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.begin.front_mut() {
            let piece = first.split_to(PIECE_BYTES.min(first.len()));
            if first.is_empty() {
                self.begin.pop_front();
            }
            return Poll::Ready(Some(piece));
        }
        let Some(chunks) = &mut self.chunks else { return Poll::Ready(None) };
        match chunks.poll_chunk(context) {
            Poll::Ready(Some(chunk)) => {
                self.begin.push_back(chunk);
                self.poll_piece(context)
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Chunks for Gzip {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.encoder.is_none() {
            return Poll::Ready(None);
        }
        let piece = match self.poll_piece(context) {
            Poll::Ready(piece) => piece,
            Poll::Pending => return Poll::Pending,
        };
        let Some(encoder) = &mut self.encoder else { return Poll::Ready(None) };
        let Some(piece) = piece else {
            // Writes to memory do not fail.
            let rest = self.encoder.take().and_then(|encoder| encoder.finish().ok());
            return Poll::Ready(rest.map(Bytes::from));
        };
        let _ = encoder.write_all(&piece);
        if encoder.get_ref().len() >= SENT_BYTES_MIN {
            let sent = std::mem::replace(encoder.get_mut(), Vec::with_capacity(2 * SENT_BYTES_MIN));
            return Poll::Ready(Some(sent.into()));
        }
        // Others have a turn before the next piece.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn retained_bytes(&self) -> usize {
        let begin: usize = self.begin.iter().map(Bytes::len).sum();
        begin + self.chunks.as_ref().map_or(0, |chunks| chunks.retained_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    struct Pieces(VecDeque<Bytes>);

    impl Chunks for Pieces {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    fn text(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| b"0123456789abcdef"[at * at / 7 % 16]).collect()
    }

    #[tokio::test]
    async fn long_answers_come_back_as_they_were_and_short_ones_untouched() {
        for bytes in [0, 1, THRESHOLD_BYTES, THRESHOLD_BYTES + 1, 1 << 20, (1 << 20) + 12_345] {
            let text = text(bytes);
            let whole = Body::full(text.clone());
            let pieces = text.chunks(50_000).map(Bytes::copy_from_slice).collect();
            for body in [whole, Body::Stream(Box::new(Pieces(pieces)))] {
                let response = compressed(Response::new(body)).await;
                let packed = response.headers().get(CONTENT_ENCODING).is_some_and(|name| name == "gzip");
                assert_eq!(packed, bytes > THRESHOLD_BYTES, "{bytes}");
                let sent = response.into_body().collect().await.unwrap().to_bytes();
                let mut read = Vec::new();
                if packed {
                    GzDecoder::new(&sent[..]).read_to_end(&mut read).unwrap();
                } else {
                    read = sent.to_vec();
                }
                assert!(read == text, "{bytes}");
            }
        }
    }

    #[tokio::test]
    async fn what_failed_is_sent_as_it_is() {
        let mut response = Response::new(Body::full(text(1 << 20)));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        assert!(!compressed(response).await.headers().contains_key(CONTENT_ENCODING));
    }

    #[test]
    fn only_clients_that_take_gzip_get_it() {
        for (header, expected) in [
            ("gzip", true),
            ("gzip, deflate, br", true),
            ("deflate , gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("deflate", false),
            ("identity", false),
            ("gzipped", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(header));
            assert_eq!(accepts_gzip(&headers), expected, "{header:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
