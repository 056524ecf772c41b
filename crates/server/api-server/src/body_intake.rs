//! A request's body on its way in: it takes no seat until it has arrived, and memory only for what is there.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt;
use lazaret_flow::{Full, body_deadline_ms};
use tokio::time::{Instant, timeout_at};

use crate::{
    ApiError,
    accounts::{AccountKey, Accounts, HeldAmount},
    input::BODY_BYTES_MAX,
};
/// The cost of a request whose body is arriving, besides the bytes: buffers of the connection, the task that waits.
const INTAKE_BYTES: usize = 32 << 10;

/// A body that has arrived; its bytes are counted until this goes.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) held: Option<HeldAmount>,
}

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum IntakeError {
    /// The holder has too much on its way in already.
    Full,
    /// The request is to blame.
    Refused(ApiError),
}

impl From<Full> for IntakeError {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

/// Collects a body. Bytes are counted as they come: what a client says it will send costs nothing.
pub(crate) async fn receive<B>(
    mut body: B,
    accounts: &Arc<Accounts>,
    holder: &AccountKey,
) -> Result<Received, IntakeError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    if body.is_end_stream() {
        return Ok(Received { bytes: Bytes::new(), held: None });
    }
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(IntakeError::Refused(too_large()));
    }
    let mut collected =
        Collected { held: accounts.take(holder, INTAKE_BYTES)?, first: Bytes::new(), rest: Vec::new() };
    let started = Instant::now();
    loop {
        let deadline = started + Duration::from_millis(body_deadline_ms(0, collected.len() as u64));
        let frame = timeout_at(deadline, body.frame())
            .await
            .map_err(|_| IntakeError::Refused(ApiError::timeout("the body did not arrive in time")))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| {
            IntakeError::Refused(ApiError::bad_request(format!("read the body: {error}")))
        })?;
        if let Ok(data) = frame.into_data() {
            if collected.len() + data.len() > BODY_BYTES_MAX {
                return Err(IntakeError::Refused(too_large()));
            }
            collected.push(data)?;
        }
    }
    Ok(collected.end())
}

fn too_large() -> ApiError {
    ApiError::too_large(format!("the body must not be larger than {BODY_BYTES_MAX} bytes"))
}

/// The bytes that have arrived. Most bodies come in one piece, which is kept as it is.
struct Collected {
    held: HeldAmount,
    first: Bytes,
    rest: Vec<u8>,
}

impl Collected {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn push(&mut self, data: Bytes) -> Result<(), Full> {
        if self.len() == 0 {
            self.held.grow(data.len())?;
            self.first = data;
            return Ok(());
        }
        let first = std::mem::take(&mut self.first);
        let length = first.len() + self.rest.len() + data.len();
        if length > self.rest.capacity() {
            let capacity = length.max(self.rest.capacity() * 2).min(BODY_BYTES_MAX);
            // The old buffer is there until the new one is filled.
            self.held.grow(capacity - self.rest.capacity())?;
            self.rest.reserve_exact(capacity - self.rest.len());
        }
        self.rest.extend_from_slice(&first);
        self.rest.extend_from_slice(&data);
        Ok(())
    }

    fn end(self) -> Received {
        let bytes = if self.rest.is_empty() { self.first } else { self.rest.into() };
        Received { bytes, held: Some(self.held) }
    }
}
