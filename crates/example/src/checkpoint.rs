//! Which claims are prepared, in a file.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Unit;

/// A larger file is not read. A claim takes a few hundred bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The claims that are prepared, by UID, each with the UUIDs of the devices that are its alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// UUIDs of devices, by the UID of the claim that holds them.
    pub claims: BTreeMap<String, Vec<String>>,
}

/// Why a checkpoint cannot be used. Nothing is prepared or unprepared then: what is in use is not known.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a checkpoint.
    #[error("{path} is not a checkpoint: {why}; drain the node and remove the file")]
    Form {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Checkpoint {
    /// Reads it; empty if there is no file.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
        serde_json::from_slice(&text)
            .map_err(|error| CheckpointError::Form { path: path.to_owned(), why: error.to_string() })
    }

    /// Writes it: the old or the new one is there, whatever happens.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
        let temporary = path.with_extension("tmp");
        let text = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, path)).map_err(failed)
    }

    /// The claim other than this one that holds a device, or a part of it, or what it is a part of.
    #[must_use]
    pub fn other_holder(&self, uuid: &str, claim: &str) -> Option<&str> {
        let holds = |(other, held): &(&String, &Vec<String>)| {
            *other != claim && held.iter().any(|held| Unit::overlaps(held, uuid))
        };
        self.claims.iter().find(holds).map(|(other, _)| other.as_str())
    }
}
