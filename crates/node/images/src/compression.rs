//! Layers as they travel: plain, gzip or zstd. Which it is, the first bytes say.

use std::{
    cell::Cell,
    io::{self, BufRead, BufReader, Read},
    rc::Rc,
};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use crate::{Limits, limits::RATIO_FREE_BYTES};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Frames of other content, which a reader skips: the last four bits count.
const ZSTD_SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];
/// How far a frame may look back: what the zstd program itself accepts by default.
const ZSTD_WINDOW_BYTES_MAX: u64 = 128 << 20;
const BUFFER_BYTES: usize = 64 << 10;

/// Reads what is compressed, whatever it is compressed with.
pub(crate) fn decompress<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    let start = source.fill_buf()?;
    if start.starts_with(&GZIP) {
        return Ok(Box::new(MultiGzDecoder::new(source)));
    }
    if is_zstd(start) {
        return Ok(Box::new(Zstd { state: State::Between(source) }));
    }
    Ok(Box::new(source))
}

fn is_zstd(start: &[u8]) -> bool {
    start.starts_with(&ZSTD) || (start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == ZSTD_SKIPPED)
}

/// All frames of a zstd stream, one after the other.
struct Zstd<R: BufRead> {
    state: State<R>,
}

enum State<R: BufRead> {
    Between(R),
    Within(R, Box<FrameDecoder>),
    Ended,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(mut source) => {
                    if source.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let mut decoder = Box::new(FrameDecoder::new());
                    decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
                    self.state = match decoder.init(&mut source) {
                        Ok(()) => State::Within(source, decoder),
                        Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                            length,
                            ..
                        })) => {
                            let skipped = io::copy(&mut (&mut source).take(length.into()), &mut io::sink())?;
                            if skipped < u64::from(length) {
                                return Err(io::ErrorKind::UnexpectedEof.into());
                            }
                            State::Between(source)
                        }
                        Err(error) => return Err(io::Error::other(error)),
                    };
                }
                State::Within(mut source, mut decoder) => {
                    while decoder.can_collect() == 0 && !decoder.is_finished() {
                        decoder
                            .decode_blocks(&mut source, BlockDecodingStrategy::UptoBlocks(1))
                            .map_err(io::Error::other)?;
                    }
                    let read = decoder.read(buffer)?;
                    if read > 0 {
                        self.state = State::Within(source, decoder);
                        return Ok(read);
                    }
                    self.state = State::Between(source);
                }
            }
        }
    }
}

/// Reads no more than a layer may have, and not far more than was compressed.
pub(crate) struct Bounded<R> {
    inner: R,
    compressed: Rc<Cell<u64>>,
    read: u64,
    limits: Limits,
}

impl<R: Read> Bounded<R> {
    /// `compressed` counts the bytes before `inner`.
    pub(crate) fn new(inner: R, compressed: Rc<Cell<u64>>, limits: Limits) -> Self {
        Self { inner, compressed, read: 0, limits }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        // Headers and padding come on top of the files, whose sizes are counted as well.
        let archive_max =
            self.limits.unpacked_bytes_max.saturating_add(self.limits.entries_max.saturating_mul(4_096));
        if self.read > archive_max {
            return Err(io::Error::other(format!("the layer has more than {archive_max} bytes")));
        }
        let permitted =
            RATIO_FREE_BYTES.saturating_add(self.compressed.get().saturating_mul(self.limits.ratio_max));
        if self.read > permitted {
            return Err(io::Error::other(format!(
                "the layer is compressed more than {} times: {} bytes became more than {permitted}",
                self.limits.ratio_max,
                self.compressed.get(),
            )));
        }
        Ok(read)
    }
}

/// Whether content begins like something compressed.
pub(crate) fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&GZIP) || is_zstd(start)
}
