//! The short way: steps whose value can be seen without making it.
//!
//! Most selectors compare an attribute with a constant. Such steps are answered here without a new value, and return their cost; the caller spends
//! it. All other steps, and every failure, are `None` and go through [`Machine::eval`], which alone decides what an error is.

use core::cmp::Ordering;

use lazaret_model::AttrValue;

use super::{
    cost::texts_price,
    machine::{Local, Machine},
    plain::Plain,
    value::{Shared, Side, Str, Value},
};
use crate::{
    check::decls::Func,
    plan::{Attr, Base, Call, How, Op, OpId, Plan, SlotRead},
};

/// A value and what the step costs.
type Seen<'v> = Option<(Plain<'v>, u64)>;

impl<'v> Machine<'v> {
    /// The value of a step, if it is there to be seen.
    #[inline]
    pub(super) fn plain(&self, id: OpId) -> Seen<'v> {
        let plan: &'v Plan = self.plan;
        match &plan.ops[id.0 as usize] {
            Op::Const(value) => Some((Plain::of(value)?, 0)),
            Op::Priced(value, cost) => Some((Plain::of(value)?, *cost)),
            Op::Driver => Some((Plain::Text(self.context.device.driver()), 2)),
            Op::AllowMultiple => Some((Plain::Bool(self.context.device.allow_multiple_allocations()), 2)),
            Op::Slot(read) => self.plain_slot(read),
            Op::OrValue(value, default) => self.plain_or(*value, *default),
            Op::Equals(left, right) => self.plain_equals(*left, *right),
            Op::Call(call) => self.plain_call(call),
            Op::Attr(Attr { base: Base::Local(local), path }) if path.is_empty() => self.plain_local(*local),
            _ => None,
        }
    }

    /// A variable that has been computed.
    fn plain_local(&self, local: u32) -> Seen<'v> {
        let Local::Known(value) = &self.locals[local as usize] else { return None };
        let seen = match value {
            Value::Bool(value) => Plain::Bool(*value),
            Value::Int(value) => Plain::Int(*value),
            Value::Text(Str::Ref(text)) => Plain::Text(text),
            Value::Semver(Shared::Ref(version)) => Plain::Semver(version),
            _ => return None,
        };
        Some((seen, 1))
    }

    /// A slot that is not read through a variable that has yet to be computed.
    fn plain_slot(&self, read: &SlotRead) -> Seen<'v> {
        if let Some(local) = read.via
            && !matches!(self.locals[local as usize], Local::Known(_))
        {
            return None;
        }
        let found = self.peek(read.slot);
        match read.how {
            How::Value => Some((found?, read.cost)),
            // `None` does not prove absence: a list is present and not plain.
            How::Has | How::In => found.map(|_| (Plain::Bool(true), read.cost)),
            How::Optional => None,
        }
    }

    fn peek(&self, slot: u32) -> Option<Plain<'v>> {
        let id = self.ids[slot as usize];
        if self.plan.slots[slot as usize].side == Side::Capacity {
            return self.context.device.capacity(id).map(Plain::Quantity);
        }
        match self.context.device.attribute(id)? {
            AttrValue::Int(int) => Some(Plain::Int(*int)),
            AttrValue::Bool(bool) => Some(Plain::Bool(*bool)),
            AttrValue::String(text) => Some(Plain::Text(text)),
            AttrValue::Version(version) => version.parsed.as_deref().map(Plain::Semver),
            _ => None,
        }
    }

    /// `.?id.orValue(default)` where the id is there.
    fn plain_or(&self, value: OpId, default: OpId) -> Seen<'v> {
        let plan: &'v Plan = self.plan;
        let Op::Slot(SlotRead { slot, how: How::Optional, cost, via: None }) = &plan.ops[value.0 as usize]
        else {
            return None;
        };
        if let Some(found) = self.peek(*slot) {
            return Some((found, *cost));
        }
        let id = self.ids[*slot as usize];
        if self.context.value(plan.slots[*slot as usize].side, id).is_some() {
            return None;
        }
        let (default, more) = self.plain(default)?;
        Some((default, cost - 1 + more))
    }

    fn plain_equals(&self, left: OpId, right: OpId) -> Seen<'v> {
        let ((a, cost_a), (b, cost_b)) = (self.plain(left)?, self.plain(right)?);
        let (equal, cost) = match (a, b) {
            (Plain::Text(a), Plain::Text(b)) => (a == b, texts_price(a, b)),
            (Plain::Int(a), Plain::Int(b)) => (a == b, 1),
            (Plain::Bool(a), Plain::Bool(b)) => (a == b, 1),
            (Plain::Quantity(a), Plain::Quantity(b)) => (a == b, 1),
            (Plain::Semver(a), Plain::Semver(b)) => (a == b, 1),
            _ => return None,
        };
        Some((Plain::Bool(equal), cost_a + cost_b + cost))
    }

    /// Negation, and comparisons of numbers, quantities and versions: all cost one.
    fn plain_call(&self, call: &Call) -> Seen<'v> {
        if let ([arg], Func::Not | Func::NotStrictlyFalse) = (&*call.args, call.func) {
            let (Plain::Bool(value), cost) = self.plain(*arg)? else { return None };
            return Some((Plain::Bool(value != (call.func == Func::Not)), cost + 1));
        }
        let [left, right] = &*call.args else { return None };
        let is_of_numbers = match call.func {
            Func::IsGreaterThan | Func::IsLessThan | Func::CompareTo => false,
            Func::Less | Func::LessEquals | Func::Greater | Func::GreaterEquals => true,
            _ => return None,
        };
        let ((a, cost_a), (b, cost_b)) = (self.plain(*left)?, self.plain(*right)?);
        let order = match (a, b) {
            (Plain::Int(a), Plain::Int(b)) if is_of_numbers => a.cmp(&b),
            (Plain::Quantity(a), Plain::Quantity(b)) if !is_of_numbers => a.cmp(b),
            (Plain::Semver(a), Plain::Semver(b)) if !is_of_numbers => a.cmp(b),
            _ => return None,
        };
        let answer = match call.func {
            Func::IsGreaterThan | Func::Greater => Plain::Bool(order == Ordering::Greater),
            Func::IsLessThan | Func::Less => Plain::Bool(order == Ordering::Less),
            Func::LessEquals => Plain::Bool(order != Ordering::Greater),
            Func::GreaterEquals => Plain::Bool(order != Ordering::Less),
            _ => Plain::Int(order as i64),
        };
        Some((answer, cost_a + cost_b + 1))
    }
}
