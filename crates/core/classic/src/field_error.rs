//! Errors of fields, in Kubernetes' form.

use alloc::string::String;
use core::fmt;

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// `spec.resourceClaims[0].name`.
    pub path: String,
    /// The problem.
    pub problem: FieldProblem,
}

/// The kinds of wrong that clients tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    /// It is not there.
    Required(String),
    /// The value, as JSON, cannot be.
    Invalid(String, String),
    /// The value, as JSON, stands twice.
    Duplicate(String),
    /// The value, as JSON, names something that does not exist.
    NotFound(String),
    /// It may not be set.
    Forbidden(String),
    /// More bytes than this.
    TooLong(usize),
    /// This many items where at most that many may be.
    TooMany(usize, usize),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required(detail) if detail.is_empty() => f.write_str("Required value"),
            Self::Required(detail) => write!(f, "Required value: {detail}"),
            Self::Invalid(value, detail) => write!(f, "Invalid value: {value}: {detail}"),
            Self::Duplicate(value) => write!(f, "Duplicate value: {value}"),
            Self::NotFound(value) => write!(f, "Not found: {value}"),
            Self::Forbidden(detail) => write!(f, "Forbidden: {detail}"),
            Self::TooLong(most) => write!(f, "Too long: may not be more than {most} bytes"),
            Self::TooMany(count, most) => write!(f, "Too many: {count}: must have at most {most} items"),
        }
    }
}

impl core::error::Error for FieldError {}
