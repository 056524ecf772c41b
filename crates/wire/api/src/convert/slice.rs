//! Slices and devices.

use lazaret_model::{
    AttrValue, CapacityValue, CounterConsumption, CounterSet, Device, NodeAllocatable, NodeMapping,
    NodeScope, PoolSpec, Quantity, RequestPolicy, ResourceSlice, SliceTaint, Text, ValidRange, VersionValue,
};

use super::{Result, Version, each, each_value, meta, non_empty, required, rule, some, superset, texts};
use crate::{field::Path, wire};

pub(crate) fn slice(wire: wire::ResourceSlice, version: Version) -> Result<ResourceSlice> {
    let mut metadata = wire.metadata.0;
    let mut spec = wire.spec.0;
    let mut taints_in = version;
    if let Some(said) = superset::annotated::<wire::SliceSpec>(&metadata, version)? {
        (spec.taints, taints_in) = (said.taints, Version::V1Alpha3);
    }
    let root = Path::ROOT;
    let path = root.field("spec");
    if !spec.taints.0.is_empty() {
        taints_in.superset_only(&path.field("taints"))?;
        if !spec.devices.0.is_empty() {
            return Err(path.error("has either devices or taints, not both"));
        }
    }
    let pool_path = path.field("pool");
    let pool = spec.pool.0;
    let nodes = NodeChoice {
        name: non_empty(spec.node_name.0),
        selector: spec.node_selector,
        all: spec.all_nodes.0,
        per_device: spec.per_device_node_selection.0,
    };
    let taint = |wire: wire::SliceTaint, path: &Path<'_>| {
        let mut taint = rule::taint(wire.taint.0, taints_in, &path.field("taint"))?;
        rule::default_pace(&mut taint, version, &metadata);
        Ok(SliceTaint { device: required(wire.device.0, &path.field("device"))?, taint })
    };
    let taints = each(spec.taints.0, &path.field("taints"), taint)?;
    Ok(ResourceSlice {
        name: meta::name(&mut metadata)?,
        uid: metadata.uid.0.into(),
        driver: required(spec.driver.0, &path.field("driver"))?,
        pool: PoolSpec {
            name: required(pool.name.0, &pool_path.field("name"))?,
            generation: at_least(0, pool.generation.0, &pool_path.field("generation"))?,
            slice_count: at_least(1, pool.resource_slice_count.0, &pool_path.field("resourceSliceCount"))?,
        },
        nodes: nodes.decide(&path)?.unwrap_or_default(),
        devices: each(spec.devices.0, &path.field("devices"), |wire, path| device(wire, version, path))?,
        shared_counters: each(spec.shared_counters.0, &path.field("sharedCounters"), counter_set)?,
        taints,
        skip_node_operations: texts(spec.skip_node_operations.0),
    })
}

fn at_least(least: i64, value: i64, path: &Path<'_>) -> Result<i64> {
    if value < least { Err(path.error(format!("must be at least {least}, not {value}"))) } else { Ok(value) }
}

/// The ways to say from where devices can be reached. One is to be chosen.
struct NodeChoice {
    name: Option<Text>,
    selector: Option<wire::NodeSelector>,
    all: bool,
    per_device: bool,
}

impl NodeChoice {
    fn decide(self, path: &Path<'_>) -> Result<Option<NodeScope>> {
        let mut choices = [
            self.name.map(NodeScope::Node),
            self.selector.map(|selector| NodeScope::Selector(meta::node_selector(selector))),
            self.all.then_some(NodeScope::All),
            self.per_device.then_some(NodeScope::PerDevice),
        ]
        .into_iter()
        .flatten();
        let choice = choices.next();
        if choices.next().is_some() {
            let names = "nodeName, nodeSelector, allNodes, perDeviceNodeSelection";
            return Err(path.error(format!("has more than one of {names}")));
        }
        Ok(choice)
    }
}

fn device(wire: wire::Device, version: Version, path: &Path<'_>) -> Result<Device> {
    let name = required(wire.name.0.clone(), &path.field("name"))?;
    match (version, wire.basic) {
        (Version::V1Beta1, Some(basic)) => device_fields(name, *basic, version, &path.field("basic")),
        // A kind of device that this version does not know: it has a name and nothing to select it by.
        (Version::V1Beta1, None) => Ok(Device { name, ..Device::default() }),
        (Version::V1 | Version::V1Beta2 | Version::V1Alpha3, _) => {
            device_fields(name, wire::Device { basic: None, ..wire }, version, path)
        }
    }
}

fn device_fields(name: Text, wire: wire::Device, version: Version, path: &Path<'_>) -> Result<Device> {
    let nodes = NodeChoice {
        name: non_empty(wire.node_name.0),
        selector: wire.node_selector,
        all: wire.all_nodes.0,
        per_device: false,
    };
    Ok(Device {
        name,
        attributes: each_value(wire.attributes.0, &path.field("attributes"), attribute)?,
        capacity: each_value(wire.capacity.0, &path.field("capacity"), capacity)?,
        consumes_counters: each(wire.consumes_counters.0, &path.field("consumesCounters"), consumption)?,
        nodes: nodes.decide(path)?,
        taints: each(wire.taints.0, &path.field("taints"), |wire, path| rule::taint(wire, version, path))?,
        binds_to_node: wire.binds_to_node.0,
        binding_conditions: wire.binding_conditions.map(texts),
        binding_failure_conditions: wire.binding_failure_conditions.map(texts),
        allow_multiple_allocations: wire.allow_multiple_allocations,
        node_allocatable: wire
            .node_allocatable_resources
            .0
            .into_iter()
            .map(|(resource, wire)| (resource.into(), node_allocatable(wire)))
            .collect(),
    })
}

fn node_allocatable(wire: wire::NodeAllocatable) -> NodeAllocatable {
    let mapping = wire.mapping.and_then(|mapping| match non_empty(mapping.capacity_key.0) {
        Some(key) => {
            let multiplier = mapping.capacity_multiplier.map(|amount| amount.0);
            Some(NodeMapping::Capacity { key, multiplier })
        }
        None => mapping.device_multiplier.map(|amount| NodeMapping::PerDevice(amount.0)),
    });
    let overhead = wire.overhead.unwrap_or_default();
    NodeAllocatable {
        mapping,
        per_pod: overhead.per_pod.map(|amount| amount.0),
        per_container: overhead.per_container.map(|amount| amount.0),
    }
}

pub(super) fn attribute(wire: wire::Attribute, path: &Path<'_>) -> Result<AttrValue> {
    let versions = |list: Vec<String>| list.iter().map(|text| VersionValue::new(text)).collect();
    let mut values = [
        wire.int.map(AttrValue::Int),
        wire.bool.map(AttrValue::Bool),
        wire.string.map(|text| AttrValue::String(text.into())),
        wire.version.map(|text| AttrValue::Version(VersionValue::new(&text))),
        listed(wire.ints.0).map(|list| AttrValue::Ints(list.into())),
        listed(wire.bools.0).map(|list| AttrValue::Bools(list.into())),
        listed(wire.strings.0).map(|list| AttrValue::Strings(texts(list).into())),
        listed(wire.versions.0).map(|list| AttrValue::Versions(versions(list))),
    ]
    .into_iter()
    .flatten();
    let value = values.next();
    if values.next().is_some() {
        return Err(path.error("has more than one value"));
    }
    Ok(value.unwrap_or(AttrValue::Unsupported))
}

/// The value of an attribute outside of a slice.
pub(crate) fn attribute_of(wire: wire::Attribute) -> Option<AttrValue> {
    attribute(wire, &Path::ROOT).ok()
}

/// An amount outside of a slice.
pub(crate) fn capacity_of(wire: wire::Capacity) -> Option<CapacityValue> {
    capacity(wire, &Path::ROOT).ok()
}

fn listed<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

pub(super) fn capacity(wire: wire::Capacity, path: &Path<'_>) -> Result<CapacityValue> {
    Ok(CapacityValue {
        value: some(wire.value, &path.field("value"))?.0,
        policy: wire
            .request_policy
            .map(|policy| request_policy(policy, &path.field("requestPolicy")))
            .transpose()?,
    })
}

fn request_policy(wire: wire::RequestPolicy, path: &Path<'_>) -> Result<RequestPolicy> {
    if !wire.valid_values.0.is_empty() && wire.valid_range.is_some() {
        return Err(path.error("has either validValues or validRange, not both"));
    }
    Ok(RequestPolicy {
        default: wire.default.map(|amount| amount.0),
        valid_values: wire.valid_values.0.into_iter().map(|amount| amount.0).collect(),
        valid_range: wire.valid_range.map(|range| ValidRange {
            min: range.min.map(|amount| amount.0),
            max: range.max.map(|amount| amount.0),
            step: range.step.map(|amount| amount.0),
        }),
    })
}

fn consumption(wire: wire::CounterConsumption, path: &Path<'_>) -> Result<CounterConsumption> {
    Ok(CounterConsumption {
        counter_set: required(wire.counter_set.0, &path.field("counterSet"))?,
        counters: each_value(wire.counters.0, &path.field("counters"), counter)?,
        compatibility_groups: texts(wire.compatibility_groups.0),
    })
}

fn counter_set(wire: wire::CounterSet, path: &Path<'_>) -> Result<CounterSet> {
    Ok(CounterSet {
        name: required(wire.name.0, &path.field("name"))?,
        counters: each_value(wire.counters.0, &path.field("counters"), counter)?,
    })
}

fn counter(wire: wire::Counter, path: &Path<'_>) -> Result<Quantity> {
    Ok(some(wire.value, &path.field("value"))?.0)
}
