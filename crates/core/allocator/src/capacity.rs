//! How much of a device a request takes.
//!
//! Everything that does not depend on who else uses the device is settled in [`Demand::of`]; what is left for the
//! search is one sum per capacity, [`Demand::fits`].

use alloc::vec::Vec;
use core::fmt;

use lazaret_model::{CapacityValue, Quantity, RequestPolicy, Text, ValidRange};

/// Amounts by capacity key, in key order.
pub(crate) type Amounts = Vec<(Text, Quantity)>;

/// The amounts that a request takes of one device, before the remaining capacity is considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// The request names a capacity that the device does not have.
    Missing(Text),
    /// The amount is none that the device's policy allows.
    Refused(Text),
    /// An amount of each capacity of the device, in key order.
    Wants(Vec<CapacityAmount>),
}

/// An amount of a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CapacityAmount {
    key: Text,
    amount: Quantity,
    /// All that the device has.
    limit: Quantity,
}

/// A request that no device could be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapacityError {
    /// The amount, or what it rounds up to, is beyond the arithmetic of the device's range.
    NotRepresentable {
        /// Which capacity.
        capacity: Text,
        /// The requested amount.
        amount: Quantity,
    },
    /// Less than nothing.
    Negative {
        /// Which capacity.
        capacity: Text,
        /// The amount that resulted.
        amount: Quantity,
    },
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRepresentable { capacity, amount } => write!(
                f,
                "capacity {capacity:?}: {amount} cannot be represented in the range that the device allows"
            ),
            Self::Negative { capacity, amount } => {
                write!(f, "capacity {capacity:?}: the amount {amount} is negative")
            }
        }
    }
}

impl core::error::Error for CapacityError {}

impl Demand {
    /// The amounts that `request` (amounts by key, in order) takes of a device with these capacities. Errors come before
    /// refusals, so that the outcome does not depend on the order of capacities.
    pub(crate) fn of(
        request: &[(Text, Quantity)],
        capacities: &[(&Text, &CapacityValue)],
        fractional: bool,
    ) -> Result<Self, CapacityError> {
        if let Some((missing, _)) =
            request.iter().find(|(key, _)| capacities.iter().all(|(name, _)| *name != key))
        {
            return Ok(Self::Missing(missing.clone()));
        }
        let mut wants = Vec::with_capacity(capacities.len());
        for (key, capacity) in capacities {
            let asked = find(request, key);
            let amount =
                resolve(asked, capacity, fractional).ok_or_else(|| CapacityError::NotRepresentable {
                    capacity: (*key).clone(),
                    amount: asked.cloned().unwrap_or_else(Quantity::zero),
                })?;
            if amount.is_negative() {
                return Err(CapacityError::Negative { capacity: (*key).clone(), amount });
            }
            wants.push(CapacityAmount { key: (*key).clone(), amount, limit: capacity.value.clone() });
        }
        for (want, (_, capacity)) in wants.iter().zip(capacities) {
            if capacity.policy.as_ref().is_some_and(|policy| violates(&want.amount, policy, fractional)) {
                return Ok(Self::Refused(want.key.clone()));
            }
        }
        Ok(Self::Wants(wants))
    }

    /// Whether the device has room for it beside what was taken. Otherwise the capacity that is short.
    pub(crate) fn fits<'a>(&'a self, taken: &[&[(Text, Quantity)]]) -> Result<(), &'a Text> {
        let wants = match self {
            Self::Missing(key) | Self::Refused(key) => return Err(key),
            Self::Wants(wants) => wants,
        };
        for want in wants {
            let mut others = taken.iter().filter_map(|taken| find(taken, &want.key));
            let fits = match others.next() {
                None => want.amount <= want.limit,
                Some(first) => others.fold(want.amount.add(first), |sum, other| sum.add(other)) <= want.limit,
            };
            if !fits {
                return Err(&want.key);
            }
        }
        Ok(())
    }

    /// The amounts, by key.
    pub(crate) fn amounts(&self) -> Amounts {
        match self {
            Self::Missing(_) | Self::Refused(_) => Vec::new(),
            Self::Wants(wants) => wants.iter().map(|want| (want.key.clone(), want.amount.clone())).collect(),
        }
    }
}

fn find<'a>(entries: &'a [(Text, Quantity)], key: &str) -> Option<&'a Quantity> {
    entries.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
}

/// Adds `amounts` to `sum`, both in key order.
pub(crate) fn add(sum: &mut Amounts, amounts: &[(Text, Quantity)]) {
    for (key, amount) in amounts {
        match sum.binary_search_by(|(name, _)| name.cmp(key)) {
            Ok(at) => sum[at].1 = sum[at].1.add(amount),
            Err(at) => sum.insert(at, (key.clone(), amount.clone())),
        }
    }
}

/// Takes `amounts` out of `sum` again; what comes to nothing goes.
pub(crate) fn subtract(sum: &mut Amounts, amounts: &[(Text, Quantity)]) {
    for (key, amount) in amounts {
        if let Ok(at) = sum.binary_search_by(|(name, _)| name.cmp(key)) {
            sum[at].1 = sum[at].1.sub(amount);
            if sum[at].1.is_zero() {
                sum.remove(at);
            }
        }
    }
}

/// The amount taken. `None`: it cannot be expressed.
fn resolve(asked: Option<&Quantity>, capacity: &CapacityValue, fractional: bool) -> Option<Quantity> {
    let Some(asked) = asked else {
        let default = capacity.policy.as_ref().and_then(|policy| policy.default.as_ref());
        return Some(default.unwrap_or(&capacity.value).clone());
    };
    let Some(policy) = &capacity.policy else { return Some(asked.clone()) };
    match &policy.valid_range {
        Some(range @ ValidRange { min: Some(min), .. }) => round_up(asked, min, range, fractional),
        Some(ValidRange { min: None, .. }) | None => {
            Some(policy.valid_values.iter().find(|value| asked <= *value).unwrap_or(asked).clone())
        }
    }
}

/// The least amount of the range that is enough.
fn round_up(asked: &Quantity, min: &Quantity, range: &ValidRange, fractional: bool) -> Option<Quantity> {
    if asked < min {
        return Some(min.clone());
    }
    let Some(step) = &range.step else { return Some(asked.clone()) };
    let grid = Grid::of(range, fractional)?;
    let above = i128::from(grid.read(asked)?) - i128::from(grid.min);
    let steps =
        above.div_euclid(i128::from(grid.step)) + i128::from(above.rem_euclid(i128::from(grid.step)) != 0);
    let value = i128::from(grid.min) + steps * i128::from(grid.step);
    let value = i64::try_from(value).ok()?;
    Some(if !grid.milli {
        Quantity::from_i64_format(value, step.format())
    } else if value % 1000 == 0 {
        Quantity::from_i64_format(value / 1000, step.format())
    } else {
        Quantity::from_milli(value.into(), step.format())
    })
}

/// Whether a policy forbids the amount. Its default is always allowed.
/// DEVIATION(allocator-default-amount): as a number.
fn violates(amount: &Quantity, policy: &RequestPolicy, fractional: bool) -> bool {
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    if let Some(range) = &policy.valid_range {
        if range.max.as_ref().is_some_and(|max| amount > max) {
            return true;
        }
        return range.step.is_some() && !Grid::of(range, fractional).is_some_and(|grid| grid.has(amount));
    }
    !policy.valid_values.is_empty() && !policy.valid_values.contains(amount)
}

/// The amounts `min + n·step`, counted in units or in thousandths.
struct Grid {
    min: i64,
    step: i64,
    milli: bool,
}

impl Grid {
    /// The grid of a range that has a step. `None` when the range itself is beyond 64 bits or its step is nothing.
    fn of(range: &ValidRange, fractional: bool) -> Option<Self> {
        let milli = fractional && in_thousandths(range);
        let mut grid = Self { min: 0, step: 0, milli };
        if let Some(min) = &range.min {
            grid.min = grid.read(min)?;
        }
        grid.step = grid.read(range.step.as_ref()?)?;
        (grid.step > 0).then_some(grid)
    }

    /// Thousandths must be exact; units are rounded up.
    fn read(&self, amount: &Quantity) -> Option<i64> {
        if self.milli { amount.milli_exact() } else { amount.value_i64_rounded_up() }
    }

    fn has(&self, amount: &Quantity) -> bool {
        self.read(amount)
            .is_some_and(|value| (i128::from(value) - i128::from(self.min)) % i128::from(self.step) == 0)
    }
}

/// Whether all bounds of the range are whole thousandths and the step is at least one.
fn in_thousandths(range: &ValidRange) -> bool {
    [&range.min, &range.max].into_iter().flatten().all(|bound| bound.milli_exact().is_some())
        && range.step.as_ref().is_some_and(|step| step.milli_exact().is_some_and(|step| step >= 1))
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec};

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    /// `value [default=..] [in=a,b] [range=min..max/step]`
    fn capacity(spec: &str) -> CapacityValue {
        let mut words = spec.split(' ');
        let value = quantity(words.next().unwrap());
        let mut policy = RequestPolicy::default();
        for word in words {
            let (key, text) = word.split_once('=').unwrap();
            let bound = |text: &str| (!text.is_empty()).then(|| quantity(text));
            match key {
                "default" => policy.default = bound(text),
                "in" => policy.valid_values = text.split(',').map(quantity).collect(),
                "range" => {
                    let (ends, step) = text.split_once('/').unwrap_or((text, ""));
                    let (min, max) = ends.split_once("..").unwrap();
                    policy.valid_range =
                        Some(ValidRange { min: bound(min), max: bound(max), step: bound(step) });
                }
                other => panic!("{other}"),
            }
        }
        CapacityValue { value, policy: spec.contains(' ').then_some(policy) }
    }

    fn outcome(request: &str, spec: &str, fractional: bool) -> String {
        let key = Text::from("c");
        let request: Vec<_> = request.split_whitespace().map(|text| (key.clone(), quantity(text))).collect();
        match Demand::of(&request, &[(&key, &capacity(spec))], fractional) {
            Err(CapacityError::Negative { .. }) => "negative".into(),
            Err(CapacityError::NotRepresentable { .. }) => "unrepresentable".into(),
            Ok(Demand::Missing(_)) => "missing".into(),
            Ok(Demand::Refused(_)) => "refused".into(),
            Ok(demand) => {
                format!("{}{}", demand.amounts()[0].1, if demand.fits(&[]).is_ok() { "" } else { " full" })
            }
        }
    }

    #[test]
    fn amounts_are_resolved_against_the_policy() {
        let rows = [
            // asked, capacity, in units, in thousandths
            ("", "8", "8", "8"),
            ("3", "8", "3", "3"),
            ("9", "8", "9 full", "9 full"),
            ("-1", "8", "negative", "negative"),
            ("", "-8", "negative", "negative"),
            ("", "8 default=2", "2", "2"),
            ("", "8 default=0 in=0", "0", "0"),
            ("1", "8 default=0 in=0", "refused", "refused"),
            ("1", "8 in=2,4", "2", "2"),
            ("3", "8 in=2,4", "4", "4"),
            ("5", "8 in=2,4", "refused", "refused"),
            ("1", "8 range=2..4/2", "2", "2"),
            ("3", "8 range=2..4/2", "4", "4"),
            ("4", "8 range=2..4/2", "4", "4"),
            ("5", "8 range=2..4/2", "refused", "refused"),
            ("3", "8 range=2..", "3", "3"),
            ("9", "8 range=2..", "9 full", "9 full"),
            ("", "8 default=3 range=2..4/2", "3", "3"),
            ("", "8 range=2..4/2", "refused", "refused"),
            ("250m", "1 range=200m..1/100m", "1", "300m"),
            ("400m", "1 range=200m..1/100m", "1", "400m"),
            ("1100m", "2 range=200m..1/100m", "refused", "refused"),
            ("950m", "1 range=200m..1/100m", "1", "1"),
            ("100u", "1 range=0..1/1m", "1", "unrepresentable"),
            ("9223372036854775808", "20E range=2../1", "unrepresentable", "unrepresentable"),
            ("9223372036854775806", "20E range=2../2", "9223372036854775806", "unrepresentable"),
            ("9223372036854775807", "20E range=2../2", "unrepresentable", "unrepresentable"),
            ("9223372036854775807", "20E range=1../2", "9223372036854775807", "unrepresentable"),
            ("3", "20E range=2..9224372036854776E3/2", "4", "4"),
            ("3", "8 range=2..4/0", "unrepresentable", "unrepresentable"),
        ];
        for (asked, spec, units, thousandths) in rows {
            assert_eq!(outcome(asked, spec, false), units, "{asked} of {spec}");
            assert_eq!(outcome(asked, spec, true), thousandths, "{asked} of {spec}, fractional");
        }
    }

    #[test]
    fn errors_come_before_refusals() {
        let (a, b) = (Text::from("a"), Text::from("b"));
        let request = vec![(a.clone(), quantity("5")), (b.clone(), quantity("-1"))];
        let (refusing, plain) = (capacity("8 in=1"), capacity("8"));
        assert!(Demand::of(&request, &[(&a, &refusing), (&b, &plain)], false).is_err());
        assert_eq!(Demand::of(&request, &[(&a, &refusing)], false), Ok(Demand::Missing(b)));
    }

    #[test]
    fn what_others_took_is_counted() {
        let key = Text::from("c");
        let demand = Demand::of(&[(key.clone(), quantity("3"))], &[(&key, &capacity("8"))], false).unwrap();
        let (two, three, four) = (quantity("2"), quantity("3"), quantity("4"));
        let taken = |amount: &Quantity| vec![(key.clone(), amount.clone())];
        assert_eq!(demand.fits(&[&taken(&two), &taken(&three)]), Ok(()));
        assert_eq!(demand.fits(&[&taken(&two), &taken(&four)]), Err(&key));
        let mut sum = taken(&two);
        add(&mut sum, &demand.amounts());
        assert_eq!(sum, taken(&quantity("5")));
        subtract(&mut sum, &taken(&quantity("5")));
        assert!(sum.is_empty());
    }
}
