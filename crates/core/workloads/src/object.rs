//! Objects of the watches: typed where a controller reads them, metadata alone where only owners matter.

use k8s_openapi::{
    Metadata,
    api::{
        apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        coordination::v1::Lease,
        core::v1::{ConfigMap, Endpoints, Namespace, ReplicationController, Service, ServiceAccount},
        discovery::v1::EndpointSlice,
        policy::v1::PodDisruptionBudget,
    },
};
use serde::Deserialize;

use crate::{
    classic_claims,
    lean::{self, Node},
    meta,
    prelude::*,
};

/// The part of an object that every kind has.
#[derive(Deserialize)]
struct Bare {
    #[serde(default)]
    metadata: ObjectMeta,
}

macro_rules! objects {
    ($($variant:ident, $resource:ident;)*) => {
        /// An object of a kind that some controller reads, or the metadata of any other.
        #[derive(Clone, Debug)]
        pub enum Object {
            $(#[doc = concat!("A ", stringify!($variant), ".")] $variant(Arc<$variant>),)*
            /// Something else that may have owners or stand in a namespace.
            Other(&'static Resource, Arc<ObjectMeta>),
        }

        /// The kinds whose objects are read whole: pump each of them once.
        pub static TYPED: &[&Resource] = &[$(&resource::$resource),*];

        impl Object {
            /// The kind.
            #[must_use]
            pub fn resource(&self) -> &'static Resource {
                match self {
                    $(Self::$variant(_) => &resource::$resource,)*
                    Self::Other(resource, _) => resource,
                }
            }

            /// The metadata.
            #[must_use]
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$variant(object) => object.metadata(),)*
                    Self::Other(_, metadata) => metadata,
                }
            }

            /// The object that this JSON describes.
            ///
            /// # Errors
            /// When it is not JSON, or a field has the wrong type.
            pub fn read(resource: &'static Resource, text: &[u8]) -> Result<Self, serde_json::Error> {
                // Text takes less time to read than bytes: it is known to be UTF-8.
                let text = core::str::from_utf8(text).map_err(serde::de::Error::custom)?;
                if *resource == resource::PODS {
                    return Ok(Self::Pod(Arc::new(lean::pod(text)?)));
                }
                if *resource == resource::NODES {
                    return Ok(Self::Node(Arc::new(lean::node(text)?)));
                }
                $(if *resource == resource::$resource {
                    let mut object: $variant = serde_json::from_str(&classic_claims::typed(text)?)?;
                    // No controller reads field managers, and they are longer than most objects.
                    object.metadata_mut().managed_fields = None;
                    return Ok(Self::$variant(Arc::new(object)));
                })*
                let bare: Bare = serde_json::from_str(text)?;
                Ok(Self::Other(resource, Arc::new(meta::essential(&bare.metadata))))
            }

            /// The same object with other metadata.
            #[must_use]
            pub(crate) fn with_metadata(&self, change: impl FnOnce(&mut ObjectMeta)) -> Self {
                match self {
                    $(Self::$variant(object) => {
                        let mut object = (**object).clone();
                        change(object.metadata_mut());
                        Self::$variant(Arc::new(object))
                    })*
                    Self::Other(resource, metadata) => {
                        let mut metadata = (**metadata).clone();
                        change(&mut metadata);
                        Self::Other(resource, Arc::new(metadata))
                    }
                }
            }
        }
    };
}

objects! {
    Pod, PODS;
    Node, NODES;
    Namespace, NAMESPACES;
    ServiceAccount, SERVICE_ACCOUNTS;
    ConfigMap, CONFIG_MAPS;
    ReplicationController, REPLICATION_CONTROLLERS;
    Deployment, DEPLOYMENTS;
    ReplicaSet, REPLICA_SETS;
    StatefulSet, STATEFUL_SETS;
    DaemonSet, DAEMON_SETS;
    ControllerRevision, CONTROLLER_REVISIONS;
    Job, JOBS;
    CronJob, CRON_JOBS;
    PodDisruptionBudget, BUDGETS;
    Lease, LEASES;
    Service, SERVICES;
    Endpoints, ENDPOINTS;
    EndpointSlice, ENDPOINT_SLICES;
}

impl Object {
    /// The object that this value describes. By way of text: one way to read all these shapes is enough to compile.
    ///
    /// # Errors
    /// When a field has the wrong type.
    pub fn parse(resource: &'static Resource, value: &Value) -> Result<Self, serde_json::Error> {
        Self::read(resource, value.to_string().as_bytes())
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::of(self.metadata())
    }

    /// The UID; empty if it has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }
}
