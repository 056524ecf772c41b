//! GPUs that are not there.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::resource::v1::{Device, DeviceAttribute, DeviceCapacity},
    apimachinery::pkg::api::resource::Quantity,
};

/// A simulated GPU. Its UUID stays the same whatever it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Under which it is published.
    pub name: String,
    /// What it is.
    pub uuid: String,
    /// Which of the node.
    pub index: i64,
}

/// The GPUs of a node: always the same for the same node.
#[must_use]
pub fn gpus(node: &str, count: usize) -> Vec<Gpu> {
    let make = |index: usize| Gpu {
        name: format!("gpu-{index}"),
        uuid: uuid(node, index),
        index: i64::try_from(index).unwrap_or(i64::MAX),
    };
    (0..count).map(make).collect()
}

impl Gpu {
    /// As it is published.
    #[must_use]
    pub fn device(&self) -> Device {
        let text = |text: &str| DeviceAttribute { string: Some(text.into()), ..DeviceAttribute::default() };
        let attributes = BTreeMap::from([
            ("index".into(), DeviceAttribute { int: Some(self.index), ..DeviceAttribute::default() }),
            ("uuid".into(), text(&self.uuid)),
            ("model".into(), text("Simulated-80G")),
            (
                "driverVersion".into(),
                DeviceAttribute { version: Some("1.0.0".into()), ..DeviceAttribute::default() },
            ),
        ]);
        let memory = DeviceCapacity { value: Quantity("80Gi".into()), request_policy: None };
        Device {
            name: self.name.clone(),
            attributes: Some(attributes),
            capacity: Some([("memory".into(), memory)].into()),
            ..Device::default()
        }
    }
}

/// Two FNV hashes of node and number, in the form of a UUID.
fn uuid(node: &str, index: usize) -> String {
    let fold = |seed: u64| {
        let bytes = node.bytes().chain(index.to_le_bytes());
        bytes.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (high, low) = (fold(0xcbf2_9ce4_8422_2325), fold(0x8422_2325_cbf2_9ce4));
    format!(
        "gpu-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
