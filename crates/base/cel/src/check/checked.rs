//! The types of an expression, and what its names mean.

use alloc::vec::Vec;

use super::{
    decls::{Function, Overload},
    types::Type,
};
use crate::syntax::ast::NodeId;

/// The result of the checker.
#[derive(Debug)]
pub(crate) struct Checked {
    /// By node.
    pub(crate) types: Vec<Type>,
    /// By node.
    pub(crate) refs: Vec<Ref>,
}

impl Checked {
    pub(crate) fn of(&self, id: NodeId) -> &Type {
        &self.types[id.index()]
    }

    /// The function of a call that was checked.
    pub(crate) fn call(&self, id: NodeId) -> Option<&CallRef> {
        if let Ref::Call(call) = &self.refs[id.index()] { Some(call) } else { None }
    }
}

/// The meaning of a name or call.
#[derive(Clone, Debug)]
pub(crate) enum Ref {
    /// Nothing by name: a literal, or a selection from a value.
    None,
    /// The variable `device`.
    Device,
    /// Another variable that the expression is given, by its place among them.
    Variable(u32),
    /// A variable of a macro, by its place on the stack of those in scope.
    Local(u32),
    /// A type by its name.
    Type(Type),
    /// A function.
    Call(CallRef),
}

/// A function and those of its overloads that fit, as bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRef {
    pub(crate) function: &'static Function,
    pub(crate) fitting: u32,
    /// The target was part of the function's name.
    pub(crate) namespaced: bool,
}

impl CallRef {
    pub(crate) fn overloads(&self) -> impl Iterator<Item = &'static Overload> {
        let fitting = self.fitting;
        self.function
            .overloads
            .iter()
            .enumerate()
            .filter(move |(at, _)| fitting & (1 << at) != 0)
            .map(|(_, o)| o)
    }

    /// The overload, if only one fits.
    pub(crate) fn single(&self) -> Option<&'static Overload> {
        if self.fitting.count_ones() == 1 { self.overloads().next() } else { None }
    }
}
