//! How much a server holds and one workload makes, as flags.

use lazaret_controllers::WorkloadLimits;
use lazaret_server::Limits;

/// Ceilings. A request above one is answered 403 Forbidden with the name of the flag; deletes always pass.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Objects that are stored, events not counted
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().objects_max)]
    objects_max: usize,
    /// Bytes that all objects together take
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().store_bytes_max)]
    store_bytes_max: u64,
    /// Pods in one namespace
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().namespace_pods_max)]
    namespace_pods_max: usize,
    /// Events that are stored
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().events_max)]
    events_max: usize,
    /// CertificateSigningRequests that are stored
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().certificate_requests_max)]
    certificate_requests_max: usize,
    /// Bytes of the record of what was decided about devices, of each of the five kinds that are recorded
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().audit_bytes_max)]
    audit_bytes_max: u64,
    /// Pods that one ReplicaSet, StatefulSet or Job makes
    #[arg(long, value_name = "COUNT", default_value_t = WorkloadLimits::default().owner_pods_max, conflicts_with = "api_only")]
    owner_pods_max: usize,
}

impl LimitArgs {
    /// Limits of the server.
    pub(crate) fn server(&self) -> Limits {
        Limits {
            objects_max: self.objects_max,
            store_bytes_max: self.store_bytes_max,
            namespace_pods_max: self.namespace_pods_max,
            events_max: self.events_max,
            certificate_requests_max: self.certificate_requests_max,
            audit_bytes_max: self.audit_bytes_max,
        }
    }

    /// Limits of one workload.
    pub(crate) fn workloads(&self) -> WorkloadLimits {
        WorkloadLimits { owner_pods_max: self.owner_pods_max }
    }
}
