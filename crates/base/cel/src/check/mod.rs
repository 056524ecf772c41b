//! Static types of every part of an expression, and which function each call means.

mod checked;
mod checker;
pub(crate) mod decls;
mod environment;
mod library;
pub(crate) mod types;
mod validate;

pub(crate) use checked::{CallRef, Checked, Ref};
pub(crate) use checker::{check, check_with};
pub(crate) use environment::Purpose;
pub use environment::{Env, Mode};
