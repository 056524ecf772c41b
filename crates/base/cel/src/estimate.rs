//! The worst and the best that an expression can cost, before any device is seen. Same rules and numbers as cel-go
//! and Kubernetes, so that what one accepts the other does.

mod calls;
mod estimator;
mod range;
mod shape;

use alloc::{vec, vec::Vec};

use estimator::{Entry, Estimator, Local};
pub use range::CostRange;
use range::Size;
use shape::Shape;

use crate::{
    check::{Checked, Env, decls::Func, types::Type},
    syntax::ast::{Ast, Comprehension, Kind, NodeId},
};

/// A name, a selection or an index.
const SELECT: CostRange = CostRange::fixed(1);
const LIST: CostRange = CostRange::fixed(10);
const MAP: CostRange = CostRange::fixed(30);

/// Estimates the cost of a checked expression.
pub(crate) fn estimate(ast: &Ast<'_>, checked: &Checked, env: Env) -> CostRange {
    let count = ast.nodes.len();
    let mut estimator = Estimator {
        ast,
        checked,
        env,
        costs: vec![None; count],
        shapes: vec![Shape::Empty; count],
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: Vec::new(),
    };
    estimator.cost(ast.root)
}

impl<'s> Estimator<'_, 's> {
    fn cost(&mut self, id: NodeId) -> CostRange {
        if let Some(known) = self.costs[id.index()] {
            return known;
        }
        let ast = self.ast;
        let cost = match ast.kind(id) {
            Kind::Literal(_) => CostRange::fixed(0),
            Kind::Ident(name) => {
                self.shapes[id.index()] = self.ident_shape(name);
                SELECT
            }
            Kind::Select { operand, field, test_only } => self.select(id, *operand, field, *test_only),
            Kind::Call { target, args, .. } => self.call(id, *target, args),
            Kind::List(elements) => self.list(id, elements),
            Kind::Map(entries) => self.map(id, entries),
            Kind::Comprehension(fold) if fold.is_bind() => self.bind(id, fold),
            Kind::Comprehension(fold) => self.fold(id, fold),
        };
        self.costs[id.index()] = Some(cost);
        cost
    }

    fn select(&mut self, id: NodeId, operand: NodeId, field: &str, test_only: bool) -> CostRange {
        if let crate::check::Ref::Type(_) | crate::check::Ref::Variable(_) = self.checked.refs[id.index()] {
            return SELECT;
        }
        let cost = self.cost(operand);
        if test_only {
            return cost;
        }
        self.shapes[id.index()] = self.shape(operand).field(field, self.env);
        let is_paid = matches!(self.checked.of(operand), Type::Map(_) | Type::Device);
        if is_paid { cost.add(SELECT) } else { cost }
    }

    fn call(&mut self, id: NodeId, target: Option<NodeId>, args: &[NodeId]) -> CostRange {
        let Some(reference) = self.checked.call(id).copied() else { return CostRange::fixed(0) };
        if let (Func::ToDyn, [arg]) = (reference.function.func, args) {
            let cost = self.cost(*arg).add(CostRange::fixed(1));
            self.copy_sizes(id, *arg);
            return cost;
        }
        let arg_costs: Vec<CostRange> = args.iter().map(|arg| self.cost(*arg)).collect();
        let target = target.filter(|_| !reference.namespaced);
        let before = target.map_or(CostRange::fixed(0), |target| self.cost(target));
        let (mut cost, mut size) = (CostRange { min: u64::MAX, max: 0 }, None::<Size>);
        for overload in reference.overloads() {
            let call = calls::Call {
                id,
                function: reference.function,
                overload,
                target,
                args,
                arg_costs: &arg_costs,
            };
            let (call_cost, made) = self.call_cost(&call);
            cost = cost.union(call_cost);
            size = match (size, made) {
                (Some(known), Some(made)) => Some(known.union(made)),
                (known, made) => known.or(made),
            };
            if let Some(indexed) = calls::indexed(overload.cost)
                && let Some(container) = args.first()
            {
                size = self.entry(*container).map(|entry| entry.value);
                self.shapes[id.index()] = self.shape(*container).item(indexed);
            }
            size = size.or_else(|| self.size(id));
        }
        self.sizes[id.index()] = size.or(self.sizes[id.index()]);
        before.add(cost)
    }

    fn list(&mut self, id: NodeId, elements: &[(NodeId, bool)]) -> CostRange {
        let mut cost = LIST;
        let mut value = Size { min: if elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
        for (element, _) in elements {
            cost = cost.add(self.cost(*element));
            value = value.union(self.size_or_unknown(*element));
        }
        self.entries[id.index()] = Some(Entry { is_list: true, key: Size::fixed(1), value });
        cost
    }

    fn map(&mut self, id: NodeId, entries: &[crate::syntax::ast::MapEntry]) -> CostRange {
        let mut cost = MAP;
        let empty = Size { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let (mut key, mut value) = (empty, empty);
        for entry in entries {
            cost = cost.add(self.cost(entry.key)).add(self.cost(entry.value));
            key = key.union(self.size_or_unknown(entry.key));
            value = value.union(self.size_or_unknown(entry.value));
        }
        self.entries[id.index()] = Some(Entry { is_list: false, key, value });
        cost
    }

    fn bind(&mut self, id: NodeId, bind: &Comprehension<'s>) -> CostRange {
        let before = self.cost(bind.range).add(self.cost(bind.init));
        self.push_value(bind.accu_var, bind.init);
        let cost = before.add(self.cost(bind.result));
        self.copy_sizes(id, bind.result);
        self.locals.pop();
        cost
    }

    fn fold(&mut self, id: NodeId, fold: &Comprehension<'s>) -> CostRange {
        let before = self.cost(fold.range).add(self.cost(fold.init));
        self.push_value(fold.accu_var, fold.init);
        let within = self.locals.len();
        self.push_iteration(fold);
        let turn = self.cost(fold.condition).add(self.cost(fold.step));
        self.locals.truncate(within);
        let after = self.cost(fold.result);
        self.locals.pop();
        let turns = self.size_or_unknown(fold.range);
        match self.ast.kind(fold.init) {
            Kind::Literal(_) => self.sizes[id.index()] = self.size(fold.init),
            Kind::List(_) | Kind::Map(_) => {
                self.sizes[id.index()] = Some(turns);
                if let Some(entry) = self.entry(fold.step) {
                    self.entries[id.index()] = Some(entry);
                }
            }
            Kind::Ident(_) | Kind::Select { .. } | Kind::Call { .. } | Kind::Comprehension(_) => {}
        }
        before.add(after).add(turns.times(turn))
    }

    fn push_value(&mut self, name: &'s str, init: NodeId) {
        let local = Local { name, shape: self.shape(init), size: self.size(init), entry: self.entry(init) };
        self.locals.push(local);
    }

    fn push_iteration(&mut self, fold: &Comprehension<'s>) {
        let entry = self.entry(fold.range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.of(fold.range), Type::List(_)),
        };
        let shape = self.shape(fold.range);
        let key =
            Local { name: fold.iter_var, shape: shape.key(is_list), size: entry.map(|e| e.key), entry: None };
        let value = Local {
            name: fold.iter_var,
            shape: shape.item(is_list),
            size: entry.map(|e| e.value),
            entry: None,
        };
        match fold.iter_var2 {
            Some(name) => self.locals.extend([key, Local { name, ..value }]),
            None if is_list => self.locals.push(value),
            None => self.locals.push(key),
        }
    }
}
