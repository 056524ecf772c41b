//! Errors of an object, field by field, in the words that clients know.

use std::fmt;

use lazaret_json::Value;

/// Bound on the errors collected for one object.
const ERRORS_MAX: usize = 100;

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// `spec.devices.requests[0].name`.
    pub path: String,
    /// The reason.
    pub problem: FieldProblem,
}

/// The kinds of wrong that clients tell apart.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldProblem {
    /// It is not there.
    Required(String),
    /// The value cannot be.
    Invalid(Value, String),
    /// It stands twice.
    Duplicate(Value),
    /// It stands twice, where something else has to be unique.
    NotUnique(Value, String),
    /// Not one of the values that exist.
    NotSupported(Value, Vec<String>),
    /// The fields of the object do not go together.
    Unfit(String),
    /// It may not be set, or not by this user.
    Forbidden(String),
    /// More bytes than this.
    TooLong(usize),
    /// The number of items, and the number that is allowed.
    TooMany(usize, usize),
    /// It names something that does not exist.
    NotFound(Value),
    /// Of another type than the field.
    TypeInvalid(Value, String),
    /// The server's own fault.
    Internal(String),
}

impl FieldError {
    /// The cause's `reason` in a Status.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.problem {
            FieldProblem::Required(_) => "FieldValueRequired",
            FieldProblem::Invalid(..) | FieldProblem::Unfit(_) => "FieldValueInvalid",
            FieldProblem::Duplicate(_) | FieldProblem::NotUnique(..) => "FieldValueDuplicate",
            FieldProblem::NotSupported(..) => "FieldValueNotSupported",
            FieldProblem::Forbidden(_) => "FieldValueForbidden",
            FieldProblem::TooLong(_) => "FieldValueTooLong",
            FieldProblem::TooMany(..) => "FieldValueTooMany",
            FieldProblem::NotFound(_) => "FieldValueNotFound",
            FieldProblem::TypeInvalid(..) => "FieldValueTypeInvalid",
            FieldProblem::Internal(_) => "InternalError",
        }
    }

    /// The cause's `message`: what is wrong, without the path.
    #[must_use]
    pub fn message(&self) -> String {
        self.problem.to_string()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = |f: &mut fmt::Formatter<'_>, head: &str, detail: &str| {
            if detail.is_empty() { f.write_str(head) } else { write!(f, "{head}: {detail}") }
        };
        match self {
            Self::Required(text) => detail(f, "Required value", text),
            Self::Invalid(value, text) => detail(f, &format!("Invalid value: {value}"), text),
            Self::Unfit(text) => detail(f, "Invalid value", text),
            Self::Duplicate(value) => write!(f, "Duplicate value: {value}"),
            Self::NotUnique(value, text) => detail(f, &format!("Duplicate value: {value}"), text),
            Self::NotSupported(value, known) => {
                let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
                detail(
                    f,
                    &format!("Unsupported value: {value}"),
                    &format!("supported values: {}", known.join(", ")),
                )
            }
            Self::Forbidden(text) => detail(f, "Forbidden", text),
            Self::TooLong(most) => write!(f, "Too long: may not be more than {most} bytes"),
            Self::TooMany(count, most) => write!(f, "Too many: {count}: must have at most {most} items"),
            Self::NotFound(value) => write!(f, "Not found: {value}"),
            Self::TypeInvalid(value, text) => detail(f, &format!("Invalid value: {value}"), text),
            Self::Internal(text) => detail(f, "Internal error", text),
        }
    }
}

/// The errors found so far, and the warnings.
#[derive(Debug, Default)]
pub struct Errors {
    list: Vec<FieldError>,
    warnings: Vec<String>,
}

impl Errors {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a field is wrong.
    pub fn push(&mut self, path: impl Into<String>, problem: FieldProblem) {
        if self.list.len() < ERRORS_MAX {
            self.list.push(FieldError { path: path.into(), problem });
        }
    }

    /// Notes something that is allowed and probably not meant.
    pub fn warn(&mut self, text: impl Into<String>) {
        if self.warnings.len() < ERRORS_MAX {
            self.warnings.push(text.into());
        }
    }

    /// A field is missing.
    pub fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.push(path, FieldProblem::Required(detail.to_owned()));
    }

    /// A value cannot be.
    pub fn invalid(&mut self, path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(path, FieldProblem::Invalid(value.into(), detail.into()));
    }

    /// A field may not be set.
    pub fn forbidden(&mut self, path: impl Into<String>, detail: impl Into<String>) {
        self.push(path, FieldProblem::Forbidden(detail.into()));
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many are wrong.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The errors found so far.
    #[must_use]
    pub fn list(&self) -> &[FieldError] {
        &self.list
    }

    /// The warnings, for the `Warning` header.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
