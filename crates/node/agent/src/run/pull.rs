//! Images of containers.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString,
    api::core::v1::{Pod, Secret},
};
use kube::Api;
use lazaret_images::{Image, Keychain, reason};
use lazaret_pods::{Outcome, PodRef, PullPolicy};
use lazaret_provision::{VolumeError, image_volumes};
use tokio::time::Instant;
use tracing::warn;

use super::{
    shared::Shared,
    view::{ephemeral, pull_policy},
    work::failed,
};
use crate::api_words::api_words;

/// For one image. It is given up when nothing arrives for long; this is for registries that trickle.
const PULL_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Secrets of one pod that are looked at.
const SECRETS_MAX: usize = 16;

/// Has an image there.
pub(super) async fn pull(shared: &Shared, pod: &PodRef, image: &str, policy: PullPolicy) -> Outcome {
    match fetch(shared, pod, image, policy).await {
        Ok((found, pulled_in_ms)) => {
            Outcome::Image { id: found.repo_digest.unwrap_or(found.id), pulled_in_ms }
        }
        Err((reason, message)) => failed(reason, message),
    }
}

/// Has the images there that volumes of a pod are made of, by the names of the volumes.
pub(super) async fn of_volumes(
    shared: &Shared,
    reference: &PodRef,
    pod: &Pod,
) -> Result<BTreeMap<String, Image>, Outcome> {
    let mut images = BTreeMap::new();
    for (volume, image, said) in image_volumes(pod) {
        let policy = pull_policy(image, said);
        let (found, _) = fetch(shared, reference, image, policy).await.map_err(|(reason, message)| {
            let message = format!("{reason}: {message}");
            failed("", VolumeError { volume: volume.to_owned(), message }.to_string())
        })?;
        images.insert(volume.to_owned(), found);
    }
    Ok(images)
}

/// An image, and how long it took to pull it if it was; or why there is none.
async fn fetch(
    shared: &Shared,
    pod: &PodRef,
    image: &str,
    policy: PullPolicy,
) -> Result<(Image, Option<u64>), (&'static str, String)> {
    let present = match policy {
        PullPolicy::Always => None,
        PullPolicy::IfNotPresent | PullPolicy::Never => shared.images.find(image).await,
    };
    if let Some(present) = present {
        return Ok((present, None));
    }
    if policy == PullPolicy::Never {
        let message = format!("Container image {image:?} is not present with pull policy of Never");
        return Err((reason::ERR_IMAGE_NEVER_PULL, message));
    }
    let pod = shared.table().pod(&pod.uid).ok_or_else(|| ("", "the pod is gone".to_owned()))?;
    let keychain = keychain(shared, &pod).await;
    let began = Instant::now();
    let _place = shared.pulls.acquire().await;
    match tokio::time::timeout(PULL_TIMEOUT, shared.images.pull(image, &keychain)).await {
        Ok(Ok(found)) => Ok((found, Some(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)))),
        Ok(Err(error)) => match local_fallback(shared, image, policy).await {
            Some(found) => Ok((found, None)),
            None => Err((error.reason(), error.to_string())),
        },
        Err(_) => Err((reason::ERR_IMAGE_PULL, "the image did not arrive in time".to_owned())),
    }
}

/// An image that was imported has no registry: where it cannot be asked, `Always` accepts the local image.
///
/// DEVIATION(imported-images): kubelet fails the container. A name that says which registry it is from is held to `Always`.
async fn local_fallback(shared: &Shared, image: &str, policy: PullPolicy) -> Option<Image> {
    let names_registry = image.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']));
    if policy != PullPolicy::Always || names_registry {
        return None;
    }
    shared.images.find(image).await
}

/// The pod's credentials for registries.
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
                warn!(why = api_words(&error), name, "read an image pull secret");
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
