//! The columns of a table, as far as tables share them.

use alloc::{boxed::Box, sync::Arc};

use crate::schema::Schema;

/// The part of a slice's table that slices of the same kind of device share; kept once.
#[derive(Debug)]
pub(crate) struct Layout<T> {
    pub(crate) schema: Arc<Schema>,
    pub(crate) slots: Box<[Slot<T>]>,
    /// How many columns are not the same for all.
    pub(crate) each_len: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Slot<T> {
    /// Every device has it, all the same: the value and its [print](crate::value::Value::print).
    Same(T, u128),
    /// Each device has its own, or none: in this place of its part of `each`.
    Each(u32),
}
