//! Which parts of DRA are switched on.

use core::fmt;

use alloc::string::String;

use lazaret_fleet::Gates;

macro_rules! features {
    ($($(#[$doc:meta])* $field:ident = $gate:literal, $default:literal;)*) => {
        /// The feature gates that change what the allocator does. One engine honours them all.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Features {
            $($(#[$doc])* pub $field: bool,)*
        }

        impl Features {
            /// The defaults of Kubernetes 1.37.
            #[must_use]
            pub const fn kubernetes_1_37() -> Self {
                Self { $($field: $default,)* }
            }

            /// Everything on.
            #[must_use]
            pub const fn all() -> Self {
                Self { $($field: true,)* }
            }

            /// Everything off.
            #[must_use]
            pub const fn none() -> Self {
                Self { $($field: false,)* }
            }

            /// Every gate with its state, in a fixed order.
            pub fn gates(&self) -> impl Iterator<Item = (&'static str, bool)> {
                [$(($gate, self.$field),)*].into_iter()
            }

            /// Switches the gate of this name.
            ///
            /// # Errors
            /// When there is no gate of this name here.
            pub fn set(&mut self, gate: &str, on: bool) -> Result<(), FeatureError> {
                match gate {
                    $($gate => self.$field = on,)*
                    other => return Err(FeatureError::Unknown(other.into())),
                }
                Ok(())
            }
        }
    };
}

features! {
    /// Access for monitoring, beside the regular users of the device.
    admin_access = "DRAAdminAccess", true;
    /// Alternatives in order of preference.
    prioritized_list = "DRAPrioritizedList", true;
    /// Devices that share counters; node selection by device.
    partitionable_devices = "DRAPartitionableDevices", true;
    /// Taints are heeded.
    device_taints = "DRADeviceTaints", true;
    /// Taints that administrators set by rules are heeded. Decided where the fleet is made: see [`Features::fleet_gates`].
    device_taint_rules = "DRADeviceTaintRules", true;
    /// Patches change attributes and capacity. Decided where the fleet is made.
    patched_values = "DRAAdminControlledDeviceAttributes", false;
    /// Devices that must report ready before a pod is bound. Needs `device_status`.
    binding_conditions = "DRADeviceBindingConditions", true;
    /// Drivers report on devices in the claim's status.
    device_status = "DRAResourceClaimDeviceStatus", true;
    /// Devices that several claims share by amounts.
    consumable_capacity = "DRAConsumableCapacity", true;
    /// Amounts on a grid of thousandths.
    fractional_capacity_range = "DRAFractionalCapacityRange", false;
    /// Attributes that are lists, compared as sets.
    list_type_attributes = "DRAListTypeAttributes", false;
    /// Slices whose devices need no preparation on the node.
    optional_node_operations = "DRAOptionalNodeOperations", false;
    /// Attributes computed by a request.
    derived_attributes = "DRADerivedAttributes", false;
    /// Devices that name the groups with which they share a counter set.
    compatibility_groups = "DRADeviceCompatibilityGroups", false;
}

impl Features {
    /// The defaults of Kubernetes 1.37, changed as a `--feature-gates` value says: `DRAAdminAccess=true,…`.
    ///
    /// # Errors
    /// When an entry has no `=`, a value other than true or false, or a name that is no gate of the allocator.
    pub fn parse(list: &str) -> Result<Self, FeatureError> {
        let mut features = Self::kubernetes_1_37();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (gate, value) = entry.split_once('=').ok_or_else(|| FeatureError::Syntax(entry.into()))?;
            let on = match value.trim() {
                "true" => true,
                "false" => false,
                _ => return Err(FeatureError::Syntax(entry.into())),
            };
            features.set(gate.trim(), on)?;
        }
        Ok(features)
    }

    /// The gates of taints, rules and patches for a fleet that is searched with these features.
    #[must_use]
    pub const fn fleet_gates(&self) -> Gates {
        Gates {
            taints: self.device_taints,
            rules: self.device_taint_rules,
            patched_values: self.patched_values,
        }
    }

    /// Devices with binding conditions can be given out.
    #[must_use]
    pub const fn binds(&self) -> bool {
        self.binding_conditions && self.device_status
    }
}

impl Default for Features {
    fn default() -> Self {
        Self::kubernetes_1_37()
    }
}

/// Why a list of feature gates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureError {
    /// Not a gate that the allocator knows.
    Unknown(String),
    /// Not `Name=true` or `Name=false`.
    Syntax(String),
}

impl fmt::Display for FeatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(gate) => write!(f, "{gate:?} is not a feature gate of the allocator"),
            Self::Syntax(entry) => write!(f, "{entry:?}: write Name=true or Name=false"),
        }
    }
}

impl core::error::Error for FeatureError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_changes_the_defaults() {
        let features = Features::parse("DRAAdminAccess=false, DRADerivedAttributes=true,").unwrap();
        assert!(!features.admin_access && features.derived_attributes && features.device_taints);
        assert_eq!(Features::parse("").unwrap(), Features::default());
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(Features::parse("Nope=true"), Err(FeatureError::Unknown("Nope".into())));
        assert_eq!(Features::parse("DRAAdminAccess"), Err(FeatureError::Syntax("DRAAdminAccess".into())));
        assert_eq!(
            Features::parse("DRAAdminAccess=yes"),
            Err(FeatureError::Syntax("DRAAdminAccess=yes".into()))
        );
    }

    #[test]
    fn every_gate_can_be_set_by_its_name() {
        let mut features = Features::none();
        for (gate, _) in Features::all().gates() {
            features.set(gate, true).unwrap();
        }
        assert_eq!(features, Features::all());
    }

    #[test]
    fn binding_needs_device_status() {
        assert!(Features::all().binds());
        assert!(!Features { device_status: false, ..Features::all() }.binds());
    }
}
