//! DisruptionGuard: limits that no eviction exceeds, whatever its reason.

use lazaret_json::{Value, json};

use crate::{Errors, path::Path, resource::windows, value::list};

use super::{OWN_GROUP, column, conditions, integer, taint_policy, time, wide_column};

/// The name of an attribute: an identifier, maybe after a domain and a slash.
const ATTRIBUTE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z_][A-Za-z0-9_]{0,31}$";

pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("disruptionguards.{OWN_GROUP}")},
        "spec": {
            "group": OWN_GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "DisruptionGuard",
                "listKind": "DisruptionGuardList",
                "plural": "disruptionguards",
                "singular": "disruptionguard",
                "shortNames": ["dg"],
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Paused", "string", ".spec.paused.reason", "Why no eviction begins"),
                    column("Until", "string", ".spec.paused.until", "Until when"),
                    wide_column("Of", ".spec.breaker.of", "Unit that its breaker counts"),
                    column("Max", "string", ".spec.breaker.maxOutOfService", "How much may be out of service"),
                    column("Out", "integer", ".status.breaker.outOfService", "How much is out of service"),
                    column("Tripped", "boolean", ".status.breaker.tripped", "Whether its breaker keeps evictions from beginning"),
                    column("Open", "boolean", ".status.window.open", "Whether one of its windows is open"),
                    column("Opens", "string", ".status.window.opensAt", "When the next of its windows opens"),
                    wide_column("Approvers", ".spec.approvers", "Users and groups that may approve rules that reach far"),
                    column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "description": "Keeps evictions because of device taints from beginning. Of several guards that select a device, each must permit it.",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec(),
                        "status": status(),
                    },
                }},
            }],
        },
    })
}

/// The check that the schema cannot make: whether a time zone exists.
pub(super) fn check(guard: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    windows(errors, &path.field("windows"), list(&guard["spec"], "windows"));
}

fn spec() -> Value {
    let mut selector = taint_policy::selector();
    selector["description"] =
        "Which devices. All that is said must hold; without a selector all devices are selected.".into();
    json!({
        "type": "object",
        "description": "Which devices, and what keeps evictions from them from beginning.",
        "properties": {
            "deviceSelector": selector,
            "paused": {
                "type": "object",
                "required": ["reason"],
                "description": "No eviction begins.",
                "properties": {
                    "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "Why, for people."},
                    "until": time("Until when. Absent: until somebody resumes."),
                },
            },
            "windows": taint_policy::windows_schema("Evictions begin, and policies take devices out of service, only while one of these is open. Absent: at any time."),
            "confirmAbove": {
                "type": "object",
                "description": "A rule that reaches more has no effect before it is approved: its condition Held says so. An absent field sets no limit.",
                "x-kubernetes-validations": [{
                    "rule": "has(self.pods) || has(self.namespaces) || has(self.devices)",
                    "message": "set at least one of pods, namespaces and devices",
                }],
                "properties": {
                    "pods": limit("How many pods a rule may evict without approval."),
                    "namespaces": limit("In how many namespaces a rule may evict pods without approval."),
                    "devices": {
                        "x-kubernetes-int-or-string": true,
                        "minimum": 0,
                        "pattern": "^(100|[1-9]?[0-9])%$",
                        "description": "How many devices a rule may taint without approval: a number, or a percentage of all that is selected, rounded down.",
                    },
                },
            },
            "approvers": {
                "type": "string",
                "enum": ["Anyone", "Different"],
                "description": "Anyone: whoever may write a rule may approve it. Different: the user who wrote it may not. Where the API server does not say who did, nobody can. Default: Anyone.",
            },
            "breaker": breaker(),
        },
    })
}

fn breaker() -> Value {
    json!({
        "type": "object",
        "required": ["maxOutOfService"],
        "description": "No eviction begins while more is out of service than permitted.",
        "x-kubernetes-validations": [{
            "rule": "(has(self.of) && self.of == 'FaultDomains') == has(self.faultDomainAttribute)",
            "message": "faultDomainAttribute is required with of FaultDomains, and belongs to it alone",
        }, {
            "rule": "!has(self.faultDomainAttribute) || self.faultDomainAttribute.indexOf('/') <= 63",
            "message": "the domain of faultDomainAttribute has more than 63 characters",
        }],
        "properties": {
            "maxOutOfService": {
                "x-kubernetes-int-or-string": true,
                "minimum": 0,
                "pattern": "^(100|[1-9]?[0-9])%$",
                "description": "How much may be out of service: a number, or a percentage of all that is selected, rounded down.",
            },
            "of": {
                "type": "string",
                "enum": ["Devices", "Nodes", "FaultDomains"],
                "default": "Devices",
                "description": "Unit that is counted: devices with a taint of effect NoSchedule or NoExecute, nodes with such a device, or fault domains with such a device.",
            },
            "faultDomainAttribute": {
                "type": "string",
                "minLength": 1,
                "maxLength": 96,
                "pattern": ATTRIBUTE,
                "description": "With of FaultDomains: the attribute of devices whose value names their fault domain, as in rack or example.com/rack. Without a domain it is the driver's. A device that does not have it is in the domain of its node, or else of its pool.",
            },
            "windowSeconds": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "maximum": 604_800,
                "description": "Whatever was out of service within this time counts, although it is back: devices that go out of service one after the other trip the breaker. Absent or 0: only what is out of service now.",
            },
            "resetAfterSeconds": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "maximum": 31_536_000,
                "default": 300,
                "description": "A tripped breaker is reset when it has been below for this time.",
            },
        },
    })
}

fn limit(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0, "description": description})
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "Where its breaker stands, and whether one of its windows is open.",
        "properties": {
            "conditions": conditions("BreakerTripped says whether the breaker keeps evictions from beginning."),
            "breaker": {
                "type": "object",
                "description": "Where its breaker stands.",
                "properties": {
                    "tripped": {"type": "boolean", "description": "No eviction begins."},
                    "outOfService": integer("How much is out of service, or was so within windowSeconds."),
                    "recent": integer("How much of it is back in service."),
                    "recentUntil": time("When the last of that counts no more."),
                    "permitted": integer("How much may be."),
                    "total": integer("How much there is in all."),
                    "exceededSince": time("Since when more is out of service than permitted, or since when it is tripped."),
                    "belowSince": time("It is tripped, and since when no more is out of service than permitted."),
                },
            },
            "window": {
                "type": "object",
                "description": "Whether one of its windows is open.",
                "properties": {
                    "open": {"type": "boolean", "description": "One of them is open."},
                    "opensAt": time("None is open, and when the next opens."),
                },
            },
        },
    })
}
