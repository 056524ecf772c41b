//! The CEL of Dynamic Resource Allocation: expressions that select devices and compute attributes of them; and of definitions of kinds:
//! rules about objects ([`compile_rule`]), and of admission policies ([`compile_expression`]).
//!
//! An expression is parsed, type-checked, priced, and turned into a plan whose attribute names are numbers of a
//! table ([`Program::bind`]). Running a plan neither parses nor looks up names, and for common expressions it does
//! not allocate. Accepted expressions, their meaning and their cost are those of Kubernetes; see `docs/deviations.md` for
//! the exceptions.
//!
//! **Invariant.** Total and bounded: any text compiles or is refused with its place and a reason, any program ends
//! within [`COST_MAX`] units on any device. The crate knows values, not clusters: no claims, no pools, no JSON, no
//! clock, no I/O (`no_std`). It depends on `model` only; `fleet` and everything above may depend on it.
#![no_std]

extern crate alloc;
// In a page it goes by the name of the crate that it stands for.
#[cfg(target_family = "wasm")]
extern crate lazaret_regex as regex;
#[cfg(test)]
extern crate std;

mod authorization;
mod check;
mod datum;
mod device;
mod error;
mod estimate;
mod eval;
mod expression;
mod ext;
mod limits;
mod pattern;
mod plan;
mod program;
mod reads;
mod rule;
mod syntax;
#[cfg(test)]
mod tests;

pub use authorization::{Authorizer, Check, Decision, ResourceCheck, ServiceAccount, Subject};
pub use check::{Env, Mode};
pub use datum::{Datum, Lazy};
pub use device::{Device, SimpleDevice, is_supported};
pub use error::{CompileError, EvalError, Issue};
pub use estimate::CostRange;
pub use eval::time::{read_instant, write_instant};
pub use expression::{Expression, Wanted, compile_expression};
pub use limits::{COST_MAX, EXPRESSION_LENGTH_MAX};
pub use pattern::Pattern;
pub use program::{Bound, Look, Outcome, Program, compile, compile_derived, pattern_units};
pub use reads::Reads;
pub use rule::{Rule, Shape, Variables, compile_message, compile_rule};
