//! Device classes by the extended resources that they serve.

use std::sync::Arc;

use lazaret_quota::Classes;
use lazaret_storage::Item;

use crate::object;

/// Where classes of devices are stored.
pub(crate) const DEVICE_CLASSES: &str = "/resource.k8s.io/deviceclasses/";

/// Device classes by the extended resources that they serve.
pub(crate) fn read_device_classes(items: &[Arc<Item>]) -> Classes {
    let mut classes = Classes::default();
    for item in items {
        let class = object::decode(&item.value);
        classes.add(object::meta(&class, "name"), class["spec"]["extendedResourceName"].as_str());
    }
    classes
}
