//! Regular expressions for the page: the part of the crate `regex` that `lazaret-cel` uses, with the same answers, in a tenth of the bytes.
//!
//! `regex` is fast because it has several engines, and tables of every property of every character. A page makes a plan now and then, and loads all of it.
//! This has one engine, which tries all alternatives side by side: time is in proportion to pattern times text, whatever the pattern is.
//!
//! Knows the spelling that `lazaret_cel` translates Go's dialect into, not the whole of `regex`'s. Tests compare both on random patterns and texts.
//!
//! **Invariant.** No pattern and no text makes it panic, recurse without bound or take more than the product of their sizes.
#![no_std]

extern crate alloc;

mod compile;
mod parse;
mod run;
mod set;
mod unicode;

use alloc::{string::String, sync::Arc};
use core::fmt;

use compile::Program;

/// Why there is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is wrong, and how.
    Syntax(String),
    /// It would take more bytes than this.
    CompiledTooBig(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => f.write_str(what),
            Self::CompiledTooBig(limit) => write!(f, "Compiled regex exceeds size limit of {limit} bytes."),
        }
    }
}

impl core::error::Error for Error {}

/// A pattern to be compiled.
#[derive(Clone, Debug)]
pub struct RegexBuilder {
    pattern: String,
    bytes_max: usize,
}

/// Bytes that a pattern may take by default.
const BYTES_MAX: usize = 10 << 20;

impl RegexBuilder {
    /// For this pattern.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self { pattern: pattern.into(), bytes_max: BYTES_MAX }
    }

    /// How many bytes it may take.
    pub fn size_limit(&mut self, bytes_max: usize) -> &mut Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Compiles it.
    ///
    /// # Errors
    /// The pattern is wrong, or takes too much.
    pub fn build(&self) -> Result<Regex, Error> {
        let node = parse::parse(&self.pattern).map_err(|what| Error::Syntax(what.into()))?;
        let program = compile::compile(&node, self.bytes_max).ok_or(Error::CompiledTooBig(self.bytes_max))?;
        Ok(Regex { program: Arc::new(program) })
    }
}

/// A compiled pattern. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Regex {
    program: Arc<Program>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

impl<'t> Match<'t> {
    /// The part.
    #[must_use]
    pub fn as_str(&self) -> &'t str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }
}

impl Regex {
    /// Whether it matches anywhere.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        run::find(&self.program, text, 0, true).is_some()
    }

    /// The leftmost match; of several there, the one that the pattern prefers.
    #[must_use]
    pub fn find<'t>(&self, text: &'t str) -> Option<Match<'t>> {
        let (start, end) = run::find(&self.program, text, 0, false)?;
        Some(Match { text, start, end })
    }

    /// All matches from left to right that do not overlap.
    pub fn find_iter<'r, 't>(&'r self, text: &'t str) -> Matches<'r, 't> {
        Matches { program: &self.program, text, at: 0, last_end: None }
    }
}

/// All matches in a text.
#[derive(Debug)]
pub struct Matches<'r, 't> {
    program: &'r Program,
    text: &'t str,
    /// Where to look next; beyond the text when there is nothing left.
    at: usize,
    last_end: Option<usize>,
}

impl<'t> Iterator for Matches<'_, 't> {
    type Item = Match<'t>;

    fn next(&mut self) -> Option<Match<'t>> {
        loop {
            if self.at > self.text.len() {
                return None;
            }
            let (start, end) = run::find(self.program, self.text, self.at, false)?;
            if start == end && self.last_end == Some(end) {
                // Nothing right after a match is not another one.
                self.at =
                    end + self.text.get(end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
                continue;
            }
            (self.at, self.last_end) = (end, Some(end));
            return Some(Match { text: self.text, start, end });
        }
    }
}

/// The text as a pattern that matches it alone.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if parse::is_meta(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
