//! The cost of calls at run time. Numbers and rounding are those of cel-go and Kubernetes.

use super::{context::Context, lists, value::Value};
use crate::{
    check::decls::{Cost, FunctionCost},
    plan::Price,
};

/// A new list.
pub(crate) const LIST_PRICE: u64 = 10;
/// A question to an authorizer: two fit into an expression.
pub(crate) const CHECK_PRICE: u64 = 350_000;
/// The most requirements of a selector that one character can make.
pub(crate) const REQUIREMENTS_PER_CHAR: f64 = 0.5;
/// One requirement of a selector: a structure and a list of values.
pub(crate) const REQUIREMENT_PRICE: f64 = 50.0;
/// A new map.
pub(crate) const MAP_PRICE: u64 = 30;
/// One character of a string that is looked at once.
const PER_CHAR: f64 = 0.1;
/// One character of a regular expression.
const PER_PATTERN_CHAR: f64 = 0.25;

/// The price of a call; `made` is `None` where it failed.
pub(crate) fn price<'v>(
    context: Context<'v>,
    price: Price,
    args: &[Value<'v>],
    made: Option<&Value<'v>>,
) -> u64 {
    Pricing { context, args, made }.of(price)
}

/// Whether a price depends on what the call makes. Other calls are paid before they are made.
pub(crate) fn is_paid_after(price: Price) -> bool {
    price.function == FunctionCost::Join || matches!(price.overload, Cost::Slice | Cost::Reverse)
}

struct Pricing<'a, 'v> {
    context: Context<'v>,
    args: &'a [Value<'v>],
    made: Option<&'a Value<'v>>,
}

impl Pricing<'_, '_> {
    fn of(&self, price: Price) -> u64 {
        self.function(price.function, price.overload)
    }

    /// The size of an argument; 1 for what has none, and for arguments that failed.
    fn size(&self, at: usize) -> u64 {
        self.args.get(at).and_then(|value| self.context.size(value)).unwrap_or(1)
    }

    /// Looks into optional values, as the standard functions do.
    fn inner_size(&self, at: usize) -> u64 {
        let mut value = self.args.get(at);
        while let Some(Value::Optional(Some(inner))) = value {
            value = Some(inner);
        }
        value.and_then(|value| self.context.size(value)).unwrap_or(1)
    }

    fn function(&self, cost: FunctionCost, overload: Cost) -> u64 {
        match cost {
            FunctionCost::Overload => self.overload(overload),
            FunctionCost::One => 1,
            FunctionCost::Traverse => self.args.first().map_or(0, |value| self.traversal(value)),
            FunctionCost::Url | FunctionCost::Scan | FunctionCost::Parse => scaled(self.size(0), PER_CHAR),
            FunctionCost::Replace | FunctionCost::Split => scaled(self.size(0).saturating_mul(2), PER_CHAR),
            FunctionCost::Join => {
                let made = self.made.and_then(|made| self.context.size(made)).unwrap_or(1);
                scaled(made.saturating_mul(2), PER_CHAR)
            }
            FunctionCost::Find => self.pattern(self.size(0), self.size(1)),
            FunctionCost::Ip if matches!(self.args, [Value::Cidr(_)]) => 1,
            FunctionCost::Ip => scaled(self.size(0), PER_CHAR),
            FunctionCost::Canonical => scaled(self.size(0).saturating_mul(2), PER_CHAR),
            FunctionCost::ContainsIp => scaled(2 * self.size(0), PER_CHAR) + self.parse(overload),
            FunctionCost::ContainsCidr => {
                scaled(2 * self.size(0), PER_CHAR) + scaled(self.size(0), PER_CHAR) + 1 + self.parse(overload)
            }
            FunctionCost::Validate => match self.args.first() {
                Some(Value::Format(format)) => self.pattern(self.size(1), format.pattern_length()),
                _ => 1,
            },
            FunctionCost::Equals => match self.args.first() {
                Some(Value::Quantity(_) | Value::Semver(_) | Value::Url(_)) => 1,
                Some(Value::Ip(_) | Value::Cidr(_) | Value::Format(_) | Value::Authorization(_)) => 1,
                _ => self.overload(Cost::Compare),
            },
            FunctionCost::Check => CHECK_PRICE,
            FunctionCost::Selector => {
                let requirements = scaled(scaled(self.size(1), REQUIREMENTS_PER_CHAR), REQUIREMENT_PRICE);
                LIST_PRICE.saturating_add(scaled(self.size(1), PER_CHAR)).saturating_add(requirements)
            }
        }
    }

    /// A string that has to be read first, if that was known before.
    fn parse(&self, overload: Cost) -> u64 {
        if overload == Cost::ParseToo { scaled(self.size(1), PER_CHAR) } else { 0 }
    }

    fn pattern(&self, text: u64, pattern: u64) -> u64 {
        scaled(text.saturating_add(1), PER_CHAR).saturating_mul(scaled(pattern, PER_PATTERN_CHAR))
    }

    fn overload(&self, cost: Cost) -> u64 {
        match cost {
            Cost::One
            | Cost::ParseToo
            | Cost::AddList
            | Cost::IndexList
            | Cost::IndexMap
            | Cost::Logic
            | Cost::Conditional => 1,
            Cost::Prefix => scaled(self.inner_size(1), PER_CHAR),
            Cost::ToBytes | Cost::ToText | Cost::Quote | Cost::Format => scaled(self.inner_size(0), PER_CHAR),
            Cost::InList => self.inner_size(1),
            Cost::Matches => self.pattern(self.inner_size(0), self.inner_size(1)),
            Cost::Contains => {
                scaled(self.inner_size(0), PER_CHAR).saturating_mul(scaled(self.inner_size(1), PER_CHAR))
            }
            Cost::AddText => scaled(self.inner_size(0).saturating_add(self.inner_size(1)), PER_CHAR),
            Cost::Compare => scaled(self.inner_size(0).min(self.inner_size(1)), PER_CHAR),
            Cost::Slice | Cost::Reverse => {
                let made = self.made.and_then(|made| self.context.size(made)).unwrap_or(1);
                made.saturating_add(1 + LIST_PRICE)
            }
            Cost::Range => match self.args {
                [Value::Int(count)] if lists::is_range(*count) => {
                    count.unsigned_abs().saturating_add(1 + LIST_PRICE)
                }
                _ => 2 + LIST_PRICE,
            },
            Cost::Flatten => {
                let depth = if let [_, Value::Int(depth)] = self.args {
                    u64::try_from(*depth).unwrap_or(1)
                } else {
                    1
                };
                self.size(0).saturating_mul(depth).saturating_add(1 + LIST_PRICE)
            }
            Cost::Distinct | Cost::Sort { .. } => self.self_compare(0),
            Cost::SortBy { .. } => self.self_compare(1),
            Cost::Sets { factor } => {
                self.size(0).saturating_mul(self.size(1)).saturating_mul(factor.into()).saturating_add(1)
            }
        }
    }

    /// Every element against every other.
    fn self_compare(&self, at: usize) -> u64 {
        let size = self.size(at);
        let is_text = match self.args.get(at) {
            Some(Value::List(list)) => matches!(list.get(0), Some(Value::Text(_) | Value::Bytes(_))),
            _ => false,
        };
        let factor = if is_text { 2.0 + PER_CHAR } else { 2.0 };
        truncated(size.saturating_mul(size), factor).saturating_add(1 + LIST_PRICE)
    }

    /// Everything in a value looked at once.
    fn traversal(&self, value: &Value<'_>) -> u64 {
        match value {
            Value::Text(text) => truncated(text.len() as u64, PER_CHAR),
            Value::Bytes(bytes) => truncated(bytes.len() as u64, PER_CHAR),
            Value::List(list) => list.iter().map(|value| self.traversal(&value)).sum(),
            Value::Map(super::value::Map::Made(entries)) => entries
                .iter()
                .map(|(key, value)| self.traversal(&key.to_value()) + self.traversal(value))
                .sum(),
            _ => 1,
        }
    }
}

/// `size` times `factor`, rounded up, in the floating point that the reference uses.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the reference"
)]
fn scaled(size: u64, factor: f64) -> u64 {
    let product = size as f64 * factor;
    let whole = product as u64;
    whole.saturating_add(u64::from((whole as f64) < product))
}

/// The same, rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the reference"
)]
fn truncated(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}
