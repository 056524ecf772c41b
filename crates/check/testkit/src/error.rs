//! Why a cluster did not start.

use std::{io, path::PathBuf};

use lazaret_server::SecretsError;
use lazaret_store::OpenError;

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The folder for files of the cluster could not be made.
    #[error("make a folder for the cluster: {0}")]
    Folder(io::Error),
    /// The store could not be opened.
    #[error("open the store: {0}")]
    Store(#[from] OpenError),
    /// Keys or certificates could not be made.
    #[error("make the keys of the cluster: {0}")]
    Secrets(#[from] SecretsError),
    /// The thread that serves could not be started.
    #[error("start the thread that serves: {0}")]
    Thread(io::Error),
    /// The initial objects of a cluster could not be created.
    #[error("make what a cluster begins with: {0}")]
    Bootstrap(String),
    /// Controllers or nodes could not be started.
    #[error("start the control plane: {0}")]
    Plane(String),
    /// No address to listen on.
    #[error("listen on 127.0.0.1: {0}")]
    Listen(io::Error),
    /// A kubeconfig could not be written.
    #[error("write {}: {source}", path.display())]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
