//! The content of volumes that comes from the API.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, ProjectedVolumeSource, Secret, Volume, VolumeProjection};

use crate::{
    NodeFacts, Objects,
    cache::Cache,
    disk::payload::Payload,
    identity,
    kind::{Kind, kind},
    pod::PodView,
    tokens::Tokens,
};

/// Config maps, secrets and tokens.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) config_maps: Cache<ConfigMap>,
    pub(crate) secrets: Cache<Secret>,
    pub(crate) tokens: Tokens,
}

impl Contents {
    pub(crate) fn new(objects: Arc<dyn Objects>) -> Self {
        Self {
            config_maps: Cache::new(Arc::clone(&objects)),
            secrets: Cache::new(Arc::clone(&objects)),
            tokens: Tokens::new(objects),
        }
    }
}

/// Collects the files of a pod's volumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collector<'a> {
    pub(crate) contents: &'a Contents,
    pub(crate) view: PodView<'a>,
    pub(crate) facts: &'a NodeFacts,
    /// How old an object may be.
    pub(crate) age_max: Duration,
}

impl Collector<'_> {
    /// The files of a volume. It has none when its content does not come from the API.
    pub(crate) async fn collect(&self, volume: &Volume) -> Result<Payload, String> {
        let mut payload = Payload::default();
        match kind(volume) {
            Kind::ConfigMap(source) => {
                let optional = source.optional.unwrap_or(false);
                let object = self.config_map(&source.name, optional).await?;
                payload.add_config_map(&object, source.items.as_deref(), source.default_mode, optional)?;
            }
            Kind::Secret(source) => {
                let optional = source.optional.unwrap_or(false);
                let name = source.secret_name.as_deref().unwrap_or_default();
                let object = self.secret(name, optional).await?;
                payload.add_secret(&object, source.items.as_deref(), source.default_mode, optional)?;
            }
            Kind::Downward(source) => {
                let items = source.items.as_deref();
                payload.add_downward(items, source.default_mode, &self.view, self.facts)?;
            }
            Kind::Projected(source) => {
                for part in source.sources.iter().flatten() {
                    self.add_projection(&mut payload, part, source).await?;
                }
            }
            Kind::EmptyDir(_) | Kind::HostPath(_) | Kind::Image(_) | Kind::Unsupported(_) => {}
        }
        Ok(payload)
    }

    async fn add_projection(
        &self,
        payload: &mut Payload,
        part: &VolumeProjection,
        source: &ProjectedVolumeSource,
    ) -> Result<(), String> {
        let mode = source.default_mode;
        if let Some(part) = &part.secret {
            let optional = part.optional.unwrap_or(false);
            let object = self.secret(&part.name, optional).await?;
            payload.add_secret(&object, part.items.as_deref(), mode, optional)
        } else if let Some(part) = &part.config_map {
            let optional = part.optional.unwrap_or(false);
            let object = self.config_map(&part.name, optional).await?;
            payload.add_config_map(&object, part.items.as_deref(), mode, optional)
        } else if let Some(part) = &part.downward_api {
            payload.add_downward(part.items.as_deref(), mode, &self.view, self.facts)
        } else if let Some(part) = &part.service_account_token {
            let token = self.contents.tokens.get(&self.view, part).await?;
            // Only its user may read a token, where there is one user or a group.
            let user = identity::common_user(&self.view);
            let has_group = self.view.security().is_some_and(|pod| pod.fs_group.is_some());
            let mode = if user.is_some() || has_group { 0o600 } else { mode.unwrap_or(0o644) };
            payload.add(&part.path, token.into_bytes(), mode, user)
        } else if part.cluster_trust_bundle.is_some() {
            Err("clusterTrustBundle projections are not supported on this node".to_owned())
        } else if part.pod_certificate.is_some() {
            Err("podCertificate projections are not supported on this node".to_owned())
        } else {
            Ok(())
        }
    }

    async fn config_map(&self, name: &str, optional: bool) -> Result<Arc<ConfigMap>, String> {
        match self.contents.config_maps.get(self.view.namespace, name, self.age_max).await? {
            Some(object) => Ok(object),
            None if optional => Ok(Arc::default()),
            None => Err(format!("configmap {name:?} not found")),
        }
    }

    async fn secret(&self, name: &str, optional: bool) -> Result<Arc<Secret>, String> {
        match self.contents.secrets.get(self.view.namespace, name, self.age_max).await? {
            Some(object) => Ok(object),
            None if optional => Ok(Arc::default()),
            None => Err(format!("secret {name:?} not found")),
        }
    }
}
