//! The images that the runtime keeps.

use std::{collections::BTreeSet, time::Duration};

use lazaret_containers::RuntimeError;
use lazaret_images::{
    Answer, Collected, Image, ImageConfig, ImageError, ImageSource, Keychain, PullError, Reference,
    Thresholds,
};
use serde::Deserialize;

use crate::{Cri, clock, proto, runtime::QUERY_LIMIT};

/// A pull may take as long as it makes progress; the runtime itself sees to that.
const PULL_LIMIT: Duration = Duration::from_secs(3_600);

impl Cri {
    /// An image that the runtime has. Its layers are the runtime's own.
    pub async fn find_image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        let image = proto::ImageSpec { image: name.to_owned(), ..proto::ImageSpec::default() };
        let request = proto::ImageStatusRequest { image: Some(image), verbose: true };
        let answer: proto::ImageStatusResponse =
            self.connection.call(proto::IMAGE_STATUS, request, QUERY_LIMIT).await?;
        let Some(found) = answer.image else { return Ok(None) };
        let name = Reference::parse(name).map_or_else(|_| name.to_owned(), |reference| reference.to_string());
        let mut config = answer.info.get("info").map(|text| config(text)).unwrap_or_default();
        // Where the details are missing.
        if config.user.is_empty() {
            config.user = found.uid.map_or(found.username, |uid| uid.value.to_string());
        }
        self.uses.touch(&found.id, clock::now());
        Ok(Some(Image {
            id: found.id,
            name,
            repo_digest: found.repo_digests.into_iter().next(),
            config,
            layers: Vec::new(),
            is_opaque: true,
            bytes: found.size,
        }))
    }

    /// Has the runtime pull an image, with the credentials that fit, one after the other.
    pub async fn pull_image(&self, name: &str, keychain: &Keychain) -> Result<Image, PullError> {
        let reference = Reference::parse(name)?;
        let failed = |cause: String| PullError::Failed {
            image: reference.to_string(),
            registry: reference.registry().to_owned(),
            cause,
        };
        let mut credentials: Vec<Option<proto::AuthConfig>> = keychain
            .credentials(&reference)
            .map(|(username, password)| {
                Some(proto::AuthConfig {
                    username: username.to_owned(),
                    password: password.to_owned(),
                    identity_token: String::new(),
                })
            })
            .collect();
        if credentials.is_empty() {
            credentials.push(None);
        }
        let mut last = String::new();
        for auth in credentials {
            let image = proto::ImageSpec { image: reference.to_string(), ..proto::ImageSpec::default() };
            let request = proto::PullImageRequest { image: Some(image), auth, sandbox_config: None };
            let pulled: Result<proto::PullImageResponse, _> =
                self.connection.call(proto::PULL_IMAGE, request, PULL_LIMIT).await;
            match pulled {
                Ok(_) => {
                    let found = self.find_image(name).await.map_err(|error| failed(error.to_string()))?;
                    return found
                        .ok_or_else(|| failed("the runtime pulled it, and does not have it".to_owned()));
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(failed(last))
    }
}

impl ImageSource for Cri {
    fn find<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Image>> {
        Box::pin(async move {
            self.find_image(name).await.unwrap_or_else(|error| {
                tracing::warn!(%error, name, "an image cannot be looked up");
                None
            })
        })
    }

    fn pull<'a>(&'a self, name: &'a str, keychain: &'a Keychain) -> Answer<'a, Result<Image, PullError>> {
        Box::pin(self.pull_image(name, keychain))
    }

    fn collect_garbage<'a>(
        &'a self,
        in_use: &'a BTreeSet<String>,
        thresholds: Thresholds,
    ) -> Answer<'a, Result<Collected, ImageError>> {
        Box::pin(self.remove_unused_images(in_use, thresholds))
    }
}

/// The configuration of the image, which the protocol has only among the details.
fn config(info: &str) -> ImageConfig {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Info {
        image_spec: Option<serde_json::Value>,
    }
    let spec = serde_json::from_str::<Info>(info).ok().and_then(|info| info.image_spec);
    spec.map(|spec| ImageConfig::from_oci(&spec)).unwrap_or_default()
}
