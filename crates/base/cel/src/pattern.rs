//! Regular expressions for others than CEL: the schemas of defined kinds hold patterns in the same dialect.

use alloc::{borrow::ToOwned as _, string::String};
use core::fmt;

use regex::Regex;

use crate::ext;

/// A regular expression in Go's dialect of RE2, which runs in linear time. Cheap to clone.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    source: String,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The syntax error of the pattern, or that it takes too much memory.
    pub fn compile(source: &str) -> Result<Self, String> {
        let regex = ext::regexes::compile(source).map_err(|error| error.0)?;
        Ok(Self { regex, source: source.to_owned() })
    }

    /// As it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches anywhere in `text`.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.source).finish()
    }
}
