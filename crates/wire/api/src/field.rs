//! Where in an object something is wrong.

use std::fmt;

use crate::wire::{self, Trail};

/// A field that is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// As in `spec.devices.requests[0].exactly.count`; empty for the object as a whole.
    pub path: String,
    /// The reason.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for FieldError {}

/// A path under construction. Lives on the stack; costs nothing until there is an error to report.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        self.then(Step::Field(name))
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        self.then(Step::Key(key))
    }

    fn then(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step }
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> FieldError {
        FieldError { path: self.to_string(), message: message.into() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let first = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if first => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl FieldError {
    /// The same field of an object that stands at a place.
    pub(crate) fn below(self, place: &Path<'_>) -> Self {
        let path = if self.path.is_empty() { place.to_string() } else { format!("{place}.{}", self.path) };
        Self { path, message: self.message }
    }

    /// An error of serde, in the same form.
    pub(crate) fn at(trail: &Trail, error: &serde_json::Error) -> Self {
        let mut path = String::new();
        let mut parents = ["", ""];
        for step in trail.steps.iter().rev() {
            match step {
                wire::Step::Index(index) => path.push_str(&format!("[{index}]")),
                wire::Step::Name(key) => {
                    if is_map(parents, key) {
                        path.push_str(&format!("[{key}]"));
                    } else if path.is_empty() {
                        path.push_str(key);
                    } else {
                        path.push_str(&format!(".{key}"));
                    }
                    parents = [parents[1], key];
                }
            }
        }
        Self { path, message: without_position(error) }
    }
}

/// Whether `key` is one of many in a map rather than a field: serde does not tell them apart, their parents do.
fn is_map(parents: [&str; 2], key: &str) -> bool {
    match parents {
        ["capacity", "requests"] => true,
        // The capacity of a device is a map, that of a request has one in a field.
        [_, "capacity"] => key != "requests",
        [_, "attributes" | "counters" | "consumedCapacity" | "labels" | "annotations"] => true,
        _ => false,
    }
}

/// The message without line and column: they count in the JSON made of one document, which the author of YAML never sees.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}
