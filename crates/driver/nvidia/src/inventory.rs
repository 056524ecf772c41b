//! The published devices: names, attributes and capacities of NVIDIA's own driver, so that existing classes and selectors work.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::resource::v1::{
        Counter, CounterSet, Device, DeviceAttribute, DeviceCapacity, DeviceCounterConsumption,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use lazaret_driver::Pool;
use lazaret_nvml::{Facts, Partition, Placement, Profile};

/// How cards are split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitions {
    /// As they are: whole cards, and partitions that an administrator has made.
    #[default]
    Static,
    /// When a claim is prepared, and made whole again afterwards.
    Dynamic,
}

/// A card, and what can be given out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Its properties, from NVML.
    pub facts: Facts,
    /// Where it is connected, as Kubernetes names it: `pci0000:00`.
    pub pcie_root: Option<String>,
    /// The NUMA node that it is nearest to; absent where the kernel does not know.
    pub numa_node: Option<i64>,
    /// Partitions that are made for claims; empty where none are.
    pub profiles: Vec<Profile>,
    /// Partitions that it can have, as far as NVML was asked.
    pub known: Vec<Profile>,
    /// Partitions that an administrator has made.
    pub made: Vec<Partition>,
}

/// The driver's and CUDA's versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// `580.159.04`.
    pub driver: String,
    /// Major and minor.
    pub cuda: (i32, i32),
}

/// The device that a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedDevice<'a> {
    /// The whole card.
    Whole(&'a Gpu),
    /// A partition that an administrator has made.
    Made(&'a Gpu, &'a Partition),
    /// A partition that can be made.
    Possible(&'a Gpu, &'a Profile, Placement),
}

impl Gpu {
    /// The name of the whole card.
    #[must_use]
    pub fn name(&self) -> String {
        format!("gpu-{}", self.facts.minor)
    }

    fn partition_name(&self, profile: &Profile, placement: Placement) -> String {
        let short: String =
            profile.name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        format!("{}-mig-{short}-{}-{}", self.name(), profile.id, placement.start)
    }

    fn made_name(&self, partition: &Partition) -> String {
        let name = format!("{}-mig-{}-{}", self.name(), partition.profile, partition.placement.start);
        // An administrator may have divided a GPU instance once more.
        if partition.compute_instance == 0 { name } else { format!("{name}-{}", partition.compute_instance) }
    }

    /// The profile of a partition that an administrator has made, if it is all of its GPU instance.
    fn profile_of(&self, partition: &Partition) -> Option<&Profile> {
        let mut others = self.made.iter().filter(|other| other.uuid != partition.uuid);
        let is_divided = others.any(|other| other.gpu_instance == partition.gpu_instance);
        self.known.iter().find(|profile| profile.id == partition.profile).filter(|_| !is_divided)
    }

    /// The device that is a GPU instance and a compute instance of it, among the partitions that there are.
    #[must_use]
    pub fn device_of(
        &self,
        gpu_instance: u32,
        compute_instance: Option<u32>,
        there: &[Partition],
    ) -> Option<String> {
        let is_meant = |part: &Partition| {
            let is_compute = compute_instance.is_none_or(|compute| compute == part.compute_instance);
            part.gpu_instance == gpu_instance && is_compute
        };
        let found = there.iter().find(|part| is_meant(part))?;
        let mut devices = self.devices().into_iter();
        let device = devices.find(|(_, meaning)| match meaning {
            NamedDevice::Whole(_) => false,
            NamedDevice::Made(_, part) => part.uuid == found.uuid,
            NamedDevice::Possible(_, profile, placement) => {
                (profile.id, *placement) == (found.profile, found.placement)
            }
        });
        device.map(|(name, _)| name)
    }

    fn counter_set(&self) -> String {
        format!("{}-counter-set", self.name())
    }

    /// Whether it is given out whole: it is not split by hand.
    fn is_whole(&self) -> bool {
        self.facts.is_partitioned != Some(true) || !self.profiles.is_empty()
    }

    /// The names of all devices of this card with what they mean.
    #[must_use]
    pub fn devices(&self) -> Vec<(String, NamedDevice<'_>)> {
        let mut all = Vec::new();
        if self.is_whole() {
            all.push((self.name(), NamedDevice::Whole(self)));
        }
        all.extend(self.made.iter().map(|part| (self.made_name(part), NamedDevice::Made(self, part))));
        for profile in &self.profiles {
            for placement in &profile.placements {
                let name = self.partition_name(profile, *placement);
                all.push((name, NamedDevice::Possible(self, profile, *placement)));
            }
        }
        all
    }
}

/// The pool of a node.
#[must_use]
pub fn pool(gpus: &[Gpu], versions: &Versions) -> Pool {
    let devices = gpus.iter().flat_map(Gpu::devices);
    let devices = devices.map(|(name, meaning)| device(name, &meaning, versions)).collect();
    let shared_counters = gpus.iter().filter(|gpu| !gpu.profiles.is_empty()).map(|gpu| CounterSet {
        name: gpu.counter_set(),
        counters: counters(&whole_capacity(gpu), 0, memory_slices(gpu)),
    });
    Pool { shared_counters: shared_counters.collect(), ..Pool::of(devices) }
}

fn device(name: String, meaning: &NamedDevice<'_>, versions: &Versions) -> Device {
    let (gpu, kind, uuid, profile) = match meaning {
        NamedDevice::Whole(gpu) => (gpu, "gpu", Some(gpu.facts.uuid.clone()), None),
        NamedDevice::Made(gpu, part) => {
            let profile = gpu.profile_of(part).map(|profile| profile.name.clone());
            (gpu, "mig", Some(part.uuid.clone()), profile)
        }
        NamedDevice::Possible(gpu, profile, _) => (gpu, "mig", None, Some(profile.name.clone())),
    };
    let facts = &gpu.facts;
    let text = |text: &str| DeviceAttribute { string: Some(text.into()), ..DeviceAttribute::default() };
    let version = |text: String| DeviceAttribute { version: Some(text), ..DeviceAttribute::default() };
    let (major, minor) = facts.compute_capability;
    let mut attributes = BTreeMap::from([
        ("type".to_owned(), text(kind)),
        ("productName".to_owned(), text(&facts.product)),
        ("brand".to_owned(), text(&facts.brand)),
        ("architecture".to_owned(), text(&facts.architecture)),
        ("cudaComputeCapability".to_owned(), version(format!("{major}.{minor}.0"))),
        ("driverVersion".to_owned(), version(semantic(&versions.driver))),
        ("cudaDriverVersion".to_owned(), version(format!("{}.{}.0", versions.cuda.0, versions.cuda.1))),
        ("resource.kubernetes.io/pciBusID".to_owned(), text(&facts.pci_address)),
    ]);
    if let Some(root) = &gpu.pcie_root {
        attributes.insert("resource.kubernetes.io/pcieRoot".into(), text(root));
    }
    if let Some(node) = gpu.numa_node {
        let number = DeviceAttribute { int: Some(node), ..DeviceAttribute::default() };
        attributes.insert("resource.kubernetes.io/numaNode".into(), number);
    }
    if let Some(uuid) = uuid {
        attributes.insert("uuid".into(), text(&uuid));
    }
    if kind == "mig" {
        attributes.insert("parentUUID".into(), text(&facts.uuid));
    }
    if let Some(profile) = profile {
        attributes.insert("profile".into(), text(&profile));
    }
    let (capacity, first, slices) = match meaning {
        NamedDevice::Whole(gpu) => (whole_capacity(gpu), 0, memory_slices(gpu)),
        NamedDevice::Possible(_, profile, placement) => {
            (partition_capacity(profile), placement.start, placement.size)
        }
        NamedDevice::Made(gpu, part) => {
            (gpu.profile_of(part).map(partition_capacity).unwrap_or_default(), 0, 0)
        }
    };
    let consumes = (!gpu.profiles.is_empty()).then(|| {
        vec![DeviceCounterConsumption {
            counter_set: gpu.counter_set(),
            counters: counters(&capacity, first, slices),
            compatibility_groups: None,
        }]
    });
    let capacity = capacity.into_iter().map(|(name, value)| {
        let value = if name == "memory" { mebibytes(value) } else { Quantity(value.to_string()) };
        (name.to_owned(), DeviceCapacity { value, request_policy: None })
    });
    Device {
        name,
        attributes: Some(attributes),
        capacity: Some(capacity.collect()),
        consumes_counters: consumes,
        ..Device::default()
    }
}

/// By name; memory in MiB.
type Capacity = BTreeMap<&'static str, u64>;

fn partition_capacity(profile: &Profile) -> Capacity {
    BTreeMap::from([
        ("multiprocessors", profile.multiprocessors.into()),
        ("copyEngines", profile.copy_engines.into()),
        ("decoders", profile.decoders.into()),
        ("encoders", profile.encoders.into()),
        ("jpegEngines", profile.jpeg_engines.into()),
        ("ofaEngines", profile.ofa_engines.into()),
        ("memory", profile.memory_mib),
    ])
}

/// Of a card that can be split, the most of everything that a partition has; no partition has more than the card.
fn whole_capacity(gpu: &Gpu) -> Capacity {
    let mut most = Capacity::from([("memory", gpu.facts.memory_bytes >> 20)]);
    for profile in &gpu.profiles {
        for (name, value) in partition_capacity(profile) {
            let most = most.entry(name).or_default();
            *most = (*most).max(value);
        }
    }
    most
}

fn memory_slices(gpu: &Gpu) -> u32 {
    let places = gpu.profiles.iter().flat_map(|profile| &profile.placements);
    places.map(|place| place.start + place.size).max().unwrap_or(0)
}

fn counters(capacity: &Capacity, first: u32, slices: u32) -> BTreeMap<String, Counter> {
    let of_capacity = capacity.iter().map(|(name, value)| {
        let value = if *name == "memory" { mebibytes(*value) } else { Quantity(value.to_string()) };
        (dashed(name), Counter { value })
    });
    let slices = (first..first + slices)
        .map(|slice| (format!("memory-slice-{slice}"), Counter { value: Quantity("1".into()) }));
    of_capacity.chain(slices).collect()
}

/// `copyEngines` as the name of a counter: `copy-engines`.
fn dashed(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn mebibytes(count: u64) -> Quantity {
    Quantity(format!("{count}Mi"))
}

/// `580.159.04` is no semantic version: its numbers have leading zeros.
fn semantic(version: &str) -> String {
    let mut parts: Vec<u64> = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    parts.resize(3, 0);
    format!("{}.{}.{}", parts[0], parts[1], parts[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split() -> Gpu {
        let profile = |id, name: &str, multiprocessors, size, starts: &[u32]| Profile {
            id,
            name: name.into(),
            slices: size,
            count_max: 1,
            memory_mib: u64::from(size) * 16_384,
            multiprocessors,
            copy_engines: size,
            decoders: size,
            encoders: 0,
            jpeg_engines: size,
            ofa_engines: 0,
            placements: starts.iter().map(|start| Placement { start: *start, size }).collect(),
        };
        let facts = Facts {
            uuid: "GPU-1".into(),
            minor: 2,
            memory_bytes: 143_771 << 20,
            is_partitioned: Some(false),
            compute_capability: (9, 0),
            ..Facts::default()
        };
        let profiles = vec![profile(19, "1g.18gb", 16, 1, &[0, 1, 2]), profile(9, "3g.71gb", 60, 4, &[0, 4])];
        Gpu { facts, profiles, ..Gpu::default() }
    }

    #[test]
    fn partitions_share_the_slices_of_their_card() {
        let pool = pool(&[split()], &Versions { driver: "580.159.04".into(), cuda: (13, 0) });
        let names: Vec<&str> = pool.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "gpu-2",
                "gpu-2-mig-1g18gb-19-0",
                "gpu-2-mig-1g18gb-19-1",
                "gpu-2-mig-1g18gb-19-2",
                "gpu-2-mig-3g71gb-9-0",
                "gpu-2-mig-3g71gb-9-4",
            ]
        );
        let set = &pool.shared_counters[0];
        assert_eq!(set.name, "gpu-2-counter-set");
        for device in &pool.devices {
            let consumed = &device.consumes_counters.as_ref().unwrap()[0];
            assert_eq!(consumed.counter_set, set.name);
            for name in consumed.counters.keys() {
                assert!(set.counters.contains_key(name), "{}: {name}", device.name);
            }
        }
        let whole = pool.devices[0].consumes_counters.as_ref().unwrap()[0].counters.clone();
        assert_eq!(whole, set.counters, "the whole card takes everything");
        let last = &pool.devices[5].consumes_counters.as_ref().unwrap()[0].counters;
        assert!(last.contains_key("memory-slice-7") && !last.contains_key("memory-slice-3"));
        let attributes = pool.devices[0].attributes.as_ref().unwrap();
        assert_eq!(attributes["driverVersion"].version.as_deref(), Some("580.159.4"));
        assert_eq!(attributes["cudaComputeCapability"].version.as_deref(), Some("9.0.0"));
    }

    #[test]
    fn a_card_that_somebody_split_is_not_given_out_whole() {
        let mut gpu = split();
        gpu.profiles.clear();
        gpu.facts.is_partitioned = Some(true);
        gpu.made.push(Partition {
            uuid: "MIG-1".into(),
            gpu_instance: 7,
            compute_instance: 0,
            profile: 19,
            placement: Placement { start: 3, size: 1 },
        });
        let devices = gpu.devices();
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].0, "gpu-2-mig-19-3");
    }

    #[test]
    fn a_gpu_instance_that_somebody_divided_has_devices_of_different_names_and_no_capacities() {
        let mut gpu = split();
        gpu.known = std::mem::take(&mut gpu.profiles);
        gpu.facts.is_partitioned = Some(true);
        let part = |uuid: &str, gpu_instance, compute_instance, start| Partition {
            uuid: uuid.into(),
            gpu_instance,
            compute_instance,
            profile: 19,
            placement: Placement { start, size: 1 },
        };
        gpu.made = vec![part("MIG-1", 7, 0, 0), part("MIG-2", 7, 1, 0), part("MIG-3", 8, 0, 1)];
        let pool = pool(&[gpu.clone()], &Versions::default());
        let of = |device: &Device| (device.name.clone(), device.capacity.as_ref().map_or(0, BTreeMap::len));
        let found: Vec<(String, usize)> = pool.devices.iter().map(of).collect();
        let wanted = [("gpu-2-mig-19-0", 0), ("gpu-2-mig-19-0-1", 0), ("gpu-2-mig-19-1", 7)];
        assert_eq!(found, wanted.map(|(name, count)| (name.to_owned(), count)));
        for (instance, compute, wanted) in [
            (7, Some(1), Some("gpu-2-mig-19-0-1")),
            (8, None, Some("gpu-2-mig-19-1")),
            (8, Some(1), None),
            (9, None, None),
        ] {
            assert_eq!(gpu.device_of(instance, compute, &gpu.made).as_deref(), wanted, "{instance}");
        }
    }
}
