//! Output for people and programs.

use std::io;

use anyhow::Result;
use lazaret_print::Structured;
pub(crate) use lazaret_print::{Plain as Format, Table, note, print};
use serde::Serialize;

/// Writes `value` as `format` says, where there is no table as JSON.
pub(crate) fn structured(value: &impl Serialize, format: Format) -> Result<()> {
    Ok(print(&format.structured().unwrap_or(Structured::Json).text(value)?)?)
}

/// The error and what led to it, on one line.
pub(crate) fn error(error: &anyhow::Error) {
    note(&format!("error: {error:#}"));
}

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
