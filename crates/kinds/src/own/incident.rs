//! DeviceIncident: one device's trouble from the first signal to the end.

use lazaret_json::{Value, json};

use super::{column, device, integer, kind, text, time, wide_column};

const STAGES: [&str; 7] =
    ["Suspect", "Quarantined", "Draining", "Repairing", "Probation", "Cleared", "Abandoned"];

pub(super) fn definition() -> Value {
    let names = json!({
        "kind": "DeviceIncident",
        "listKind": "DeviceIncidentList",
        "plural": "deviceincidents",
        "singular": "deviceincident",
        "shortNames": ["dinc"],
    });
    let columns = vec![
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
    ];
    kind(
        "Cluster",
        names,
        columns,
        "One device's trouble from the first signal to the end. Lazaret writes it; people write spec.acknowledged, spec.repaired and spec.abandoned.",
        (spec(), Some(status())),
    )
}

/// A field that never changes.
fn fixed(mut schema: Value) -> Value {
    let rule = json!([{"rule": "self == oldSelf", "message": "is what it was when the incident was opened"}]);
    crate::value::put(&mut schema, "x-kubernetes-validations", rule);
    schema
}

fn short(description: &str, most: u32) -> Value {
    json!({"type": "string", "maxLength": most, "description": description})
}

fn stage(description: &str) -> Value {
    json!({"type": "string", "enum": STAGES, "description": description})
}

fn act(description: &str) -> Value {
    json!({
        "type": "object",
        "required": ["at"],
        "description": description,
        "properties": {
            "at": time("When. Each act is done once: a later instant is another act."),
            "by": short("Person or program.", 253),
            "reason": short("Why.", 1024),
        },
    })
}

fn spec() -> Value {
    json!({
        "type": "object",
        "required": ["device", "policy", "rule", "stage", "taintValue", "cause", "number", "openedAt"],
        "description": "Facts with which the incident was opened, and entries that people make.",
        "properties": {
            "device": fixed(device("The device, under the name that it had.")),
            "hardwareID": fixed(short("Identity of the hardware; it stays the same when the device is renamed.", 253)),
            "policy": fixed(short("The DeviceHealthPolicy that opened it.", 253)),
            "rule": fixed(short("The rule that held.", 63)),
            "stage": fixed(stage("The first stage.")),
            "taintKey": fixed(short("The key of its taint. Absent: lazaret.dev/quarantine.", 316)),
            "taintValue": fixed(short("The value of its taint.", 63)),
            "cause": fixed(short("Why, for people.", 4096)),
            "number": fixed(integer("Counts the incidents of the device, from one.")),
            "openedAt": fixed(time("When.")),
            "detectedAt": fixed(time("When the first signal came.")),
            "acknowledged": act("Somebody has seen it."),
            "repaired": act("Somebody has repaired the device: it has to prove that it is well."),
            "abandoned": act("Somebody gives the device up: it stays out of service."),
        },
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "How far it is, and what it cost.",
        "properties": {
            "device": device("The device, under the name that it has now."),
            "stage": stage("How far it is."),
            "since": time("Since when it is in this stage."),
            "rule": text("The rule that took it furthest."),
            "taintKey": text("The key of its taint."),
            "taintValue": text("The value of its taint."),
            "waitsFor": text("The condition it waits for."),
            "step": integer("The repair step that runs or is next, from nought."),
            "attempts": integer("How often all repair steps were tried in vain."),
            "tries": integer("How many repairs and validations were begun."),
            "enforced": {"type": "boolean", "description": "Whether its policy acts on the device."},
            "validated": {"type": "boolean", "description": "Whether the validation of this probation has passed."},
            "acknowledgedBy": text("Person that acknowledged it."),
            "flaps": {
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "description": "When the device came back in vain.",
                "items": {"type": "string", "format": "date-time"},
            },
            "timeline": timeline(),
            "timelineFolded": integer("Entries that were left out after the first."),
            "times": times(),
            "timeToRecoverSeconds": integer("From the first signal to the end."),
            "cost": {
                "type": "object",
                "description": "Cost of the incident.",
                "properties": {
                    "podsEvicted": integer("Pods that were evicted."),
                    "namespaces": {
                        "type": "array",
                        "maxItems": 32,
                        "x-kubernetes-list-type": "atomic",
                        "description": "Namespaces whose pods used the device while it was drained; the first 32.",
                        "items": {"type": "string"},
                    },
                    "outOfServiceSeconds": integer("How long the device was out of service, without the time since outOfServiceSince."),
                    "outOfServiceSince": time("Since when it is out of service."),
                },
            },
            "held": {
                "type": "object",
                "description": "Steps that a DisruptionGuard does not permit yet.",
                "properties": {
                    "stage": stage("The stage that the policy wants."),
                    "rule": text("The rule that wants it."),
                    "taintKey": text("The key of the taint for it."),
                    "taintValue": text("The value of the taint for it."),
                    "guard": text("The DisruptionGuard."),
                    "reason": text("Breaker, Paused or Window."),
                    "message": text("The same in words."),
                },
            },
            "handled": {
                "type": "object",
                "description": "Which acts of people were acted on.",
                "properties": {
                    "acknowledged": time("The newest spec.acknowledged.at."),
                    "repaired": time("The newest spec.repaired.at."),
                    "abandoned": time("The newest spec.abandoned.at."),
                },
            },
        },
    })
}

fn timeline() -> Value {
    json!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "description": "Events, the newest last. Of more than 32 entries the first and the newest are kept.",
        "items": {
            "type": "object",
            "required": ["at", "stage"],
            "properties": {
                "at": time("When."),
                "stage": text("The stage afterwards."),
                "cause": text("Why."),
                "actor": text("A policy, lazaret, or a person."),
            },
        },
    })
}

fn times() -> Value {
    json!({
        "type": "object",
        "description": "When each was first reached.",
        "properties": {
            "detected": time("The first signal."),
            "decided": time("The first rule that held."),
            "drained": time("No pod used the device any more."),
            "repaired": time("A repair was done."),
            "cleared": time("The device was well."),
        },
    })
}
