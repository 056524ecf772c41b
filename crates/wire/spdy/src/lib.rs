//! Frames of SPDY/3.1, as far as Kubernetes uses them: streams of exec, attach and port-forward over one connection.
//!
//! Bytes in, frames out, and the other way round. The caller reads and writes the connection.
//!
//! **Invariant.** Input is bounded: a frame, the headers of a stream, and their count. It must never know what a stream is for.

mod frames;
mod headers;

pub use frames::{Broken, Frame, Reader, data, open, ping, refuse, reply};
