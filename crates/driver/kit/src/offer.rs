//! Which services a driver offers to kubelet.

use crate::proto;

/// A gRPC service that kubelet can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubeletService {
    /// `v1.DRAPlugin`: Kubernetes 1.34 and newer.
    PluginV1,
    /// `v1beta1.DRAPlugin`: Kubernetes 1.32 and newer. It has no shares.
    PluginV1beta1,
    /// `v1.DRAResourceHealth`: Kubernetes 1.36 and newer.
    HealthV1,
    /// `v1alpha1.DRAResourceHealth`: Kubernetes 1.34 to 1.39.
    HealthV1alpha1,
}

impl KubeletService {
    /// All of them, the newest first: of the versions of `DRAPlugin`, kubelet takes the first that it knows.
    pub const ALL: [Self; 4] = [Self::PluginV1, Self::PluginV1beta1, Self::HealthV1, Self::HealthV1alpha1];

    /// The name by which it is offered. That of `DRAPlugin` is not the one on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PluginV1 => "v1.DRAPlugin",
            Self::PluginV1beta1 => "v1beta1.DRAPlugin",
            Self::HealthV1 => "v1.DRAResourceHealth",
            Self::HealthV1alpha1 => "v1alpha1.DRAResourceHealth",
        }
    }

    /// Whether it is a health service.
    #[must_use]
    pub fn is_health(self) -> bool {
        matches!(self, Self::HealthV1 | Self::HealthV1alpha1)
    }

    pub(crate) fn serves(self, path: &str) -> bool {
        match self {
            Self::PluginV1 => matches!(path, proto::PREPARE_V1 | proto::UNPREPARE_V1),
            Self::PluginV1beta1 => matches!(path, proto::PREPARE_V1BETA1 | proto::UNPREPARE_V1BETA1),
            Self::HealthV1 => path == proto::WATCH_V1,
            Self::HealthV1alpha1 => path == proto::WATCH_V1ALPHA1,
        }
    }
}
