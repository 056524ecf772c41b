//! The steps of an expression.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use lazaret_model::{QualifiedName, Text};
use regex::Regex;

use crate::{
    check::decls::{Cost, Func, FunctionCost},
    eval::value::{Side, Value},
    reads::Reads,
};

/// The number of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpId(pub(crate) u32);

/// All steps of an expression.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    pub(crate) root: OpId,
    /// How many variables macros have.
    pub(crate) locals: usize,
    pub(crate) slots: Vec<Slot>,
    pub(crate) reads: Reads,
}

/// An attribute or capacity that the expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) side: Side,
    pub(crate) name: QualifiedName,
}

/// One step.
#[derive(Debug)]
pub(crate) enum Op {
    Const(Value<'static>),
    /// A call with constant arguments, made already; it still costs what the call would.
    Priced(Value<'static>, u64),
    /// `device.driver`.
    Driver,
    /// `device.allowMultipleAllocations`.
    AllowMultiple,
    /// A slot, read in one of several ways.
    Slot(SlotRead),
    /// `"domain" in device.attributes`.
    DomainIn(Side, Text),
    /// Any other chain of selections and indexes, or a choice between two.
    Attr(Attr),
    /// `has(...)`: the last selection is only tested.
    Has(Attr),
    And(Box<[OpId]>),
    Or(Box<[OpId]>),
    Equals(OpId, OpId),
    Call(Call),
    /// `matches`, `find` or `findAll` with a constant pattern.
    Pattern(Call, Box<Regex>),
    /// `x in [constants]`.
    Member(OpId, Box<[Value<'static>]>),
    List(Box<[(OpId, bool)]>),
    Map(Box<[(OpId, OpId, bool)]>),
    Fold(Box<Fold>),
    /// A name for a value, which is only computed when asked for.
    Bind {
        local: u32,
        init: OpId,
        body: OpId,
    },
    OrValue(OpId, OpId),
    OrElse(OpId, OpId),
}

/// A look at a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRead {
    pub(crate) slot: u32,
    pub(crate) how: How,
    /// Its cost.
    pub(crate) cost: u64,
    /// The variable that stands for the slot's domain, if it is read through one.
    pub(crate) via: Option<u32>,
}

/// How a slot is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Its absence is an error.
    Value,
    /// `.?id`; absence costs one less.
    Optional,
    /// `has()`.
    Has,
    /// `"id" in ...`.
    In,
}

/// Selections and indexes one after the other.
#[derive(Debug)]
pub(crate) struct Attr {
    pub(crate) base: Base,
    pub(crate) path: Vec<Step>,
}

/// Where a chain starts.
#[derive(Debug)]
pub(crate) enum Base {
    Device,
    /// Another variable that the expression is given.
    Variable(u32),
    Local(u32),
    Op(OpId),
    /// `condition ? yes : no`; what follows has been added to both.
    Choice(OpId, Box<(Attr, Attr)>),
}

/// One selection or index.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Key(Value<'static>, Optional),
    /// The last of a `has()`.
    Test(Value<'static>),
    /// An index that is a chain itself.
    Attr(Arc<Attr>, Optional),
    /// An index that is anything else.
    Op(OpId, Optional),
}

/// Whether absence makes the chain's value absent instead of an error.
pub(crate) type Optional = bool;

/// A function and its arguments, the target first.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) func: Func,
    pub(crate) args: Box<[OpId]>,
    pub(crate) price: Price,
    /// Stops at the first argument that fails; other calls evaluate all.
    pub(crate) stops_early: bool,
}

/// How a call's cost comes about: what its function says, and what the only overload that fits does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    pub(crate) function: FunctionCost,
    pub(crate) overload: Cost,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: OpId,
    pub(crate) iter: u32,
    pub(crate) iter2: Option<u32>,
    pub(crate) body: Body,
}

/// The work of a loop.
#[derive(Debug)]
pub(crate) enum Body {
    /// Anything: a variable that every step replaces.
    Any { accu: u32, init: OpId, condition: OpId, step: OpId, result: OpId },
    /// Makes a list of `element` where `guard` holds; `price` for each.
    Collect { guard: Option<OpId>, element: OpId, price: u64 },
    /// Makes a map of `key` (or of whole maps) where `guard` holds.
    Insert { guard: Option<OpId>, key: Option<OpId>, value: OpId },
}
