//! ResourceSlicePatch: an administrator's corrections of published slices, on clusters whose API server has no such kind of its own. Its taints
//! become DeviceTaintPolicies; attributes and capacities that the cluster's scheduler cannot see are named in its status.

use lazaret_json::{Value, json};

use super::{column, conditions, kind, taint_policy, wide_column};

/// As many as a ResourceSlice permits for one device.
const TAINTS_MAX: u32 = 16;
/// As many attributes and capacities as a device may have.
const VALUES_MAX: u32 = 32;

pub(super) fn definition() -> Value {
    let names = json!({
        "kind": "ResourceSlicePatch",
        "listKind": "ResourceSlicePatchList",
        "plural": "resourceslicepatches",
        "singular": "resourceslicepatch",
        "shortNames": ["rsp"],
    });
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    let columns = vec![
        column("Driver", "string", ".spec.devices.filter.driver", "Devices of this driver"),
        column("Class", "string", ".spec.devices.filter.deviceClassName", "Devices of this class"),
        column("Taint", "string", ".spec.devices.taints[0].key", "The key of its first taint"),
        column("Compiled", "string", &condition("Compiled", "status"), "Whether its taints became policies"),
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
    ];
    let description = "Corrects what drivers publish about devices: adds taints, overrides attributes and capacities. Taints become DeviceTaintPolicies.";
    kind("Cluster", names, columns, description, (spec(), Some(status())))
}

fn spec() -> Value {
    let mut filter = taint_policy::selector();
    filter["description"] =
        "Which devices. All that is said must hold; without a filter no device is selected.".into();
    json!({
        "type": "object",
        "description": "Which devices, and what is different about them.",
        "required": ["devices"],
        "properties": {"devices": {
            "type": "object",
            "description": "Which devices, and what is different about them.",
            "x-kubernetes-validations": [{
                "rule": "has(self.taints) || has(self.attributes) || has(self.capacity)",
                "message": "name a taint, an attribute or a capacity: the patch changes nothing",
            }],
            "properties": {
                "filter": filter,
                "priority": {
                    "type": "integer",
                    "format": "int64",
                    "description": "Where two patches override the same attribute, the one with the higher priority counts.",
                },
                "taints": {
                    "type": "array",
                    "maxItems": TAINTS_MAX,
                    "x-kubernetes-list-type": "atomic",
                    "description": "Taints that the devices have besides their own. At most 16.",
                    "items": taint_policy::taint(),
                },
                "attributes": values("Attributes by name: int, bool, string or version; null takes one away.", attribute()),
                "capacity": values("Capacities by name.", capacity()),
            },
        }},
    })
}

fn values(description: &str, value: Value) -> Value {
    json!({
        "type": "object",
        "maxProperties": VALUES_MAX,
        "description": description,
        "additionalProperties": value,
    })
}

/// One value: an attribute has one type.
fn attribute() -> Value {
    json!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "description": "Its value, of one type.",
        "properties": {
            "int": {"type": "integer", "format": "int64", "description": "A number."},
            "bool": {"type": "boolean", "description": "True or false."},
            "string": {"type": "string", "maxLength": 64, "description": "A text."},
            "version": {"type": "string", "maxLength": 64, "description": "A semantic version."},
            "null": {"type": "object", "description": "The attribute is taken away."},
        },
    })
}

fn capacity() -> Value {
    json!({
        "type": "object",
        "required": ["value"],
        "description": "Its value.",
        "properties": {"value": {"x-kubernetes-int-or-string": true, "description": "A quantity."}},
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "Observed state.",
        "properties": {
            "conditions": conditions("Compiled says which DeviceTaintPolicies its taints became, AttributesApplied whether its attributes and capacities are in effect."),
        },
    })
}
