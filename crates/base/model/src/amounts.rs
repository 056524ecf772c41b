//! Amounts of what nodes have and pods ask for.

use alloc::vec::Vec;

use crate::{Quantity, Text};

/// An amount of each resource. A resource that is not mentioned has 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    /// Thousandths of a processor.
    pub cpu_milli: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of local disk.
    pub ephemeral_storage: i64,
    /// Everything else in whole units, by name: huge pages, extended resources.
    pub others: Vec<(Text, i64)>,
}

/// A whole number of units, rounded up; a number that is too large to count is the largest.
#[must_use]
pub fn whole_units(quantity: &Quantity) -> i64 {
    quantity.value_i64_rounded_up().unwrap_or(i64::MAX)
}

fn thousandths(quantity: &Quantity) -> i64 {
    quantity.milli_exact().unwrap_or_else(|| whole_units(quantity).saturating_mul(1_000))
}

impl Amounts {
    /// The amounts of a list of resources. The number of pods of a node is not among them.
    #[must_use]
    pub fn of<'a>(list: impl IntoIterator<Item = (&'a str, &'a Quantity)>) -> Self {
        let mut amounts = Self::default();
        for (name, quantity) in list {
            match name {
                "cpu" => amounts.cpu_milli = thousandths(quantity),
                "memory" => amounts.memory = whole_units(quantity),
                "ephemeral-storage" => amounts.ephemeral_storage = whole_units(quantity),
                "pods" => {}
                other => amounts.set_other(&other.into(), whole_units(quantity)),
            }
        }
        amounts
    }

    /// How much of a resource other than the three with a field.
    #[must_use]
    pub fn other(&self, name: &str) -> i64 {
        self.place(name).map_or(0, |at| self.others[at].1)
    }

    /// How much of a resource, whichever it is; thousandths of `cpu`.
    #[must_use]
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu_milli,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            other => self.other(other),
        }
    }

    /// Sets the amount of a resource, whichever it is; thousandths of `cpu`.
    pub fn set(&mut self, name: &Text, amount: i64) {
        match name.as_str() {
            "cpu" => self.cpu_milli = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.ephemeral_storage = amount,
            _ => self.set_other(name, amount),
        }
    }

    /// Sets the amount of a resource other than the three with a field.
    pub fn set_other(&mut self, name: &Text, amount: i64) {
        match self.place(name) {
            Ok(at) => self.others[at].1 = amount,
            Err(at) => self.others.insert(at, (name.clone(), amount)),
        }
    }

    /// These and those together. Saturates: what people write may exceed what can be counted.
    pub fn add(&mut self, more: &Self) {
        self.cpu_milli = self.cpu_milli.saturating_add(more.cpu_milli);
        self.memory = self.memory.saturating_add(more.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(more.ephemeral_storage);
        for (name, amount) in &more.others {
            let sum = self.other(name).saturating_add(*amount);
            self.set_other(name, sum);
        }
    }

    /// For each resource the larger of the two.
    pub fn raise_to(&mut self, least: &Self) {
        self.cpu_milli = self.cpu_milli.max(least.cpu_milli);
        self.memory = self.memory.max(least.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(least.ephemeral_storage);
        for (name, amount) in &least.others {
            if self.other(name) < *amount {
                self.set_other(name, *amount);
            }
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.others.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_rounded_up_and_processors_are_in_thousandths() {
        for (text, cpu, other) in [("1", 1_000, 1), ("250m", 250, 1), ("1e3", 1_000_000, 1_000)] {
            let quantity = Quantity::parse(text).unwrap();
            let amounts = Amounts::of([("cpu", &quantity), ("a/b", &quantity), ("pods", &quantity)]);
            assert_eq!(
                (amounts.cpu_milli, amounts.other("a/b"), amounts.others.len()),
                (cpu, other, 1),
                "{text}"
            );
        }
    }

    #[test]
    fn sums_and_peaks_keep_names_in_order() {
        let of = |name: &str, amount| {
            let mut amounts = Amounts { cpu_milli: amount, ..Amounts::default() };
            amounts.set_other(&name.into(), amount);
            amounts
        };
        let mut sum = of("b", 1);
        sum.add(&of("a", 2));
        sum.add(&of("b", i64::MAX));
        assert_eq!(
            (sum.cpu_milli, sum.other("a"), sum.other("b"), sum.other("c")),
            (i64::MAX, 2, i64::MAX, 0)
        );
        let mut peak = of("b", 5);
        peak.raise_to(&of("a", 3));
        assert_eq!((peak.cpu_milli, peak.other("a"), peak.other("b")), (5, 3, 5));
        assert!(peak.others.is_sorted());
    }
}
