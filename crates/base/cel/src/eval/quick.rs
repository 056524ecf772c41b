//! Conditions that need no machine: comparisons of a device's fields with constants, joined by `&&` and `||`.
//!
//! No cost is counted here. An expression of at most 10 KiB that only compares with constants cannot come near the budget, and a caller that
//! needs the cost uses the machine. An expression that is no such comparison, or could fail, is `None` and left to the machine.

use core::cmp::Ordering;

use lazaret_model::{AttrId, AttrValue, Quantity, Version};

use super::value::{Side, Value};
use crate::{
    check::decls::Func,
    device::Device,
    plan::{Call, How, Op, OpId, Plan},
};

/// Longer texts are left to the machine, which counts what a pattern costs on them.
const TEXT_BYTES_MAX: usize = 256;

/// Whether the device satisfies the whole expression, if that can be seen at once.
#[inline]
pub(crate) fn condition<D: Device + ?Sized>(plan: &Plan, ids: &[AttrId], device: &D) -> Option<bool> {
    Quick { plan, ids, device }.holds(plan.root)
}

struct Quick<'v, D: ?Sized> {
    plan: &'v Plan,
    ids: &'v [AttrId],
    device: &'v D,
}

impl<'v, D: Device + ?Sized> Quick<'v, D> {
    fn holds(&self, id: OpId) -> Option<bool> {
        let plan: &'v Plan = self.plan;
        match &plan.ops[id.0 as usize] {
            Op::And(terms) => {
                for term in terms {
                    if !self.holds(*term)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Op::Or(terms) => {
                for term in terms {
                    if self.holds(*term)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Op::Equals(left, right) => self.equal(*left, *right),
            Op::Call(call) => match &*call.args {
                [left, right] => self.compared(call.func, *left, *right),
                _ => None,
            },
            Op::Pattern(call, pattern) => match (call.func, &*call.args) {
                (Func::Matches, [text, _]) => match self.found(*text)? {
                    Plain::Text(text) if text.len() <= TEXT_BYTES_MAX => Some(pattern.is_match(text)),
                    _ => None,
                },
                _ => None,
            },
            Op::Slot(read) if read.via.is_none() && matches!(read.how, How::Has | How::In) => {
                Some(self.is_there(read.slot))
            }
            Op::Slot(_) => match self.found(id)? {
                Plain::Bool(value) => Some(value),
                Plain::Int(_) | Plain::Text(_) | Plain::Quantity(_) | Plain::Semver(_) => None,
            },
            _ => None,
        }
    }

    fn is_there(&self, slot: u32) -> bool {
        let name = self.ids[slot as usize];
        match self.plan.slots[slot as usize].side {
            Side::Attributes => self.device.attribute(name).is_some(),
            Side::Capacity => self.device.capacity(name).is_some(),
        }
    }

    fn equal(&self, left: OpId, right: OpId) -> Option<bool> {
        let (found, constant) = (self.found(left)?, self.constant(right)?);
        match (found, constant) {
            (Plain::Text(a), Plain::Text(b)) => Some(a == b),
            (Plain::Int(a), Plain::Int(b)) => Some(a == b),
            (Plain::Bool(a), Plain::Bool(b)) => Some(a == b),
            _ => None,
        }
    }

    fn compared(&self, func: Func, left: OpId, right: OpId) -> Option<bool> {
        let (found, constant) = (self.found(left)?, self.constant(right)?);
        match (func, found, constant) {
            (Func::StartsWith, Plain::Text(text), Plain::Text(part)) => Some(text.starts_with(part)),
            (Func::EndsWith, Plain::Text(text), Plain::Text(part)) => Some(text.ends_with(part)),
            (Func::IsGreaterThan | Func::IsLessThan, found, constant) => {
                let wanted = if func == Func::IsGreaterThan { Ordering::Greater } else { Ordering::Less };
                Some(order(found, constant)? == wanted)
            }
            (Func::Less, Plain::Int(a), Plain::Int(b)) => Some(a < b),
            (Func::LessEquals, Plain::Int(a), Plain::Int(b)) => Some(a <= b),
            (Func::Greater, Plain::Int(a), Plain::Int(b)) => Some(a > b),
            (Func::GreaterEquals, Plain::Int(a), Plain::Int(b)) => Some(a >= b),
            _ => None,
        }
    }

    /// Something of the device.
    #[inline]
    fn found(&self, id: OpId) -> Option<Plain<'v>> {
        let (plan, device) = (self.plan, self.device);
        let read = match &plan.ops[id.0 as usize] {
            Op::Driver => return Some(Plain::Text(device.driver())),
            Op::Slot(read) if read.via.is_none() && matches!(read.how, How::Value) => read,
            Op::OrValue(value, default) => return self.found_or(*value, *default),
            Op::Call(call) => return self.compared_to(call),
            _ => return None,
        };
        self.at(read.slot)
    }

    /// `.?id.orValue(constant)`.
    fn found_or(&self, value: OpId, default: OpId) -> Option<Plain<'v>> {
        let plan: &'v Plan = self.plan;
        let Op::Slot(read) = &plan.ops[value.0 as usize] else { return None };
        if read.via.is_some() || read.how != How::Optional {
            return None;
        }
        if self.is_there(read.slot) { self.at(read.slot) } else { self.constant(default) }
    }

    /// `a.compareTo(constant)`.
    fn compared_to(&self, call: &'v Call) -> Option<Plain<'v>> {
        let (Func::CompareTo, [left, right]) = (call.func, &*call.args) else { return None };
        let order = order(self.found(*left)?, self.constant(*right)?)?;
        Some(Plain::Int(order as i64))
    }

    fn at(&self, slot: u32) -> Option<Plain<'v>> {
        let (plan, device) = (self.plan, self.device);
        let name = self.ids[slot as usize];
        if plan.slots[slot as usize].side == Side::Capacity {
            return device.capacity(name).map(Plain::Quantity);
        }
        match device.attribute(name)? {
            AttrValue::Int(int) => Some(Plain::Int(*int)),
            AttrValue::Bool(bool) => Some(Plain::Bool(*bool)),
            AttrValue::String(text) => Some(Plain::Text(text)),
            AttrValue::Version(version) => version.parsed.as_deref().map(Plain::Semver),
            _ => None,
        }
    }

    #[inline]
    fn constant(&self, id: OpId) -> Option<Plain<'v>> {
        let plan: &'v Plan = self.plan;
        match &plan.ops[id.0 as usize] {
            Op::Const(value) | Op::Priced(value, _) => Plain::of(value),
            _ => None,
        }
    }
}

/// How two quantities or two versions compare.
fn order(a: Plain<'_>, b: Plain<'_>) -> Option<Ordering> {
    match (a, b) {
        (Plain::Quantity(a), Plain::Quantity(b)) => Some(a.cmp(b)),
        (Plain::Semver(a), Plain::Semver(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// A value that is seen where it stands.
#[derive(Clone, Copy)]
enum Plain<'v> {
    Bool(bool),
    Int(i64),
    Text(&'v str),
    Quantity(&'v Quantity),
    Semver(&'v Version),
}

impl<'v> Plain<'v> {
    fn of(value: &'v Value<'v>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Text(text) => Some(Self::Text(text)),
            Value::Quantity(quantity) => Some(Self::Quantity(quantity)),
            Value::Semver(version) => Some(Self::Semver(version)),
            _ => None,
        }
    }
}
