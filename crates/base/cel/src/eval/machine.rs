//! The evaluator: steps in, a value out, every step paid for.

use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};
use core::cell::RefCell;

use lazaret_model::AttrId;

use super::{
    compare,
    context::Context,
    cost::{self, LIST_PRICE, MAP_PRICE},
    functions, lists,
    outcome::{Outcome, unfit},
    patterns::Patterns,
    texts,
    value::{Map, Str, Value},
};
use crate::{
    check::decls::{Cost, Func, FunctionCost},
    error::EvalError,
    limits::COST_MAX,
    plan::{Call, How, Op, OpId, Plan, Price, SlotRead},
};

/// One evaluation.
pub(crate) struct Machine<'v> {
    pub(super) plan: &'v Plan,
    pub(super) ids: &'v [AttrId],
    pub(super) context: Context<'v>,
    cost: u64,
    patterns: RefCell<Patterns>,
    pub(super) locals: Vec<Local<'v>>,
}

/// A variable of a macro.
#[derive(Clone, Debug)]
pub(super) enum Local<'v> {
    /// To be computed when it is asked for.
    Pending(OpId),
    Known(Value<'v>),
    Failed(EvalError),
}

const COMPARE_PRICE: Price = Price { function: FunctionCost::Overload, overload: Cost::Compare };
const EQUALS_PRICE: Price = Price { function: FunctionCost::Equals, overload: Cost::Compare };

impl<'v> Machine<'v> {
    pub(crate) fn new(plan: &'v Plan, ids: &'v [AttrId], context: Context<'v>) -> Self {
        let locals = vec![Local::Pending(plan.root); plan.locals];
        Self { plan, ids, context, cost: 0, patterns: RefCell::default(), locals }
    }

    /// The value of the whole expression.
    pub(crate) fn run(&mut self) -> Outcome<'v> {
        self.eval(self.plan.root)
    }

    /// The whole expression as a condition.
    pub(crate) fn run_condition(&mut self) -> Result<bool, EvalError> {
        let root = self.plan.root;
        let plan: &'v Plan = self.plan;
        match &plan.ops[root.0 as usize] {
            Op::And(terms) => return self.logic(terms, false),
            Op::Or(terms) => return self.logic(terms, true),
            _ => {}
        }
        let value = self.eval(root)?;
        if let Value::Bool(value) = value {
            return Ok(value);
        }
        let found = value.type_name();
        Err(EvalError::new(alloc::format!("CEL result of type {found} could not be converted to bool")))
    }

    /// The cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The units of work beside the cost, for patterns that were compiled.
    pub(crate) fn pattern_units(&self) -> u64 {
        self.patterns.borrow().units()
    }

    #[inline]
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > COST_MAX { Err(EvalError::budget()) } else { Ok(()) }
    }

    pub(super) fn give_back(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    pub(super) fn eval(&mut self, id: OpId) -> Outcome<'v> {
        let plan: &'v Plan = self.plan;
        match &plan.ops[id.0 as usize] {
            Op::Const(value) => Ok(value.borrowed()),
            Op::Priced(value, cost) => {
                self.spend(*cost)?;
                Ok(value.borrowed())
            }
            Op::Driver => {
                self.spend(2)?;
                Ok(Value::Text(Str::Ref(self.context.device.driver())))
            }
            Op::AllowMultiple => {
                self.spend(2)?;
                Ok(Value::Bool(self.context.device.allow_multiple_allocations()))
            }
            Op::Slot(read) => self.slot(read),
            Op::DomainIn(side, domain) => {
                self.spend(3)?;
                Ok(Value::Bool(self.context.has_domain(*side, domain)))
            }
            Op::Attr(attr) => self.attr(attr),
            Op::Has(attr) => self.has(attr),
            Op::And(terms) => self.logic(terms, false).map(Value::Bool),
            Op::Or(terms) => self.logic(terms, true).map(Value::Bool),
            Op::Equals(left, right) => self.equals(*left, *right).map(Value::Bool),
            Op::Call(call) => self.call(call),
            Op::Pattern(call, regex) => self.pattern(call, regex),
            Op::Member(arg, set) => {
                let value = self.eval(*arg)?;
                Ok(Value::Bool(set.iter().any(|element| compare::is_equal(self.context, element, &value))))
            }
            Op::List(elements) => self.list(elements),
            Op::Map(entries) => self.map(entries),
            Op::Fold(fold) => self.fold(fold),
            Op::Bind { local, init, body } => {
                self.locals[*local as usize] = Local::Pending(*init);
                self.eval(*body)
            }
            Op::OrValue(value, default) => self.or_value(*value, *default),
            Op::OrElse(value, other) => match self.eval(*value)? {
                Value::Optional(None) => self.eval(*other),
                value @ Value::Optional(Some(_)) => Ok(value),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    /// The value of a variable, computed on first use.
    #[inline(never)]
    pub(super) fn local(&mut self, local: u32) -> Outcome<'v> {
        let at = local as usize;
        let init = match &self.locals[at] {
            Local::Known(value) => return Ok(value.clone()),
            Local::Failed(error) => return Err(error.clone()),
            Local::Pending(init) => *init,
        };
        let made = self.eval(init);
        self.locals[at] = match &made {
            Ok(value) => Local::Known(value.clone()),
            Err(error) => Local::Failed(error.clone()),
        };
        made
    }

    #[inline(never)]
    fn slot(&mut self, read: &SlotRead) -> Outcome<'v> {
        if let Some(local) = read.via
            && let Local::Pending(_) = self.locals[local as usize]
        {
            self.local(local)?;
        }
        self.spend(read.cost)?;
        let slot = &self.plan.slots[read.slot as usize];
        let found = self.context.value(slot.side, self.ids[read.slot as usize]);
        match read.how {
            How::Value => found.ok_or_else(|| EvalError::no_such_key(&slot.name.id)),
            How::Has | How::In => Ok(Value::Bool(found.is_some())),
            How::Optional => {
                self.give_back(u64::from(found.is_none()));
                Ok(Value::Optional(found.map(Arc::new)))
            }
        }
    }

    /// `value.orValue(default)`, without making an optional of a slot first.
    #[inline(never)]
    fn or_value(&mut self, value: OpId, default: OpId) -> Outcome<'v> {
        let plan: &'v Plan = self.plan;
        if let Op::Slot(read @ SlotRead { how: How::Optional, via: None, .. }) = &plan.ops[value.0 as usize] {
            let slot = &plan.slots[read.slot as usize];
            return match self.context.value(slot.side, self.ids[read.slot as usize]) {
                Some(found) => {
                    self.spend(read.cost)?;
                    Ok(found)
                }
                None => {
                    self.spend(read.cost - 1)?;
                    self.eval(default)
                }
            };
        }
        match self.eval(value)? {
            Value::Optional(Some(value)) => Ok((*value).clone()),
            Value::Optional(None) => self.eval(default),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// A step as a condition; `None` if its value is not a bool.
    pub(crate) fn truth(&mut self, id: OpId) -> Result<Option<bool>, EvalError> {
        let plan: &'v Plan = self.plan;
        let value = match &plan.ops[id.0 as usize] {
            Op::And(terms) => return self.logic(terms, false).map(Some),
            Op::Or(terms) => return self.logic(terms, true).map(Some),
            _ => self.eval(id)?,
        };
        Ok(if let Value::Bool(value) = value { Some(value) } else { None })
    }

    /// `&&` and `||`: a term that decides makes up for others that failed.
    fn logic(&mut self, terms: &[OpId], decides: bool) -> Result<bool, EvalError> {
        let mut failed = None;
        for term in terms {
            match self.truth(*term) {
                Ok(Some(value)) if value == decides => return Ok(decides),
                Ok(Some(_)) => {}
                Ok(None) => {
                    failed.get_or_insert_with(EvalError::no_such_overload);
                }
                Err(error) if error.is_cost_exceeded() => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(!decides), Err)
    }

    #[inline(never)]
    fn equals(&mut self, left: OpId, right: OpId) -> Result<bool, EvalError> {
        let (left, right) = (self.eval_unless_broke(left)?, self.eval_unless_broke(right)?);
        let (left, right) = match (left, right) {
            (Ok(left), Ok(right)) => (left, right),
            (Err(error), right) => {
                let values = [Value::Null, right.unwrap_or(Value::Null)];
                self.spend(cost::price(self.context, COMPARE_PRICE, &values, None))?;
                return Err(error);
            }
            (Ok(left), Err(error)) => {
                self.spend(cost::price(self.context, EQUALS_PRICE, &[left, Value::Null], None))?;
                return Err(error);
            }
        };
        let values = [left, right];
        self.spend(cost::price(self.context, EQUALS_PRICE, &values, None))?;
        compare::equal(self.context, &values[0], &values[1])
    }

    /// A value or why there is none; running out of budget stops everything.
    fn eval_unless_broke(&mut self, id: OpId) -> Result<Outcome<'v>, EvalError> {
        match self.eval(id) {
            Err(error) if error.is_cost_exceeded() => Err(error),
            outcome => Ok(outcome),
        }
    }

    #[inline(never)]
    fn call(&mut self, call: &Call) -> Outcome<'v> {
        let function = |machine: &Self, args: &[Value<'v>]| {
            let by_pattern = matches!(call.func, Func::Matches | Func::Find | Func::FindAll)
                .then(|| machine.patterns.borrow_mut().call(call.func, args));
            by_pattern.flatten().unwrap_or_else(|| functions::call(machine.context, call.func, args))
        };
        match call.args.len() {
            0 => self.call_of::<0>(call, function),
            1 => self.call_of::<1>(call, function),
            2 => self.call_of::<2>(call, function),
            3 => self.call_of::<3>(call, function),
            _ => self.call_of::<4>(call, function),
        }
    }

    #[inline(never)]
    fn pattern(&mut self, call: &Call, regex: &regex::Regex) -> Outcome<'v> {
        let function = |_: &Self, args: &[Value<'v>]| match args.first() {
            Some(Value::Text(text)) => texts::pattern_call(call.func, regex, text, args),
            _ => unfit(args),
        };
        match call.args.len() {
            2 => self.call_of::<2>(call, function),
            _ => self.call_of::<3>(call, function),
        }
    }

    /// A call of `N` arguments. All are evaluated and paid for even if one fails, unless the call stops early.
    fn call_of<const N: usize>(
        &mut self,
        call: &Call,
        function: impl FnOnce(&Self, &[Value<'v>]) -> Outcome<'v>,
    ) -> Outcome<'v> {
        let mut values = [const { Value::Null }; N];
        let mut failed = None;
        for (at, (arg, value)) in call.args.iter().zip(&mut values).enumerate() {
            match self.eval_unless_broke(*arg)? {
                Ok(evaluated) => *value = evaluated,
                Err(error) if call.stops_early && at + 1 < N => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            self.spend(cost::price(self.context, call.price, &values, None))?;
            return if call.func == Func::NotStrictlyFalse { Ok(Value::Bool(true)) } else { Err(error) };
        }
        if cost::is_paid_after(call.price) {
            let made = function(self, &values);
            self.spend(cost::price(self.context, call.price, &values, made.as_ref().ok()))?;
            return made;
        }
        let is_flat = call.price.function == FunctionCost::One;
        self.spend(if is_flat { 1 } else { cost::price(self.context, call.price, &values, None) })?;
        function(self, &values)
    }

    #[inline(never)]
    fn list(&mut self, elements: &[(OpId, bool)]) -> Outcome<'v> {
        let mut values = Vec::with_capacity(elements.len());
        let mut failed = None;
        for (element, optional) in elements {
            match self.eval_unless_broke(*element)? {
                Ok(Value::Optional(value)) if *optional => values.extend(value.map(|value| (*value).clone())),
                Ok(value) if *optional => {
                    failed = Some(not_optional(&value));
                    break;
                }
                Ok(value) => values.push(value),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.spend(LIST_PRICE)?;
        failed.map_or(Ok(Value::list(values)), Err)
    }

    #[inline(never)]
    fn map(&mut self, entries: &[(OpId, OpId, bool)]) -> Outcome<'v> {
        let mut made = BTreeMap::new();
        let failed = self.fill(entries, &mut made)?;
        self.spend(MAP_PRICE)?;
        failed.map_or(Ok(Value::Map(Map::Made(Arc::new(made)))), Err)
    }

    /// Evaluates entries until one fails; says why.
    fn fill(
        &mut self,
        entries: &[(OpId, OpId, bool)],
        made: &mut BTreeMap<super::value::Key<'v>, Value<'v>>,
    ) -> Result<Option<EvalError>, EvalError> {
        for (key, value, optional) in entries {
            let key = match self.eval_unless_broke(*key)? {
                Ok(key) => key,
                Err(error) => return Ok(Some(error)),
            };
            let value = match self.eval_unless_broke(*value)? {
                Ok(value) => value,
                Err(error) => return Ok(Some(error)),
            };
            let Some(key) = key.to_key() else { return Ok(Some(lists::unsupported_key(&key))) };
            match value {
                Value::Optional(Some(value)) if *optional => {
                    made.insert(key, (*value).clone());
                }
                Value::Optional(None) if *optional => {
                    made.remove(&key);
                }
                value if *optional => return Ok(Some(not_optional(&value))),
                value => {
                    made.insert(key, value);
                }
            }
        }
        Ok(None)
    }
}

fn not_optional(value: &Value<'_>) -> EvalError {
    EvalError::new(alloc::format!(
        "cannot initialize an optional element from non-optional value {}",
        value.shown()
    ))
}
