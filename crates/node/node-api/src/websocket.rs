//! Websockets (RFC 6455), the side of the server: the handshake, messages read, frames written.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, Method, Request,
    header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Appended to a client's key, by RFC 6455.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY_BYTES_MAX: usize = 64;
/// A control frame has no longer payload.
const CONTROL_BYTES_MAX: usize = 125;
/// A message of a client, all its frames together: kubectl sends at most 32 KiB at once.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Frames of one message.
const FRAMES_MAX: usize = 1_024;

/// Why a websocket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseCode {
    Normal = 1000,
    ProtocolError = 1002,
    TooLarge = 1009,
}

/// A message from a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Binary(Bytes),
    Ping(Bytes),
    Pong,
    Close,
}

/// The answer to a handshake: `Sec-WebSocket-Accept`, and the protocols that the client speaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) accept: String,
    pub(crate) protocols: Vec<String>,
}

/// The protocol that a request wants to switch to, in lower case.
pub(crate) fn upgrade_of(headers: &HeaderMap) -> Option<String> {
    let asks = list(headers, CONNECTION).any(|value| value.eq_ignore_ascii_case("upgrade"));
    let to = list(headers, UPGRADE).next();
    to.filter(|_| asks).map(str::to_ascii_lowercase)
}

impl Handshake {
    /// # Errors
    /// When it is not one of RFC 6455.
    pub(crate) fn of<B>(request: &Request<B>) -> Result<Self, &'static str> {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if *request.method() != Method::GET {
            return Err("a websocket begins with GET");
        }
        if text(SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err("Sec-WebSocket-Version must be 13");
        }
        let key = text(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
        let key = key.ok_or("Sec-WebSocket-Key is missing")?;
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
        let protocols = list(headers, SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
        Ok(Self { accept: STANDARD.encode(hash), protocols })
    }
}

fn list(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|value| !value.is_empty())
}

/// A frame with the payload in pieces.
fn frame(opcode: u8, pieces: &[&[u8]]) -> Vec<u8> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut out = Vec::with_capacity(length + 10);
    out.push(0x80 | opcode);
    if let Ok(short @ ..126) = u8::try_from(length) {
        out.push(short);
    } else if let Ok(medium) = u16::try_from(length) {
        out.push(126);
        out.extend_from_slice(&medium.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out
}

/// A message of bytes.
pub(crate) fn binary(pieces: &[&[u8]]) -> Vec<u8> {
    frame(0x2, pieces)
}

pub(crate) fn pong(payload: &[u8]) -> Vec<u8> {
    frame(0xa, &[payload])
}

pub(crate) fn close(code: CloseCode) -> Vec<u8> {
    frame(0x8, &[&(code as u16).to_be_bytes()])
}

/// Reads the messages of a client from what arrived of them.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The frames of a message whose last has not come, and how many.
    begun: Option<(BytesMut, usize)>,
}

/// The head of a frame.
struct Head {
    opcode: u8,
    is_final: bool,
    mask: [u8; 4],
    head_bytes: usize,
    payload_bytes: usize,
}

impl Reader {
    /// The next message; `None` if not all of it has arrived.
    ///
    /// # Errors
    /// Why the websocket is closed.
    pub(crate) fn next(&mut self, arrived: &mut BytesMut) -> Result<Option<Message>, CloseCode> {
        loop {
            let Some(head) = read_head(arrived)? else { return Ok(None) };
            if arrived.len() < head.head_bytes + head.payload_bytes {
                return Ok(None);
            }
            arrived.advance(head.head_bytes);
            let mut payload = arrived.split_to(head.payload_bytes);
            for (byte, mask) in payload.iter_mut().zip(head.mask.iter().cycle()) {
                *byte ^= mask;
            }
            match head.opcode {
                0x8 => return Ok(Some(Message::Close)),
                0x9 => return Ok(Some(Message::Ping(payload.freeze()))),
                0xa => return Ok(Some(Message::Pong)),
                opcode => {
                    if let Some(message) = self.data(opcode, head.is_final, payload)? {
                        return Ok(Some(Message::Binary(message)));
                    }
                }
            }
        }
    }

    fn data(&mut self, opcode: u8, is_final: bool, payload: BytesMut) -> Result<Option<Bytes>, CloseCode> {
        let (mut whole, frames) = match (opcode, self.begun.take()) {
            // A text message is bytes to a protocol that has no text.
            (0x1 | 0x2, None) => (payload, 1),
            (0x0, Some((mut begun, frames))) => {
                if begun.len() + payload.len() > MESSAGE_BYTES_MAX || frames >= FRAMES_MAX {
                    return Err(CloseCode::TooLarge);
                }
                begun.extend_from_slice(&payload);
                (begun, frames + 1)
            }
            _ => return Err(CloseCode::ProtocolError),
        };
        if is_final {
            return Ok(Some(whole.split().freeze()));
        }
        self.begun = Some((whole, frames));
        Ok(None)
    }
}

fn read_head(arrived: &[u8]) -> Result<Option<Head>, CloseCode> {
    let [first, second, rest @ ..] = arrived else { return Ok(None) };
    let (opcode, is_final, length) = (first & 0x0f, first & 0x80 != 0, second & 0x7f);
    // Extensions were not agreed on, and clients mask what they send.
    if first & 0x70 != 0 || second & 0x80 == 0 || !matches!(opcode, 0x0..=0x2 | 0x8..=0xa) {
        return Err(CloseCode::ProtocolError);
    }
    let (length, length_bytes) = match length {
        126 => {
            let Some(bytes) = rest.first_chunk() else { return Ok(None) };
            (u64::from(u16::from_be_bytes(*bytes)), 2)
        }
        127 => {
            let Some(bytes) = rest.first_chunk() else { return Ok(None) };
            (u64::from_be_bytes(*bytes), 8)
        }
        short => (u64::from(short), 0),
    };
    let payload_bytes = usize::try_from(length)
        .ok()
        .filter(|length| *length <= MESSAGE_BYTES_MAX)
        .ok_or(CloseCode::TooLarge)?;
    if opcode >= 0x8 && (!is_final || payload_bytes > CONTROL_BYTES_MAX) {
        return Err(CloseCode::ProtocolError);
    }
    let Some(mask) = rest.get(length_bytes..).and_then(|rest| rest.first_chunk::<4>()).copied() else {
        return Ok(None);
    };
    Ok(Some(Head { opcode, is_final, mask, head_bytes: 2 + length_bytes + mask.len(), payload_bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let plain = frame(0x2, &[payload]);
        let head = plain.len() - payload.len();
        let mask = [1, 2, 3, 4];
        let mut out = plain[..head].to_vec();
        out[0] = first;
        out[1] |= 0x80;
        out.extend(mask);
        out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        out
    }

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Message>, CloseCode> {
        let (mut reader, mut arrived, mut all) = (Reader::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            arrived.extend_from_slice(piece);
            while let Some(message) = reader.next(&mut arrived)? {
                all.push(message);
            }
        }
        Ok(all)
    }

    #[test]
    fn messages_are_read_however_they_arrive() {
        let mut bytes = masked(0x82, &[7; 300]);
        bytes.extend(masked(0x02, b"ab"));
        bytes.extend(masked(0x89, b"ping"));
        bytes.extend(masked(0x00, b"cd"));
        bytes.extend(masked(0x80, b"ef"));
        bytes.extend(masked(0x8a, b""));
        bytes.extend(masked(0x88, &[3, 232]));
        let expected = [
            Message::Binary(Bytes::from(vec![7; 300])),
            Message::Ping(Bytes::from_static(b"ping")),
            Message::Binary(Bytes::from_static(b"abcdef")),
            Message::Pong,
            Message::Close,
        ];
        for piece in [1, 7, 100_000] {
            assert_eq!(read(&bytes, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn what_no_client_may_send_ends_the_websocket() {
        let flood: Vec<u8> =
            masked(0x02, b"x").into_iter().chain(masked(0x00, b"").repeat(FRAMES_MAX)).collect();
        for (bytes, expected) in [
            (vec![0x81, 0x01, b'x'], CloseCode::ProtocolError),
            (masked(0xc2, b"x"), CloseCode::ProtocolError),
            (masked(0x83, b"x"), CloseCode::ProtocolError),
            (masked(0x80, b"x"), CloseCode::ProtocolError),
            (masked(0x09, b"x"), CloseCode::ProtocolError),
            (masked(0x89, &[7; 126]), CloseCode::ProtocolError),
            (masked(0x82, &vec![7; MESSAGE_BYTES_MAX + 1]), CloseCode::TooLarge),
            ([&[0x82, 0xff][..], &[0xff; 8], &[0; 4]].concat(), CloseCode::TooLarge),
            (flood, CloseCode::TooLarge),
        ] {
            assert_eq!(read(&bytes, bytes.len()), Err(expected), "{:?}", &bytes[..2]);
        }
    }
}
