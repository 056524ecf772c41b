//! The slices that the driver publishes.

use std::hash::{DefaultHasher, Hasher};

use lazaret_api::format_time;
use lazaret_model::{ResourceSlice, Taint, Text, Timestamp, Uid};
use serde_json::{Map, Value, json};

use crate::{
    failures::{Failure, Failures},
    options::HollowOptions,
};

/// The version that the devices say their driver has.
const DRIVER_VERSION: &str = "1.0.0";
/// Devices under one PCIe root.
const DEVICES_PER_ROOT: usize = 4;

/// The class of the driver's devices.
pub(crate) fn class(options: &HollowOptions) -> Value {
    options.labelled(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": &*options.driver},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{}'", options.driver)}}]},
    }))
}

/// The name of a node's slice. In the form that drivers give theirs, without the random part: there is just one.
pub(crate) fn slice_name(options: &HollowOptions, index: usize) -> String {
    format!("00000-{}-{}", options.driver, options.node_name(index))
}

/// The part of a published slice that is kept: a whole one with eight devices takes eight kilobytes, and there may be thousands.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) uid: Uid,
    pub(crate) version: Text,
    generation: i64,
    /// By device.
    taints: Vec<(Text, Taint)>,
    digest: u64,
}

impl Published {
    pub(crate) fn new(slice: &ResourceSlice, version: Text) -> Self {
        let of = |device: &lazaret_model::Device| {
            let name = device.name.clone();
            device.taints.iter().map(move |taint| (name.clone(), taint.clone())).collect::<Vec<_>>()
        };
        let taints = slice.devices.iter().flat_map(of).collect();
        let (uid, generation) = (slice.uid.clone(), slice.pool.generation);
        Self { uid, version, generation, taints, digest: digest(slice) }
    }

    /// Whether this slice tells the same of the same devices. When a taint was set is not compared.
    pub(crate) fn tells(&self, slice: &ResourceSlice) -> bool {
        self.digest == digest(slice)
    }
}

/// Of all that a slice says but its incarnation and when taints were set.
fn digest(slice: &ResourceSlice) -> u64 {
    let mut timeless = slice.clone();
    timeless.uid = Uid::default();
    let taints = timeless.devices.iter_mut().flat_map(|device| &mut device.taints);
    taints.for_each(|taint| taint.time_added = None);
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{timeless:?}").as_bytes());
    hasher.finish()
}

/// The slice of a node. Taints that `before` has as well keep their time.
pub(crate) fn slice(
    options: &HollowOptions,
    index: usize,
    node: &Uid,
    failures: &Failures,
    before: Option<&Published>,
) -> Value {
    let name = options.node_name(index);
    let devices: Vec<Value> = (0..options.devices)
        .map(|number| {
            let device = format!("gpu-{number}");
            let mut json = device_json(&name, number);
            if let Some(failure) = failures.get(&device) {
                json["taints"] =
                    Value::from(vec![taint(options, failure, set_at(options, &device, failure, before))]);
            }
            json
        })
        .collect();
    options.labelled(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(options, index),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": &**node, "controller": true},
            ],
        },
        "spec": {
            "driver": &*options.driver,
            "nodeName": name,
            // One slice is changed at once, so the pool is never seen half changed: no new generation.
            "pool": {
                "name": name,
                "generation": before.map_or(1, |before| before.generation.max(1)),
                "resourceSliceCount": 1,
            },
            "devices": devices,
        },
    }))
}

fn device_json(node: &str, number: usize) -> Value {
    let root = format!("pci0000:{:02x}", (number / DEVICES_PER_ROOT) * 0x40 % 0x100);
    json!({
        "name": format!("gpu-{number}"),
        "attributes": {
            "index": {"int": number},
            "model": {"string": "Hollow-80G"},
            "uuid": {"string": uuid(node, number)},
            "driverVersion": {"version": DRIVER_VERSION},
            "resource.kubernetes.io/pcieRoot": {"string": root},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    })
}

fn taint_key(options: &HollowOptions) -> String {
    format!("{}/unhealthy", options.driver)
}

fn taint(options: &HollowOptions, failure: &Failure, since: Option<Timestamp>) -> Value {
    let mut taint = Map::new();
    taint.insert("key".into(), taint_key(options).into());
    if !failure.reason.is_empty() {
        taint.insert("value".into(), failure.reason.as_str().into());
    }
    taint.insert("effect".into(), failure.effect.name().into());
    if let Some(since) = since {
        taint.insert("timeAdded".into(), format_time(since).into());
    }
    taint.into()
}

/// Since when the device has had this very taint.
fn set_at(
    options: &HollowOptions,
    device: &str,
    failure: &Failure,
    before: Option<&Published>,
) -> Option<Timestamp> {
    let same = |(of, taint): &&(Text, Taint)| {
        **of == *device
            && *taint.key == *taint_key(options)
            && *taint.value == *failure.reason
            && taint.effect.name() == failure.effect.name()
    };
    before?.taints.iter().find(same)?.1.time_added
}

/// The same for the same node and number, in the form of a UUID.
fn uuid(node: &str, number: usize) -> String {
    let fold = |seed: u64| {
        let bytes = node.bytes().chain(number.to_le_bytes());
        let hash = bytes.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let (high, low) = (fold(0xcbf2_9ce4_8422_2325), fold(0x8422_2325_cbf2_9ce4));
    format!(
        "gpu-{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}
