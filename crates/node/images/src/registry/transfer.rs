//! Transfers: attempts, pieces of responses, and failures.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use crate::Digest;

/// Bytes that must arrive within each [`super::PullOptions::stall_timeout`], or less when it is the rest.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// Why a registry did not deliver the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may go well another time.
    Passing { text: String, after: Option<Duration> },
    /// It will not.
    Lasting(String),
    /// These credentials, or none, are not enough.
    Unauthorized(String),
}

/// How often a request may still be sent.
pub(super) struct Attempts {
    pub(super) left: u32,
    pub(super) pause: Duration,
}

impl Attempts {
    /// Waits, when it may go well another time.
    pub(super) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Passing { text, after } = failure else { return Err(failure) };
        if self.left == 0 {
            return Err(Failure::Passing { text, after });
        }
        tracing::debug!(%text, "a request to a registry is sent again");
        sleep(after.unwrap_or(self.pause)).await;
        self.left -= 1;
        self.pause = self.pause.saturating_mul(2);
        Ok(())
    }
}

/// An answer piece by piece: no more than is permitted, and not for ever.
pub(super) struct Chunks {
    pub(super) body: Incoming,
    pub(super) bytes_max: u64,
    pub(super) what: &'static str,
    pub(super) count: u64,
    /// Bytes since the deadline was put off.
    pub(super) window: u64,
    pub(super) stall_timeout: Duration,
    pub(super) deadline: Pin<Box<Sleep>>,
}

impl Chunks {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = &mut self.deadline => {
                    return Err(passing(format!("{} stopped coming for {:?}", self.what, self.stall_timeout)));
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame =
                frame.map_err(|error| passing(format!("{} broke off: {}", self.what, causes(&error))))?;
            let Ok(chunk) = frame.into_data() else { continue };
            self.count += chunk.len() as u64;
            self.window += chunk.len() as u64;
            if self.count > self.bytes_max {
                return Err(self.too_large());
            }
            if self.window >= WINDOW_BYTES_MIN {
                self.window = 0;
                self.deadline.as_mut().reset(Instant::now() + self.stall_timeout);
            }
            return Ok(Some(chunk));
        }
    }

    pub(super) fn too_large(&self) -> Failure {
        Failure::Lasting(format!("{} has more than {} bytes", self.what, self.bytes_max))
    }
}

pub(super) fn incomplete(digest: &Digest, count: u64, size: u64) -> Failure {
    passing(format!("the blob {digest} ended after {count} of {size} bytes"))
}

pub(super) fn passing(text: String) -> Failure {
    Failure::Passing { text, after: None }
}

/// The disk of this machine.
pub(super) fn local(error: &std::io::Error) -> Failure {
    Failure::Lasting(format!("write the blob: {error}"))
}

pub(super) fn check(expected: &Digest, actual: &Digest) -> Result<(), Failure> {
    if expected == actual {
        return Ok(());
    }
    Err(Failure::Lasting(format!("the digest of the blob is {actual}, not {expected}")))
}

pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
