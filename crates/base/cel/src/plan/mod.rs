//! The steps of an expression: the form that runs.
//!
//! Steps are an arena, shared where the tree is. A step knows what it costs, so that running it needs no look at
//! types or names; attributes that are named in the expression are numbered slots.

mod attributes;
mod planned;
mod planner;
mod step;

pub(crate) use planner::plan;
pub(crate) use step::{Attr, Base, Body, Call, Fold, How, Op, OpId, Plan, Price, SlotRead, Step};
