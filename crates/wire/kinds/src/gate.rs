//! Fields that belong to a feature: while it is off they are dropped from what clients send, unless the stored object uses it already.

use lazaret_json::Value;

use crate::Features;

/// A feature and its fields.
pub(crate) struct Gate {
    /// All of these must be on.
    pub(crate) features: &'static [&'static str],
    /// Whether an object has any of the fields.
    pub(crate) in_use: fn(&Value) -> bool,
    /// Takes the fields away.
    pub(crate) clear: fn(&mut Value),
}

/// Drops the fields of features that are off and not in use.
pub(crate) fn drop_disabled(gates: &[Gate], new: &mut Value, old: Option<&Value>, features: &Features) {
    for gate in gates {
        let on = gate.features.iter().all(|feature| features.is_on(feature));
        if !on && !old.is_some_and(gate.in_use) {
            (gate.clear)(new);
        }
    }
}
