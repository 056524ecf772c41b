//! DeviceTaintPolicy: a taint for devices by class and expression, whose pods leave at a pace. On every cluster it becomes DeviceTaintRules of Kubernetes.

use lazaret_json::{Value, json};

use crate::{
    Errors,
    path::Path,
    resource::windows,
    value::{list, remove},
};

use super::{OWN_GROUP, column, conditions, from_table, integer, text, time, wide_column};

pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("devicetaintpolicies.{OWN_GROUP}")},
        "spec": {
            "group": OWN_GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "DeviceTaintPolicy",
                "listKind": "DeviceTaintPolicyList",
                "plural": "devicetaintpolicies",
                "singular": "devicetaintpolicy",
                "shortNames": ["dtp"],
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(),
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "description": "Taints devices that a class, names and expressions select. Pods that do not tolerate the taint are evicted at a pace.",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": {
                            "type": "object",
                            "description": "Which devices, and which taint.",
                            "required": ["taint"],
                            "properties": {
                                "deviceSelector": selector(),
                                "taint": taint(),
                                "eviction": eviction(),
                                "expiresAt": time("From this instant on the policy applies no more: its taint is gone from all devices, and its condition Expired says so. The policy itself stays."),
                            },
                        },
                        "status": status(),
                    },
                }},
            }],
        },
    })
}

/// The check that the schema cannot make: whether a time zone exists.
pub(super) fn check(policy: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let (eviction, said) = (path.field("eviction"), &policy["spec"]["eviction"]);
    windows(errors, &eviction.field("windows"), list(said, "windows"));
}

fn columns() -> Vec<Value> {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    vec![
        column("Key", "string", ".spec.taint.key", "The taint's key"),
        column("Value", "string", ".spec.taint.value", "The taint's value"),
        column("Effect", "string", ".spec.taint.effect", "The taint's effect"),
        column("Evicted", "integer", ".status.evictions.pods", "Pods that were evicted because of it"),
        column("Drained", "string", &condition("Drained", "status"), "Whether the selected devices are idle"),
        wide_column("Compiled", &condition("Compiled", "message"), "Which DeviceTaintRules it became"),
        wide_column("Progress", &condition("EvictionInProgress", "message"), "How far the eviction is"),
        column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
    ]
}

pub(super) fn selector() -> Value {
    let name = |description: &str, most: u32| json!({"type": "string", "minLength": 1, "maxLength": most, "description": description});
    json!({
        "type": "object",
        "description": "Which devices. All that is said must hold; without a selector no device is selected.",
        "x-kubernetes-validations": [{
            "rule": "has(self.deviceClassName) || has(self.driver) || has(self.pool) || has(self.device) || (has(self.selectors) && self.selectors.size() > 0)",
            "message": "name a class, a driver, a pool, a device or an expression: an empty selector would select every device",
        }],
        "properties": {
            "deviceClassName": name("Devices of this class.", 253),
            "driver": name("Devices of this driver.", 63),
            "pool": name("Devices in pools of this name.", 253),
            "device": name("Devices of this name.", 63),
            "selectors": {
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "atomic",
                "description": "Devices that all these expressions match. At most 32.",
                "items": {
                    "type": "object",
                    "required": ["cel"],
                    "properties": {"cel": {
                        "type": "object",
                        "required": ["expression"],
                        "description": "An expression in CEL.",
                        "properties": {"expression": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 10240,
                            "description": "The expression, as in a DeviceClass: device.driver, device.attributes, device.capacity.",
                        }},
                    }},
                },
            },
        },
    })
}

/// The key of a taint.
pub(super) fn taint_key(description: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 316,
        "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "description": description,
    })
}

/// As in a rule, and with patterns and defaults, which the table does not have.
pub(super) fn taint() -> Value {
    let mut schema = from_table::object("resource/v1alpha3.DeviceTaint", "The taint.");
    let properties = &mut schema["properties"];
    remove(properties, "data");
    properties["key"] = taint_key("Its key, a label name.");
    properties["value"]["maxLength"] = 63.into();
    properties["value"]["pattern"] = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$".into();
    properties["effect"]["enum"] = json!(["None", "NoSchedule", "NoExecute"]);
    properties["timeAdded"]["description"] =
        "Since when. Absent: since the policy was made. Tolerations for some time count from here.".into();
    properties["evictionsPerSecond"]["default"] = 10.into();
    schema
}

/// As in a rule, and with the patterns of windows, which the table does not have.
pub(super) fn eviction() -> Value {
    let mut schema = from_table::object(
        "resource/v1alpha3.DeviceTaintRuleEviction",
        "How pods leave. Absent: they are deleted.",
    );
    schema["properties"]["mode"]["default"] = "Delete".into();
    schema["properties"]["windows"] =
        windows_schema("Evictions begin only while one of these is open. Absent: at any time.");
    schema
}

/// The windows in which evictions may begin. Whether a time zone exists, which a pattern cannot say, is checked by [`windows`].
pub(super) fn windows_schema(description: &str) -> Value {
    json!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        "description": description,
        "items": {
            "type": "object",
            "required": ["start", "duration"],
            "properties": {
                "start": {
                    "type": "string",
                    "pattern": "^((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?([01][0-9]|2[0-3]):[0-5][0-9]$",
                    "description": "A time as in 02:00, every day, or Sat 02:00.",
                },
                "duration": {
                    "type": "string",
                    "pattern": "^[1-9][0-9]{0,5}[hms]([0-9]{1,4}[ms])?([0-9]{1,4}s)?$",
                    "description": "How long it is open, as in 4h or 1h30m, not longer than until the next start.",
                },
                "timeZone": {
                    "type": "string",
                    "maxLength": 64,
                    "pattern": "^(UTC|[+-](0[0-9]|1[0-4]):[0-5][0-9]|[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*)$",
                    "default": "UTC",
                    "description": "UTC, an offset as in +02:00, or a name of the IANA database as in Europe/Zurich.",
                },
            },
        },
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "Observed state.",
        "properties": {
            "conditions": conditions("Compiled says which DeviceTaintRules it became, EvictionInProgress how far the eviction is, EvictionBlocked what keeps pods from being evicted, Drained whether the selected devices are idle."),
            "evictions": {
                "type": "object",
                "description": "Evictions because of this policy.",
                "properties": {
                    "pods": integer("Pods that were evicted."),
                    "atLeast": {"type": "boolean", "description": "There may have been more, before a controller was restarted."},
                    "until": text("Evictions up to this instant are counted."),
                },
            },
        },
    })
}
