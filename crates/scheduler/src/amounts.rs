//! Amounts of what nodes have and pods ask for.

use alloc::vec::Vec;

use lazaret_model::Text;

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

impl Amounts {
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
