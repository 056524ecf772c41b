//! Errors of an expression, at compile time and at run time.

use alloc::{borrow::ToOwned, boxed::Box, format, string::String, vec::Vec};
use core::{fmt, ops::Range};

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// At least one, in order of position.
    pub issues: Vec<Issue>,
}

/// One thing wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The problem and its correction.
    pub message: String,
    /// Where, in bytes of the expression.
    pub span: Range<usize>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Issue {
    pub(crate) fn new(message: impl Into<String>, span: Range<usize>, source: &str) -> Self {
        let before = source.get(..span.start).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Self { message: message.into(), span, line, column }
    }
}

impl CompileError {
    pub(crate) fn of(issue: Issue) -> Self {
        Self { issues: alloc::vec![issue] }
    }

    /// Each issue with the line it is in and a `^` under its place.
    #[must_use]
    pub fn render(&self, expression: &str) -> String {
        let mut out = String::new();
        for issue in &self.issues {
            let line = expression.lines().nth(issue.line - 1).unwrap_or("");
            let marks =
                issue.span.len().clamp(1, line.chars().count().saturating_sub(issue.column - 1).max(1));
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&format!(
                "{issue}\n | {line}\n | {blank}{marks}",
                blank = " ".repeat(issue.column - 1),
                marks = "^".repeat(marks),
            ));
        }
        out
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, issue) in self.issues.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{issue}")?;
        }
        Ok(())
    }
}

impl core::error::Error for CompileError {}

/// Why an evaluation has no result. One pointer wide.
#[derive(Clone, PartialEq, Eq)]
pub struct EvalError(Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    Value(String),
    Budget,
}

impl EvalError {
    #[cold]
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Failure::Value(message.into())))
    }

    /// It was stopped because it cost too much.
    #[cold]
    #[must_use]
    pub fn budget() -> Self {
        Self(Box::new(Failure::Budget))
    }

    #[cold]
    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        Self::new(format!("{NO_SUCH_KEY}{key}"))
    }

    #[cold]
    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// Whether the evaluation was stopped because it cost too much. `||` and `&&` do not make up for that.
    #[must_use]
    pub fn is_cost_exceeded(&self) -> bool {
        *self.0 == Failure::Budget
    }

    /// The text without the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        match &*self.0 {
            Failure::Value(message) => message,
            Failure::Budget => "operation cancelled: actual cost limit exceeded",
        }
    }
}

const NO_SUCH_KEY: &str = "no such key: ";

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message();
        f.write_str(message)?;
        if message.contains(NO_SUCH_KEY.trim_end()) {
            f.write_str(
                "; consider has(a.b), a.?b.orValue(default) or \"b\" in a for what a device may lack",
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EvalError").field(&self.message().to_owned()).finish()
    }
}

impl core::error::Error for EvalError {}
