//! Which claims are prepared, in a file.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

/// A larger file is not read. A claim takes a few hundred bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The claims that are prepared, by UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(crate) claims: BTreeMap<String, Vec<Held>>,
}

/// A GPU or partition that a claim holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Held {
    /// The device's name.
    pub(crate) device: String,
    /// The card.
    pub(crate) uuid: String,
    /// The compute mode that the card had before, if it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode_before: Option<u32>,
    /// Of a partition, the first slice of memory and how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slices: Option<(u32, u32)>,
    /// The partition was, or is about to be, made for the claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) made_for_it: bool,
    /// Only looked after: does not count as held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) admin: bool,
}

/// Why a file cannot be used. Nothing is prepared or unprepared then: what is in use is not known.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{path} cannot be understood: {why}; drain the node and remove the file")]
    Form {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Reads a file of ours; empty if there is none.
pub(crate) fn read<T: Default + DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text)
        .map_err(|error| FileError::Form { path: path.to_owned(), why: error.to_string() })
}

/// Writes a file of ours: the old or the new one is there, whatever happens.
pub(crate) fn write<T: Serialize>(path: &Path, content: &T) -> Result<(), FileError> {
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    let temporary = path.with_extension("tmp");
    let text = serde_json::to_vec(content).map_err(|error| failed(error.into()))?;
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&temporary, path)).map_err(failed)
}

impl Checkpoint {
    /// The claim other than this one that holds a card, or a part of it that overlaps with these slices of memory.
    pub(crate) fn other_holder(&self, uuid: &str, slices: Option<(u32, u32)>, claim: &str) -> Option<&str> {
        let conflicts = |held: &Held| {
            let overlap = match (held.slices, slices) {
                (Some((a, a_size)), Some((b, b_size))) => a < b + b_size && b < a + a_size,
                // One of them is the whole card.
                (None, _) | (_, None) => true,
            };
            !held.admin && held.uuid == uuid && overlap
        };
        let mut others = self.claims.iter().filter(|(uid, _)| *uid != claim);
        others.find(|(_, held)| held.iter().any(conflicts)).map(|(uid, _)| uid.as_str())
    }

    /// Whether any claim holds a card or a part of it.
    pub(crate) fn holder(&self, uuid: &str) -> Option<&str> {
        self.other_holder(uuid, None, "")
    }
}
