//! Errors of images.

use std::io;

use thiserror::Error;

use crate::ParseError;

/// Reasons of a container that waits for its image, as Kubernetes has them.
pub mod reason {
    /// The name is none.
    pub const INVALID_IMAGE_NAME: &str = "InvalidImageName";
    /// The image was not pulled.
    pub const ERR_IMAGE_PULL: &str = "ErrImagePull";
    /// It will be tried again, later.
    pub const IMAGE_PULL_BACK_OFF: &str = "ImagePullBackOff";
    /// It is not there, and may not be pulled.
    pub const ERR_IMAGE_NEVER_PULL: &str = "ErrImageNeverPull";
}

/// Why an image was not taken in, or not removed.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// The image or the archive is not what it should be.
    #[error("{0}")]
    Invalid(String),
    /// More than a limit permits.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// The content or name that is too large.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// The content is not what was asked for.
    #[error("{what}: the digest is {actual}, not {expected}")]
    Digest {
        /// Which content.
        what: String,
        /// The requested digest.
        expected: String,
        /// The digest of the content.
        actual: String,
    },
    /// There is no such image.
    #[error("image {0:?} is not there")]
    NotFound(String),
    /// Containers use it.
    #[error("image {0:?} is in use")]
    InUse(String),
    /// Another process imports, pulls or removes at this moment.
    #[error("the image store {0} is in use by another process that imports, pulls or removes")]
    Busy(String),
    /// The file system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

pub(crate) type Result<T, E = ImageError> = std::result::Result<T, E>;

pub(crate) fn invalid(text: impl Into<String>) -> ImageError {
    ImageError::Invalid(text.into())
}

/// Says what was tried when the system says no.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| ImageError::Io { what: what(), source: error.into() })
    }
}
