//! Sums, differences and multiples. They never fail: what leaves 128 bits becomes a big integer.

use num_bigint::{BigInt, Sign};

use super::{
    Format, Nanos, Quantity, Stored,
    holding::{Holding, mantissa_i64},
};

impl Quantity {
    /// The sum, in the format of `self`, or of `other` when `self` is zero.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        if !self.holding().decimal && !other.holding().decimal {
            if other.is_zero() {
                return self.clone().with_format(self.leading_format(other));
            }
            if self.is_zero() {
                return other.clone();
            }
        }
        if let (Nanos::Small(a), Nanos::Small(b)) = (self.nanos(), other.nanos()) {
            let total = a.checked_add(b);
            let holding = Holding::of_sum((self.holding(), a), (other.holding(), b), total);
            if let Some(total) = total {
                return Self::of_i128(total, self.leading_format(other), holding);
            }
        }
        let holding = Holding::decimal(self.holding().scale.min(other.holding().scale));
        Self::of_big(self.nanos_big() + other.nanos_big(), self.leading_format(other), holding)
    }

    /// The difference, in the format of `self`, or of `other` when `self` is zero.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        self.add(&other.neg())
    }

    /// The number with the other sign.
    #[must_use]
    pub fn neg(&self) -> Self {
        let (format, holding) = (self.format(), self.holding());
        match self.nanos() {
            Nanos::Small(nanos) if nanos != i128::MIN => Self::of_i128(-nanos, format, holding),
            Nanos::Small(_) | Nanos::Big(_) => Self::of_big(-self.nanos_big(), format, holding),
        }
    }

    /// The number times `factor`.
    #[must_use]
    pub fn mul_i64(&self, factor: i64) -> Self {
        let format = self.format();
        if factor == 0 && !self.is_zero() && !self.holding().decimal {
            return Self::of_i128(0, format, Holding::integer(0));
        }
        if let Nanos::Small(nanos) = self.nanos()
            && let Some(product) = nanos.checked_mul(i128::from(factor))
        {
            return Self::of_i128(product, format, self.holding_of_product(nanos, product));
        }
        let holding = Holding::decimal(self.holding().scale);
        Self::of_big(self.nanos_big() * factor, format, holding)
    }

    /// The product, in the format of `self`. Fractions of a nano-unit are rounded away from zero.
    #[must_use]
    pub fn mul(&self, factor: &Self) -> Self {
        if let Some(whole) = factor.as_i64() {
            return self.mul_i64(whole);
        }
        let (product, nanos) = (self.nanos_big() * factor.nanos_big(), BigInt::from(super::NANOS));
        let (quotient, rest) = (&product / &nanos, &product % &nanos);
        let away = match rest.sign() {
            Sign::Plus => 1,
            Sign::NoSign => 0,
            Sign::Minus => -1,
        };
        Self::of_big(quotient + away, self.format(), Holding::decimal(-9))
    }

    fn leading_format(&self, other: &Self) -> Format {
        if self.is_zero() { other.format() } else { self.format() }
    }

    /// A product stays an integer when its mantissa has 64 bits, and either the whole number has as well or, at a
    /// scale below one, there is no fraction left.
    fn holding_of_product(&self, nanos: i128, product: i128) -> Holding {
        let holding = self.holding();
        if holding.decimal || nanos == 0 {
            return holding;
        }
        let mantissa_fits = mantissa_i64(product, holding.scale).is_some();
        let whole = product % super::NANOS == 0 && (holding.scale < 0 || mantissa_i64(product, 0).is_some());
        Holding { decimal: !(mantissa_fits && whole), ..holding }
    }
}

impl core::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::zero(), |total, item| total.add(&item))
    }
}

impl From<BigInt> for Quantity {
    /// This number of nano-units.
    fn from(nanos: BigInt) -> Self {
        Self::of_big(nanos, Format::DecimalSi, Holding::decimal(-9))
    }
}

impl From<&Quantity> for BigInt {
    /// The number in nano-units.
    fn from(quantity: &Quantity) -> Self {
        match &quantity.0 {
            Stored::Big { nanos, .. } => (**nanos).clone(),
            Stored::Small { .. } => quantity.nanos_big(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn products_are_exact_or_rounded_away_from_zero() {
        for (a, b, product) in [
            ("100", "1", "100"),
            ("2Gi", "0.5", "1Gi"),
            ("3", "1500m", "4500m"),
            ("-3", "0.5", "-1500m"),
            ("1n", "0.5", "1n"),
            ("7", "0", "0"),
        ] {
            let of = |text| Quantity::parse(text).unwrap();
            let found = of(a).mul(&of(b));
            assert_eq!((&found, found.to_string().as_str()), (&of(product), product), "{a} * {b}");
        }
    }
}
