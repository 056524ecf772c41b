//! Estimates of single calls.

use super::{
    estimator::Estimator,
    range::{CostRange, Size, scaled},
};
use crate::{
    check::{
        decls::{Cost, Function, FunctionCost, Overload},
        types::Type,
    },
    eval::{CHECK_PRICE, LIST_PRICE, REQUIREMENT_PRICE, REQUIREMENTS_PER_CHAR},
    syntax::ast::{Literal, NodeId},
};

const ONE: CostRange = CostRange::fixed(1);
/// One character of a string that is looked at once.
const PER_CHAR: f64 = 0.1;
/// One character of a regular expression.
const PER_PATTERN_CHAR: f64 = 0.25;
/// The longest pattern behind a named format.
const FORMAT_PATTERN_MAX: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME_MAX: u64 = 64;
const NEW_LIST: CostRange = CostRange::fixed(1 + 10);
/// Bytes of an address.
const ADDRESS: Size = Size { min: 4, max: 16 };

/// One overload of a call.
pub(super) struct Call<'a> {
    pub(super) id: NodeId,
    pub(super) function: &'static Function,
    pub(super) overload: &'static Overload,
    pub(super) target: Option<NodeId>,
    pub(super) args: &'a [NodeId],
    pub(super) arg_costs: &'a [CostRange],
}

/// The cost of a call, and the size of its result.
type Estimate = (CostRange, Option<Size>);

/// For an index: whether into a list.
pub(super) fn indexed(cost: Cost) -> Option<bool> {
    matches!(cost, Cost::IndexList | Cost::IndexMap).then_some(cost == Cost::IndexList)
}

impl Estimator<'_, '_> {
    /// The cost of a call with its arguments, without its target.
    pub(super) fn call_cost(&mut self, call: &Call<'_>) -> Estimate {
        let args = call.arg_costs.iter().fold(CostRange::fixed(0), |sum, cost| sum.add(*cost));
        let own = self.list_cost(call).or_else(|| self.function_cost(call));
        if let Some((cost, size)) = own {
            return (cost.add(args), size);
        }
        match (call.overload.cost, call.arg_costs) {
            (Cost::Logic, [first, ..]) => (CostRange { min: first.min, max: args.max }, None),
            (Cost::Conditional, [condition, yes, no]) => {
                let size = self.size_or_unknown(call.args[1]).union(self.size_or_unknown(call.args[2]));
                if let (Some(yes), Some(no)) = (self.entry(call.args[1]), self.entry(call.args[2])) {
                    self.entries[call.id.index()] = Some(yes.union(no));
                }
                (condition.add(yes.union(*no)), Some(size))
            }
            _ => {
                let (cost, size) = self.overload_cost(call);
                (cost.add(args), size)
            }
        }
    }

    /// The target's or argument's size as functions of extensions see it.
    fn size_of(&mut self, id: Option<NodeId>) -> Size {
        id.map_or(Size::UNKNOWN, |id| self.size_or_unknown(id))
    }

    fn literal_int(&self, id: Option<&NodeId>) -> Option<u64> {
        match self.ast.literal(*id?) {
            Some(Literal::Int(value)) => Some(u64::try_from(*value).unwrap_or(0)),
            _ => None,
        }
    }

    /// Lists and sets.
    fn list_cost(&mut self, call: &Call<'_>) -> Option<Estimate> {
        let target = self.size_of(call.target);
        let made = |factor: f64, size: Size| Some((size.scale(factor).add(NEW_LIST), Some(size)));
        match call.overload.cost {
            Cost::Slice => {
                let start = self.literal_int(call.args.first()).unwrap_or(0);
                let end = self.literal_int(call.args.get(1)).unwrap_or(target.max);
                made(1.0, Size::fixed(end.wrapping_sub(start)))
            }
            Cost::Range => made(1.0, Size::fixed(self.literal_int(call.args.first()).unwrap_or(u64::MAX))),
            Cost::Reverse => made(1.0, target),
            Cost::Flatten => {
                let depth = match call.args.first() {
                    None => 1,
                    depth => self.literal_int(depth).unwrap_or(u64::MAX),
                };
                #[expect(clippy::cast_precision_loss, reason = "as the reference")]
                made(depth as f64, target)
            }
            Cost::Distinct => made(2.0, target.multiply(target)),
            Cost::Sort { texts } => made(sort_factor(texts), target.multiply(target)),
            Cost::SortBy { texts } => {
                let keys = self.size_of(call.args.first().copied());
                made(sort_factor(texts), keys.multiply(keys))
            }
            Cost::Sets { factor } => {
                let (a, b) =
                    (self.size_of(call.args.first().copied()), self.size_of(call.args.get(1).copied()));
                Some((a.multiply(b).scale(factor.into()).add(ONE), None))
            }
            Cost::One
            | Cost::Prefix
            | Cost::ToBytes
            | Cost::ToText
            | Cost::Quote
            | Cost::Format
            | Cost::InList => None,
            Cost::Matches
            | Cost::Contains
            | Cost::ParseToo
            | Cost::AddText
            | Cost::AddList
            | Cost::Compare => None,
            Cost::IndexList | Cost::IndexMap | Cost::Logic | Cost::Conditional => None,
        }
    }

    /// The estimate that Kubernetes defines for a function by its name.
    fn function_cost(&mut self, call: &Call<'_>) -> Option<Estimate> {
        let first = call.args.first().copied();
        match call.function.cost {
            FunctionCost::Overload => None,
            FunctionCost::One => Some((ONE, None)),
            FunctionCost::Traverse => self.traverse(call),
            FunctionCost::Url => {
                let size = self.size_of(first);
                Some((size.scale(PER_CHAR), Some(size)))
            }
            FunctionCost::Scan => {
                let size = self.size_of(call.target);
                Some((size.scale(PER_CHAR), Some(size)))
            }
            FunctionCost::Replace => self.replace(call),
            FunctionCost::Split => {
                let size = self.size_of(call.target);
                let max = match call.args.get(1).map(|limit| self.ast.literal(*limit)) {
                    #[expect(
                        clippy::cast_sign_loss,
                        reason = "as the reference: a negative limit is no limit"
                    )]
                    Some(Some(Literal::Int(limit))) => *limit as u64,
                    _ => size.max,
                };
                Some((size.scale(2.0 * PER_CHAR), Some(Size { min: 0, max })))
            }
            FunctionCost::Join => self.join(call),
            FunctionCost::Find => {
                let text = self.size_of(call.target);
                let cost = text
                    .add(Size::fixed(1))
                    .scale(PER_CHAR)
                    .multiply(self.size_of(first).scale(PER_PATTERN_CHAR));
                Some((cost, Some(Size { min: 0, max: text.max })))
            }
            FunctionCost::Parse => Some((self.size_of(first).scale(PER_CHAR), None)),
            FunctionCost::Ip if call.overload.member => Some((ONE, None)),
            FunctionCost::Ip => Some((self.size_of(first).scale(PER_CHAR), None)),
            FunctionCost::Canonical => Some((self.size_of(first).scale(2.0 * PER_CHAR), None)),
            FunctionCost::ContainsIp => Some((self.contains_address(call, CostRange::fixed(0)), None)),
            FunctionCost::ContainsCidr => {
                let more = ADDRESS.scale(PER_CHAR).add(ONE);
                Some((self.contains_address(call, more), None))
            }
            FunctionCost::Validate => {
                let cost = self.size_of(first).scale(PER_CHAR).scale(FORMAT_PATTERN_MAX * PER_PATTERN_CHAR);
                Some((cost, None))
            }
            FunctionCost::Equals => self.equals(call),
            FunctionCost::Check => Some((CostRange::fixed(CHECK_PRICE), None)),
            FunctionCost::Selector => {
                let size = self.size_of(first);
                let requirements = size.scale(REQUIREMENTS_PER_CHAR).scale(REQUIREMENT_PRICE);
                Some((CostRange::fixed(LIST_PRICE).add(size.scale(PER_CHAR)).add(requirements), None))
            }
        }
    }

    fn contains_address(&mut self, call: &Call<'_>, more: CostRange) -> CostRange {
        let cost = ADDRESS.add(ADDRESS).scale(PER_CHAR).add(more);
        if call.overload.cost != Cost::ParseToo {
            return cost;
        }
        cost.add(self.size_of(call.args.first().copied()).scale(PER_CHAR))
    }

    /// Every element once, and every character of those that are strings.
    fn traverse(&mut self, call: &Call<'_>) -> Option<Estimate> {
        let target = call.target?;
        let size = self.size_or_unknown(target);
        // Only what is made of other types can be a list; of the others, strings have these functions too.
        let cost = match self.checked.of(target).parameters() {
            [Some(element), _] => {
                let mut each = ONE;
                if matches!(element, Type::String | Type::Bytes) {
                    each = each.add(self.element_size(target).scale(PER_CHAR));
                }
                size.times(each)
            }
            _ if call.function.name == crate::check::decls::INCLUDES => size.times(ONE),
            _ => size.scale(PER_CHAR),
        };
        Some((cost, None))
    }

    /// The size of a list's elements, where the device's limits say it.
    fn element_size(&self, list: NodeId) -> Size {
        let max = self.shape(list).item(true).size_max();
        max.map_or(Size::UNKNOWN, |max| Size { min: 0, max })
    }

    fn replace(&mut self, call: &Call<'_>) -> Option<Estimate> {
        let [old, new, ..] = call.args else { return None };
        let (text, old, new) =
            (self.size_of(call.target), self.size_or_unknown(*old), self.size_or_unknown(*new));
        let (mut count, mut kept) = (Size::fixed(0), Size::fixed(0));
        if old.min == 0 {
            count.max = text.max.saturating_add(1);
            kept.max = text.max;
        } else if new.max <= old.min {
            kept.max = text.max;
        } else {
            count.max = divided(text.max, old.min);
        }
        if old.max == 0 {
            count.min = text.min.saturating_add(1);
            kept.min = text.min;
        } else if old.max <= new.min {
            kept.min = text.min;
        } else {
            count.min = divided(text.min, old.max);
        }
        Some((text.scale(2.0 * PER_CHAR), Some(count.multiply(new).add(kept))))
    }

    fn join(&mut self, call: &Call<'_>) -> Option<Estimate> {
        let target = call.target?;
        let list = self.size_or_unknown(target);
        let mut size = match self.checked.of(target).parameters() {
            [None, _] => Size::fixed(0),
            [Some(_), _] => list.multiply(self.element_size(target)),
        };
        if let Some(separator) = call.args.first() {
            let between = Size { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
            size = size.add(self.size_or_unknown(*separator).multiply(between));
        }
        Some((size.scale(PER_CHAR), Some(size)))
    }

    /// Kubernetes' own types compare at a price of their own.
    fn equals(&mut self, call: &Call<'_>) -> Option<Estimate> {
        let [left, right] = call.args else { return None };
        let (a, b) = (self.checked.of(*left), self.checked.of(*right));
        if a != b {
            return None;
        }
        if matches!(a, Type::Ip | Type::Cidr | Type::Quantity | Type::Semver) {
            return Some((ONE, None));
        }
        let max = if *a == Type::NamedFormat {
            FORMAT_NAME_MAX
        } else if *a == Type::Url {
            self.size(*right).map_or(1, |size| size.max)
        } else {
            return None;
        };
        Some((CostRange { min: 1, max }.scale(PER_CHAR), None))
    }

    /// The other functions: the standard library.
    fn overload_cost(&mut self, call: &Call<'_>) -> Estimate {
        let first = call.args.first().copied();
        match call.overload.cost {
            Cost::Prefix => (self.size_of(first).scale(PER_CHAR), None),
            Cost::ToBytes => {
                let size = self.size_of(first);
                (size.scale(PER_CHAR), Some(Size { min: size.min, max: size.max.wrapping_mul(4) }))
            }
            Cost::ToText => {
                let size = self.size_of(first);
                (size.scale(PER_CHAR), Some(Size { min: size.min / 4, max: size.max }))
            }
            Cost::Quote => {
                let size = self.size_of(first);
                let made =
                    Size { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                (size.scale(PER_CHAR), Some(made))
            }
            Cost::Format => (self.size_of(call.target).scale(PER_CHAR), None),
            Cost::InList => (self.size_of(call.args.get(1).copied()).scale(1.0), None),
            Cost::Matches => {
                let (text, pattern) = if call.overload.member {
                    (call.target, first)
                } else {
                    (first, call.args.get(1).copied())
                };
                let text = self.size_of(text).add(Size::fixed(1)).scale(PER_CHAR);
                (text.multiply(self.size_of(pattern).scale(PER_PATTERN_CHAR)), None)
            }
            Cost::Contains => (
                self.size_of(call.target).scale(PER_CHAR).multiply(self.size_of(first).scale(PER_CHAR)),
                None,
            ),
            Cost::AddText | Cost::AddList => self.sum(call),
            Cost::Compare => {
                let (a, b) = (self.size_of(first), self.size_of(call.args.get(1).copied()));
                let max = a.max.min(b.max);
                (CostRange { min: u64::from(max > 0), max }.scale(PER_CHAR), None)
            }
            Cost::One
            | Cost::ParseToo
            | Cost::IndexList
            | Cost::IndexMap
            | Cost::Logic
            | Cost::Conditional => (ONE, None),
            Cost::Slice | Cost::Range | Cost::Reverse | Cost::Flatten | Cost::Distinct => (ONE, None),
            Cost::Sort { .. } | Cost::SortBy { .. } | Cost::Sets { .. } => (ONE, None),
        }
    }

    fn sum(&mut self, call: &Call<'_>) -> Estimate {
        let [left, right] = call.args else { return (ONE, None) };
        let size = self.size_or_unknown(*left).add(self.size_or_unknown(*right));
        if let (Some(left), Some(right)) = (self.entry(*left), self.entry(*right)) {
            self.entries[call.id.index()] = Some(left.union(right));
        }
        let cost = if call.overload.cost == Cost::AddList { ONE } else { size.scale(PER_CHAR) };
        (cost, Some(size))
    }
}

fn sort_factor(texts: bool) -> f64 {
    if texts { 2.0 + PER_CHAR } else { 2.0 }
}

/// Rounded up, as the reference does it.
#[expect(clippy::cast_precision_loss, reason = "as the reference")]
fn divided(size: u64, by: u64) -> u64 {
    if by == 0 { u64::MAX } else { scaled(1, size as f64 / by as f64) }
}
