//! How long an expression may be, and how much it may cost.

/// The longest expression, in bytes.
/// DEVIATION(cel-limits-when-compiling): in every mode.
pub const EXPRESSION_LENGTH_MAX: usize = 10_240;
/// The most that an expression may cost: by its estimate when it is new, and by what it really does whenever it
/// runs.
pub const COST_MAX: u64 = 1_000_000;
