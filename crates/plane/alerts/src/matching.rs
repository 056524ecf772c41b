//! Which device the labels of an alert name.

use serde_json::{Map, Value};

use crate::payload::Alert;

/// The identity of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Device {
    pub(crate) driver: String,
    pub(crate) pool: String,
    pub(crate) device: String,
}

/// How an alert names its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// In full.
    Device(Device),
    /// By its node, and by what distinguishes it there.
    OnNode(String, Mark),
}

/// The label that distinguishes a device on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Uuid(String),
    PciBusId(String),
    /// Its number among the GPUs of the node.
    Index(i64),
}

impl Named {
    /// By `driver`, `pool` and `device`; or by `node` (`Hostname`) and `uuid` (`UUID`), `pci_bus_id` or `gpu`, as DCGM's exporter labels them. The first that
    /// is there counts.
    pub(crate) fn of(alert: &Alert) -> Option<Self> {
        if let (Some(driver), Some(pool), Some(device)) =
            (alert.label("driver"), alert.label("pool"), alert.label("device"))
        {
            let (driver, pool, device) = (driver.to_owned(), pool.to_owned(), device.to_owned());
            return is_device_name(&driver, &pool, &device).then_some(Self::Device(Device {
                driver,
                pool,
                device,
            }));
        }
        let node =
            alert.label("node").or_else(|| alert.label("Hostname")).filter(|node| is_name(node, 253))?;
        let uuid =
            || alert.label("uuid").or_else(|| alert.label("UUID")).map(|uuid| Mark::Uuid(uuid.to_owned()));
        let bus = || alert.label("pci_bus_id").map(|bus| Mark::PciBusId(bus_id(bus)));
        let index = || alert.label("gpu")?.parse().ok().map(Mark::Index);
        Some(Self::OnNode(node.to_owned(), uuid().or_else(bus).or_else(index)?))
    }
}

fn is_name(text: &str, bytes_max: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    !text.is_empty() && text.len() <= bytes_max && text.chars().all(is_plain)
}

fn is_device_name(driver: &str, pool: &str, device: &str) -> bool {
    is_name(driver, 63)
        && pool.split('/').all(|part| is_name(part, 253))
        && pool.len() <= 253
        && is_name(device, 63)
}

/// A bus address as Kubernetes writes it, `0000:3b:00.0`: tools of NVIDIA write more zeros, and capitals.
fn bus_id(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 && domain.is_ascii() => {
            format!("{}:{rest}", &domain[domain.len() - 4..])
        }
        Some(_) | None => text,
    }
}

impl Mark {
    /// The devices of these slices that have it, each once.
    pub(crate) fn devices(&self, slices: &[Value]) -> Vec<Device> {
        let mut found = Vec::new();
        for slice in slices {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (driver, pool) = (text(&slice["spec"]["driver"]), text(&slice["spec"]["pool"]["name"]));
            for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
                let name = text(&device["name"]);
                if device["attributes"].as_object().is_some_and(|attributes| self.is_of(attributes)) {
                    found.push(Device { driver: driver.clone(), pool: pool.clone(), device: name });
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    fn is_of(&self, attributes: &Map<String, Value>) -> bool {
        let mut named =
            attributes.iter().map(|(name, value)| (name.rsplit('/').next().unwrap_or_default(), value));
        named.any(|(name, value)| match self {
            Self::Uuid(uuid) => name.eq_ignore_ascii_case("uuid") && value["string"] == **uuid,
            Self::PciBusId(bus) => {
                name.eq_ignore_ascii_case("pciBusID")
                    && value["string"].as_str().is_some_and(|text| bus_id(text) == *bus)
            }
            Self::Index(index) => matches!(name, "index" | "gpuIndex") && value["int"] == *index,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(labels: &Value) -> Option<Named> {
        Named::of(&serde_json::from_value(json!({"status": "firing", "labels": labels})).unwrap())
    }

    #[test]
    fn labels_name_a_device_in_full_or_as_the_exporter_does() {
        let device = |pool: &str| {
            Some(Named::Device(Device { driver: "gpu.x".into(), pool: pool.into(), device: "gpu-0".into() }))
        };
        let node = |mark| Some(Named::OnNode("node-1".into(), mark));
        let rows = [
            (json!({"driver": "gpu.x", "pool": "node-1", "device": "gpu-0", "uuid": "u"}), device("node-1")),
            (json!({"driver": "gpu.x", "pool": "a/b", "device": "gpu-0"}), device("a/b")),
            (json!({"driver": "GPU X", "pool": "p", "device": "gpu-0"}), None),
            // DCGM's own label `device` is no name of a device here.
            (
                json!({"device": "nvidia0", "Hostname": "node-1", "UUID": "GPU-1", "gpu": "0"}),
                node(Mark::Uuid("GPU-1".into())),
            ),
            (
                json!({"node": "node-1", "pci_bus_id": "00000000:3B:00.0", "gpu": "0"}),
                node(Mark::PciBusId("0000:3b:00.0".into())),
            ),
            (json!({"node": "node-1", "gpu": "3"}), node(Mark::Index(3))),
            (json!({"node": "node-1", "gpu": "x"}), None),
            (json!({"node": "node-1"}), None),
            (json!({"node": "a&fieldSelector=", "gpu": "1"}), None),
            (json!({"uuid": "GPU-1"}), None),
        ];
        for (labels, expected) in rows {
            assert_eq!(named(&labels), expected, "{labels}");
        }
    }

    #[test]
    fn attributes_are_compared_whatever_their_domain() {
        let slice = json!({"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [
            {"name": "a", "attributes": {"uuid": {"string": "GPU-1"}, "index": {"int": 0}}},
            {"name": "b", "attributes": {
                "gpu.x/uuid": {"string": "GPU-2"}, "gpu.x/index": {"int": 1},
                "resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"},
            }},
            {"name": "c"},
        ]}});
        let names = |mark: Mark| -> Vec<String> {
            let slices = [slice.clone(), slice.clone()];
            mark.devices(&slices).into_iter().map(|device| device.device).collect()
        };
        assert_eq!(names(Mark::Uuid("GPU-2".into())), ["b"]);
        assert_eq!(names(Mark::PciBusId("0000:3b:00.0".into())), ["b"]);
        assert_eq!(names(Mark::Index(0)), ["a"]);
        assert!(names(Mark::Uuid("GPU-3".into())).is_empty());
    }
}
