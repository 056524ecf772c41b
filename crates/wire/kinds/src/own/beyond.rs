//! Parts of definitions that the table has no words for: rules in CEL, and the differences between our taints and those of Kubernetes.

use lazaret_json::{Value, json};
use lazaret_model::Taint;

use crate::value::remove;

/// A signal of a person has a key like that of a taint: a name, maybe after a domain and a slash. Alerts have any name.
const KEY_OF_A_PERSON: &str = r"self.source != 'Person' || self.key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')";

/// Rules of a type: the condition, and the message where it does not hold.
const RULES: &[(&str, &[(&str, &str)])] = &[
    (
        "DeviceSelector",
        &[(
            "has(self.deviceClassName) || has(self.driver) || has(self.pool) || has(self.device) || (has(self.selectors) && self.selectors.size() > 0)",
            "name a class, a driver, a pool, a device or an expression: an empty selector would select every device",
        )],
    ),
    (
        "DeviceSignalSpec",
        &[
            ("self == oldSelf", "a signal is not changed: report another one"),
            (KEY_OF_A_PERSON, "must be a name, maybe after a domain and a slash, as gpu.example.com/xid is"),
        ],
    ),
    (
        "GuardBreaker",
        &[
            (
                "(has(self.of) && self.of == 'FaultDomains') == has(self.faultDomainAttribute)",
                "faultDomainAttribute is required with of FaultDomains, and belongs to it alone",
            ),
            (
                "!has(self.faultDomainAttribute) || self.faultDomainAttribute.indexOf('/') <= 63",
                "the domain of faultDomainAttribute has more than 63 characters",
            ),
        ],
    ),
    (
        "GuardConfirmAbove",
        &[(
            "has(self.pods) || has(self.namespaces) || has(self.devices)",
            "set at least one of pods, namespaces and devices",
        )],
    ),
    (
        "LabelCondition",
        &[(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "In and NotIn need values, Exists and DoesNotExist have none",
        )],
    ),
    (
        "PatchDevices",
        &[(
            "has(self.taints) || has(self.attributes) || has(self.capacity)",
            "name a taint, an attribute or a capacity: the patch changes nothing",
        )],
    ),
];

/// Completes the schema of a type of the table.
pub(super) fn complete(name: &str, schema: &mut Value) {
    match name {
        "Taint" => {
            let properties = &mut schema["properties"];
            remove(properties, "data");
            properties["effect"]["enum"] = json!(["None", "NoSchedule", "NoExecute"]);
            properties["evictionsPerSecond"]["default"] = Taint::EVICTIONS_PER_SECOND_DEFAULT.into();
        }
        "Eviction" | "HealthEviction" => schema["properties"]["mode"]["default"] = "Delete".into(),
        "ReplacementOptions" => {
            let rule = ("self.filter(o, o.key == '*').size() <= 1", "there must be only one * entry");
            for list in ["taintReplacementOptions", "deviceTaintReplacementOptions"] {
                schema["properties"][list]["x-kubernetes-validations"] = rules(&[rule]);
            }
        }
        _ => {}
    }
    if let Some((_, found)) = RULES.iter().find(|(of, _)| *of == name) {
        schema["x-kubernetes-validations"] = rules(found);
    }
    if name == "DeviceSignalSpec" {
        schema["x-kubernetes-validations"][1]["fieldPath"] = ".key".into();
    }
}

/// The rule of a field that never changes.
pub(super) fn fixed() -> Value {
    rules(&[("self == oldSelf", "is what it was when the incident was opened")])
}

fn rules(list: &[(&str, &str)]) -> Value {
    list.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}
