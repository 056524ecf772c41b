//! The fields of an object that matter to a quota, as they are on the wire.

use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use serde::Deserialize;

use crate::{Amounts, Counted, amounts::Requests, counted::ObjectType, pod::Pod, scopes::Traits};

/// An object as far as quotas look at it.
#[derive(Clone, Debug)]
pub enum Facts {
    /// A pod.
    Pod(Box<Pod>),
    /// A service.
    Service(Service),
    /// A claim for a volume.
    VolumeClaim(VolumeClaim),
    /// A claim for devices.
    DeviceClaim(DeviceClaim),
    /// Anything else, which counts by being there.
    Other,
}

impl Facts {
    /// Reads an object of a kind.
    ///
    /// # Errors
    /// When it is not what objects of its kind are.
    pub fn read(kind: &Counted, text: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match kind.sort {
            ObjectType::Pod => Self::Pod(serde_json::from_slice(text)?),
            ObjectType::Service => Self::Service(serde_json::from_slice(text)?),
            ObjectType::VolumeClaim => Self::VolumeClaim(serde_json::from_slice(text)?),
            ObjectType::DeviceClaim => Self::DeviceClaim(serde_json::from_slice(text)?),
            ObjectType::Other => Self::Other,
        })
    }

    pub(crate) fn traits(&self) -> Traits {
        match self {
            Self::Pod(pod) => pod.traits(),
            Self::VolumeClaim(claim) => Traits::VolumeClaim(claim.attributes_classes()),
            Self::Service(_) | Self::DeviceClaim(_) | Self::Other => Traits::Other,
        }
    }
}

/// A service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) ports: Option<Vec<Port>>,
    pub(crate) allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port {
    pub(crate) node_port: Option<i64>,
}

/// A claim for a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeClaim {
    metadata: Annotated,
    pub(crate) spec: VolumeClaimSpec,
    pub(crate) status: VolumeClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Annotated {
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeClaimSpec {
    storage_class_name: Option<String>,
    volume_attributes_class_name: Option<String>,
    pub(crate) resources: Requests,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeClaimStatus {
    pub(crate) allocated_resources: Amounts,
    current_volume_attributes_class_name: Option<String>,
    modify_volume_status: Option<ModifyStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModifyStatus {
    target_volume_attributes_class_name: Option<String>,
}

/// Where the storage class of a claim stood before it had a field.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

impl VolumeClaim {
    pub(crate) fn storage_class(&self) -> &str {
        let annotated = self.metadata.annotations.as_ref().and_then(|all| all.get(STORAGE_CLASS_ANNOTATION));
        annotated.or(self.spec.storage_class_name.as_ref()).map(String::as_str).unwrap_or_default()
    }

    fn attributes_classes(&self) -> Vec<String> {
        let modified = self.status.modify_volume_status.as_ref();
        let target = modified.and_then(|status| status.target_volume_attributes_class_name.clone());
        let current = self.status.current_volume_attributes_class_name.clone();
        let named = [self.spec.volume_attributes_class_name.clone(), current, target];
        let mut classes: Vec<String> =
            named.into_iter().flatten().filter(|class| !class.is_empty()).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}

/// A claim for devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// Whose claim it is.
    pub metadata: ClaimMetadata,
    pub(crate) spec: DeviceClaimSpec,
}

/// Whose claim a claim is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimMetadata {
    name: String,
    creation_timestamp: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
}

/// On claims that a scheduler makes for the extended resources of a pod.
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

impl DeviceClaim {
    /// Name and UID of the pod for whose extended resources the claim was made: what it requests is counted with the pod already.
    #[must_use]
    pub fn extended_for(&self) -> Option<(&str, &str)> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(EXTENDED_RESOURCE_CLAIM).filter(|value| *value == "true")?;
        let owners = self.metadata.owner_references.as_ref()?;
        let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
        let is_pod = owner.kind == "Pod" && owner.api_version == "v1";
        is_pod.then_some((owner.name.as_str(), owner.uid.as_str()))
    }

    /// Orders claims for the same pod: the first alone is counted with the pod while the pod names none.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        let age = |claim: &Self| (claim.metadata.creation_timestamp.clone(), claim.metadata.name.clone());
        age(self) < age(other)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceClaimSpec {
    pub(crate) devices: Devices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Devices {
    pub(crate) requests: Option<Vec<DeviceRequest>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeviceRequest {
    pub(crate) exactly: Option<Wanted>,
    pub(crate) first_available: Option<Vec<Wanted>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Wanted {
    pub(crate) device_class_name: String,
    allocation_mode: String,
    count: i64,
}

/// Devices that one claim gets at most.
const DEVICES_MAX: i64 = 32;

impl Wanted {
    /// The devices that it may come to: all there are, as many as a claim can have.
    pub(crate) fn devices(&self) -> i64 {
        match self.allocation_mode.as_str() {
            "ExactCount" => self.count,
            "All" => DEVICES_MAX,
            _ => 0,
        }
    }
}
