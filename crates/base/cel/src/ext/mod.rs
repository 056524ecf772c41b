//! Pure functions behind the extension libraries: strings, formatting, URLs, addresses, named formats and
//! regular expressions over plain Rust types.
//!
//! **Invariant**: nothing here knows values, types or costs of the evaluator; every function is total, and no result
//! string grows beyond [`STRING_BYTES_MAX`].

use alloc::string::String;
use core::fmt;

pub(crate) mod format;
pub(crate) mod named_format;
pub(crate) mod net;
pub(crate) mod pattern_work;
pub(crate) mod quote;
pub(crate) mod regexes;
pub(crate) mod strings;
pub(crate) mod url;

/// Upper bound of a string built by one call, in bytes.
///
/// The budget charges a result only once it exists; without a bound one `replace` could build terabytes first.
pub(crate) const STRING_BYTES_MAX: usize = 1 << 20;

/// Why an extension function could not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtError(pub(crate) String);

impl fmt::Display for ExtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ExtError {}

impl ExtError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ExtError(message.into())
    }

    pub(crate) fn too_long() -> Self {
        ExtError(alloc::format!("result is longer than {STRING_BYTES_MAX} bytes"))
    }
}
