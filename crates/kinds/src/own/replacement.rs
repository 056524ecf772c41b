//! TaintReplacementPolicy: which pods are replaced when their node or their devices are tainted, when, and how many at a time.

use lazaret_json::{Value, json};

use super::{OWN_GROUP, column, conditions, integer, text, time, wide_column};

pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("taintreplacementpolicies.{OWN_GROUP}")},
        "spec": {
            "group": OWN_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "TaintReplacementPolicy",
                "listKind": "TaintReplacementPolicyList",
                "plural": "taintreplacementpolicies",
                "singular": "taintreplacementpolicy",
                "shortNames": ["trp"],
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
                    "description": "Replaces pods that sit on a tainted node or device for long enough; few at a time, the new pod first.",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": {
                            "type": "object",
                            "description": "Which pods are looked after, and what is done about the taints around them.",
                            "required": ["podSelector"],
                            "properties": {
                                "podSelector": pod_selector(),
                                "automaticReplacementOptions": {
                                    "type": "object",
                                    "description": "When, how many at a time and how. Without any options nothing is replaced.",
                                    "default": {},
                                    "properties": options(),
                                },
                            },
                        },
                        "status": status(),
                    },
                }},
            }],
        },
    })
}

fn columns() -> Vec<Value> {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
    vec![
        column(
            "Enabled",
            "boolean",
            ".spec.automaticReplacementOptions.enabled",
            "Whether anything new is begun",
        ),
        column("Selected", "integer", ".status.totals.selected", "Pods that it looks after"),
        column(
            "Detected",
            "integer",
            ".status.totals.detected",
            "Pods with a taint that is too young to matter",
        ),
        column("Due", "integer", ".status.totals.due", "Pods marked to be replaced"),
        column("In-Flight", "integer", ".status.totals.inFlight", "Replacements under way"),
        column("Replaced", "integer", ".status.totals.replaced", "Replacements that came to their end"),
        column(
            "State",
            "string",
            &condition("Progressing", "reason"),
            "Current step, or the condition it waits for",
        ),
        column("Health", "string", &condition("Degraded", "reason"), "AsExpected or what is wrong"),
        wide_column(
            "Progress",
            &condition("Progressing", "message"),
            "Current step, or the condition it waits for, in words",
        ),
        wide_column(
            "Breaker",
            &condition("BreakerTripped", "message"),
            "Whether too many fault domains are tainted",
        ),
        wide_column("Problem", &condition("Degraded", "message"), "The problem, in words"),
        column("Age", "date", ".metadata.creationTimestamp", "Time since it was created"),
    ]
}

fn pod_selector() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "description": "Which pods of this namespace it looks after. An empty selector means all of them.",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels with these values.",
                "additionalProperties": {"type": "string"},
            },
            "matchExpressions": {
                "type": "array",
                "description": "Conditions on labels. At most 64.",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "x-kubernetes-validations": [
                        {
                            "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                            "message": "In and NotIn need values, Exists and DoesNotExist have none",
                        },
                    ],
                    "properties": {
                        "key": text("The label."),
                        "operator": {
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                            "description": "In, NotIn, Exists or DoesNotExist.",
                        },
                        "values": {
                            "type": "array",
                            "description": "For In and NotIn.",
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string"},
                        },
                    },
                },
            },
        },
    })
}

fn taint_options() -> Value {
    json!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key", "value", "effect"],
        "x-kubernetes-validations": [
            {
                "rule": "self.filter(o, o.key == '*').size() <= 1",
                "message": "there must be only one * entry",
            },
        ],
        "description": "How long a taint may be on a pod's node, or on a device that its claims hold, before the pod is marked to be replaced. One entry for each key. None at all turns it off.",
        "items": {
            "type": "object",
            "required": ["key", "durationInSeconds"],
            "properties": {
                "key": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 316,
                    "description": "The taint's key; * stands for every key that has no entry of its own.",
                },
                "value": {
                    "type": "string",
                    "default": "",
                    "maxLength": 63,
                    "description": "Only for taints with this value. Empty means any.",
                },
                "effect": {
                    "type": "string",
                    "default": "",
                    "enum": ["", "None", "NoSchedule", "PreferNoSchedule", "NoExecute"],
                    "description": "Only for taints with this effect. Empty means any.",
                },
                "durationInSeconds": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "How long. The largest number means for ever, so the pod is listed and never replaced.",
                },
            },
        },
    })
}

fn options() -> Value {
    json!({
        "taintReplacementOptions": taint_options(),
        "deviceTaintReplacementOptions": taint_options(),
        "enabled": {
            "type": "boolean",
            "default": true,
            "description": "Whether anything is done. Replacements in flight are finished all the same.",
        },
        "maxConcurrentReplacements": {
            "type": "integer",
            "format": "int32",
            "minimum": 0,
            "default": 1,
            "description": "How many replacements may be under way at once; in each fault domain, if faultDomainKey is set. Nought holds all.",
        },
        "taintReplacementTimeSeconds": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "default": 1800,
            "description": "How long a pod stays marked before it is replaced.",
        },
        "failureDetectionTimeSeconds": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "default": 7200,
            "description": "How long a node may be not Ready before its pods are replaced, if enableNodeFailureDetection is set.",
        },
        "enableNodeFailureDetection": {
            "type": "boolean",
            "default": false,
            "description": "Whether pods of nodes that are not Ready are replaced, taint or no taint.",
        },
        "faultDomainKey": {
            "type": "string",
            "maxLength": 316,
            "description": "The node label that names a fault domain. Without it each node is one, and maxConcurrentReplacements counts all pods together.",
        },
        "maxFaultDomainsTainted": {
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "pattern": "^(100|[1-9]?[0-9])%$",
            "description": "While more fault domains than this, a number or a percentage, have a tainted pod of this policy, nothing new is begun.",
        },
        "strategy": {
            "type": "string",
            "enum": ["ReplaceFirst", "Recreate"],
            "default": "ReplaceFirst",
            "description": "ReplaceFirst starts the new pod first wherever there can be two; Recreate evicts the old one first.",
        },
        "replacementReadySeconds": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "default": 600,
            "description": "How long a new pod may take to become Ready before it is reported.",
        },
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "Observed taints, and the replacements in flight.",
        "properties": {
            "observedGeneration": integer("The generation of the spec that this status speaks of."),
            "totals": totals(),
            "pods": pods(),
            "replacements": replacements(),
            "conditions": conditions("Progressing says what it does or waits for, BreakerTripped whether too many fault domains are tainted, Degraded what is wrong."),
        },
    })
}

fn totals() -> Value {
    json!({
        "type": "object",
        "description": "The policy in figures.",
        "properties": {
            "selected": integer("Pods that it looks after."),
            "detected": integer("Pods with a taint that is too young to matter."),
            "due": integer("Pods marked to be replaced."),
            "inFlight": integer("Replacements under way."),
            "replaced": integer("Replacements that came to their end."),
            "overdue": integer("Replacements that were not Ready in time."),
            "faultDomains": integer("Fault domains with pods of this policy."),
            "faultDomainsTainted": integer("Fault domains with a tainted pod of this policy."),
        },
    })
}

fn pods() -> Value {
    json!({
        "type": "array",
        "maxItems": 1000,
        "x-kubernetes-list-type": "atomic",
        "description": "One entry for each taint of each pod, what may be replaced first in front; the first 200.",
        "items": {
            "type": "object",
            "required": ["pod", "node", "taintKey", "condition"],
            "properties": {
                "pod": text("The pod's name."),
                "uid": text("The pod's UID."),
                "node": text("The node that it runs on."),
                "device": text("The tainted device. Absent if the node is tainted."),
                "taintKey": text("The taint's key."),
                "taintValue": text("The taint's value."),
                "taintEffect": text("The taint's effect."),
                "condition": {
                    "type": "string",
                    "description": "Detected while the taint is too young to matter; Replacing from when the pod is marked to be replaced.",
                    "enum": [
                        "NodeTaintDetected",
                        "NodeTaintReplacing",
                        "DeviceTaintDetected",
                        "DeviceTaintReplacing",
                    ],
                },
                "since": time("Since when the taint counts for this pod."),
                "firstSeen": {
                    "type": "boolean",
                    "description": "The taint has no timeAdded. Its time counts from when it was first seen.",
                },
                "due": time("When it is or was marked to be replaced. Absent if never."),
                "replaceAfter": time("From when on it may be replaced. Absent if never."),
                "replacement": text("The pod that takes its place."),
                "message": text("The condition it waits for."),
            },
        },
    })
}

fn replacements() -> Value {
    json!({
        "type": "array",
        "maxItems": 1000,
        "x-kubernetes-list-type": "atomic",
        "description": "Replacements in flight, written before anything is done. The next leader continues from here.",
        "items": {
            "type": "object",
            "required": ["pod", "uid", "node", "started", "plan"],
            "properties": {
                "policy": text("The policy that began it."),
                "countedBy": {
                    "type": "array",
                    "x-kubernetes-list-type": "atomic",
                    "items": {"type": "string"},
                    "description": "The policies that selected the pod. It takes a slot of each.",
                },
                "namespace": text("The pod's namespace."),
                "pod": text("The pod that is replaced."),
                "uid": text("Its UID."),
                "node": text("The node that it runs on."),
                "device": text("The tainted device. Absent if the node is tainted."),
                "taintKey": text("The taint's key."),
                "taintValue": text("The taint's value."),
                "taintEffect": text("The taint's effect."),
                "since": time("Since when the taint counts for this pod."),
                "started": time("When it was begun."),
                "plan": {
                    "type": "string",
                    "enum": ["Release", "Copy", "Evict", "Rebuild"],
                    "description": "Release takes the pod from its owner, which starts another first; Copy starts a copy first; Evict evicts it, and its owner starts another; Rebuild evicts it, and a copy starts then.",
                },
                "owner": {
                    "type": "object",
                    "description": "The component that starts the new pod.",
                    "properties": {
                        "group": text("The owner's API group."),
                        "kind": text("The owner's kind."),
                        "name": text("The owner's name."),
                        "uid": text("The owner's UID."),
                    },
                },
                "label": text("The label that was taken off the pod so that its owner does not take it back."),
                "lacking": integer("How many of the owner's other pods had been broken for long. They are not waited for."),
                "copy": text("The name of the copy that is made."),
                "replacement": text("The pod that takes its place."),
                "overdue": {"type": "boolean", "description": "It was not Ready in time."},
            },
        },
    })
}
