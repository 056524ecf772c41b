//! The work of compiling the expressions of one object, which is bounded: each may be as dear as it may be, and an object has hundreds.

use std::cell::Cell;

/// The units of work that it may take to compile the expressions of one object: a second at most. One is what a unit of CEL's cost takes.
pub(super) const COMPILE_UNITS_MAX: u64 = 100_000_000;
/// An expression.
const EXPRESSION_UNITS: u64 = 2_000;
/// Each byte of it.
const BYTE_UNITS: u64 = 100;

/// The units that are left; nothing once an expression was refused.
#[derive(Debug)]
pub(super) struct CompileBudget(Cell<Option<u64>>);

impl Default for CompileBudget {
    fn default() -> Self {
        Self(Cell::new(Some(COMPILE_UNITS_MAX)))
    }
}

impl CompileBudget {
    /// Whether an expression was refused: no other is compiled.
    pub(super) fn is_over(&self) -> bool {
        self.0.get().is_none()
    }

    /// Takes units for a piece of work. Whether there were as many.
    pub(super) fn take(&self, units: u64) -> bool {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(units)));
        !self.is_over()
    }
}

/// The units that it takes to compile an expression at most: by its length, and by its regular expressions. The scheduler counts the same.
pub(super) fn compile_units(expression: &str) -> u64 {
    let length = u64::try_from(expression.len()).unwrap_or(u64::MAX);
    let by_length = length.saturating_mul(BYTE_UNITS).saturating_add(EXPRESSION_UNITS);
    lazaret_cel::pattern_units(expression).saturating_add(by_length)
}
