//! Facts about each part of an expression, used while its cost is estimated.

use alloc::vec::Vec;

use super::{
    range::{CostRange, Size},
    shape::Shape,
};
use crate::{
    check::{Checked, Env},
    syntax::ast::{Ast, Kind, Literal, NodeId},
};

/// Sizes of what a list or map holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Entry {
    pub(super) fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

/// A variable of a macro.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local<'s> {
    pub(super) name: &'s str,
    pub(super) shape: Shape,
    pub(super) size: Option<Size>,
    pub(super) entry: Option<Entry>,
}

pub(super) struct Estimator<'a, 's> {
    pub(super) ast: &'a Ast<'s>,
    pub(super) checked: &'a Checked,
    pub(super) env: Env,
    /// By node, as everything below: a node that is reached twice is looked at once.
    pub(super) costs: Vec<Option<CostRange>>,
    pub(super) shapes: Vec<Shape>,
    pub(super) sizes: Vec<Option<Size>>,
    pub(super) entries: Vec<Option<Entry>>,
    pub(super) locals: Vec<Local<'s>>,
}

impl<'s> Estimator<'_, 's> {
    pub(super) fn local(&self, name: &str) -> Option<&Local<'s>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    pub(super) fn ident_shape(&self, name: &str) -> Shape {
        match self.local(name) {
            Some(local) => local.shape,
            None => Shape::of_variable(name.strip_prefix('.').unwrap_or(name)),
        }
    }

    /// The part of the device that a node stands for.
    pub(super) fn shape(&self, id: NodeId) -> Shape {
        if let Kind::Ident(name) = self.ast.kind(id)
            && let Some(local) = self.local(name)
        {
            return local.shape;
        }
        self.shapes[id.index()]
    }

    pub(super) fn copy_sizes(&mut self, to: NodeId, from: NodeId) {
        if let Some(size) = self.size(from) {
            self.sizes[to.index()] = Some(size);
        }
        if let Some(entry) = self.entry(from) {
            self.entries[to.index()] = Some(entry);
        }
    }

    pub(super) fn size_or_unknown(&mut self, id: NodeId) -> Size {
        self.size(id).unwrap_or(Size::UNKNOWN)
    }

    /// The size of a node's value, from what is written, from the device's limits, from its type.
    pub(super) fn size(&mut self, id: NodeId) -> Option<Size> {
        if let Some(known) = self.sizes[id.index()] {
            return Some(known);
        }
        let written = match self.ast.kind(id) {
            Kind::Literal(Literal::String(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List(elements) => Some(elements.len()),
            Kind::Map(entries) => Some(entries.len()),
            Kind::Ident(_) | Kind::Select { .. } | Kind::Call { .. } | Kind::Comprehension(_) => None,
        };
        if let Some(size) = written {
            return Some(Size::fixed(size as u64));
        }
        if let Some(max) = self.shape(id).size_max() {
            let size = Size { min: 0, max };
            self.sizes[id.index()] = Some(size);
            return Some(size);
        }
        if self.checked.of(id).is_scalar() {
            return Some(Size::fixed(1));
        }
        if let Kind::Ident(name) = self.ast.kind(id) {
            return self.local(name).and_then(|local| local.size);
        }
        None
    }

    pub(super) fn entry(&self, id: NodeId) -> Option<Entry> {
        if let Some(known) = self.entries[id.index()] {
            return Some(known);
        }
        if let Kind::Ident(name) = self.ast.kind(id) {
            return self.local(name).and_then(|local| local.entry);
        }
        None
    }
}
