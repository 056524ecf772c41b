//! From text to tree: tokens, grammar, macros.

pub(crate) mod ast;
mod build;
mod lexer;
mod literal;
mod macros;
mod parser;

pub(crate) use parser::parse;
