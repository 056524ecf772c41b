//! DeviceSignal: something that a person or an alert says of a device, until it was taken in.

use lazaret_json::Value;

use super::{Names, column, definition_of};

pub(super) fn definition() -> Value {
    let names = Names { kind: "DeviceSignal", plural: "devicesignals", short: "dsig", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Pool", "string", ".spec.device.pool", "The pool of the device"),
            column("Device", "string", ".spec.device.device", "The device"),
            column("Key", "string", ".spec.key", "Subject of the signal"),
            column("Value", "string", ".spec.value", "Value of the signal"),
            column("Source", "string", ".spec.source", "Person or Alert"),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was reported"),
        ],
    )
}
