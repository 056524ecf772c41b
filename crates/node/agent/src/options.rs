//! The options of an agent, and the errors of its start.

use std::{
    io,
    path::{Path, PathBuf},
};

use lazaret_node::CheckpointError;
use thiserror::Error;

/// The options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Node whose pods these are.
    pub node: String,
    /// Where the files are, as a kubelet has them.
    pub root: PathBuf,
}

impl Options {
    /// Where plugins put their registration sockets.
    #[must_use]
    pub fn registry(&self) -> PathBuf {
        self.root.join("plugins_registry")
    }

    /// Where plugins have their directories.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// The file of prepared claims, in kubelet's own format.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.root.join("dra_manager_state")
    }

    /// One file for each pod whose claims are prepared: the CDI names of its containers.
    #[must_use]
    pub fn offers(&self) -> PathBuf {
        self.root.join("dra_pods")
    }
}

/// Why an agent did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A directory or a file cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The checkpoint cannot be trusted.
    #[error("{}: {source}", path.display())]
    Checkpoint {
        /// Where it is.
        path: PathBuf,
        /// Why it cannot be read.
        source: CheckpointError,
    },
}

impl StartError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
