//! Images of containers.

use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Pod, Secret},
};
use kube::Api;
use lazaret_images::{Keychain, reason};
use lazaret_pods::{Outcome, PodRef, PullPolicy};
use tokio::time::Instant;
use tracing::warn;

use super::{
    shared::Shared,
    view::ephemeral,
    work::{failed, pod_of},
};

/// For one image. It is given up when nothing arrives for long; this is for registries that trickle.
const PULL_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Secrets of one pod that are looked at.
const SECRETS_MAX: usize = 16;

/// Has an image there.
pub(super) async fn pull(shared: &Shared, pod: &PodRef, image: &str, policy: PullPolicy) -> Outcome {
    let present = match policy {
        PullPolicy::Always => None,
        PullPolicy::IfNotPresent | PullPolicy::Never => shared.images.find(image).await,
    };
    if let Some(present) = present {
        return Outcome::Image { id: present.repo_digest.unwrap_or(present.id), pulled_in_ms: None };
    }
    if policy == PullPolicy::Never {
        let message = format!("Container image {image:?} is not present with pull policy of Never");
        return failed(reason::ERR_IMAGE_NEVER_PULL, message);
    }
    let keychain = match pod_of(shared, pod) {
        Ok(pod) => keychain(shared, &pod).await,
        Err(outcome) => return outcome,
    };
    let began = Instant::now();
    let _place = shared.pulls.acquire().await;
    match tokio::time::timeout(PULL_TIMEOUT, shared.images.pull(image, &keychain)).await {
        Ok(Ok(found)) => {
            let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            Outcome::Image { id: found.repo_digest.unwrap_or(found.id), pulled_in_ms: Some(took) }
        }
        Ok(Err(error)) => match present_after_all(shared, image, policy).await {
            Some(id) => Outcome::Image { id, pulled_in_ms: None },
            None => failed(error.reason(), error.to_string()),
        },
        Err(_) => failed(reason::ERR_IMAGE_PULL, "the image did not arrive in time"),
    }
}

/// An image that was imported has no registry: where it cannot be asked, `Always` is content with what is there.
///
/// DEVIATION(imported-images): kubelet fails the container. A name that says which registry it is from is held to `Always`.
async fn present_after_all(shared: &Shared, image: &str, policy: PullPolicy) -> Option<String> {
    let names_registry = image.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']));
    if policy != PullPolicy::Always || names_registry {
        return None;
    }
    let found = shared.images.find(image).await?;
    Some(found.repo_digest.unwrap_or(found.id))
}

/// What the pod may show to registries.
async fn keychain(shared: &Shared, pod: &Pod) -> Keychain {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(shared.client.clone(), &namespace);
    let named = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
    let mut all = Keychain::default();
    for name in named.map(|secret| &secret.name).take(SECRETS_MAX) {
        let secret = match api.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => continue,
            Err(error) => {
                warn!(%error, name, "read an image pull secret");
                continue;
            }
        };
        let data = secret.data.unwrap_or_default();
        let content = data.get(".dockerconfigjson").or_else(|| data.get(".dockercfg"));
        let Some(ByteString(content)) = content else { continue };
        match Keychain::parse(content).and_then(|keys| all.clone().merge(keys)) {
            Ok(merged) => all = merged,
            Err(error) => warn!(%error, name, "read an image pull secret"),
        }
    }
    all
}

/// The image of a container, as its pod has it.
pub(super) fn image_of(pod: &Pod, name: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let found = all.find(|container| container.name == name).map(|container| container.image.clone());
    found.or_else(|| {
        ephemeral(spec).find(|container| container.name == name).map(|container| container.image)
    })?
}
