//! DeviceHealthPolicy: which signals make a device suspect, quarantined or drained, what repairs it, what proves it well.

use lazaret_json::{Value, json};

use super::{OWN_GROUP, column, conditions, kind, taint_policy};
use crate::Errors;

/// A length of time as Go writes it.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
/// A label value.
const VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

pub(super) fn definition() -> Value {
    let names = json!({
        "kind": "DeviceHealthPolicy",
        "listKind": "DeviceHealthPolicyList",
        "plural": "devicehealthpolicies",
        "singular": "devicehealthpolicy",
        "shortNames": ["dhp"],
    });
    let columns = vec![
        column("Mode", "string", ".spec.mode", "Observe or Enforce"),
        column("Class", "string", ".spec.deviceSelector.deviceClassName", "The class of its devices"),
        column("Driver", "string", ".spec.deviceSelector.driver", "The driver of its devices"),
        column("Clear-After", "string", ".spec.clearAfter", "When a device is calm"),
        column(
            "Accepted",
            "string",
            ".status.conditions[?(@.type==\"Accepted\")].status",
            "Whether it is understood and acted on",
        ),
        column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
    ];
    let status = json!({
        "type": "object",
        "description": "Observed state.",
        "properties": {
            "conditions": conditions("Accepted says whether the policy is understood and acted on."),
            "counts": counts(),
        },
    });
    kind(
        "Cluster",
        names,
        columns,
        "Which signals make a device suspect, quarantined or drained, what repairs it, and what proves that it is well.",
        (spec(), Some(status)),
    )
}

/// The checks that need a compiler: expressions, durations, templates.
pub(super) fn check(policy: &Value, errors: &mut Errors) {
    // Objects are looked at without the kind and version by which they were sent.
    let mut whole = policy.clone();
    crate::value::put(&mut whole, "apiVersion", format!("{OWN_GROUP}/v1alpha1"));
    crate::value::put(&mut whole, "kind", "DeviceHealthPolicy");
    if let Err(error) = lazaret_api::read_health_policy(&whole.to_string()) {
        let found =
            error.path.split('.').filter(|part| !part.contains('[')).fold(policy, |at, part| &at[part]);
        let shown =
            if found.is_string() || found.is_number() { found.clone() } else { "<value omitted>".into() };
        errors.invalid(error.path, shown, error.message);
    }
    // A field that no DeviceTaintPolicy has would have no effect.
    let known = eviction();
    for (field, _) in crate::value::entries(&policy["spec"], "eviction") {
        if known["properties"][&**field].is_null() {
            let path = format!("spec.eviction.{field}");
            errors.invalid(
                path,
                "<value omitted>",
                "a DeviceTaintPolicy has no such field: it would not be acted on",
            );
        }
    }
}

fn duration(description: &str) -> Value {
    json!({"type": "string", "maxLength": 32, "pattern": DURATION, "description": description})
}

fn expression(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 4096, "description": description})
}

fn template(description: &str) -> Value {
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "description": description,
    })
}

fn spec() -> Value {
    json!({
        "type": "object",
        "required": ["rules"],
        "description": "Which devices, which signals, and what follows.",
        "properties": {
            "deviceSelector": selector(),
            "identityAttribute": {
                "type": "string",
                "minLength": 1,
                "maxLength": 100,
                "default": "uuid",
                "description": "The attribute that stays the same when a device is renamed: its incident follows it.",
            },
            "rules": {
                "type": "array",
                "minItems": 1,
                "maxItems": 64,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "description": "Kinds of trouble. Every rule that holds counts; the worst decides.",
                "items": rule(),
            },
            "clearAfter": with_default(duration("A device is calm when no rule has held for this long."), "15m"),
            "eviction": eviction(),
            "repair": repair(),
            "recovery": recovery(),
            "mode": {
                "type": "string",
                "enum": ["Observe", "Enforce"],
                "default": "Observe",
                "description": "Observe writes incidents and does nothing else; Enforce taints, drains, repairs and brings back.",
            },
        },
    })
}

/// All that a DeviceTaintPolicy has, and the pace, which is part of its taint.
fn eviction() -> Value {
    let mut schema = taint_policy::eviction();
    crate::value::put(&mut schema, "x-kubernetes-preserve-unknown-fields", true);
    crate::value::put(
        &mut schema,
        "description",
        "How pods leave a device that is drained, as in a DeviceTaintPolicy. Absent: they are deleted.",
    );
    let pace = json!({
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "description": "At most this many pods a second.",
    });
    crate::value::put(crate::value::field_mut(&mut schema, "properties"), "evictionsPerSecond", pace);
    schema
}

fn counts() -> Value {
    let name = |description: &str| json!({"type": "string", "maxLength": 316, "description": description});
    json!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "description": "Signals counted for rules with count, so that a restart does not lose them. Lazaret writes it.",
        "items": {
            "type": "object",
            "required": ["driver", "pool", "device", "rule"],
            "properties": {
                "driver": name("The driver of the device."),
                "pool": name("The pool of the device."),
                "device": name("The device."),
                "rule": name("The rule."),
                "hits": {
                    "type": "array",
                    "maxItems": 100,
                    "x-kubernetes-list-type": "atomic",
                    "description": "When signals came, the newest last.",
                    "items": {"type": "string", "format": "date-time"},
                },
                "lasting": {
                    "type": "array",
                    "maxItems": 64,
                    "x-kubernetes-list-type": "atomic",
                    "description": "Signals that lasted and were counted.",
                    "items": {
                        "type": "object",
                        "required": ["key", "source"],
                        "properties": {
                            "key": name("Subject of the signal."),
                            "source": name("From where it came."),
                            "value": name("Value of the signal."),
                        },
                    },
                },
            },
        },
    })
}

fn with_default(mut schema: Value, default: &str) -> Value {
    crate::value::put(&mut schema, "default", default);
    schema
}

fn selector() -> Value {
    let name = |description: &str, most: u32| json!({"type": "string", "minLength": 1, "maxLength": most, "description": description});
    json!({
        "type": "object",
        "description": "Which devices. All that is said must hold; without a selector every device.",
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
                            "description": "The expression, as in a DeviceClass.",
                        }},
                    }},
                },
            },
        },
    })
}

fn rule() -> Value {
    json!({
        "type": "object",
        "required": ["name", "when", "stage"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Its name, in timelines."},
            "when": expression("CEL over signal: driver, pool, device, key, value, source, message, all texts."),
            "count": {
                "type": "object",
                "required": ["atLeast", "within"],
                "description": "How many such signals it takes. Without it, one.",
                "properties": {
                    "atLeast": {
                        "type": "integer",
                        "format": "int32",
                        "minimum": 1,
                        "maximum": 100,
                        "description": "As many signals.",
                    },
                    "within": duration("Within this time."),
                },
            },
            "for": duration("How long the rule must hold. Interruptions that are shorter do not begin the time anew."),
            "stage": {
                "type": "string",
                "enum": ["Suspect", "Quarantined", "Drained"],
                "description": "How far the device goes.",
            },
            "taint": {
                "type": "object",
                "description": "The taint that the device gets.",
                "properties": {
                    "key": taint_policy::taint_key("Its key, a label name. Without it, lazaret.dev/quarantine."),
                    "value": {
                        "type": "string",
                        "maxLength": 63,
                        "pattern": VALUE,
                        "description": "Its value. Without it, unhealthy.",
                    },
                },
            },
        },
    })
}

fn repair() -> Value {
    json!({
        "type": "object",
        "description": "Steps that repair a device. Without steps a person repairs it, and says so.",
        "properties": {
            "steps": {
                "type": "array",
                "maxItems": 16,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "description": "In order; the next one when one fails or takes too long.",
                "items": {
                    "type": "object",
                    "required": ["name", "timeoutSeconds"],
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Its name, in timelines."},
                        "job": {
                            "type": "object",
                            "required": ["template"],
                            "description": "A Job on the node of the device. The device is named to its containers by the variables LAZARET_DRIVER, LAZARET_POOL, LAZARET_DEVICE, LAZARET_HARDWARE_ID, LAZARET_NODE and LAZARET_INCIDENT.",
                            "properties": {"template": template("metadata and spec of a Job; metadata.namespace says where, default otherwise.")},
                        },
                        "request": {
                            "type": "object",
                            "required": ["apiVersion", "kind", "template"],
                            "description": "An object that somebody else acts on.",
                            "properties": {
                                "apiVersion": {"type": "string", "minLength": 1, "maxLength": 253, "description": "Its version."},
                                "kind": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Its kind."},
                                "template": template("Its metadata and spec. $(DRIVER), $(POOL), $(DEVICE), $(HARDWARE_ID), $(NODE) and $(INCIDENT) in texts stand for those of the device."),
                            },
                        },
                        "doneWhen": expression("CEL over object: when the request is done."),
                        "timeoutSeconds": {
                            "type": "integer",
                            "format": "int32",
                            "minimum": 1,
                            "maximum": 604_800,
                            "description": "The step has failed when it takes longer.",
                        },
                    },
                },
            },
            "maxAttempts": {
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "maximum": 100,
                "default": 1,
                "description": "How often all steps are tried.",
            },
        },
    })
}

fn recovery() -> Value {
    json!({
        "type": "object",
        "required": ["probation"],
        "description": "How a device is trusted again. Without it, after as long a calm as clearAfter says.",
        "properties": {
            "probation": duration("No signal for this long."),
            "validation": {
                "type": "object",
                "required": ["template"],
                "description": "A Job that gets exactly this device and must succeed.",
                "properties": {
                    "template": template("metadata and spec of a Job; metadata.namespace says where, default otherwise."),
                    "deviceClassName": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 253,
                        "description": "The class through which the device is claimed. Without it, that of deviceSelector.",
                    },
                },
            },
            "flaps": {
                "type": "object",
                "required": ["atMost", "within"],
                "description": "How often a device may come back in vain; then it is Abandoned.",
                "properties": {
                    "atMost": {
                        "type": "integer",
                        "format": "int32",
                        "minimum": 0,
                        "maximum": 60,
                        "description": "More are too many.",
                    },
                    "within": duration("Within this time."),
                },
            },
        },
    })
}
