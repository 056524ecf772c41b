//! Devices that are not there.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::resource::v1::{
        CapacityRequestPolicy, CapacityRequestPolicyRange, Counter, CounterSet, Device, DeviceAttribute,
        DeviceCapacity, DeviceCounterConsumption, NetworkDeviceData,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use lazaret_driver::{DeviceMetadata, Pool};

/// On every device: an administrator may make it fail by an annotation of its Node.
pub const FAILS_ON_COMMAND: &str = "driver.lazaret.dev/failsOnCommand";
/// The counter that parts of devices consume.
const SLOTS: &str = "slots";

/// Which kind of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// GPUs with memory.
    #[default]
    Gpu,
    /// Network interfaces with bandwidth, and addresses that containers can read.
    Nic,
    /// FPGAs with logic cells.
    Fpga,
}

impl Profile {
    /// In names of devices, CDI kinds and UUIDs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Nic => "nic",
            Self::Fpga => "fpga",
        }
    }

    fn model(self) -> &'static str {
        match self {
            Self::Gpu => "Simulated-80G",
            Self::Nic => "Simulated-100G",
            Self::Fpga => "Simulated-2M",
        }
    }

    /// The capacity of a device: its name, the amount in small units, that unit, and the smallest amount that a
    /// share may have.
    fn amount(self) -> (&'static str, u64, &'static str, &'static str) {
        match self {
            Self::Gpu => ("memory", 80 << 10, "Mi", "1Gi"),
            Self::Nic => ("bandwidth", 100_000, "M", "1G"),
            Self::Fpga => ("logicCells", 2_000, "k", "100k"),
        }
    }
}

/// Which devices a node has. Unless said otherwise they are whole, for one claim at a time, and usable at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Of which kind.
    pub profile: Profile,
    /// Into how many parts each can be divided, 0 or 1: it cannot. Whole devices and parts are published side by side;
    /// counters see to it that only one or the other is used.
    pub partitions: u16,
    /// Whether several claims share a device, each with an amount of its capacity.
    pub is_shared: bool,
    /// Whether a device has to be made ready before a pod that got it is bound to the node.
    pub has_binding_conditions: bool,
}

/// A simulated device, or a part of one. Its UUID stays the same whatever it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Under which it is published.
    pub name: String,
    /// Its identifier. That of a part begins with that of the whole.
    pub uuid: String,
    /// Which of the node.
    pub index: u16,
    /// Of a part: the name of the whole, and which part it is.
    pub part: Option<(String, u16)>,
}

/// The devices of a node: always the same for the same node.
#[must_use]
pub fn units(node: &str, count: u16, shape: &Shape) -> Vec<Unit> {
    let mut units = Vec::new();
    for index in 0..count {
        let name = format!("{}-{index}", shape.profile.word());
        let whole = Unit { uuid: uuid(shape.profile, node, index), index, part: None, name };
        let parts = if shape.partitions > 1 { shape.partitions } else { 0 };
        let part = |number: u16| Unit {
            name: format!("{}-part-{number}", whole.name),
            uuid: format!("{}/{number}", whole.uuid),
            index,
            part: Some((whole.name.clone(), number)),
        };
        let parts: Vec<Unit> = (0..parts).map(part).collect();
        units.push(whole);
        units.extend(parts);
    }
    units
}

impl Unit {
    /// Whether both cannot be used at once: they are the same, or one is a part of the other.
    #[must_use]
    pub fn overlaps(uuid: &str, other: &str) -> bool {
        let is_part = |part: &str, whole: &str| {
            part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_part(uuid, other) || is_part(other, uuid)
    }

    /// As it is published by this driver.
    #[must_use]
    pub fn device(&self, driver: &str, shape: &Shape) -> Device {
        let (name, total, unit, least) = shape.profile.amount();
        let own = if self.part.is_some() { total / u64::from(shape.partitions.max(1)) } else { total };
        let quantity = |text: &str| Quantity(text.to_owned());
        let policy = CapacityRequestPolicy {
            default: Some(quantity(least)),
            valid_range: Some(CapacityRequestPolicyRange {
                min: quantity(least),
                step: Some(quantity(least)),
                max: None,
            }),
            valid_values: None,
        };
        let capacity = DeviceCapacity {
            value: Quantity(format!("{own}{unit}")),
            request_policy: shape.is_shared.then_some(policy),
        };
        let condition = |word: &str| shape.has_binding_conditions.then(|| vec![format!("{driver}/{word}")]);
        Device {
            name: self.name.clone(),
            attributes: Some(self.attributes(shape.profile)),
            capacity: Some([(name.to_owned(), capacity)].into()),
            allow_multiple_allocations: shape.is_shared.then_some(true),
            consumes_counters: (shape.partitions > 1).then(|| vec![self.consumption(shape)]),
            binds_to_node: shape.has_binding_conditions.then_some(true),
            binding_conditions: condition(READY),
            binding_failure_conditions: condition(NOT_READY),
            ..Device::default()
        }
    }

    fn attributes(&self, profile: Profile) -> BTreeMap<String, DeviceAttribute> {
        let text = |text: &str| DeviceAttribute { string: Some(text.into()), ..DeviceAttribute::default() };
        let number = |number: u16| DeviceAttribute { int: Some(number.into()), ..DeviceAttribute::default() };
        let mut attributes = BTreeMap::from([
            ("index".into(), number(self.index)),
            ("uuid".into(), text(&self.uuid)),
            ("model".into(), text(profile.model())),
            (
                "driverVersion".into(),
                DeviceAttribute { version: Some("1.0.0".into()), ..DeviceAttribute::default() },
            ),
            (FAILS_ON_COMMAND.into(), DeviceAttribute { bool: Some(true), ..DeviceAttribute::default() }),
        ]);
        if profile == Profile::Nic {
            attributes.insert("interface".into(), text(&self.interface()));
        }
        if let Some((whole, part)) = &self.part {
            attributes.insert("partOf".into(), text(whole));
            attributes.insert("part".into(), number(*part));
        }
        attributes
    }

    fn interface(&self) -> String {
        format!("sim{}", self.index)
    }

    /// The metadata that a container can read.
    #[must_use]
    pub fn metadata(&self, profile: Profile) -> DeviceMetadata {
        let index = self.index.to_be_bytes();
        let network = NetworkDeviceData {
            interface_name: Some(self.interface()),
            hardware_address: Some(format!("02:00:00:00:{:02x}:{:02x}", index[0], index[1])),
            ips: None,
        };
        DeviceMetadata {
            attributes: self.attributes(profile),
            network_data: (profile == Profile::Nic).then_some(network),
        }
    }

    fn consumption(&self, shape: &Shape) -> DeviceCounterConsumption {
        let slots = if self.part.is_some() { 1 } else { shape.partitions };
        DeviceCounterConsumption {
            counter_set: counter_set(shape, self.index),
            counters: [(SLOTS.to_owned(), Counter { value: Quantity(slots.to_string()) })].into(),
            ..DeviceCounterConsumption::default()
        }
    }
}

/// The condition that makes a device usable, and the one that says that it will not be, both after the driver's name.
pub(crate) const READY: &str = "ready";
pub(crate) const NOT_READY: &str = "not-ready";

/// The name of a whole device's counters: that of the start, whatever the device is called now.
fn counter_set(shape: &Shape, index: u16) -> String {
    format!("{}-{index}", shape.profile.word())
}

/// The pool of these devices, with the counters that they share.
#[must_use]
pub fn pool(driver: &str, units: &[Unit], shape: &Shape) -> Pool {
    let mut indexes: Vec<u16> = units.iter().map(|unit| unit.index).collect();
    indexes.sort_unstable();
    indexes.dedup();
    let counters = |index: u16| CounterSet {
        name: counter_set(shape, index),
        counters: [(SLOTS.to_owned(), Counter { value: Quantity(shape.partitions.to_string()) })].into(),
    };
    let shared_counters =
        if shape.partitions > 1 { indexes.into_iter().map(counters).collect() } else { Vec::new() };
    Pool { shared_counters, ..Pool::of(units.iter().map(|unit| unit.device(driver, shape)).collect()) }
}

/// Two FNV hashes of node and number, in the form of a UUID.
fn uuid(profile: Profile, node: &str, index: u16) -> String {
    let fold = |seed: u64| {
        let bytes = node.bytes().chain(usize::from(index).to_le_bytes());
        bytes.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (high, low) = (fold(0xcbf2_9ce4_8422_2325), fold(0x8422_2325_cbf2_9ce4));
    format!(
        "{}-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        profile.word(),
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
