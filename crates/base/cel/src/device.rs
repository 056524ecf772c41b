//! Devices, as expressions see them.

use alloc::vec::Vec;

use lazaret_model::{AttrId, AttrNames, AttrValue, QualifiedName, Quantity, Text};

/// A device as expressions see it.
///
/// `names` must be the table that the ids come from, and one that grew out of the table that the program was bound
/// to.
pub trait Device {
    /// The driver that publishes it.
    fn driver(&self) -> &str;
    /// The attribute of this name.
    fn attribute(&self, id: AttrId) -> Option<&AttrValue>;
    /// The capacity of this name.
    fn capacity(&self, id: AttrId) -> Option<&Quantity>;
    /// Whether several claims may share it.
    fn allow_multiple_allocations(&self) -> bool;
    /// Visits every attribute.
    fn attributes(&self, visit: &mut dyn FnMut(AttrId, &AttrValue));
    /// Visits every capacity.
    fn capacities(&self, visit: &mut dyn FnMut(AttrId, &Quantity));
    /// The table behind the ids.
    fn names(&self) -> &AttrNames;
    /// Whether an attribute has no value that can be understood, or a version that is none. Then every expression
    /// fails on this device, even `true`.
    fn has_unsupported_value(&self) -> bool;
}

impl<D: Device + ?Sized> Device for &D {
    fn driver(&self) -> &str {
        (**self).driver()
    }
    fn attribute(&self, id: AttrId) -> Option<&AttrValue> {
        (**self).attribute(id)
    }
    fn capacity(&self, id: AttrId) -> Option<&Quantity> {
        (**self).capacity(id)
    }
    fn allow_multiple_allocations(&self) -> bool {
        (**self).allow_multiple_allocations()
    }
    fn attributes(&self, visit: &mut dyn FnMut(AttrId, &AttrValue)) {
        (**self).attributes(visit);
    }
    fn capacities(&self, visit: &mut dyn FnMut(AttrId, &Quantity)) {
        (**self).capacities(visit);
    }
    fn names(&self) -> &AttrNames {
        (**self).names()
    }
    fn has_unsupported_value(&self) -> bool {
        (**self).has_unsupported_value()
    }
}

/// A device on its own: for tools and tests. Keeps a copy of the table of names.
#[derive(Clone, Debug)]
pub struct SimpleDevice {
    driver: Text,
    attributes: Vec<(AttrId, AttrValue)>,
    capacity: Vec<(AttrId, Quantity)>,
    allow_multiple: bool,
    unsupported: bool,
    names: AttrNames,
}

impl SimpleDevice {
    /// A device with attributes and capacities by their keys (`domain/id`, or `id` for the driver's own).
    pub fn new<K: AsRef<str>>(
        driver: &str,
        attributes: impl IntoIterator<Item = (K, AttrValue)>,
        capacity: impl IntoIterator<Item = (K, Quantity)>,
        allow_multiple: bool,
        names: &mut AttrNames,
    ) -> Self {
        let mut id = |key: K| names.intern(&QualifiedName::of_key(key.as_ref(), driver));
        let mut attributes: Vec<_> = attributes.into_iter().map(|(key, value)| (id(key), value)).collect();
        let mut capacity: Vec<_> = capacity.into_iter().map(|(key, value)| (id(key), value)).collect();
        attributes.sort_by_key(|(id, _)| *id);
        capacity.sort_by_key(|(id, _)| *id);
        let unsupported = attributes.iter().any(|(_, value)| !is_supported(value));
        Self {
            driver: driver.into(),
            attributes,
            capacity,
            allow_multiple,
            unsupported,
            names: names.clone(),
        }
    }
}

/// Whether expressions can read `value`. A device with one that they cannot read must say so in
/// [`Device::has_unsupported_value`].
#[must_use]
pub fn is_supported(value: &AttrValue) -> bool {
    match value {
        AttrValue::Unsupported => false,
        AttrValue::Version(version) => version.parsed.is_some(),
        AttrValue::Versions(versions) => versions.iter().all(|version| version.parsed.is_some()),
        AttrValue::Int(_) | AttrValue::Bool(_) | AttrValue::String(_) => true,
        AttrValue::Ints(_) | AttrValue::Bools(_) | AttrValue::Strings(_) => true,
    }
}

fn find<T>(sorted: &[(AttrId, T)], id: AttrId) -> Option<&T> {
    sorted.binary_search_by_key(&id, |(id, _)| *id).ok().map(|at| &sorted[at].1)
}

impl Device for SimpleDevice {
    fn driver(&self) -> &str {
        &self.driver
    }

    fn attribute(&self, id: AttrId) -> Option<&AttrValue> {
        find(&self.attributes, id)
    }

    fn capacity(&self, id: AttrId) -> Option<&Quantity> {
        find(&self.capacity, id)
    }

    fn allow_multiple_allocations(&self) -> bool {
        self.allow_multiple
    }

    fn attributes(&self, visit: &mut dyn FnMut(AttrId, &AttrValue)) {
        self.attributes.iter().for_each(|(id, value)| visit(*id, value));
    }

    fn capacities(&self, visit: &mut dyn FnMut(AttrId, &Quantity)) {
        self.capacity.iter().for_each(|(id, value)| visit(*id, value));
    }

    fn names(&self) -> &AttrNames {
        &self.names
    }

    fn has_unsupported_value(&self) -> bool {
        self.unsupported
    }
}
