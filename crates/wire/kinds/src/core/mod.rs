//! The core group, and events under both their names.

mod config;
mod endpoints;
mod event;
mod label_keys;
mod namespace;
mod node;
mod pod;
mod pod_cells;
pub(crate) mod pod_gates;
mod pod_resources;
pub(crate) mod pod_spec;
mod pod_validation;
mod priority;
mod quota;
mod service;
mod service_account;
mod storage;
mod storage_class;
mod storage_validation;
#[cfg(test)]
mod tests;

pub(crate) use config::{ConfigMap, Secret};
pub(crate) use endpoints::{EndpointSlice, Endpoints};
pub(crate) use event::{CoreEvent, NewEvent};
pub(crate) use namespace::Namespace;
pub(crate) use node::Node;
pub(crate) use pod::Pod;
pub(crate) use pod_validation::{
    container_resources, port_name, port_number, spec as pod_template, toleration,
};
pub(crate) use priority::PriorityClass;
pub use priority::check_stated_priority;
pub(crate) use quota::ResourceQuota;
pub(crate) use service::Service;
pub use service::{PoolError, ServicePool, ServiceRefusal, allocate_service, service_holdings};
pub(crate) use service_account::ServiceAccount;
pub(crate) use storage::{CsiDriver, PersistentVolume, PersistentVolumeClaim};
pub(crate) use storage_class::StorageClass;
pub(crate) use storage_validation::claim as volume_claim_spec;
