//! ResourceSlicePatch: an administrator's corrections of published slices, on clusters whose API server has no such kind of its own. Its taints
//! become DeviceTaintPolicies; attributes and capacities that the cluster's scheduler cannot see are named in its status.

use lazaret_json::Value;

use super::{Names, column, condition, definition_of, wide_column};

pub(super) fn definition() -> Value {
    let names =
        Names { kind: "ResourceSlicePatch", plural: "resourceslicepatches", short: "rsp", scope: "Cluster" };
    definition_of(
        &names,
        vec![
            column("Driver", "string", ".spec.devices.filter.driver", "Devices of this driver"),
            column("Class", "string", ".spec.devices.filter.deviceClassName", "Devices of this class"),
            column("Taint", "string", ".spec.devices.taints[0].key", "The key of its first taint"),
            column(
                "Compiled",
                "string",
                &condition("Compiled", "status"),
                "Whether its taints became policies",
            ),
            column(
                "Attributes",
                "string",
                &condition("AttributesApplied", "status"),
                "Whether its attributes and capacities are in effect",
            ),
            wide_column(
                "Not applied",
                &condition("AttributesApplied", "message"),
                "Which attributes and capacities are not in effect",
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
        ],
    )
}
