//! Errors that the core found, in the words of the server.

use lazaret_classic as classic;
use lazaret_json::Value;

use crate::{Errors, FieldProblem};

/// Adds errors, each at the path that `path` makes of its own.
pub(super) fn add(errors: &mut Errors, found: Vec<classic::FieldError>, path: impl Fn(&str) -> String) {
    for classic::FieldError { path: at, problem } in found {
        errors.push(path(&at), self::problem(problem));
    }
}

fn problem(problem: classic::FieldProblem) -> FieldProblem {
    use classic::FieldProblem as Core;
    match problem {
        Core::Required(detail) => FieldProblem::Required(detail),
        Core::Invalid(value, detail) => FieldProblem::Invalid(json(&value), detail),
        Core::Duplicate(value) => FieldProblem::Duplicate(json(&value)),
        Core::NotFound(value) => FieldProblem::NotFound(json(&value)),
        Core::Forbidden(detail) => FieldProblem::Forbidden(detail),
        Core::TooLong(most) => FieldProblem::TooLong(most),
        Core::TooMany(count, most) => FieldProblem::TooMany(count, most),
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
