//! Blocks of headers, compressed with the dictionary of SPDY/3.

use flate2::{Decompress, FlushDecompress, Status};

/// The headers of one stream, unpacked.
const BLOCK_BYTES_MAX: usize = 16 << 10;
/// Headers of one stream.
const HEADERS_MAX: u32 = 64;

/// Words of the dictionary: each stands in it with its length before it, as four bytes.
const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];
/// The rest after them, without lengths.
const TEXTS: &[&str] = &[
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 No",
    "n-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403",
    " Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Fe",
    "b Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunke",
    "d,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/",
    "javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
];

fn dictionary() -> Vec<u8> {
    let mut all = Vec::new();
    for word in WORDS {
        all.extend_from_slice(&u32::try_from(word.len()).unwrap_or(0).to_be_bytes());
        all.extend_from_slice(word.as_bytes());
    }
    TEXTS.iter().for_each(|text| all.extend_from_slice(text.as_bytes()));
    all
}

/// Unpacks the blocks of a session, which are one compressed stream.
#[derive(Debug)]
pub(crate) struct Unpacker(Decompress);

impl Unpacker {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// The names and values of a block. `None`: the session cannot go on.
    pub(crate) fn unpack(&mut self, mut packed: &[u8]) -> Option<Vec<(String, String)>> {
        let mut block = vec![0; BLOCK_BYTES_MAX];
        let mut length = 0;
        loop {
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let status = self.0.decompress(packed, &mut block[length..], FlushDecompress::Sync);
            packed = &packed[usize::try_from(self.0.total_in() - before_in).ok()?..];
            length += usize::try_from(self.0.total_out() - before_out).ok()?;
            match status {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).ok()?;
                }
                Err(_) | Ok(Status::StreamEnd) => return None,
                Ok(_) if packed.is_empty() => break,
                Ok(_) if length == block.len() => return None,
                // Nothing was read although there is room: this goes nowhere.
                Ok(_) if self.0.total_in() == before_in => return None,
                Ok(_) => {}
            }
        }
        read(&block[..length])
    }
}

fn read(mut block: &[u8]) -> Option<Vec<(String, String)>> {
    let count = number(&mut block)?;
    if count > HEADERS_MAX {
        return None;
    }
    (0..count).map(|_| Some((text(&mut block)?.to_ascii_lowercase(), text(&mut block)?))).collect()
}

fn number(block: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = block.split_first_chunk()?;
    *block = rest;
    Some(u32::from_be_bytes(*bytes))
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(number(block)?).ok()?;
    let (bytes, rest) = block.split_at_checked(length)?;
    *block = rest;
    String::from_utf8(bytes.to_vec()).ok()
}

/// A block of headers, packed: stored as it is. The first of a session has zlib's own head before it.
pub(crate) fn pack(headers: &[(&str, &str)], is_first: bool) -> Vec<u8> {
    const ZLIB_HEAD: [u8; 2] = [0x78, 0x01];
    // A block of nothing ends what is flushed: Go's reader looks for the next block otherwise, and does not recover from finding none.
    const FLUSHED: [u8; 5] = [0x00, 0x00, 0x00, 0xff, 0xff];
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
    let mut block = number(headers.len()).to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.extend(number(text.len()));
        block.extend(text.as_bytes());
    }
    let mut packed = if is_first { ZLIB_HEAD.to_vec() } else { Vec::new() };
    for piece in block.chunks(usize::from(u16::MAX)) {
        // Stored, not the last; their number, and once more with all bits turned.
        let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
        packed.push(0);
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(piece);
    }
    packed.extend(FLUSHED);
    packed
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    fn block(headers: &[(&str, &str)]) -> Vec<u8> {
        let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            block.extend(text.as_bytes());
        }
        block
    }

    fn compressed(compress: &mut Compress, block: &[u8]) -> Vec<u8> {
        let mut packed = Vec::with_capacity(BLOCK_BYTES_MAX * 2);
        compress.compress_vec(block, &mut packed, FlushCompress::Sync).unwrap();
        packed
    }

    #[test]
    fn the_dictionary_is_that_of_the_standard() {
        let dictionary = dictionary();
        let (mut low, mut high) = (1_u32, 0_u32);
        for byte in &dictionary {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        assert_eq!((dictionary.len(), high << 16 | low), (1_423, 0xe3c6_a7c2));
    }

    #[test]
    fn headers_are_unpacked_block_after_block() {
        let mut compress = Compress::new(Compression::default(), true);
        compress.set_dictionary(&dictionary()).unwrap();
        let mut unpacker = Unpacker::new();
        for port in ["80", "443", "80"] {
            let headers = [("Streamtype", "data"), ("port", port), ("requestid", "0")];
            let packed = compressed(&mut compress, &block(&headers));
            let unpacked = unpacker.unpack(&packed).unwrap();
            assert_eq!(unpacked[0], ("streamtype".to_owned(), "data".to_owned()));
            assert_eq!(unpacked[1].1, port);
        }
    }

    #[test]
    fn what_is_no_block_ends_the_session() {
        let mut compress = Compress::new(Compression::best(), true);
        let bomb = compressed(&mut compress, &block(&[("a", &"x".repeat(BLOCK_BYTES_MAX))]));
        for packed in [&b"nonsense"[..], &[0x78, 0x01, 0xff], &bomb] {
            assert_eq!(Unpacker::new().unpack(packed), None);
        }
        let mut compress = Compress::new(Compression::default(), true);
        let short = compressed(&mut compress, &[0, 0, 0, 9, 0, 0, 0, 1]);
        assert_eq!(Unpacker::new().unpack(&short), None);
    }

    #[test]
    fn packed_headers_are_read_by_any_zlib() {
        let long = "x".repeat(usize::from(u16::MAX) + 7);
        for headers in [&[][..], &[("streamtype", "data")], &[("a", long.as_str())]] {
            let packed = [pack(headers, true), pack(headers, false)].concat();
            let mut plain = vec![0; 1 << 18];
            let mut decompress = Decompress::new(true);
            decompress.decompress(&packed, &mut plain, FlushDecompress::Sync).unwrap();
            plain.truncate(usize::try_from(decompress.total_out()).unwrap());
            assert!(plain == block(headers).repeat(2), "{} bytes", plain.len());
            assert!(packed.ends_with(&[0, 0, 0xff, 0xff]), "as every flush ends");
        }
    }
}
