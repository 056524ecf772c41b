//! Images of containers: imported from files, pulled from a registry, checked, unpacked, kept and removed.
//!
//! **Invariant.** Unpacked content has the digest that was requested. Nothing in a layer reaches a path outside its
//! directory. An image that a container uses is never removed. It must never know pods or runtimes.

mod archive;
mod challenge;
mod clock;
mod compression;
mod digest;
mod document;
mod error;
mod garbage;
mod image;
mod images;
mod import;
mod keychain;
mod layer;
pub mod layout;
mod limits;
mod merged;
mod name;
mod pull;
mod registry;
mod source;
mod store;
mod tar;
mod tar_write;
mod tls;
mod unpack;
mod user;

/// Where a node keeps its images, in its own directory.
pub const DIRECTORY: &str = "images";

pub use digest::Digest;
pub use error::{ImageError, reason};
pub use garbage::{Candidate, Collected, Thresholds, bytes_to_free_at, order_unused};
pub use image::{Image, ImageConfig};
pub use images::Images;
pub use keychain::{Keychain, KeychainError};
pub use limits::{Limits, RATIO_FREE_BYTES};
pub use name::{ParseError, Reference};
pub use pull::{Progress, PullError};
pub use registry::PullOptions;
pub use source::{Answer, ImageSource};
pub use user::{User, UserError, user};
