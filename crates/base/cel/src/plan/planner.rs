//! From a checked tree to steps.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec, vec::Vec};

use lazaret_model::Text;

use super::{
    planned::Planned,
    step::{Attr, Base, Body, Call, Fold, Op, OpId, Plan, Price, Slot, Step},
};
use crate::{
    check::{
        CallRef, Checked, Ref,
        decls::{Cost, Func, FunctionCost},
    },
    error::{CompileError, Issue},
    eval::{
        self, Context, NoDevice,
        value::{Key, Map, Side, Str, Value},
    },
    reads::Reads,
    syntax::ast::{ACCUMULATOR, Ast, Comprehension, Kind, Literal, NodeId, op},
};

/// The plan of an expression that has been checked.
pub(crate) fn plan(ast: &Ast<'_>, checked: &Checked, source: &str) -> Result<Plan, CompileError> {
    let mut planner = Planner {
        ast,
        checked,
        source,
        ops: Vec::with_capacity(ast.nodes.len()),
        memo: vec![None; ast.nodes.len()],
        scope: Vec::new(),
        locals: 0,
        domains: BTreeMap::new(),
        slots: Vec::new(),
        reads: Reads::default(),
        no_device: NoDevice::default(),
    };
    let root = planner.plan(ast.root).map_err(CompileError::of)?;
    let Planner { ops, locals, slots, mut reads, .. } = planner;
    reads.attributes.sort();
    reads.capacity.sort();
    Ok(Plan { ops, root, locals: locals as usize, slots, reads })
}

type Made<T = OpId> = Result<T, Issue>;

pub(super) struct Planner<'a, 's> {
    ast: &'a Ast<'s>,
    checked: &'a Checked,
    source: &'a str,
    pub(super) ops: Vec<Op>,
    memo: Vec<Option<OpId>>,
    /// Variables in scope, each with its place among all.
    scope: Vec<u32>,
    locals: u32,
    /// Variables that stand for a domain of the device.
    pub(super) domains: BTreeMap<u32, (Side, Text)>,
    pub(super) slots: Vec<Slot>,
    pub(super) reads: Reads,
    no_device: NoDevice,
}

impl Planner<'_, '_> {
    pub(super) fn add(&mut self, op: Op) -> OpId {
        self.ops.push(op);
        OpId(u32::try_from(self.ops.len() - 1).unwrap_or(u32::MAX))
    }

    fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize]
    }

    pub(super) fn constant(&self, id: OpId) -> Option<&Value<'static>> {
        if let Op::Const(value) = self.op(id) { Some(value) } else { None }
    }

    /// A value that is known now, and what it costs all the same.
    fn known(&self, id: OpId) -> Option<(&Value<'static>, u64)> {
        if let Op::Priced(value, price) = self.op(id) {
            Some((value, *price))
        } else {
            Some((self.constant(id)?, 0))
        }
    }

    fn plan(&mut self, id: NodeId) -> Made {
        if let Some(known) = self.memo[id.index()] {
            return Ok(known);
        }
        let planned = match self.open(id)? {
            Planned::Op(op) => op,
            Planned::Attr(attr) => self.seal(attr, false),
        };
        self.memo[id.index()] = Some(planned);
        Ok(planned)
    }

    /// Plans a node so that selections can still be added to it.
    fn open(&mut self, id: NodeId) -> Made<Planned> {
        if let Some(known) = self.memo[id.index()] {
            return Ok(Planned::Op(known));
        }
        if let Ref::Type(named) = &self.checked.refs[id.index()] {
            return Ok(Planned::Op(self.add(Op::Const(Value::of_type(named)))));
        }
        let ast = self.ast;
        match ast.kind(id) {
            Kind::Literal(literal) => Ok(Planned::Op(self.add(Op::Const(value_of(literal))))),
            Kind::Ident(_) => Ok(Planned::Attr(Attr::of(match self.checked.refs[id.index()] {
                Ref::Local(at) => Base::Local(self.scope[at as usize]),
                Ref::Variable(at) => Base::Variable(at),
                Ref::None | Ref::Device | Ref::Type(_) | Ref::Call(_) => Base::Device,
            }))),
            Kind::Select { operand, field, test_only } => {
                if let Ref::Variable(at) = self.checked.refs[id.index()] {
                    return Ok(Planned::Attr(Attr::of(Base::Variable(at))));
                }
                let mut attr = self.chain(*operand)?;
                let key = Value::text(*field);
                if *test_only {
                    attr.push(Step::Test(key));
                    return Ok(Planned::Op(self.seal(attr, true)));
                }
                attr.push(Step::Key(key, false));
                Ok(Planned::Attr(attr))
            }
            Kind::Call { target, args, .. } => self.call(id, *target, args),
            Kind::List(elements) => self.list(elements).map(Planned::Op),
            Kind::Map(entries) => self.map(entries).map(Planned::Op),
            Kind::Comprehension(fold) if fold.is_bind() => self.bind(fold).map(Planned::Op),
            Kind::Comprehension(fold) => self.fold(fold).map(Planned::Op),
        }
    }

    /// A node as the start of a chain.
    fn chain(&mut self, id: NodeId) -> Made<Attr> {
        Ok(match self.open(id)? {
            Planned::Attr(attr) => attr,
            Planned::Op(op) => {
                self.memo[id.index()] = Some(op);
                Attr::of(Base::Op(op))
            }
        })
    }

    fn call(&mut self, id: NodeId, target: Option<NodeId>, args: &[NodeId]) -> Made<Planned> {
        let Some(reference) = self.checked.call(id).copied() else {
            return Err(Issue::new("unresolved call", self.ast.span(id), self.source));
        };
        match (reference.function.func, args) {
            (Func::And, terms) => {
                let terms = self.plan_all(terms)?;
                return Ok(Planned::Op(self.add(Op::And(terms))));
            }
            (Func::Or, terms) => {
                let terms = self.plan_all(terms)?;
                return Ok(Planned::Op(self.add(Op::Or(terms))));
            }
            (Func::Conditional, [condition, yes, no]) => {
                let condition = self.plan(*condition)?;
                let (yes, no) = (self.chain(*yes)?, self.chain(*no)?);
                return Ok(Planned::Attr(Attr::choice(condition, yes, no)));
            }
            (Func::Index | Func::OptIndex | Func::OptSelect, [operand, index]) => {
                return self
                    .index(*operand, *index, reference.function.func != Func::Index)
                    .map(Planned::Attr);
            }
            (Func::In, [key, container]) => {
                if let Some(op) = self.membership(*key, *container, &reference)? {
                    return Ok(Planned::Op(self.add(op)));
                }
            }
            (Func::Equals, [left, right]) => {
                let (left, right) = (self.plan(*left)?, self.plan(*right)?);
                return Ok(Planned::Op(self.add(Op::Equals(left, right))));
            }
            _ => {}
        }
        let mut planned = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target.filter(|_| !reference.namespaced) {
            planned.push(self.plan(target)?);
        }
        for arg in args {
            planned.push(self.plan(*arg)?);
        }
        let op = self.function(id, &reference, planned)?;
        Ok(Planned::Op(self.add(op)))
    }

    fn plan_all(&mut self, nodes: &[NodeId]) -> Made<Box<[OpId]>> {
        nodes.iter().map(|node| self.plan(*node)).collect()
    }

    fn index(&mut self, operand: NodeId, index: NodeId, optional: bool) -> Made<Attr> {
        let mut attr = self.chain(operand)?;
        let planned = self.open(index)?;
        if let Planned::Attr(inner) = &planned {
            self.note_reads(inner);
        }
        let step = self.index_step(planned, optional);
        if let Step::Key(key, _) = &step
            && key.to_key().is_none()
        {
            let message = alloc::format!("no map or list has an index of type {}", key.type_name());
            return Err(Issue::new(message, self.ast.span(index), self.source));
        }
        attr.push(step);
        Ok(attr)
    }

    /// `key in container`, where something better than a call can be done.
    fn membership(&mut self, key: NodeId, container: NodeId, reference: &CallRef) -> Made<Option<Op>> {
        let opened = match self.open(container)? {
            Planned::Op(op) => op,
            Planned::Attr(attr) => {
                if let Some(Literal::String(key)) = self.ast.literal(key)
                    && let Some(op) = self.in_domain(key, &attr)
                {
                    return Ok(Some(op));
                }
                self.seal(attr, false)
            }
        };
        self.memo[container.index()] = Some(opened);
        if reference.single().is_none_or(|overload| overload.cost != Cost::InList) {
            return Ok(None);
        }
        let Some(Value::List(list)) = self.constant(opened) else { return Ok(None) };
        let elements: Vec<_> = list.iter().collect();
        let key_id = self.plan(key)?;
        if elements.is_empty() {
            return Ok(Some(Op::Const(Value::Bool(false))));
        }
        let is_plain = |value: &Value<'_>| {
            matches!(
                value,
                Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Text(_)
            )
        };
        if !elements.iter().all(is_plain) {
            return Ok(None);
        }
        Ok(Some(Op::Member(key_id, elements.into())))
    }

    /// A call of a function, made now where its arguments are known.
    fn function(&mut self, id: NodeId, reference: &CallRef, args: Vec<OpId>) -> Made<Op> {
        let func = reference.function.func;
        match (func, &*args) {
            (Func::OrValue, [value, default]) => return Ok(Op::OrValue(*value, *default)),
            (Func::Or2, [value, other]) => return Ok(Op::OrElse(*value, *other)),
            _ => {}
        }
        let price = price(reference);
        let dispatches = reference.single().is_none() && !is_one_for_all(func);
        let call = Call { func, stops_early: args.len() > 2 || dispatches, args: args.into(), price };
        if func.is_conversion()
            && let [arg] = &*call.args
            && let Some(value) = self.constant(*arg)
        {
            let folded = eval::call(Context::of(&self.no_device), func, core::slice::from_ref(value));
            return match folded.map(|value| value.to_static()) {
                Ok(Some(value)) => Ok(Op::Const(value)),
                Ok(None) => Ok(Op::Call(call)),
                Err(error) => Err(Issue::new(
                    alloc::string::String::from(error.message()),
                    self.ast.span(id),
                    self.source,
                )),
            };
        }
        if let Some(priced) = self.fold_constant_call(&call) {
            return Ok(priced);
        }
        self.with_pattern(id, call)
    }

    /// A call whose arguments are all known, if what it makes is one plain value.
    fn fold_constant_call(&self, call: &Call) -> Option<Op> {
        if call.func == Func::Range || self.computes_pattern(call) {
            return None;
        }
        let (mut args, mut spent) = (Vec::with_capacity(call.args.len()), 0);
        for arg in &call.args {
            let (value, price) = self.known(*arg)?;
            args.push(value.clone());
            spent += price;
        }
        let context = Context::of(&self.no_device);
        let made = eval::call(context, call.func, &args).ok()?;
        let price = eval::price(context, call.price, &args, Some(&made));
        if matches!(made, Value::List(_) | Value::Map(_) | Value::Optional(_)) {
            return None;
        }
        Some(Op::Priced(made.to_static()?, spent + price))
    }

    /// A pattern that is put together: compiled when it runs, where its work counts.
    fn computes_pattern(&self, call: &Call) -> bool {
        matches!(call.func, Func::Matches | Func::Find | Func::FindAll)
            && call.args.get(1).is_some_and(|arg| self.constant(*arg).is_none())
    }

    fn with_pattern(&self, id: NodeId, call: Call) -> Made<Op> {
        if !matches!(call.func, Func::Matches | Func::Find | Func::FindAll) {
            return Ok(Op::Call(call));
        }
        let Some(Value::Text(pattern)) = call.args.get(1).and_then(|arg| self.constant(*arg)) else {
            return Ok(Op::Call(call));
        };
        match crate::ext::regexes::compile(pattern) {
            Ok(regex) => Ok(Op::Pattern(Call { stops_early: true, ..call }, Box::new(regex))),
            Err(error) => Err(Issue::new(error.0, self.ast.span(id), self.source)),
        }
    }

    fn list(&mut self, elements: &[(NodeId, bool)]) -> Made {
        let planned = elements
            .iter()
            .map(|(id, optional)| Ok((self.plan(*id)?, *optional)))
            .collect::<Made<Box<[_]>>>()?;
        let constants =
            planned.iter().map(|(id, optional)| self.constant(*id).filter(|_| !optional).cloned());
        if let Some(values) = constants.collect::<Option<Vec<_>>>() {
            return Ok(self.add(Op::Const(Value::list(values))));
        }
        Ok(self.add(Op::List(planned)))
    }

    fn map(&mut self, entries: &[crate::syntax::ast::MapEntry]) -> Made {
        let planned = entries
            .iter()
            .map(|entry| Ok((self.plan(entry.key)?, self.plan(entry.value)?, entry.optional)))
            .collect::<Made<Box<[_]>>>()?;
        let constants = planned.iter().map(|(key, value, optional)| {
            let key: Key<'static> = self.constant(*key).filter(|_| !optional)?.to_key()?;
            Some((key, self.constant(*value)?.clone()))
        });
        if let Some(entries) = constants.collect::<Option<BTreeMap<_, _>>>() {
            return Ok(self.add(Op::Const(Value::Map(Map::Made(Arc::new(entries))))));
        }
        Ok(self.add(Op::Map(planned)))
    }

    fn local(&mut self) -> u32 {
        self.locals += 1;
        self.locals - 1
    }

    fn bind(&mut self, bind: &Comprehension<'_>) -> Made {
        let init = self.open(bind.init)?;
        let local = self.local();
        let init = match init {
            Planned::Op(op) => op,
            Planned::Attr(attr) => match self.as_domain(&attr) {
                Some(domain) => {
                    // Only what is read through the variable is read at all.
                    self.domains.insert(local, domain);
                    self.add(Op::Attr(attr))
                }
                None => self.seal(attr, false),
            },
        };
        self.scope.push(local);
        let body = self.plan(bind.result);
        self.scope.pop();
        let body = body?;
        Ok(self.add(Op::Bind { local, init, body }))
    }

    fn fold(&mut self, fold: &Comprehension<'_>) -> Made {
        let range = self.plan(fold.range)?;
        let init = self.plan(fold.init)?;
        let base = self.scope.len();
        let accu = self.local();
        self.scope.push(accu);
        let iter = self.local();
        self.scope.push(iter);
        let iter2 = fold.iter_var2.map(|_| self.local());
        self.scope.extend(iter2);
        let body = self.body(fold, accu, init, base);
        self.scope.truncate(base);
        let body = body?;
        Ok(self.add(Op::Fold(Box::new(Fold { range, iter, iter2, body }))))
    }

    fn body(&mut self, fold: &Comprehension<'_>, accu: u32, init: OpId, base: usize) -> Made<Body> {
        let (mut guard, mut made) = (None, fold.step);
        if let Kind::Call { function: op::CONDITIONAL, args, .. } = self.ast.kind(fold.step)
            && let [condition, then, _] = &**args
        {
            (guard, made) = (Some(*condition), *then);
        }
        if let (Kind::List(_) | Kind::Map(_), Kind::Call { function, args, .. }) =
            (self.ast.kind(fold.init), self.ast.kind(made))
            && matches!(self.ast.kind(args[0]), Kind::Ident(ACCUMULATOR))
        {
            match (*function, &args[1..]) {
                (op::ADD, [list]) => {
                    if let Kind::List(elements) = self.ast.kind(*list)
                        && let [(element, false)] = &**elements
                    {
                        let guard = guard.map(|guard| self.plan(guard)).transpose()?;
                        let element = self.plan(*element)?;
                        let price = 2 + if self.constant(element).is_some() { 0 } else { eval::LIST_PRICE };
                        return Ok(Body::Collect { guard, element, price });
                    }
                }
                (op::MAP_INSERT, [entry @ .., value]) => {
                    let guard = guard.map(|guard| self.plan(guard)).transpose()?;
                    let key = entry.first().map(|key| self.plan(*key)).transpose()?;
                    let value = self.plan(*value)?;
                    return Ok(Body::Insert { guard, key, value });
                }
                _ => {}
            }
        }
        let condition = self.plan(fold.condition)?;
        let step = self.plan(fold.step)?;
        self.scope.truncate(base + 1);
        let result = self.plan(fold.result)?;
        Ok(Body::Any { accu, init, condition, step, result })
    }
}

/// Functions with one implementation for all overloads.
fn is_one_for_all(func: Func) -> bool {
    matches!(
        func,
        Func::Less
            | Func::LessEquals
            | Func::Greater
            | Func::GreaterEquals
            | Func::NotEquals
            | Func::Add
            | Func::Subtract
            | Func::Multiply
            | Func::Divide
            | Func::Modulo
            | Func::Negate
            | Func::In
            | Func::Size
    )
}

fn price(reference: &CallRef) -> Price {
    let overload = reference.single().map_or(Cost::One, |overload| overload.cost);
    let function = if overload.is_of_lists() { FunctionCost::Overload } else { reference.function.cost };
    Price { function, overload }
}

fn value_of(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::Text(Str::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}
