//! A plan that may still be extended.

use alloc::boxed::Box;

use super::step::{Attr, Base, OpId, Step};

/// A node that is planned but may still be extended.
pub(super) enum Planned {
    Op(OpId),
    Attr(Attr),
}

impl Attr {
    pub(super) fn of(base: Base) -> Self {
        Self { base, path: alloc::vec::Vec::new() }
    }

    /// Adds a step; to both sides of a choice.
    pub(super) fn push(&mut self, step: Step) {
        match &mut self.base {
            Base::Choice(_, branches) => {
                branches.0.push(step.clone());
                branches.1.push(step);
            }
            Base::Device | Base::Variable(_) | Base::Local(_) | Base::Op(_) => self.path.push(step),
        }
    }

    pub(super) fn choice(condition: OpId, yes: Self, no: Self) -> Self {
        Self::of(Base::Choice(condition, Box::new((yes, no))))
    }
}
