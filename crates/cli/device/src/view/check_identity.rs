//! A row about devices that are published with one identity.

use std::collections::BTreeMap;

use lazaret_fleet::Snapshot;
use lazaret_model::{AttrValue, QualifiedName};

use super::{
    check::{Check, State, found},
    device::published,
};

/// The attribute that identifies hardware, unless a DeviceHealthPolicy names another.
const IDENTITY: &str = "uuid";

/// Devices of one driver that are published with the same identity: which of them is ill nobody can say by it.
pub(super) fn identities(snapshot: &Snapshot) -> Check {
    let mut devices: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for device in published(snapshot) {
        let id = device.id();
        let wanted = QualifiedName::of_key(IDENTITY, &id.driver);
        for (key, _, value) in device.attributes() {
            if let AttrValue::String(value) = value
                && QualifiedName::of_key(key, &id.driver) == wanted
            {
                let same = devices.entry((id.driver.to_string(), value.to_string())).or_default();
                same.push(id.to_string());
            }
        }
    }
    let twice: Vec<String> = devices
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|((_, identity), names)| format!("{} ({IDENTITY} {identity})", names.join(" and ")))
        .collect();
    found(
        "devices",
        "every device has an identity of its own",
        &twice,
        State::Warning,
        "incidents are not passed on between them and no validation begins: correct the driver, so that each device has its own uuid",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lazaret_fleet::{Fleet, Input};
    use lazaret_model::{Device, NodeScope, PoolSpec, ResourceSlice};

    use super::*;

    #[test]
    fn devices_of_one_driver_with_one_identity_are_named() {
        let mut fleet = Fleet::default();
        for (driver, pool, devices) in [
            ("gpu.example.com", "node-1", [("gpu-0", "a"), ("gpu-1", "b")]),
            ("gpu.example.com", "node-2", [("gpu-0", "a"), ("gpu-1", "c")]),
            ("nic.example.com", "node-1", [("nic-0", "b"), ("nic-1", "d")]),
        ] {
            let device = |(name, uuid): (&str, &str)| Device {
                name: name.into(),
                attributes: [("uuid".into(), AttrValue::String(uuid.into()))].into_iter().collect(),
                ..Device::default()
            };
            fleet.apply(Input::Slice(Arc::new(ResourceSlice {
                name: format!("{driver}-{pool}").into(),
                driver: driver.into(),
                pool: PoolSpec { name: pool.into(), generation: 1, slice_count: 1 },
                nodes: NodeScope::Node(pool.into()),
                devices: devices.into_iter().map(device).collect(),
                ..ResourceSlice::default()
            })));
        }
        let row = identities(&fleet.snapshot());
        let wanted = "gpu.example.com/node-1/gpu-0 and gpu.example.com/node-2/gpu-0 (uuid a)";
        assert_eq!((row.state, row.detail.as_str()), (State::Warning, wanted));
    }
}
