//! The messages that kubelet and drivers exchange. Written by hand: nothing is generated when this is built.
//!
//! Names and numbers are those of Kubernetes' `pluginregistration`, `dra` and `dra-health` protocols. `v1beta1` of
//! `DRAPlugin` differs from `v1` by one optional field that it does not have, and unknown fields are skipped by every
//! reader, so one set of messages serves both; likewise for health.
#![allow(missing_docs, reason = "the fields are documented where the protocol is")]

use std::collections::BTreeMap;

use prost::Message;

/// The type of a plugin that is a DRA driver.
pub const PLUGIN_TYPE: &str = "DRAPlugin";

/// The type of a plugin that prepares classic claims, of `cdi.k8s.io`.
pub const CLASSIC_PLUGIN_TYPE: &str = "ResourcePlugin";
/// The version that a plugin of that type announces.
pub const CLASSIC_VERSION: &str = "1.0.0";

pub const GET_INFO: &str = "/pluginregistration.Registration/GetInfo";
pub const NOTIFY: &str = "/pluginregistration.Registration/NotifyRegistrationStatus";
pub const PREPARE_V1: &str = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources";
pub const UNPREPARE_V1: &str = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources";
pub const PREPARE_V1BETA1: &str = "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources";
pub const UNPREPARE_V1BETA1: &str = "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources";
pub const WATCH_V1: &str = "/v1.DRAResourceHealth/NodeWatchResources";
pub const WATCH_V1ALPHA1: &str = "/v1alpha1.DRAResourceHealth/NodeWatchResources";

/// The text names the calls and not their service; this is the name that Kubernetes 1.26 gave it.
pub const CLASSIC_PREPARE: &str = "/v1alpha1.Node/NodePrepareResource";
pub const CLASSIC_UNPREPARE: &str = "/v1alpha1.Node/NodeUnprepareResource";

#[derive(Clone, PartialEq, Message)]
pub struct InfoRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct PluginInfo {
    /// [`PLUGIN_TYPE`].
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The driver's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Where the services are.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// Services, `v1.DRAPlugin` for instance. Of the versions of `DRAPlugin`, kubelet takes the first it knows.
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RegistrationStatus {
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    #[prost(string, tag = "2")]
    pub error: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RegistrationStatusResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct ClaimMessage {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub name: String,
}

/// For both calls: which claims.
#[derive(Clone, PartialEq, Message)]
pub struct ClaimsRequest {
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<ClaimMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PrepareResponse {
    /// By the claims' UIDs.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, PreparedClaim>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PreparedClaim {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<DeviceMessage>,
    /// Empty when the claim is prepared.
    #[prost(string, tag = "2")]
    pub error: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeviceMessage {
    /// Requests of the claim that the device is for; all of them if there are none.
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    #[prost(string, tag = "2")]
    pub pool_name: String,
    #[prost(string, tag = "3")]
    pub device_name: String,
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
    /// Not in v1beta1.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnprepareResponse {
    /// By the claims' UIDs.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, UnpreparedClaim>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnpreparedClaim {
    /// Empty when the claim is unprepared.
    #[prost(string, tag = "1")]
    pub error: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<DeviceHealth>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeviceHealth {
    #[prost(message, optional, tag = "1")]
    pub device: Option<DeviceIdentifier>,
    #[prost(enumeration = "HealthStatus", tag = "2")]
    pub health: i32,
    /// Seconds since 1970.
    #[prost(int64, tag = "3")]
    pub last_updated_time: i64,
    /// Without a report for this long, the device's health is unknown; 30 s if this is 0.
    #[prost(int64, tag = "4")]
    pub health_check_timeout_seconds: i64,
    #[prost(string, tag = "5")]
    pub message: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeviceIdentifier {
    #[prost(string, tag = "1")]
    pub pool_name: String,
    #[prost(string, tag = "2")]
    pub device_name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum HealthStatus {
    Unknown = 0,
    Healthy = 1,
    Unhealthy = 2,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClassicPrepareRequest {
    /// The UID of the claim. The text has this field alone.
    #[prost(string, tag = "1")]
    pub resource_uid: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub name: String,
    /// `status.attributes` of the claim.
    #[prost(btree_map = "string, string", tag = "4")]
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClassicPrepareResponse {
    /// Qualified CDI names.
    #[prost(string, repeated, tag = "1")]
    pub cdi_device: Vec<String>,
}

/// The text gives both of its fields the number 1, which no schema can have. Written out like that, the UID comes first
/// and the CDI names follow under the same number; with another number for the names, they are in `cdi_device`. Both
/// can be read.
#[derive(Clone, PartialEq, Message)]
pub struct ClassicUnprepareRequest {
    /// The UID of the claim, and possibly CDI names after it.
    #[prost(string, repeated, tag = "1")]
    pub resource_id: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub cdi_device: Vec<String>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "4")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClassicUnprepareResponse {}
