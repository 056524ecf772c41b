//! What a rule may look at besides the object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The UID, if it has one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Which optional features are on, by gate name. A gate that is not named is off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    on: BTreeSet<String>,
}

impl Features {
    /// Gates that are on by default at the level of Kubernetes 1.37.
    #[must_use]
    pub fn kubernetes_1_37() -> Self {
        Self { on: DEFAULT_ON.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// Every gate that the server knows, and whether it is on by default.
    pub fn known() -> impl Iterator<Item = (&'static str, bool)> {
        DEFAULT_ON.iter().map(|name| (*name, true)).chain(DEFAULT_OFF.iter().map(|name| (*name, false)))
    }

    /// Whether a gate is on.
    #[must_use]
    pub fn is_on(&self, gate: &str) -> bool {
        self.on.contains(gate)
    }

    /// Turns a gate on or off.
    pub fn set(&mut self, gate: &str, on: bool) {
        if on {
            self.on.insert(gate.to_owned());
        } else {
            self.on.remove(gate);
        }
    }

    /// Reads `A=true,B=false`; `AllAlpha` and `AllBeta` are not known here.
    ///
    /// # Errors
    /// When a pair is malformed or a gate does not exist; the text names it and, where one is close, what was probably meant.
    pub fn parse(&mut self, text: &str) -> Result<(), String> {
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (gate, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?}: write GATE=true or GATE=false"))?;
            let on = match value.trim() {
                "true" => true,
                "false" => false,
                other => return Err(format!("{gate}: {other:?} is neither true nor false")),
            };
            if !Self::known().any(|(known, _)| known == gate) {
                let names: Vec<&str> = Self::known().map(|(known, _)| known).collect();
                return Err(format!("unknown feature gate {gate:?}: the gates are {}", names.join(", ")));
            }
            self.set(gate, on);
        }
        Ok(())
    }
}

const DEFAULT_ON: &[&str] = &[
    "DynamicResourceAllocation",
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRAExtendedResource",
    "DRADeviceTaints",
    "DRADeviceTaintRules",
    "DRAPartitionableDevices",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRASchedulerFilterTimeout",
    "DRAResourceClaimGranularStatusAuthorization",
];

const DEFAULT_OFF: &[&str] = &[
    "DRAFractionalCapacityRange",
    "DRAWorkloadResourceClaims",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAResourcePoolStatus",
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevicesType",
    "DRAAdminControlledDeviceAttributes",
];

/// What a rule may look at besides the object.
pub struct Context<'a> {
    /// Now, to the second.
    pub now: jiff::Timestamp,
    /// Which features are on.
    pub features: &'a Features,
    /// Who asks.
    pub user: &'a User,
    /// What is done: `create`, `update`, `patch` and so on.
    pub verb: &'a str,
    /// The version of the endpoint, for rules that differ by it: `v1`, `v1alpha3`.
    pub version: &'a str,
    /// The namespace object that a namespaced object is in.
    pub namespace: Option<&'a Value>,
    /// Another stored object, by plural resource, namespace and name: priority classes, pods, nodes.
    pub lookup: &'a dyn Fn(&str, &str, &str) -> Option<Value>,
    /// Whether the user may do `verb` on `resource/subresource` called `name`.
    pub may: &'a dyn Fn(Access<'_>) -> bool,
}

/// A question to the authorizer.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural resource.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty for the cluster.
    pub namespace: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Now as the API writes it.
    #[must_use]
    pub fn timestamp(&self) -> String {
        let seconds = jiff::Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        seconds.to_string()
    }
}
