//! Work, counted in units that are the same on every machine: one is what a unit of CEL's cost takes.
//!
//! A caller that shares an [`crate::Allocator`] gives it a number of units for each turn. The allocator does not begin work that would
//! exceed them, and keeps the results that it found until then.

use core::cell::Cell;

/// A selector that is asked of a device, beside its cost.
pub(crate) const ASK_UNITS: u64 = 20;
/// An expression that is compiled.
pub(crate) const COMPILE_UNITS: u64 = 2_000;
/// Each byte of it.
pub(crate) const COMPILE_BYTE_UNITS: u64 = 100;
/// An expression that was compiled before.
pub(crate) const LOOKUP_UNITS: u64 = 5;
/// Bytes of an expression that are hashed and compared for one more unit.
pub(crate) const LOOKUP_BYTES_PER_UNIT: u64 = 64;
/// A node that is looked at.
pub(crate) const NODE_UNITS: u64 = 100;
/// A step of a search.
pub(crate) const STEP_UNITS: u64 = 10;

/// The units that are left for this turn.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    /// All that was ever done.
    spent: Cell<u64>,
    /// How much was learnt that is remembered: expressions and answers.
    learnt: Cell<u64>,
}

impl Default for Meter {
    fn default() -> Self {
        Self { left: Cell::new(u64::MAX), spent: Cell::new(0), learnt: Cell::new(0) }
    }
}

impl Meter {
    pub(crate) fn fill(&self, units: u64) {
        self.left.set(units);
    }

    /// Takes note of what was done.
    #[inline]
    pub(crate) fn spend(&self, units: u64) {
        self.charge(units);
        if self.left.get() != u64::MAX {
            self.left.set(self.left.get().saturating_sub(units));
        }
    }

    /// Takes note of what was done beside.
    #[inline]
    pub(crate) fn charge(&self, units: u64) {
        self.spent.set(self.spent.get().saturating_add(units));
    }

    pub(crate) fn learn(&self) {
        self.learnt.set(self.learnt.get().saturating_add(1));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.left.get() == 0
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent.get()
    }

    pub(crate) fn learnt(&self) -> u64 {
        self.learnt.get()
    }
}

/// A number of things, as units.
pub(crate) fn units(count: usize) -> u64 {
    count as u64
}
