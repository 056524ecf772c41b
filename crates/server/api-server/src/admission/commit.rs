//! The end of every write: what it takes is free, and is taken in the transaction that stores the object.

use lazaret_storage::{Committed, Op};

use super::{
    devices,
    quota::{self, Refused},
};
use crate::{
    ApiError,
    call::{Call, Write},
};

/// Commits a write of one object, with the devices that it gives and its charge to quotas. `own`: the write is the server's own addition to an object
/// of a client.
pub(crate) async fn commit(
    call: &Call<'_>,
    write: Write<'_>,
    ops: Vec<Op>,
    own: bool,
) -> Result<Committed, Refused> {
    let devices = devices::reserve(call, write).map_err(Refused::Request)?;
    quota::commit(call, write, ops, own, devices.as_ref()).await
}

/// Whether a write that is only tried could be committed.
pub(crate) fn check_commit(call: &Call<'_>, write: Write<'_>) -> Result<(), ApiError> {
    devices::check(call, write)?;
    quota::check(call, write)
}
