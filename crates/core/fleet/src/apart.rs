//! The columns by which an expression can distinguish the devices of a slice.

use crate::{body::SliceBody, cel::Look, few::Few};

/// The columns that an expression looks at and in which the devices of a slice are not all the same. Found once for a
/// slice, so that neighbours are compared by a glance.
#[derive(Debug)]
pub(crate) struct Apart<'a> {
    body: &'a SliceBody,
    attributes: Few<u32>,
    capacity: Few<u32>,
    sharing: bool,
}

impl<'a> Apart<'a> {
    #[inline]
    pub(crate) fn new(body: &'a SliceBody, looks: &[Look]) -> Self {
        let mut apart = Self { body, attributes: Few::default(), capacity: Few::default(), sharing: false };
        for look in looks {
            match look {
                Look::Attribute(id) => {
                    body.attributes.varying(*id).for_each(|column| apart.attributes.push(column))
                }
                Look::Capacity(id) => {
                    body.capacity.varying(*id).for_each(|column| apart.capacity.push(column))
                }
                Look::Sharing => apart.sharing = true,
            }
        }
        apart
    }

    /// Whether all devices get the same answer.
    pub(crate) fn is_nothing(&self) -> bool {
        self.attributes.is_empty() && self.capacity.is_empty() && !self.body.has_flags()
    }

    /// Whether two devices get the same answer.
    #[inline]
    pub(crate) fn agree(&self, one: usize, other: usize) -> bool {
        self.attributes.iter().all(|column| self.body.attributes.agree_in(*column, one, other))
            && self.capacity.iter().all(|column| self.body.capacity.agree_in(*column, one, other))
            && (!self.body.has_flags() || {
                let flags = self.body.flags();
                // Every expression fails on a device with a value that it cannot read.
                flags.unsupported.has(one) == flags.unsupported.has(other)
                    && (!self.sharing || flags.allow_multiple.has(one) == flags.allow_multiple.has(other))
            })
    }
}
