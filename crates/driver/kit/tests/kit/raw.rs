//! HTTP/2 by hand, for what no client library would send.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;

/// The response to a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    Message(Vec<u8>),
    /// A status and no message.
    Refused,
    Reset(u32),
}

/// The authority that grpc-go sends for a target that is the path of a socket.
pub(crate) fn authority_of(socket: &Path) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&byte);
    let mut encoded = String::new();
    for byte in socket.to_str().unwrap().bytes() {
        if kept(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Calls with this authority and an empty message.
pub(crate) fn call(socket: &Path, authority: &str, path: &str) -> CallResult {
    call_with(socket, authority, path, &[0, 0, 0, 0, 0])
}

/// Calls with this authority and these bytes instead of a message.
pub(crate) fn call_with(socket: &Path, authority: &str, path: &str, sent_body: &[u8]) -> CallResult {
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("user-agent", "grpc-go/1.77.0"),
        ("te", "trailers"),
    ] {
        // A literal with a name of its own, in no table, not compressed.
        headers.push(0);
        for text in [name, value] {
            integer(&mut headers, text.len());
            headers.extend_from_slice(text.as_bytes());
        }
    }
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut sent, SETTINGS, 0, 0, &[]);
    frame(&mut sent, HEADERS, 0x4, 1, &headers);
    frame(&mut sent, DATA, 0x1, 1, sent_body);
    stream.write_all(&sent).unwrap();
    loop {
        let (kind, flags, on, body) = read(&mut stream);
        match (kind, on) {
            (SETTINGS, _) if flags & 1 == 0 => {
                let mut answer = Vec::new();
                frame(&mut answer, SETTINGS, 1, 0, &[]);
                stream.write_all(&answer).unwrap();
            }
            (RST_STREAM, 1) => return CallResult::Reset(u32::from_be_bytes(body.try_into().unwrap())),
            (HEADERS, 1) if flags & 1 == 1 => return CallResult::Refused,
            (DATA, 1) if body.len() >= 5 => return CallResult::Message(body[5..].to_vec()),
            _ => {}
        }
    }
}

/// Writes these bytes and gives everything that comes back until the peer hangs up.
pub(crate) fn garbage(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    // The peer may hang up before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn integer(into: &mut Vec<u8>, number: usize) {
    if number < 127 {
        into.push(u8::try_from(number).unwrap());
        return;
    }
    into.push(127);
    let mut rest = number - 127;
    while rest >= 128 {
        into.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    into.push(u8::try_from(rest).unwrap());
}

fn frame(into: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, body: &[u8]) {
    into.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    into.extend_from_slice(&[kind, flags]);
    into.extend_from_slice(&stream.to_be_bytes());
    into.extend_from_slice(body);
}

fn read(stream: &mut UnixStream) -> (u8, u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut body = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), body)
}
