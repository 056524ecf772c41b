//! DeviceSignal: something that a person or an alert says of a device, until it was taken in.

use lazaret_json::{Value, json};

use super::{column, device, kind, time};

/// A signal of a person has a key like that of a taint: a name, maybe after a domain and a slash. Alerts have any name.
const KEY_OF_A_PERSON: &str = r"self.source != 'Person' || self.key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')";

pub(super) fn definition() -> Value {
    let names = json!({
        "kind": "DeviceSignal",
        "listKind": "DeviceSignalList",
        "plural": "devicesignals",
        "singular": "devicesignal",
        "shortNames": ["dsig"],
    });
    let columns = vec![
        column("Pool", "string", ".spec.device.pool", "The pool of the device"),
        column("Device", "string", ".spec.device.device", "The device"),
        column("Key", "string", ".spec.key", "Subject of the signal"),
        column("Value", "string", ".spec.value", "Value of the signal"),
        column("Source", "string", ".spec.source", "Person or Alert"),
        column("Age", "date", ".metadata.creationTimestamp", "Time since it was reported"),
    ];
    let short = |description: &str, most: u32| json!({"type": "string", "maxLength": most, "description": description});
    let mut key = short("Subject of the signal, gpu.example.com/xid for instance.", 316);
    crate::value::put(&mut key, "minLength", 1);
    let spec = json!({
        "type": "object",
        "required": ["device", "key", "source"],
        "description": "The observation.",
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "a signal is not changed: report another one"},
            {
                "rule": KEY_OF_A_PERSON,
                "fieldPath": ".key",
                "message": "must be a name, maybe after a domain and a slash, as gpu.example.com/xid is",
            },
        ],
        "properties": {
            "device": device("The device."),
            "key": key,
            "value": short("Value of the signal.", 253),
            "source": {"type": "string", "enum": ["Person", "Alert"], "description": "From where it comes."},
            "message": short("For people.", 1024),
            "by": short("Person or program.", 253),
            "lasts": {"type": "boolean", "description": "The signal lasts until this object is deleted. Otherwise it is over as soon as it was noticed, and Lazaret deletes it."},
            "at": time("When it was noticed. Absent: when it was written."),
        },
    });
    kind(
        "Cluster",
        names,
        columns,
        "Something that a person or an alert says of a device. Health policies are asked about it; one that does not last is deleted then.",
        (spec, None),
    )
}
