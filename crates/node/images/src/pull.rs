//! Pulls: one at a time for the same image and the same credentials.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared, WeakShared},
    stream,
};
use thiserror::Error;
use tokio::sync::watch;

use crate::{
    Digest, Image, ImageError, Images, Keychain, ParseError, Reference,
    document::{self, Descriptor, Document, Manifest},
    import,
    keychain::Credentials,
    layer::{self, Expected},
    reason,
    registry::{Failure, Registry},
    store::Lock,
};

/// Layers that are downloaded at the same time, as containerd does.
const DOWNLOADS_MAX: usize = 3;
/// Indexes in an index.
const NESTING_MAX: usize = 4;

/// How far a pull is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Layers of the image; 0 until that is known.
    pub layers: usize,
    /// Layers that are in place.
    pub layers_done: usize,
    /// Bytes that must be downloaded.
    pub bytes: u64,
    /// Bytes that were.
    pub bytes_done: u64,
}

/// Why an image was not pulled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PullError {
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// The registry wants other credentials, or there is no such image for this user.
    #[error("failed to pull image {image:?} from {registry}: not authorized: {cause}")]
    Unauthorized {
        /// The image.
        image: String,
        /// The registry.
        registry: String,
        /// The registry's error.
        cause: String,
    },
    /// Anything else.
    #[error("failed to pull image {image:?} from {registry}: {cause}")]
    Failed {
        /// The image.
        image: String,
        /// The registry.
        registry: String,
        /// The error.
        cause: String,
    },
}

impl PullError {
    /// The reason of the container that waits, as Kubernetes has it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => reason::INVALID_IMAGE_NAME,
            Self::Unauthorized { .. } | Self::Failed { .. } => reason::ERR_IMAGE_PULL,
        }
    }
}

type Outcome = Result<Image, PullError>;
type Flight = Shared<BoxFuture<'static, Outcome>>;
/// A pull that lives as long as a caller waits for it, and its progress.
type InFlight = (WeakShared<BoxFuture<'static, Outcome>>, watch::Receiver<Progress>);
type Download<'a> = BoxFuture<'a, Result<(Downloaded, Expected, usize), Failure>>;

/// Pulls in flight. A caller with other credentials does not join one: they may not permit the image.
#[derive(Default)]
pub(crate) struct Flights {
    by_image: Mutex<BTreeMap<(Reference, Keychain), InFlight>>,
}

impl std::fmt::Debug for Flights {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Flights").finish_non_exhaustive()
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Reference, Keychain), InFlight>> {
        self.by_image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Images {
    /// Pulls an image from its registry, whether it is here or not. It ends when no caller waits for it any more.
    pub async fn pull(&self, name: &str, keychain: &Keychain) -> Result<Image, PullError> {
        let reference = Reference::parse(name)?;
        let key = (reference, keychain.clone());
        let flight = self.flight(&key);
        let outcome = flight.await;
        let mut flights = self.flights.lock();
        if flights
            .get(&key)
            .is_some_and(|(flight, _)| flight.upgrade().is_none_or(|flight| flight.peek().is_some()))
        {
            flights.remove(&key);
        }
        outcome
    }

    /// How far the pull of an image is, when there is one.
    pub fn progress(&self, name: &str) -> Option<watch::Receiver<Progress>> {
        let reference = Reference::parse(name).ok()?;
        let flights = self.flights.lock();
        flights
            .iter()
            .find(|((name, _), (flight, _))| *name == reference && flight.upgrade().is_some())
            .map(|(_, (_, progress))| progress.clone())
    }

    fn flight(&self, key: &(Reference, Keychain)) -> Flight {
        let mut flights = self.flights.lock();
        flights.retain(|_, (flight, _)| flight.upgrade().is_some());
        if let Some(flight) = flights.get(key).and_then(|(flight, _)| flight.upgrade()) {
            return flight;
        }
        let (sender, receiver) = watch::channel(Progress::default());
        let (images, (reference, keychain)) = (self.clone(), key.clone());
        let flight: Flight =
            async move { images.pull_now(&reference, &keychain, &sender).await }.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(key.clone(), (weak, receiver));
        }
        flight
    }

    /// Tries the credentials that fit, one after the other, or none.
    async fn pull_now(
        &self,
        image: &Reference,
        keychain: &Keychain,
        progress: &watch::Sender<Progress>,
    ) -> Outcome {
        let candidates = keychain.lookup(image);
        let candidates: Vec<Option<&Credentials>> =
            if candidates.is_empty() { vec![None] } else { candidates.into_iter().map(Some).collect() };
        let mut last = Failure::Lasting(String::new());
        for credentials in candidates {
            match self.pull_as(image, credentials, progress).await {
                Ok(image) => return Ok(image),
                Err(failure @ Failure::Unauthorized(_)) => last = failure,
                Err(failure) => {
                    last = failure;
                    break;
                }
            }
        }
        let (registry, name) = (image.registry().to_owned(), image.to_string());
        Err(match last {
            Failure::Unauthorized(cause) => PullError::Unauthorized { image: name, registry, cause },
            Failure::Lasting(cause) | Failure::Passing { text: cause, .. } => {
                PullError::Failed { image: name, registry, cause }
            }
        })
    }

    async fn pull_as(
        &self,
        image: &Reference,
        credentials: Option<&Credentials>,
        progress: &watch::Sender<Progress>,
    ) -> Result<Image, Failure> {
        let lock = Arc::new(self.blocking(|store, _| store.lock_shared()).await.map_err(lasting)?);
        let client = Registry::client(&self.options)?;
        let registry = Registry::new(client, &self.options, image, credentials);
        let (digest, manifest) = self.manifest(&registry, image).await?;
        let config_digest = manifest.config.digest().map_err(lasting)?;
        if manifest.config.size > self.limits.document_bytes_max {
            return Err(Failure::Lasting(format!(
                "the configuration of the image has more than {} bytes",
                self.limits.document_bytes_max
            )));
        }
        let config = registry.document(&config_digest, manifest.config.size).await?;
        let diff_ids = import::check_layers(&config, manifest.layers.len(), &self.limits).map_err(lasting)?;
        let chain = document::chain(&diff_ids);
        let wanted = self.wanted(&manifest, diff_ids, &chain).await?;
        progress.send_modify(|progress| {
            progress.layers = chain.len();
            progress.layers_done = chain.len() - wanted.len();
            progress.bytes = wanted.iter().map(|(descriptor, _, _)| descriptor.size).sum();
        });
        self.download_and_unpack(&registry, wanted, &chain, progress, &lock).await?;
        let repo_digest = format!("{}@{digest}", image.without_version());
        let name = image.clone();
        self.blocking(move |store, _| {
            let _lock = lock;
            import::commit(store, &name, &config, Some(&digest), Some(repo_digest), &chain)
        })
        .await
        .map_err(lasting)
    }

    /// The manifest for this machine, and the digest of what the name means.
    async fn manifest(
        &self,
        registry: &Registry<'_>,
        image: &Reference,
    ) -> Result<(Digest, Manifest), Failure> {
        let bytes_max = self.limits.document_bytes_max;
        let content = registry.manifest(&image.version(), bytes_max).await?;
        let top = Digest::of(&content);
        let mut expected = image.digest().cloned().unwrap_or_else(|| top.clone());
        let mut content = content;
        for _ in 0..NESTING_MAX {
            layer::check("the manifest", &expected, &Digest::of(&content)).map_err(lasting)?;
            match Document::parse(&content).map_err(lasting)? {
                Document::Manifest(manifest) => return Ok((top, *manifest)),
                Document::Index(manifests) => {
                    expected = document::choose(&manifests).and_then(Descriptor::digest).map_err(lasting)?;
                    content = registry.manifest(expected.as_str(), bytes_max).await?;
                }
            }
        }
        Err(Failure::Lasting("the registry has indexes in indexes without end".into()))
    }

    /// Layers that are not here, with their place in the chain.
    async fn wanted(
        &self,
        manifest: &Manifest,
        diff_ids: Vec<Digest>,
        chain: &[Digest],
    ) -> Result<Vec<(Descriptor, Expected, usize)>, Failure> {
        let mut all = Vec::new();
        for (at, (descriptor, diff_id)) in manifest.layers.iter().zip(diff_ids).enumerate() {
            if descriptor.size > self.limits.layer_bytes_max {
                return Err(Failure::Lasting(format!(
                    "a layer has more than {} bytes",
                    self.limits.layer_bytes_max
                )));
            }
            let blob = Some(descriptor.digest().map_err(lasting)?);
            all.push((descriptor.clone(), Expected { blob, diff_id, chain: chain[at].clone() }, at));
        }
        self.blocking(move |store, _| {
            let mut missing = Vec::new();
            for layer in all {
                if store.layer_facts(&layer.1.chain)?.is_none() {
                    missing.push(layer);
                }
            }
            Ok(missing)
        })
        .await
        .map_err(lasting)
    }

    async fn download_and_unpack(
        &self,
        registry: &Registry<'_>,
        wanted: Vec<(Descriptor, Expected, usize)>,
        chain: &[Digest],
        progress: &watch::Sender<Progress>,
        lock: &Arc<Lock>,
    ) -> Result<(), Failure> {
        let mut downloads: Vec<Download<'_>> = Vec::new();
        for (descriptor, expected, at) in wanted {
            let download = async move {
                let blob = self.download(registry, &descriptor, progress).await?;
                Ok((blob, expected, at))
            };
            downloads.push(download.boxed());
        }
        let mut downloads = stream::iter(downloads).buffered(DOWNLOADS_MAX);
        while let Some(downloaded) = downloads.next().await {
            let (blob, expected, at) = downloaded?;
            let lower: Vec<Digest> = chain[..at].iter().rev().cloned().collect();
            let lock = Arc::clone(lock);
            self.blocking(move |store, limits| {
                let _lock = lock;
                let file = std::fs::File::open(&blob.0).map_err(|source| ImageError::Io {
                    what: format!("open {}", blob.0.display()),
                    source,
                })?;
                layer::add(store, limits, &expected, &lower, file)
            })
            .await
            .map_err(lasting)?;
            progress.send_modify(|progress| progress.layers_done += 1);
        }
        Ok(())
    }

    async fn download(
        &self,
        registry: &Registry<'_>,
        descriptor: &Descriptor,
        progress: &watch::Sender<Progress>,
    ) -> Result<Downloaded, Failure> {
        let blob = Downloaded(self.store.ingest_path());
        let digest = descriptor.digest().map_err(lasting)?;
        registry.blob(&digest, descriptor.size, &blob.0, progress).await?;
        Ok(blob)
    }
}

/// A blob on disk, until it is unpacked.
struct Downloaded(PathBuf);

impl Drop for Downloaded {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn lasting(error: ImageError) -> Failure {
    Failure::Lasting(error.to_string())
}
