//! The feature gates of device taints: what one of them turns off is as if it had not been set, and is shown as having no effect.

use lazaret_api::Object;
use lazaret_fleet::{Gates, Origin};

const TAINTS: &str = "DRADeviceTaints";
const RULES: &str = "DRADeviceTaintRules";
const PATCHED_VALUES: &str = "DRAAdminControlledDeviceAttributes";
/// The first minor releases of Kubernetes 1 with these gates on when nobody says otherwise.
const TAINTS_ON_SINCE_MINOR: u32 = 36;
const RULES_ON_SINCE_MINOR: u32 = 37;

/// Feature gates, as far as the server tells. A gate that it does not tell counts as on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// `DRADeviceTaints`.
    pub taints: Option<bool>,
    /// `DRADeviceTaintRules`. Kubernetes 1.34 does not have it: rules belong to `DRADeviceTaints` there.
    pub rules: Option<bool>,
    /// `DRAAdminControlledDeviceAttributes`, of Lazaret alone.
    pub patched_values: Option<bool>,
    /// This user may not read where the server tells.
    pub refused: bool,
}

impl GateFacts {
    /// Takes in a line of the server's metrics; whether it is about a gate.
    pub fn take_line(&mut self, line: &str) -> bool {
        let Some(labels) = line.strip_prefix("kubernetes_feature_enabled{") else { return false };
        let name = labels.split("name=\"").nth(1).and_then(|rest| rest.split('"').next());
        let on = line.rsplit(' ').next().map(|value| value.starts_with('1'));
        match name {
            Some(TAINTS) => self.taints = on,
            Some(RULES) => self.rules = on,
            Some(PATCHED_VALUES) => self.patched_values = on,
            Some(_) | None => {}
        }
        true
    }

    /// The gates for a fleet that has what is in force, and nothing else.
    #[must_use]
    pub fn of_fleet(&self) -> Gates {
        let on = |gate: Option<bool>| gate != Some(false);
        Gates { taints: on(self.taints), rules: on(self.rules), patched_values: on(self.patched_values) }
    }

    /// Each gate of taints with whether it is on.
    #[must_use]
    pub fn told(&self) -> [(&'static str, Option<bool>); 2] {
        [(TAINTS, self.taints), (RULES, self.rules)]
    }

    /// The gate that is off and without which no taint has an effect.
    #[must_use]
    pub fn stops_taints(&self) -> Option<&'static str> {
        (self.taints == Some(false)).then_some(TAINTS)
    }

    /// The gate that is off and without which no DeviceTaintRule has an effect.
    #[must_use]
    pub fn stops_rules(&self) -> Option<&'static str> {
        self.stops_taints().or_else(|| (self.rules == Some(false)).then_some(RULES))
    }

    /// The gate that is off and takes away the effect of a taint of this origin.
    #[must_use]
    pub fn stops(&self, origin: &Origin<'_>) -> Option<&'static str> {
        match origin {
            Origin::Rule { .. } => self.stops_rules(),
            Origin::Device { .. } | Origin::TaintSlice { .. } | Origin::Patch { .. } => self.stops_taints(),
        }
    }

    /// The gate that is off and takes away the effect of the taints of an object.
    pub(super) fn stops_object(&self, object: &Object) -> Option<&'static str> {
        let tainted = match object {
            Object::Rule(_) => return self.stops_rules(),
            Object::Slice(slice) => {
                !slice.taints.is_empty() || slice.devices.iter().any(|device| !device.taints.is_empty())
            }
            Object::Patch(patch) => !patch.patch.taints.is_empty(),
            Object::Class(_)
            | Object::Claim(_)
            | Object::Template(_)
            | Object::Group(_)
            | Object::Pod(_)
            | Object::Node(_)
            | Object::Other(_) => false,
        };
        self.stops_taints().filter(|_| tainted)
    }

    /// The gate without which rules have no effect, that the server does not tell and that is off by default in this minor release of
    /// Kubernetes 1.
    #[must_use]
    pub fn perhaps_off(&self, minor: u32) -> Option<&'static str> {
        match (self.taints, self.rules) {
            (None, _) if minor < TAINTS_ON_SINCE_MINOR => Some(TAINTS),
            (_, None) if (TAINTS_ON_SINCE_MINOR..RULES_ON_SINCE_MINOR).contains(&minor) => Some(RULES),
            _ => None,
        }
    }
}

/// Why something has no effect, in a few words.
#[must_use]
pub fn is_off(gate: &str) -> String {
    format!("feature gate {gate} is off")
}

/// The consequence of a disabled gate, for people.
#[must_use]
pub fn consequence(gate: &str) -> &'static str {
    if gate == RULES { "DeviceTaintRules have no effect" } else { "device taints have no effect" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> GateFacts {
        let mut facts = GateFacts::default();
        for line in text.lines() {
            facts.take_line(line);
        }
        facts
    }

    #[test]
    fn gates_are_found_among_metrics() {
        let facts = read(
            "# TYPE kubernetes_feature_enabled gauge\nkubernetes_feature_enabled{name=\"DRADeviceTaints\",stage=\"\"} 1\nkubernetes_feature_enabled{name=\"DRADeviceTaintRules\",stage=\"BETA\"} 0\nother{name=\"DRADeviceTaints\"} 0\nkubernetes_feature_enabled{name=\"X\",stage=\"\"} 0\nkubernetes_feature_enabled{\n",
        );
        assert_eq!((facts.taints, facts.rules), (Some(true), Some(false)));
        assert_eq!((facts.stops_taints(), facts.stops_rules()), (None, Some(RULES)));
        assert_eq!(facts.of_fleet(), Gates { rules: false, ..Gates::default() });
        assert_eq!(read("other 1\n"), GateFacts::default());
    }

    #[test]
    fn without_taints_there_are_no_rules() {
        let facts = GateFacts { taints: Some(false), rules: Some(true), ..GateFacts::default() };
        assert_eq!((facts.stops_taints(), facts.stops_rules()), (Some(TAINTS), Some(TAINTS)));
        let unknown = GateFacts::default();
        assert_eq!((unknown.stops_taints(), unknown.stops_rules()), (None, None));
        assert_eq!(unknown.of_fleet(), Gates::default());
    }

    #[test]
    fn releases_have_defaults() {
        let unknown = GateFacts::default();
        for (minor, gate) in
            [(34, Some(TAINTS)), (35, Some(TAINTS)), (36, Some(RULES)), (37, None), (38, None)]
        {
            assert_eq!(unknown.perhaps_off(minor), gate, "{minor}");
        }
        // 1.34 has one gate for both.
        let told = GateFacts { taints: Some(true), ..unknown };
        assert_eq!(told.perhaps_off(34), None);
        assert_eq!(told.perhaps_off(36), Some(RULES));
    }
}
