//! DeviceIncident: one device's trouble from the first signal to the end.

use lazaret_json::Value;

use super::{Names, column, definition_of, wide_column};

pub(super) fn definition() -> Value {
    let names = Names { kind: "DeviceIncident", plural: "deviceincidents", short: "dinc", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Driver", "string", ".status.device.driver", "The driver of the device"),
            column("Pool", "string", ".status.device.pool", "The pool of the device"),
            column("Device", "string", ".status.device.device", "The device"),
            column("Stage", "string", ".status.stage", "How far it is"),
            column("Rule", "string", ".status.rule", "The rule that took it furthest"),
            column("Waits-For", "string", ".status.waitsFor", "The condition it waits for"),
            column("Evicted", "integer", ".status.cost.podsEvicted", "Pods that were evicted"),
            wide_column("Policy", ".spec.policy", "The policy that opened it"),
            wide_column("Enforced", ".status.enforced", "Whether anything is done to the device"),
            wide_column("Acknowledged", ".status.acknowledgedBy", "Person that acknowledged it"),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was opened"),
        ],
    )
}
