//! Images of containers: imported from files, pulled from a registry, checked, unpacked, kept and removed.
//!
//! **Invariant.** What is unpacked has the digest that was asked for. Nothing in a layer reaches a path outside its
//! directory. What a container uses is never removed. It must never know pods or runtimes.

mod image;

pub use image::{Image, ImageConfig};
