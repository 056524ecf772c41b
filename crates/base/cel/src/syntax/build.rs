//! The tree while it is built: by the grammar, and by the macros that it expands.

use alloc::vec::Vec;

use super::{
    ast::{Kind, Literal, Node, NodeId, Span, op},
    lexer::Token,
};
use crate::error::Issue;

/// The state of one parse. Macros build their expansions with it.
pub(super) struct Parser<'s> {
    pub(super) source: &'s str,
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    pub(super) nodes: Vec<Node<'s>>,
    pub(super) depths: Vec<u16>,
    pub(super) nesting: u16,
}

pub(super) type Parsed<T = NodeId> = Result<T, Issue>;

impl<'s> Parser<'s> {
    pub(super) fn add(&mut self, kind: Kind<'s>, span: Span) -> NodeId {
        let depth = self.depth_of(&kind);
        self.nodes.push(Node { kind, span });
        self.depths.push(depth);
        NodeId(u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX))
    }

    pub(super) fn call(&mut self, function: &'s str, args: Vec<NodeId>, span: Span) -> NodeId {
        self.add(Kind::Call { function, target: None, args }, span)
    }

    pub(super) fn literal(&mut self, literal: Literal, span: Span) -> NodeId {
        self.add(Kind::Literal(literal), span)
    }

    pub(super) fn ident(&mut self, name: &'s str, span: Span) -> NodeId {
        self.add(Kind::Ident(name), span)
    }

    pub(super) fn kind(&self, id: NodeId) -> &Kind<'s> {
        &self.nodes[id.index()].kind
    }

    pub(super) fn issue_at(&self, id: NodeId, message: &str) -> Issue {
        self.issue(message, self.nodes[id.index()].span)
    }

    fn depth_of(&self, kind: &Kind<'s>) -> u16 {
        let of = |id: &NodeId| self.depths[id.index()];
        match kind {
            Kind::Literal(_) | Kind::Ident(_) => 0,
            Kind::Select { operand, .. } => of(operand) + 1,
            Kind::Call { function, target, args } => {
                let counted = u16::from(
                    !matches!(*function, op::AND | op::OR | op::NOT | op::NEGATE) && !args.is_empty()
                        || target.is_some(),
                );
                args.iter().chain(target).map(of).max().unwrap_or(0) + counted
            }
            Kind::List(elements) => elements.iter().map(|(id, _)| of(id)).max().unwrap_or(0),
            Kind::Map(entries) => entries.iter().map(|e| of(&e.key).max(of(&e.value))).max().unwrap_or(0),
            Kind::Comprehension(c) => {
                [&c.range, &c.init, &c.condition, &c.step, &c.result].map(of).into_iter().max().unwrap_or(0)
            }
        }
    }

    pub(super) fn issue(&self, message: &str, span: Span) -> Issue {
        Issue::new(message, span.start as usize..span.end as usize, self.source)
    }
}
