//! From bytes to a spec.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use thiserror::Error;

use crate::{Spec, SpecError, validate};

/// A larger file is not read. A spec of 64 devices with all that a GPU needs has about 100 kB.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Nodes of a YAML file: a few for each line.
const YAML_NODES_MAX: usize = 200_000;
/// The format has five levels.
const YAML_DEPTH_MAX: usize = 32;
/// Events that all aliases together may expand to.
const YAML_REPLAYED_EVENTS_MAX: usize = 200_000;

/// Why a file gives no spec.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("read: {0}")]
    Io(#[from] io::Error),
    /// It is no plain file.
    #[error("is not a file")]
    NotAFile,
    /// It is larger than [`FILE_BYTES_MAX`].
    #[error("is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// It is neither JSON nor YAML of this shape.
    #[error("parse: {0}")]
    Parse(String),
    /// It says something that is not allowed.
    #[error(transparent)]
    Invalid(#[from] SpecError),
}

/// Reads and checks a file. Its ending says what it is: `.json` or `.yaml`.
///
/// # Errors
/// When it cannot be read, or is not a valid spec.
pub fn read(path: &Path) -> Result<Spec, ReadError> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotAFile);
    }
    let mut text = Vec::new();
    // One byte more than allowed tells a file that grew meanwhile.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(ReadError::TooLarge);
    }
    if path.extension().is_some_and(|ending| ending == "json") {
        parse_json(&text)
    } else {
        parse_yaml(&text)
    }
}

/// Reads and checks a spec in JSON.
///
/// # Errors
/// When it is not a valid spec.
pub fn parse_json(text: &[u8]) -> Result<Spec, ReadError> {
    let spec: Spec = serde_json::from_slice(text).map_err(|error| ReadError::Parse(error.to_string()))?;
    validate(&spec)?;
    Ok(spec)
}

/// Reads and checks a spec in YAML.
///
/// # Errors
/// When it is not a valid spec.
pub fn parse_yaml(text: &[u8]) -> Result<Spec, ReadError> {
    let spec: Spec = serde_saphyr::from_slice_with_options(text, yaml_options())
        .map_err(|error| ReadError::Parse(error.to_string()))?;
    validate(&spec)?;
    Ok(spec)
}

fn yaml_options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: YAML_NODES_MAX,
            max_nodes: YAML_NODES_MAX,
            max_depth: YAML_DEPTH_MAX,
            max_recorded_anchor_events: YAML_REPLAYED_EVENTS_MAX,
        },
        with_snippet: false,
        // The reference implementation reads YAML 1.1, where a fileMode of 0666 is octal.
        legacy_octal_numbers: true,
    };
    options.alias_limits.max_total_replayed_events = YAML_REPLAYED_EVENTS_MAX;
    options
}
