//! The tree that the parser builds: an arena of nodes, macros already expanded.
//!
//! Nodes are numbered, so that later passes keep what they learn in plain vectors. A node may be reached by two
//! ways (`optMap` uses its target twice): passes that walk the tree remember what they have seen.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use lazaret_model::Text;

/// The number of a node in its [`Ast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A parsed expression. Names borrow from its source.
#[derive(Debug)]
pub(crate) struct Ast<'s> {
    pub(crate) nodes: Vec<Node<'s>>,
    pub(crate) root: NodeId,
}

impl<'s> Ast<'s> {
    pub(crate) fn kind(&self, id: NodeId) -> &Kind<'s> {
        &self.nodes[id.index()].kind
    }

    pub(crate) fn span(&self, id: NodeId) -> Range<usize> {
        let span = self.nodes[id.index()].span;
        span.start as usize..span.end as usize
    }

    /// All nodes, those within others first.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// The literal at `id`, if it is one.
    pub(crate) fn literal(&self, id: NodeId) -> Option<&Literal> {
        if let Kind::Literal(literal) = self.kind(id) { Some(literal) } else { None }
    }
}

/// Where a node stands, in bytes of the source. An operator or call is where its token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// One node and its place.
#[derive(Debug)]
pub(crate) struct Node<'s> {
    pub(crate) kind: Kind<'s>,
    pub(crate) span: Span,
}

/// The kind of a node.
#[derive(Debug)]
pub(crate) enum Kind<'s> {
    /// A value as written.
    Literal(Literal),
    /// A name; a leading `.` makes it global.
    Ident(&'s str),
    /// `operand.field`, or `has(operand.field)`.
    Select { operand: NodeId, field: &'s str, test_only: bool },
    /// `function(args)` or `target.function(args)`; operators are functions too.
    Call { function: &'s str, target: Option<NodeId>, args: Vec<NodeId> },
    /// `[a, ?b]`: elements, each with whether it is optional.
    List(Vec<(NodeId, bool)>),
    /// `{k: v, ?k: v}`.
    Map(Vec<MapEntry>),
    /// The expansion of a macro.
    Comprehension(Comprehension<'s>),
}

/// One entry of a map literal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: NodeId,
    pub(crate) value: NodeId,
    pub(crate) optional: bool,
}

/// A fold over a range. [`Comprehension::is_bind`] when it only gives a name to a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comprehension<'s> {
    pub(crate) range: NodeId,
    pub(crate) iter_var: &'s str,
    pub(crate) iter_var2: Option<&'s str>,
    pub(crate) accu_var: &'s str,
    pub(crate) init: NodeId,
    pub(crate) condition: NodeId,
    pub(crate) step: NodeId,
    pub(crate) result: NodeId,
}

/// The accumulator's name in expanded macros. No source can spell it.
pub(crate) const ACCUMULATOR: &str = "@result";

impl Comprehension<'_> {
    /// Folds nothing: `accu_var` stands for `init` within `result`.
    pub(crate) fn is_bind(&self) -> bool {
        self.accu_var != ACCUMULATOR
    }
}

/// A constant as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text),
    Bytes(Arc<[u8]>),
}

/// The functions behind operators.
pub(crate) mod op {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
}
