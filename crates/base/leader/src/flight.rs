//! How long a write of a leader may be on its way.
//!
//! Most writes say which version of an object they replace, and one that arrives late does nothing. Some do not, or it does not help: of two
//! allocations of one device each replaces a version of another claim. A leader whose writes are of that kind gives each of them up after
//! [`WRITE_MS_MAX`], and asks the server to do so too; who takes over from one that did not give its lease back waits for
//! [`LONGEST_FLIGHT_MS`] before it looks how far the server is. It then sees all writes of the other one.

/// A write that has no answer after this long is given up: its connection is closed, and its outcome is unknown.
pub const WRITE_MS_MAX: i64 = 5_000;

/// A write reaches the server before it is given up, and is given up by the server as long after that.
pub const LONGEST_FLIGHT_MS: i64 = 2 * WRITE_MS_MAX;
